-- One part of periods of threads of the host, such as gaps of devices until the next launch begins: what the thread
-- did, see `_host_states`; if that is unknown, what the other thread of its process with the most launches did. `step`
-- is whether it lies in a step of `tool_steps`; NULL if the trace has none. `owner` is that of the thread itself,
-- never of the other thread. Algorithm: the states of both threads and the steps cut the time of a thread; among these
-- cuts, starts and ends of periods are put in order. A period has a part for each cut within it.
CREATE MACRO _host_parts(
    capture_key,
    host_states,  -- a table of the rows of `_host_states`
    host_launches,  -- a table of the rows of `_host_launches`
    tool_steps,  -- a table of the trace's rows of `tool_steps`
    periods  -- a table with the periods: period (its number), thread_index, start_ticks, end_ticks
) AS TABLE
WITH asked_periods AS MATERIALIZED (FROM query_table(periods) AS q),
asked_steps AS MATERIALIZED (SELECT q.start_ticks, q.end_ticks FROM query_table(tool_steps) AS q),
processes AS MATERIALIZED (SELECT i.thread_index, i.process FROM threads AS i WHERE i.capture_id = capture_key),
launching AS MATERIALIZED (
    SELECT l.thread_index, l.process, count(*) AS launches
    FROM query_table(host_launches) AS l
    GROUP BY l.thread_index, l.process
),
asked AS MATERIALIZED (
    SELECT p.thread_index, arg_min(m.thread_index, (-m.launches, m.thread_index)) AS other_thread
    FROM (SELECT DISTINCT i.thread_index FROM asked_periods AS i) AS p
    JOIN processes AS h USING (thread_index)
    LEFT JOIN launching AS m ON m.process = h.process AND m.thread_index <> p.thread_index
    GROUP BY p.thread_index
),
edges AS (
    -- The time before the first state.
    SELECT a.thread_index, (-9223372036854775808)::BIGINT AS at_ticks, 1 AS cut, NULL::BIGINT AS own,
        NULL::BIGINT AS other, 0 AS step, NULL::BIGINT AS period
    FROM asked AS a
    UNION ALL
    SELECT s.thread_index, s.at_ticks, 1, s.place, NULL, 0, NULL
    FROM asked AS a
    JOIN query_table(host_states) AS s USING (thread_index)
    UNION ALL
    SELECT a.thread_index, s.at_ticks, 1, NULL, s.place, 0, NULL
    FROM asked AS a
    JOIN query_table(host_states) AS s ON s.thread_index = a.other_thread
    UNION ALL
    SELECT a.thread_index, b.at_ticks, 1, NULL, NULL, b.step, NULL
    FROM asked AS a
    CROSS JOIN (
        SELECT t.start_ticks AS at_ticks, 1 AS step FROM asked_steps AS t
        UNION ALL
        SELECT t.end_ticks, -1 FROM asked_steps AS t
    ) AS b
    UNION ALL
    SELECT p.thread_index, unnest([p.start_ticks, p.end_ticks]), 0, NULL, NULL, 0, p.period FROM asked_periods AS p
),
swept AS MATERIALIZED (
    SELECT e.thread_index, e.at_ticks, e.period, (sum(e.cut) OVER so_far)::BIGINT AS number,
        max(e.own) OVER so_far AS own, max(e.other) OVER so_far AS other, sum(e.step) OVER so_far AS step
    FROM edges AS e
    WINDOW so_far AS (PARTITION BY e.thread_index ORDER BY e.at_ticks, e.cut DESC ROWS UNBOUNDED PRECEDING)
),
cuts AS MATERIALIZED (FROM swept AS s WHERE s.period IS NULL),
numbered AS (
    SELECT b.period, b.thread_index, b.start_ticks, b.end_ticks, unnest(range(b.first, b.last + 1)) AS number
    FROM (
        SELECT s.period, any_value(s.thread_index) AS thread_index, min(s.at_ticks) AS start_ticks,
            max(s.at_ticks) AS end_ticks, min(s.number) AS first, max(s.number) AS last
        FROM swept AS s
        WHERE s.period IS NOT NULL
        GROUP BY s.period
    ) AS b
),
parts AS (
    SELECT n.period, n.thread_index, greatest(n.start_ticks, c.at_ticks) AS at_ticks,
        least(n.end_ticks, f.at_ticks) AS end_ticks, c.own, c.other,
        CASE WHEN EXISTS (FROM asked_steps) THEN c.step > 0 END AS step
    FROM numbered AS n
    JOIN cuts AS c ON c.thread_index = n.thread_index AND c.number = n.number
    LEFT JOIN cuts AS f ON f.thread_index = n.thread_index AND f.number = n.number + 1
),
told AS (
    SELECT p.*, o.owner, o.cause IS NULL AND o.name IS NOT NULL AS is_open,
        CASE WHEN o.cause IS NULL THEN x.cause ELSE o.cause END AS did,
        CASE WHEN o.cause IS NULL THEN x.name ELSE o.name END AS name
    FROM parts AS p
    LEFT JOIN query_table(host_states) AS o ON o.place = p.own
    LEFT JOIN query_table(host_states) AS x ON x.place = CASE WHEN o.cause IS NULL THEN p.other END
    WHERE p.end_ticks > p.at_ticks
)
SELECT t.period, t.at_ticks, t.owner, t.end_ticks - t.at_ticks AS ticks, t.name,
    coalesce(t.did, CASE WHEN t.step OR t.is_open THEN 'step' END) AS did,
    CASE
        WHEN NOT t.step THEN 'between_steps'
        ELSE coalesce(t.did, CASE WHEN t.step OR t.is_open THEN 'step' ELSE 'not_recorded' END)
    END AS cause
FROM told AS t;
