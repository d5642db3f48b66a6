-- One thread that launches, with how often.
CREATE MACRO _thread_launches(capture_key) AS TABLE
SELECT l.thread_index, h.process, count(*) AS launches
FROM _host_launches(capture_key) AS l
JOIN (FROM threads AS i WHERE i.capture_id = capture_key) AS h USING (thread_index)
GROUP BY l.thread_index, h.process;

-- One part of periods of threads of the host, such as gaps of devices until the next launch begins: what the thread did,
-- see `_host_states`; where that does not tell, what the other thread of its process did that launches most. `step` is
-- whether it lies in a step of `_tool_steps`; NULL if the trace has none. `owner_index` is of the thread itself.
-- Algorithm: the states of both threads, periods and steps in one order; the last of each at every moment.
CREATE MACRO _host_parts(
    capture_key,
    host_states,  -- a table of the rows of `_host_states`
    periods  -- a table with the periods: device, thread_index, start_ticks, end_ticks; those of a device follow each other
) AS TABLE
WITH asked_periods AS MATERIALIZED (FROM query_table(periods) AS q),
states AS (FROM query_table(host_states) AS q),
steps AS MATERIALIZED (FROM _tool_steps(capture_key)),
asked AS MATERIALIZED (
    SELECT p.device, p.thread_index,
        (
            SELECT arg_min(m.thread_index, (-m.launches, m.thread_index))
            FROM _thread_launches(capture_key) AS m
            WHERE m.thread_index <> p.thread_index AND m.process = h.process
        ) AS other_thread
    FROM (SELECT DISTINCT i.device, i.thread_index FROM asked_periods AS i) AS p
    JOIN (FROM threads AS i WHERE i.capture_id = capture_key) AS h USING (thread_index)
),
edges AS (
    SELECT a.device, a.thread_index, s.at_ticks, s.place AS own, NULL AS other, NULL AS start_ticks, 0 AS change,
        0 AS step
    FROM asked AS a
    JOIN states AS s ON s.thread_index = a.thread_index
    UNION ALL
    SELECT a.device, a.thread_index, s.at_ticks, NULL, s.place, NULL, 0, 0
    FROM asked AS a
    JOIN states AS s ON s.thread_index = a.other_thread
    UNION ALL
    SELECT p.device, p.thread_index, p.start_ticks, NULL, NULL, p.start_ticks, 1, 0 FROM asked_periods AS p
    UNION ALL
    SELECT p.device, p.thread_index, p.end_ticks, NULL, NULL, NULL, -1, 0 FROM asked_periods AS p
    UNION ALL
    SELECT a.device, a.thread_index, b.at_ticks, NULL, NULL, NULL, 0, b.step
    FROM asked AS a
    CROSS JOIN (
        SELECT t.start_ticks AS at_ticks, 1 AS step FROM steps AS t
        UNION ALL
        SELECT t.end_ticks, -1 FROM steps AS t
    ) AS b
),
swept AS (
    SELECT e.device, e.thread_index, e.at_ticks, lead(e.at_ticks) OVER in_order AS end_ticks,
        max(e.own) OVER so_far AS own, max(e.other) OVER so_far AS other, max(e.start_ticks) OVER so_far AS start_ticks,
        sum(e.change) OVER so_far AS change, sum(e.step) OVER so_far AS step
    FROM edges AS e
    WINDOW
        in_order AS (PARTITION BY e.device, e.thread_index ORDER BY e.at_ticks),
        so_far AS (PARTITION BY e.device, e.thread_index ORDER BY e.at_ticks RANGE UNBOUNDED PRECEDING)
),
parts AS MATERIALIZED (
    SELECT s.device, s.thread_index, s.start_ticks, s.at_ticks, s.end_ticks, s.own, s.other,
        CASE WHEN EXISTS (FROM steps AS t) THEN s.step > 0 END AS step
    FROM swept AS s
    WHERE s.change > 0 AND s.end_ticks > s.at_ticks
),
told AS (
    SELECT p.*, o.owner_index, o.thread_index IS NOT NULL AND o.cause IS NULL AND o.kind IS NOT NULL AS is_open,
        CASE WHEN o.cause IS NULL THEN x.cause ELSE o.cause END AS did,
        CASE WHEN o.cause IS NULL THEN x.label ELSE o.label END AS label,
        CASE WHEN o.cause IS NULL THEN x.kind ELSE o.kind END AS kind
    FROM parts AS p
    LEFT JOIN asked AS a
        ON a.device IS NOT DISTINCT FROM p.device AND a.thread_index = p.thread_index
    LEFT JOIN states AS o ON o.thread_index = p.thread_index AND o.place = p.own
    LEFT JOIN states AS x ON x.thread_index = a.other_thread AND x.place = p.other
)
SELECT t.device, t.thread_index, t.start_ticks, t.at_ticks, t.owner_index, t.end_ticks - t.at_ticks AS ticks, t.step,
    t.label,
    t.kind, coalesce(t.did, CASE WHEN t.step OR t.is_open THEN 'step' END) AS did,
    CASE
        WHEN NOT t.step THEN 'between_steps'
        ELSE coalesce(t.did, CASE WHEN t.step OR t.is_open THEN 'step' ELSE 'not_recorded' END)
    END AS cause
FROM told AS t;
