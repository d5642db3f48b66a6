-- One bar of the histogram of the durations of one event of an event block, over the block's runs. Bars of equal width
-- cover the durations from the smallest one to the upper fence (the third quartile plus three times the interquartile
-- range), or to the largest one if that is smaller. Durations beyond the fence are in one more bar. Bars without
-- durations have no row.
-- Shown: block_index#, method, slot!#, occurrence#, low!~, high!~, runs!#, is_beyond, unit
-- Columns:
--   block_index: the event block
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   slot: position in the block's list of distinct events
--   occurrence: index of the event's occurrence in a run, from 0
--   bin: number of the bar, from 0
--   low: lower bound of the bar
--   high: upper bound of the bar, which is exclusive; inclusive for the last bar, and for the last bar up to the fence
--   runs: number of durations
--   is_beyond: whether it is the bar of durations beyond the fence
--   unit: unit of low and high: the requested one; values that are not times keep theirs
CREATE MACRO event_histogram(
    capture,
    bins := 24,  -- number of bars up to the fence, from 1 to 1000
    unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'all'
) AS TABLE
WITH target AS MATERIALIZED (
    FROM _capture_with_method(capture, unit, method)
),
durations AS (
    SELECT e.block_index, r.scope AS method, e.slot, e.occurrence, e.value_unit, e.duration_ticks::DOUBLE AS ticks,
        _scale(_stored_unit(e.value_unit, a.time_scale), a.unit) AS scale
    FROM target AS a
    JOIN runs AS r USING (capture_id)
    JOIN _capture_events((SELECT a.capture_id FROM target AS a)) AS e USING (run_index)
    WHERE e.duration_ticks IS NOT NULL
        AND _is_selected_run(
            r.iteration, r.phase, r.scope, r.is_typical,
            steps, phase, method, runs
        )
),
fences AS (
    SELECT d.block_index, d.slot, d.occurrence, min(d.ticks) AS smallest,
        quantile_cont(d.ticks, 0.75) * 4 - quantile_cont(d.ticks, 0.25) * 3 AS fence
    FROM durations AS d
    GROUP BY d.block_index, d.slot, d.occurrence
),
fenced AS (
    SELECT d.*, f.smallest, d.ticks > f.fence AS is_beyond,
        (max(d.ticks) FILTER (WHERE d.ticks <= f.fence) OVER in_event - f.smallest)
        / CASE
            WHEN bins BETWEEN 1 AND 1000 THEN bins
            ELSE error('bins must be a number from 1 to 1000, not ' || coalesce(bins::VARCHAR, 'NULL'))
        END AS width,
        min(d.ticks) FILTER (WHERE d.ticks > f.fence) OVER in_event AS first_beyond,
        max(d.ticks) OVER in_event AS largest
    FROM durations AS d
    JOIN fences AS f USING (block_index, slot, occurrence)
    WINDOW in_event AS (PARTITION BY d.block_index, d.slot, d.occurrence)
),
binned AS (
    SELECT f.*,
        CASE
            WHEN f.is_beyond THEN bins
            WHEN f.width = 0 THEN 0
            ELSE least(floor((f.ticks - f.smallest) / f.width), bins - 1)
        END::INTEGER AS bin
    FROM fenced AS f
)
SELECT b.block_index, any_value(b.method) AS method, b.slot, b.occurrence, b.bin,
    any_value(
        _in_unit(CASE WHEN b.is_beyond THEN b.first_beyond ELSE b.smallest + b.bin * b.width END, b.scale)
    ) AS low,
    any_value(
        _in_unit(CASE WHEN b.is_beyond THEN b.largest ELSE b.smallest + (b.bin + 1) * b.width END, b.scale)
    ) AS high,
    count(*) AS runs, any_value(b.is_beyond) AS is_beyond,
    any_value(_display_unit(_stored_unit(b.value_unit, a.time_scale), a.unit)) AS unit
FROM binned AS b CROSS JOIN target AS a
GROUP BY b.block_index, b.slot, b.occurrence, b.bin
ORDER BY b.block_index, b.slot, b.occurrence, b.bin;
