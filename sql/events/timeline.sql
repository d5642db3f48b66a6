-- One run that a schedule, a phase and a method select.
CREATE MACRO _exported_runs(capture, runs := NULL, steps := NULL, phase := NULL, method := NULL) AS TABLE
WITH target AS MATERIALIZED (SELECT _capture_id(capture) AS capture_id)
SELECT r.capture_id, r.run_index
FROM _selected_runs((SELECT a.capture_id FROM target AS a), steps, phase, method, 'all') AS r
WHERE runs IS NULL OR list_contains(runs, r.run_index);

-- Rows of `timeline` of a capture, unordered, with the self time of each event as in its file.
CREATE MACRO _timeline(capture_key, unit, runs, steps, phase, method) AS TABLE
WITH target_of_times AS MATERIALIZED (FROM _scaled_key(capture_key, unit))
FROM _timeline_of('target_of_times', runs, steps, phase, method) AS t;

-- The same rows.
CREATE MACRO _timeline_of(
    target,  -- a table with the capture: columns of `captures`, unit and scale
    runs, steps, phase, method
) AS TABLE
WITH RECURSIVE timed AS MATERIALIZED (
    SELECT t.* EXCLUDE (scope, block_index, block, iteration)
    FROM _monotonic_times(target, steps, phase, method, 'all') AS t
    WHERE runs IS NULL OR list_contains(runs, t.run_index)
),
containers AS MATERIALIZED (
    SELECT t.run_index, t.event_index, t.parent_run_index, t.parent_index, t.clock_ticks, t.duration_ticks, t.is_placed,
        o.backend
    FROM timed AS t CROSS JOIN query_table(target) AS a
    LEFT JOIN signature_ops AS o USING (capture_id, signature_index)
    JOIN (SELECT DISTINCT i.parent_run_index, i.parent_index FROM timed AS i) AS i
        ON i.parent_run_index = t.run_index AND i.parent_index = t.event_index
),
levels AS (
    SELECT c.run_index, c.event_index, c.backend, 1 AS depth
    FROM containers AS c
    LEFT JOIN containers AS p ON p.run_index = c.parent_run_index AND p.event_index = c.parent_index
    WHERE p.event_index IS NULL
    UNION ALL
    SELECT c.run_index, c.event_index, c.backend, l.depth + 1
    FROM levels AS l
    JOIN containers AS c ON c.parent_run_index = l.run_index AND c.parent_index = l.event_index
),
-- Events that are not in ticks of the host's clock, with the call that contains them.
others AS (
    SELECT t.run_index, t.event_index, t.parent_run_index, t.parent_index, t.clock, t.written_unit,
        t.duration_ticks::DOUBLE AS duration,
        (c.clock_ticks::HUGEINT - t.origin_ticks)::DOUBLE AS call_start,
        c.duration_ticks::DOUBLE AS call_duration, _nanoseconds(t.written_unit) / _nanoseconds(a.time_scale) AS ratio,
        CASE
            WHEN t.written_unit IN ('bytes', 'count') THEN 0
            WHEN t.clock = 'synthetic'
                THEN sum(t.duration_ticks::DOUBLE) OVER (
                    PARTITION BY t.parent_run_index, t.parent_index, t.clock, t.written_unit
                    ORDER BY t.event_index
                    ROWS UNBOUNDED PRECEDING
                ) - t.duration_ticks
            ELSE (
                t.clock_ticks::HUGEINT - min(t.clock_ticks) OVER (
                    PARTITION BY t.parent_run_index, t.parent_index, t.clock, t.written_unit
                )
            )::DOUBLE
        END AS since
    FROM timed AS t CROSS JOIN query_table(target) AS a
    JOIN containers AS c ON c.run_index = t.parent_run_index AND c.event_index = t.parent_index
    WHERE NOT t.is_placed AND c.is_placed
),
estimated AS (
    SELECT o.run_index, o.event_index, o.call_start, o.since, o.duration,
        coalesce(least(
            o.ratio,
            o.call_duration / nullif(max(o.since + o.duration) OVER (
                PARTITION BY o.parent_run_index, o.parent_index, o.clock, o.written_unit
            ), 0)
        ), 0) AS scale
    FROM others AS o
),
dump_starts AS (SELECT t.dump_index, min(t.origin_ticks) AS first_ticks FROM timed AS t GROUP BY t.dump_index),
-- Only for a trace.
threaded AS (
    SELECT e.run_index, e.event_index, e.thread_index,
        coalesce(h.process_name || ' ', '') || h.process || ', '
        || CASE
            WHEN h.thread_name IS NOT NULL THEN h.thread_name
            WHEN h.thread = h.process THEN 'main thread'
            WHEN h.process_name IS NOT NULL AND regexp_matches(h.thread, '^[0-9]+$') THEN 'thread ' || h.thread
            ELSE h.thread
        END AS track
    FROM query_table(target) AS a
    JOIN trace_events AS e USING (capture_id)
    JOIN threads AS h USING (capture_id, thread_index)
)
SELECT t.run_index, t.event_index, t.signature_index,
    CASE
        WHEN h.track IS NOT NULL THEN h.track
        WHEN t.kind <> 'delegate' THEN 'host'
        ELSE coalesce(l.backend, 'delegate') || CASE
            WHEN t.is_placed THEN ''
            WHEN t.written_unit = a.time_scale THEN ', own clock'
            ELSE ', ' || t.written_unit
        END
    END AS track,
    h.thread_index, coalesce(l.depth, 0) AS depth, t.kind, t.label AS event_name, t.family, t.instruction_id,
    CASE WHEN t.parent_index IS NOT NULL THEN t.parent_run_index END AS parent_run_index, t.parent_index,
    _in_unit((t.origin_ticks::HUGEINT - d.first_ticks)::DOUBLE, a.scale) AS run_start,
    _in_unit(
        CASE
            WHEN t.is_placed THEN (t.clock_ticks::HUGEINT - t.origin_ticks)::DOUBLE
            ELSE e.call_start + e.since * e.scale
        END,
        a.scale
    ) AS start,
    _in_unit(
        CASE
            WHEN t.is_impossible THEN NULL
            WHEN t.is_placed THEN t.duration_ticks::DOUBLE
            WHEN t.written_unit NOT IN ('bytes', 'count') THEN e.duration * e.scale
        END,
        a.scale
    ) AS duration,
    a.unit, e.scale IS NOT NULL AS is_estimated, CASE WHEN NOT t.is_impossible THEN t.duration_ticks END AS logged,
    CASE WHEN NOT t.is_impossible THEN t.self_ticks END AS self_logged, t.written_unit AS logged_unit
FROM timed AS t CROSS JOIN query_table(target) AS a
JOIN dump_starts AS d USING (dump_index)
LEFT JOIN levels AS l ON l.run_index = t.parent_run_index AND l.event_index = t.parent_index
LEFT JOIN estimated AS e ON e.run_index = t.run_index AND e.event_index = t.event_index
LEFT JOIN threaded AS h ON h.run_index = t.run_index AND h.event_index = t.event_index;

-- One event of one run with its place in time, as for a flame chart. Delegates' events that are not in ticks of the
-- host's clock have estimated times, because their clock is not related to the host's. Such events of one DELEGATE_CALL
-- and unit are placed from the call's start on. Events with a clock keep their relative times; bare values follow each
-- other. Events that take longer than the call are scaled to it. Values that are not times (cycles, unknown) fill the
-- call. Bytes and counts are moments at the call's start.
-- Shown: event_name!, run_index!#, track!, start! (time), duration! (time), unit, kind, depth#, family,
--   instruction_id#, is_estimated
-- Columns:
--   run_index: the run
--   event_index: position in the run's list of events
--   signature_index: the event's signature, in `signatures`
--   track: row group. For a dump: host, or, for a delegate's event, its backend if a record names it, else delegate, with its unit if that is not the host's tick; for a trace, the process and thread
--   thread_index: its thread, in `threads`; NULL for formats other than traces
--   depth: number of selected events that contain it
--   kind: framework, user, operator_call, kernel, delegate_call, delegate, control, slice
--   event_name: the event's label
--   family: label without serial numbers and wrappers
--   instruction_id: the instruction; NULL where none is named
--   parent_run_index: run of the event that contains it; NULL where none does
--   parent_index: event_index of that event; NULL where none does
--   run_start: start of the first event of its run, relative to the start of the first event of the first selected run of the same dump; NULL if the run has no event on the host's clock
--   start: start relative to its run's first event; NULL for events on another clock outside of calls
--   duration: end minus start; NULL without a start, for bytes and counts, and if the times are impossible
--   unit: unit of run_start, start and duration
--   is_estimated: whether start and duration are an estimate
--   logged: its duration in the file, in logged_unit; NULL if the times are impossible
--   logged_unit: ns, us, ms, s, cycles, bytes, count, unknown
CREATE MACRO timeline(
    capture,
    runs := NULL,  -- list of run_index: only these runs; NULL: all
    unit := NULL, steps := NULL, phase := NULL, method := NULL
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT a.*, c.format, c.clock_bits
    FROM _scaled_capture_with_method(capture, unit, method) AS a
    JOIN captures AS c USING (capture_id)
)
SELECT t.run_index, t.event_index, t.signature_index, t.track, t.thread_index, t.depth, t.kind, t.event_name, t.family,
    t.instruction_id, t.parent_run_index, t.parent_index, t.run_start, t.start, t.duration, t.unit, t.is_estimated,
    t.logged, t.logged_unit
FROM _timeline_of('target', runs, steps, phase, method) AS t
ORDER BY t.run_index, t.start NULLS LAST, t.depth, t.event_index;
