-- Rows of `inspector_events` of a capture, unordered.
CREATE MACRO _inspector_events(
    capture_key, unit,
    repeats,  -- all, or last, as in `inspector_events`
    steps, phase, method, runs
) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_key(capture_key, unit)),
selected AS (FROM _selected_runs(capture_key, steps, phase, method, runs)),
events_of_runs AS (
    SELECT e.block_index, e.slot, e.occurrence, e.run_index, e.event_index, e.start_ticks, e.duration_ticks,
        e.chain_index, e.instruction_id, e.kind, e.label
    FROM _capture_events(capture_key) AS e
    JOIN selected AS r USING (run_index)
),
left_out AS (FROM _left_out_repeats('events_of_runs') AS o WHERE repeats = 'last'),
statistics AS (
    SELECT t.block_index, t.slot, CASE WHEN repeats = 'last' THEN 0 ELSE t.occurrence END AS occurrence,
        list(t.duration_ticks ORDER BY t.run_index, t.event_index) AS raw,
        list(t.start_ticks ORDER BY t.run_index, t.event_index) AS start_ticks,
        quantile_cont(t.duration_ticks::DOUBLE, [0.1, 0.5, 0.9]) AS percentiles,
        sum(t.duration_ticks)::DOUBLE / count(t.duration_ticks) AS avg, min(t.duration_ticks) AS min,
        max(t.duration_ticks) AS max
    FROM events_of_runs AS t
    LEFT JOIN left_out AS o USING (run_index, event_index)
    WHERE o.run_index IS NULL
    GROUP BY 1, 2, 3
),
blocks AS (
    SELECT r.block_index, any_value(r.name) AS name, any_value(r.scope) AS method
    FROM selected AS r
    GROUP BY r.block_index
),
slots AS (
    SELECT s.block_index, b.name AS block_name, b.method, s.slot, s.label, s.kind, s.instruction_id,
        coalesce(s.delegate_debug_id::VARCHAR, s.delegate_debug_str) AS delegate_debug_identifier,
        _stored_unit(s.value_unit, a.time_scale) AS written, a.unit
    FROM signatures AS s
    JOIN target AS a USING (capture_id)
    JOIN blocks AS b USING (block_index)
    QUALIFY row_number() OVER (PARTITION BY s.block_index, s.slot ORDER BY s.signature_index) = 1
),
scaled AS (SELECT s.*, _scale(s.written, s.unit) AS scale FROM slots AS s)
SELECT s.block_index, s.block_name AS event_block_name, s.method, s.slot, coalesce(t.occurrence, 0) AS occurrence,
    s.label AS event_name, list_transform(t.raw, lambda ticks: _in_unit(ticks, s.scale)) AS raw,
    _in_unit(t.percentiles[1], s.scale) AS p10, _in_unit(t.percentiles[2], s.scale) AS p50,
    _in_unit(t.percentiles[3], s.scale) AS p90, _in_unit(t.avg, s.scale) AS avg, _in_unit(t.min, s.scale) AS min,
    _in_unit(t.max, s.scale) AS max, _display_unit(s.written, s.unit) AS unit, s.kind, s.instruction_id,
    s.delegate_debug_identifier, s.delegate_debug_identifier IS NOT NULL AS is_delegated_op, t.start_ticks
FROM scaled AS s
LEFT JOIN statistics AS t USING (block_index, slot)
WHERE CASE
    WHEN repeats IN ('all', 'last') THEN true
    ELSE error('repeats must be ''all'' or ''last'', not ' || coalesce(repeats, 'NULL'))
END;

-- One event of an event block with statistics over the block's runs: the columns of the Inspector's to_dataframe(), in
-- its order. If an event occurs several times in a run (a loop), each occurrence has a row.
-- Shown: event_block_name, event_name!, instruction_id#, occurrence#, p10~, p50!~, p90!~, avg!~, min~, max~, raw-,
--   unit, delegate_debug_identifier, method
-- Columns:
--   block_index: the event block
--   event_block_name: its name
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   slot: position in the block's list of distinct events
--   occurrence: index of the event's occurrence in a run, from 0
--   event_name: the event's label
--   raw: values in the runs that have the event, in file order, with NULL for impossible times
--   p10: 10th percentile, linearly interpolated; NULL, like the columns below, for events that were not timed
--   p50: 50th percentile, linearly interpolated
--   p90: 90th percentile, linearly interpolated
--   avg: arithmetic mean
--   min: smallest
--   max: largest
--   unit: unit of raw to max: the requested one; values that are not times keep theirs
--   kind: framework, user, operator_call, kernel, delegate_call, delegate, control, debug
--   instruction_id: the instruction; NULL where none is named
--   delegate_debug_identifier: the delegate's id as text; NULL if no delegate ran it
--   is_delegated_op: whether a delegate ran it
--   start_ticks: clock at the event's start in each run that has the event, in file order, in ticks
CREATE MACRO inspector_events(
    capture, unit := NULL,
    repeats := 'all',  -- all: all occurrences in a run; last: only the last, as in the Inspector, which puts chains one after another
    steps := NULL, phase := NULL, method := NULL, runs := 'all'
) AS TABLE
WITH target AS MATERIALIZED (SELECT c.capture_id, c.unit FROM _capture_with_method(capture, unit, method) AS c)
FROM _inspector_events(
    (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a), repeats, steps, phase, method, runs
) AS e
ORDER BY e.block_index, e.slot, e.occurrence;
