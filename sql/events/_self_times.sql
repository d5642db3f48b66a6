-- How much of a span lies before a moment: 0 if there is none.
CREATE MACRO _part_before(
    span_start, span_end,
    moment  -- the moment; NULL for none
) AS (CASE WHEN moment > span_start THEN least(span_end, moment) - span_start ELSE 0 END);

-- One event of the recorded runs with its self time, of each capture: its duration without that of its children. Only
-- events in ticks of the host's clock that are not detached are subtracted or added. Where events of a trace's thread
-- overlap, each moment counts once, for the event that began last. So no self time is negative, the self times within an
-- execute add up to it, and those of a thread to the time that its events cover.
CREATE MACRO _self_times_of(
    events  -- a table with rows of `_capture_events`, and their captures
) AS TABLE
WITH timed AS (
    SELECT e.capture_id, e.run_index, e.event_index, e.signature_index, e.parent_index, e.parent_run_index,
        e.execute_index, e.start_ticks, coalesce(e.duration_ticks, 0) AS duration_ticks,
        coalesce(e.duration_ticks - coalesce(e.overlap_ticks, 0), 0) AS counted_ticks,
        e.is_host_ticks
        AND (NOT e.is_detached OR e.event_index IS NOT DISTINCT FROM e.execute_index) AS is_additive,
        coalesce(e.is_execute, false) AS is_execute, e.is_detached, e.duration_ticks IS NULL AS is_impossible
    FROM query_table(events) AS e
),
within AS (
    SELECT t.capture_id, t.parent_run_index, t.parent_index, count(*) AS children,
        try_cast(sum(t.counted_ticks) AS BIGINT) AS ticks, try_cast(sum(t.duration_ticks) AS BIGINT) AS torch_ticks
    FROM timed AS t
    WHERE t.is_additive AND NOT t.is_detached AND t.parent_index IS NOT NULL
    GROUP BY t.capture_id, t.parent_run_index, t.parent_index
)
SELECT t.capture_id, t.run_index, t.event_index, t.signature_index, t.parent_index, t.parent_run_index, t.execute_index,
    t.start_ticks, t.duration_ticks, t.counted_ticks, coalesce(w.children, 0) AS children,
    t.counted_ticks - coalesce(w.ticks, 0) AS self_ticks,
    t.duration_ticks - coalesce(w.torch_ticks, 0) AS torch_self_ticks, t.is_additive, t.is_execute, t.is_impossible,
    t.is_detached
FROM timed AS t
LEFT JOIN within AS w
    ON w.capture_id = t.capture_id AND w.parent_run_index = t.run_index AND w.parent_index = t.event_index;

-- The same for one capture.
CREATE MACRO _self_times(capture_key, steps, phase, method, runs) AS TABLE
WITH selected_events AS (
    SELECT r.capture_id, e.*
    FROM _capture_events(capture_key) AS e
    JOIN (FROM runs AS r WHERE r.capture_id = capture_key) AS r USING (run_index)
    WHERE _is_selected_run(
        r.iteration, r.phase, r.scope, r.is_typical, steps, phase, _known_method(capture_key, method), runs
    )
)
SELECT t.* EXCLUDE (capture_id, is_detached) FROM _self_times_of('selected_events') AS t;
