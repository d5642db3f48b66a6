-- The time of one line of the user's model within Method::execute (or Method::step), over the recorded runs. The times
-- add up to the total of the executes exactly; rows without a file have the time of no line. Needs a linked record.
-- Needs: dump; else: trace_sources
-- Shown: source!, method, per_execute!~, share_percent!%, calls!#, total+~, executes+#, unit
-- Columns:
--   source: file and line; (several lines), as for a delegate's call; (framework), (delegate layout) or (unattributed)
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   source_file: the file; NULL for events of no line
--   source_line: the line; NULL for events of no line
--   calls: number of events
--   total: sum of their self times
--   share_percent: total in percent of the executes
--   unit: unit of times
--   total_ticks: total in ticks, a whole number
--   executes: number of executes of the method
--   per_execute: total / executes
CREATE MACRO source_totals(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH target AS MATERIALIZED (
    FROM _linked_capture_with_method(capture, unit, method)
),
times AS (
    SELECT
        CASE
            WHEN t.source_file IS NOT NULL THEN t.source_file || coalesce(':' || t.source_line, '')
            WHEN t.lines > 1 THEN '(several lines)'
            WHEN starts_with(t.module_path, '(') THEN t.module_path
            ELSE '(unattributed)'
        END AS source,
        t.method, t.source_file, t.source_line, try_cast(sum(t.calls) AS BIGINT) AS calls,
        sum(t.executes) AS executes, sum(t.self_ticks) AS ticks
    FROM _attributed_times((SELECT a.capture_id FROM target AS a), steps, phase, method, runs) AS t
    GROUP BY ALL
)
SELECT
    t.source, t.method, t.source_file, t.source_line, t.calls, _in_unit(try_cast(t.ticks AS BIGINT), a.scale) AS total,
    100e0 * t.ticks / nullif((SELECT sum(o.ticks)::DOUBLE FROM times AS o), 0) AS share_percent, a.unit AS unit,
    try_cast(t.ticks AS BIGINT) AS total_ticks,
    nullif(sum(t.executes) OVER (PARTITION BY t.method), 0)::BIGINT AS executes,
    total / (sum(t.executes) OVER (PARTITION BY t.method)) AS per_execute
FROM times AS t CROSS JOIN target AS a
ORDER BY t.ticks DESC, t.source, t.method;
