-- How much of a span lies before a moment: 0 if there is none.
CREATE MACRO _part_before(
    span_start, span_end,
    moment  -- the moment; NULL for none
) AS (CASE WHEN moment > span_start THEN least(span_end, moment) - span_start ELSE 0 END);

-- What the events directly within each event take that count within it: those in ticks of the host's clock that are
-- not detached.
CREATE MACRO _inner_times_of(
    events  -- a table with rows of `_capture_events`, and their captures
) AS TABLE
SELECT e.capture_id, e.parent_run_index AS run_index, e.parent_index AS event_index, count(*) AS children,
    try_cast(sum(e.duration_ticks - coalesce(e.overlap_ticks, 0)) AS BIGINT) AS ticks,
    try_cast(sum(e.duration_ticks) AS BIGINT) AS torch_ticks
FROM query_table(events) AS e
WHERE e.is_host_ticks AND NOT e.is_detached AND e.parent_index IS NOT NULL
GROUP BY e.capture_id, e.parent_run_index, e.parent_index;

-- One event with its self time, of each capture: its duration without that of its children. Only events in ticks of the
-- host's clock that are not detached are subtracted or added. Where events of a trace's thread overlap, each moment
-- counts once, for the event that began last. So no self time is negative, the self times within an execute add up to
-- it, and those of a thread to the time that its events cover.
CREATE MACRO _self_times_of(
    events,  -- a table with rows of `_capture_events`, and their captures
    inner_times  -- a table with rows of `_inner_times_of` the same events
) AS TABLE
SELECT e.* EXCLUDE (overlap_ticks) REPLACE (
        coalesce(e.duration_ticks, 0) AS duration_ticks, coalesce(e.is_execute, false) AS is_execute
    ),
    coalesce(e.duration_ticks - coalesce(e.overlap_ticks, 0), 0) AS counted_ticks, coalesce(w.children, 0) AS children,
    counted_ticks - coalesce(w.ticks, 0) AS self_ticks,
    coalesce(e.duration_ticks, 0) - coalesce(w.torch_ticks, 0) AS torch_self_ticks,
    e.is_host_ticks
    AND (NOT e.is_detached OR e.event_index IS NOT DISTINCT FROM e.execute_index) AS is_additive,
    e.duration_ticks IS NULL AS is_impossible
FROM query_table(events) AS e
LEFT JOIN query_table(inner_times) AS w USING (capture_id, run_index, event_index);

-- One event of the selected runs of a capture, with columns of its run.
CREATE MACRO _selected_events(capture_key, steps, phase, method, runs) AS TABLE
SELECT e.*, r.name AS run_name, r.scope, r.method, r.is_typical
FROM _capture_events(capture_key) AS e
JOIN _selected_runs(capture_key, steps, phase, method, runs) AS r USING (run_index);

-- The same with self times. The events within others are read again, by few columns: kept with all of them, a million
-- events take 80 MB more.
CREATE MACRO _self_times(capture_key, steps, phase, method, runs) AS TABLE
WITH selected_runs AS MATERIALIZED (
    SELECT r.run_index, r.name AS run_name, r.scope, r.method, r.is_typical
    FROM _selected_runs(capture_key, steps, phase, method, runs) AS r
),
selected_events AS (FROM _capture_events(capture_key) AS e JOIN selected_runs AS r USING (run_index)),
inner_events AS (
    SELECT c.capture_id, coalesce(e.parent_run_index, e.run_index) AS parent_run_index, e.parent_index,
        _duration_ticks(e.start_ticks, e.elapsed_ticks, c.clock_bits) AS duration_ticks, e.overlap_ticks, e.is_detached,
        s.clock = 'host' AND s.value_unit = 'ticks' AS is_host_ticks
    FROM (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e
    JOIN selected_runs AS r USING (run_index)
    JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS s USING (signature_index)
    CROSS JOIN (FROM captures AS i WHERE i.capture_id = capture_key) AS c
),
inner_times AS (FROM _inner_times_of('inner_events'))
FROM _self_times_of('selected_events', 'inner_times');
