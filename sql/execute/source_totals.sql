-- Rows of `source_totals` of captures, with their place.
CREATE MACRO _source_totals(
    targets,  -- a table with rows of `_linked_capture`
    times  -- a table with rows of `_placed_times` of these
) AS TABLE
WITH added_times AS (
    SELECT t.capture_id,
        CASE
            WHEN t.source_file IS NOT NULL THEN t.source_file || coalesce(':' || t.source_line, '')
            WHEN t.lines > 1 THEN '(several lines)'
            WHEN starts_with(t.module_path, '(') THEN t.module_path
            ELSE '(unattributed)'
        END AS source,
        t.method, t.source_file, t.source_line, try_cast(sum(t.calls) AS BIGINT) AS calls,
        sum(t.executes) AS own_executes, sum(t.self_ticks) AS ticks
    FROM query_table(times) AS t
    GROUP BY ALL
),
executed AS (
    SELECT t.*, try_cast(t.ticks AS BIGINT) AS total_ticks,
        nullif(sum(t.own_executes) OVER (PARTITION BY t.capture_id, t.method), 0)::BIGINT AS executes,
        sum(t.ticks) OVER (PARTITION BY t.capture_id)::DOUBLE AS all_ticks
    FROM added_times AS t
)
SELECT t.capture_id,
    row_number() OVER (
        PARTITION BY t.capture_id ORDER BY t.ticks DESC, t.source, t.method, t.source_file, t.source_line
    )::INTEGER AS place,
    t.source, t.method, t.source_file, t.source_line, t.calls, _in_unit(t.total_ticks, a.scale) AS total,
    100e0 * t.ticks / nullif(t.all_ticks, 0) AS share_percent, a.unit AS unit, t.total_ticks, t.executes,
    total / t.executes AS per_execute
FROM executed AS t
JOIN query_table(targets) AS a USING (capture_id);

-- The time of one line of the user's model within Method::execute (or Method::step), over the recorded runs. The times
-- add up to the total of the executes exactly; rows without a file have the time of no line. Needs a linked record.
-- Needs: dump; else: trace_sources
-- Shown: source!, method, per_execute!~, share_percent!%, calls!#, total+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   source: file and line; (several lines), for example for a delegate's call; (framework), (delegate layout) or (unattributed)
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
WITH target_of_lines AS MATERIALIZED (
    FROM _linked_capture_with_method(capture, unit, method)
),
times_of_lines AS (
    FROM _attributed_times('target_of_lines', steps, phase, method, runs)
)
SELECT s.source, s.method, s.source_file, s.source_line, s.calls, s.total, s.share_percent, s.unit, s.total_ticks,
    s.executes, s.per_execute
FROM _source_totals('target_of_lines', 'times_of_lines') AS s
ORDER BY s.place;
