-- One decode run: the time of the token at that position. The cost of a longer
-- context per token is the slope of a straight line through all runs, by least
-- squares. It is an error if no run is of phase decode.
-- Columns:
--   generation: index of the generation, from 0; a decode run after a prefill run begins one
--   position: index of the token after the prompt, from 0: position among the generation's decode runs
--   run_index: the run
--   execute: time of its Method::execute (or Method::step) events; NULL if the time is impossible
--   slope: increase of execute per token, over all generations; NULL if there is only one position
--   intercept: value of the line at position 0; NULL as slope
--   r_squared: share of the variance that the line explains, between 0 and 1; NULL as slope
--   unit: unit of execute, slope and intercept
CREATE MACRO decode_trend(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT
        c.capture_id,
        c.unit,
        _multiplier(c.time_scale, c.unit) AS multiplier,
        _divisor(c.time_scale, c.unit) AS divisor
    FROM _capture(capture, unit) AS c
    WHERE CASE
        WHEN EXISTS (
            FROM runs AS r
            WHERE r.capture_id = c.capture_id AND r.phase = 'decode'
        ) THEN true
        ELSE error(
            'no run of ' || c.name || ' is of phase decode; set the phases: etq phase '
            || c.name || ' decode --runs FIRST-LAST'
        )
    END
),
generation_starts AS (
    SELECT
        r.run_index,
        r.phase,
        r.phase = 'decode' AND coalesce(
            lag(r.phase) OVER (ORDER BY r.run_index), 'decode'
        ) = 'prefill' AS begins
    FROM target AS a
    JOIN runs AS r ON r.capture_id = a.capture_id
    WHERE r.phase IN ('prefill', 'decode')
),
numbered AS (
    SELECT
        b.run_index,
        b.phase,
        count(*) FILTER (WHERE b.begins) OVER (ORDER BY b.run_index) AS begun
    FROM generation_starts AS b
),
timed AS (
    SELECT
        dense_rank() OVER (ORDER BY n.begun) - 1 AS generation,
        row_number() OVER (PARTITION BY n.begun ORDER BY n.run_index) - 1
            AS position,
        n.run_index,
        x.execute_ticks * a.multiplier / a.divisor AS execute,
        a.unit
    FROM numbered AS n
    CROSS JOIN target AS a
    LEFT JOIN _executes(
        (SELECT a.capture_id FROM target AS a), NULL, 'decode', NULL, 'all'
    ) AS x
        ON x.run_index = n.run_index
    WHERE n.phase = 'decode'
),
-- A line needs two positions with times.
ranged AS (
    SELECT
        t.*,
        max(t.position) FILTER (WHERE t.execute IS NOT NULL) OVER ()
        - min(t.position) FILTER (WHERE t.execute IS NOT NULL) OVER ()
            AS spread
    FROM timed AS t
)
SELECT
    t.generation,
    t.position,
    t.run_index,
    t.execute,
    CASE WHEN t.spread > 0 THEN regr_slope(t.execute, t.position) OVER () END
        AS slope,
    CASE WHEN t.spread > 0 THEN regr_intercept(t.execute, t.position) OVER () END
        AS intercept,
    CASE WHEN t.spread > 0 THEN regr_r2(t.execute, t.position) OVER () END
        AS r_squared,
    t.unit
FROM ranged AS t
ORDER BY t.run_index;
