-- One time in which steps overlap or follow each other without a gap.
CREATE MACRO _merged_steps(
    tool_steps  -- a table of the trace's rows of `tool_steps`
) AS TABLE
WITH ordered AS (
    SELECT t.start_ticks, t.end_ticks,
        max(t.end_ticks) OVER (
            ORDER BY t.start_ticks, t.end_ticks
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM query_table(tool_steps) AS t
),
numbered AS (
    SELECT o.start_ticks, o.end_ticks,
        count(CASE WHEN o.before_ticks IS NULL OR o.start_ticks > o.before_ticks THEN 1 END) OVER (
            ORDER BY o.start_ticks, o.end_ticks
            ROWS UNBOUNDED PRECEDING
        ) AS number
    FROM ordered AS o
)
SELECT min(n.start_ticks) AS start_ticks, max(n.end_ticks) AS end_ticks FROM numbered AS n GROUP BY n.number;

-- One time of `_merged_steps`, until the end of what was launched in it; the recording if there are none.
CREATE MACRO _whole_steps(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    tool_steps  -- a table of the trace's rows of `tool_steps`
) AS TABLE
WITH spans AS MATERIALIZED (FROM _merged_steps(tool_steps))
SELECT t.start_ticks, greatest(t.end_ticks, max(w.end_ticks)) AS end_ticks, true AS is_step
FROM spans AS t
LEFT JOIN (
    SELECT b.start_ticks, w.end_ticks
    FROM query_table(launches) AS w
    ASOF JOIN spans AS b ON row(w.call_start_ticks) >= row(b.start_ticks)
    WHERE w.call_start_ticks < b.end_ticks
) AS w USING (start_ticks)
GROUP BY t.start_ticks, t.end_ticks
UNION ALL
SELECT r.start_ticks, r.end_ticks, false
FROM _recording(capture_key) AS r
WHERE NOT EXISTS (FROM query_table(tool_steps) AS t);

-- The time of the steps of `_whole_steps`: all of it, the part in communication while nothing is computed, and the part
-- in which data is loaded while devices run nothing. One row.
CREATE MACRO _tool_step_times(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    tool_steps  -- a table of the trace's rows of `tool_steps`
) AS TABLE
WITH work AS MATERIALIZED (
    SELECT l.start_ticks, l.end_ticks, _work_type(l.kind, l.kernel_family) AS type FROM query_table(launches) AS l
),
steps AS MATERIALIZED (FROM _whole_steps(capture_key, launches, tool_steps)),
spans AS (
    SELECT s.start_ticks, s.end_ticks, 'step' AS type FROM steps AS s
    UNION ALL
    SELECT w.start_ticks, w.end_ticks, w.type FROM work AS w
    UNION ALL
    SELECT e.start_ticks, e.start_ticks + e.elapsed_ticks, i.purpose
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS i USING (capture_id)
    JOIN event_ticks AS e USING (capture_id, signature_index)
    WHERE NOT i.on_device
        AND e.elapsed_ticks > 0
        AND (i.purpose = 'data_loading' OR i.purpose = 'communication' AND NOT EXISTS (FROM work))
),
edges AS (
    SELECT s.start_ticks AS at_ticks, s.type, 1 AS change FROM spans AS s
    UNION ALL
    SELECT s.end_ticks, s.type, -1 FROM spans AS s
),
moments AS (
    SELECT e.at_ticks, _sum_where(e.change, e.type = 'step') AS step,
        _sum_where(e.change, e.type = 'computation') AS computes,
        _sum_where(e.change, e.type = 'communication') AS communicates,
        _sum_where(e.change, e.type = 'memory') AS copies, _sum_where(e.change, e.type = 'data_loading') AS loads
    FROM edges AS e
    GROUP BY e.at_ticks
),
swept AS (
    SELECT lead(m.at_ticks) OVER so_far - m.at_ticks AS ticks, sum(m.step) OVER so_far AS step,
        sum(m.computes) OVER so_far AS computes, sum(m.communicates) OVER so_far AS communicates,
        sum(m.copies) OVER so_far AS copies, sum(m.loads) OVER so_far AS loads
    FROM moments AS m
    WINDOW so_far AS (ORDER BY m.at_ticks)
)
SELECT sum(s.ticks)::BIGINT AS ticks,
    _sum_where(s.ticks, s.communicates > 0 AND s.computes = 0)::BIGINT AS communication_ticks,
    _sum_where(s.ticks, s.loads > 0 AND s.computes + s.communicates + s.copies = 0)::BIGINT AS data_loader_ticks,
    EXISTS (FROM steps AS t WHERE t.is_step) AS has_steps
FROM swept AS s
WHERE s.step > 0;
