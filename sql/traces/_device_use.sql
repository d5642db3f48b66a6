-- The time of one device in the steps of a trace, see `_whole_steps`, or in the whole recording if the trace has none:
-- how long it ran anything, and how long kernels; and the time from its first event to the end of its last.
CREATE MACRO _device_use(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    tool_steps  -- a table of the trace's rows of `tool_steps`
) AS TABLE
WITH work AS MATERIALIZED (
    SELECT l.device, l.start_ticks, l.end_ticks, (l.kind = 'kernel')::INTEGER AS kernel
    FROM query_table(launches) AS l
    WHERE l.end_ticks > l.start_ticks
),
steps AS MATERIALIZED (FROM _whole_steps(capture_key, launches, tool_steps)),
edges AS (
    SELECT w.device, w.start_ticks AS at_ticks, 1 AS change, w.kernel, 0 AS step
    FROM work AS w
    UNION ALL
    SELECT w.device, w.end_ticks, -1, -w.kernel, 0 FROM work AS w
    UNION ALL
    SELECT d.device, b.at_ticks, 0, 0, b.step
    FROM (SELECT DISTINCT w.device FROM work AS w) AS d
    CROSS JOIN (
        SELECT s.start_ticks AS at_ticks, 1 AS step FROM steps AS s
        UNION ALL
        SELECT s.end_ticks, -1 FROM steps AS s
    ) AS b
),
swept AS (
    SELECT e.device, lead(e.at_ticks) OVER in_order - e.at_ticks AS ticks, sum(e.change) OVER so_far AS change,
        sum(e.kernel) OVER so_far AS kernel, sum(e.step) OVER so_far AS step
    FROM edges AS e
    WINDOW
        in_order AS (PARTITION BY e.device ORDER BY e.at_ticks),
        so_far AS (PARTITION BY e.device ORDER BY e.at_ticks RANGE UNBOUNDED PRECEDING)
)
SELECT s.device, _sum_where(s.ticks, s.step > 0) AS ticks,
    _sum_where(s.ticks, s.step > 0 AND s.change > 0) AS busy_ticks,
    _sum_where(s.ticks, s.step > 0 AND s.kernel > 0) AS kernel_ticks,
    (
        SELECT max(l.end_ticks) - min(l.start_ticks)
        FROM query_table(launches) AS l
        WHERE l.device IS NOT DISTINCT FROM s.device
    ) AS span_ticks
FROM swept AS s
WHERE s.ticks > 0
GROUP BY s.device;
