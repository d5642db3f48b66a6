-- One percentile of one event of an event block, over the block's runs.
-- Shown: event_name!, quantile!#, value!~, unit, runs#, method, instruction_id#, occurrence#, block_index#,
--   event_block_name, slot#
-- Columns:
--   block_index: the event block
--   event_block_name: its name
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   slot: position in the block's list of distinct events
--   occurrence: index of the event's occurrence in a run, from 0
--   event_name: the event's label
--   instruction_id: the instruction; NULL where none is named
--   runs: number of values it is computed from
--   quantile: the quantile, between 0 and 1
--   value: the percentile, linearly interpolated; NULL if no times are possible
--   unit: unit of value: the requested one; values that are not times keep theirs
CREATE MACRO percentiles(
    capture,
    quantiles := [0.1, 0.5, 0.9],  -- list of numbers between 0 and 1
    unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'all'
) AS TABLE
WITH target AS MATERIALIZED (
    FROM _capture_with_method(capture, unit, method)
),
selected AS (FROM _selected_runs((SELECT a.capture_id FROM target AS a), steps, phase, method, runs)),
statistics AS (
    SELECT e.block_index, e.slot, e.occurrence, any_value(r.name) AS event_block_name, any_value(r.scope) AS method,
        any_value(e.label) AS event_name, any_value(e.instruction_id) AS instruction_id,
        any_value(e.value_unit) AS value_unit, count(e.duration_ticks) AS runs,
        -- For other values, DuckDB's own error wouldn't name the parameter.
        quantile_cont(e.duration_ticks::DOUBLE, coalesce(_quantiles(quantiles), [0.5])) AS results
    FROM _capture_events((SELECT a.capture_id FROM target AS a)) AS e
    JOIN selected AS r USING (run_index)
    WHERE CASE
        WHEN _quantiles(quantiles) IS NOT NULL THEN true
        ELSE error('quantiles must be a list of numbers between 0 and 1, not ' || coalesce(quantiles::VARCHAR, 'NULL'))
    END
    GROUP BY e.block_index, e.slot, e.occurrence
),
unnested AS (SELECT s.*, unnest(_quantiles(quantiles)) AS quantile, unnest(s.results) AS result FROM statistics AS s)
SELECT u.block_index, u.event_block_name, u.method, u.slot, u.occurrence, u.event_name, u.instruction_id, u.runs,
    u.quantile, _in_unit(u.result, _scale(_stored_unit(u.value_unit, a.time_scale), a.unit)) AS value,
    _display_unit(_stored_unit(u.value_unit, a.time_scale), a.unit) AS unit
FROM unnested AS u CROSS JOIN target AS a
ORDER BY u.block_index, u.slot, u.occurrence, u.quantile;

-- The quantiles of a list; NULL for other values.
CREATE MACRO _quantiles(
    quantiles  -- list of numbers between 0 and 1
) AS (
    list_transform(
        [try_cast(quantiles::VARCHAR AS DOUBLE[])],
        lambda numbers: CASE
            WHEN list_min(numbers) >= 0 AND list_max(numbers) <= 1 AND len(numbers) = list_count(numbers) THEN numbers
        END
    )[1]
);
