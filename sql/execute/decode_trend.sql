-- Why a capture without runs of phase decode has no trend.
CREATE MACRO _why_no_decoding(capture_name) AS (
    'no run of ' || capture_name || ' is of phase decode; set the phases: etq label '
    || capture_name || ' --phase decode --runs FIRST-LAST'
);

-- One decode run: the time of the token at its position. The slope of a straight line through all runs is the cost of
-- each further token of context. It is the median of the slopes of all pairs of runs (Theil 1950, Sen 1968), so single
-- slow tokens hardly affect it. More than 1,000 runs are first reduced to 1,000 medians of neighbours. It is an error
-- if no run of a dump is of phase decode.
-- Needs: dump; else: serving_phases
-- Shown: generation#, position!#, run_index#, execute!~, slope!~, intercept~, tau!#, unit
-- Columns:
--   generation: index of the generation, from 0; a decode run after a prefill run begins a new one
--   position: index of the token after the prompt, from 0: position among the generation's decode runs
--   run_index: the run
--   execute: time of its Method::execute (or Method::step) events; NULL if the time is impossible
--   slope: increase of execute per token, over all generations; NULL if there is only one position
--   intercept: value of the line at position 0, so that half of the runs are above the line; NULL where slope is NULL
--   tau: share of the pairs of runs that increase minus the share that decrease (Kendall's), from -1 to 1; NULL where slope is NULL
--   unit: unit of execute, slope and intercept
CREATE MACRO decode_trend(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.capture_id, c.unit, c.scale
    FROM _scaled_capture(capture, unit) AS c
    JOIN captures AS k USING (capture_id)
    WHERE CASE
        -- The steps of a trace are not executes.
        WHEN k.format = 'torch_trace' THEN false
        WHEN EXISTS (FROM runs AS r WHERE r.capture_id = c.capture_id AND r.phase = 'decode') THEN true
        ELSE _lacking(capture, _why_no_decoding(c.name)) IS NOT NULL
    END
),
generation_starts AS (
    SELECT r.run_index, r.phase,
        r.phase = 'decode' AND coalesce(lag(r.phase) OVER (ORDER BY r.run_index), 'decode') = 'prefill' AS begins
    FROM target AS a
    JOIN runs AS r USING (capture_id)
    WHERE r.phase IN ('prefill', 'decode')
),
numbered AS (
    SELECT b.run_index, b.phase, count(CASE WHEN b.begins THEN 1 END) OVER (ORDER BY b.run_index) AS begun
    FROM generation_starts AS b
),
timed AS (
    SELECT dense_rank() OVER (ORDER BY n.begun) - 1 AS generation,
        row_number() OVER (PARTITION BY n.begun ORDER BY n.run_index) - 1 AS position, n.run_index,
        _in_unit(x.execute_ticks, a.scale) AS execute, a.unit
    FROM numbered AS n CROSS JOIN target AS a
    LEFT JOIN _executes((SELECT a.capture_id FROM target AS a), NULL, 'decode', NULL, 'all') AS x
        ON x.run_index = n.run_index
    WHERE n.phase = 'decode'
),
measured AS (
    SELECT t.position, t.execute, row_number() OVER (ORDER BY t.position, t.run_index) - 1 AS number,
        count(*) OVER () AS runs
    FROM timed AS t
    WHERE t.execute IS NOT NULL
),
points AS MATERIALIZED (
    SELECT avg(m.position) AS position, median(m.execute) AS execute
    FROM measured AS m
    GROUP BY m.number * least(m.runs, 1000) // m.runs
),
-- NULL if there is only one position.
sloped AS MATERIALIZED (
    SELECT median(s.slope) AS slope, avg(sign(s.slope)) AS tau
    FROM (
        SELECT (o.execute - p.execute) / (o.position - p.position) AS slope
        FROM points AS p
        JOIN points AS o ON o.position > p.position
    ) AS s
),
fitted AS (
    SELECT any_value(s.slope) AS slope, median(p.execute - s.slope * p.position) AS intercept, any_value(s.tau) AS tau
    FROM points AS p CROSS JOIN sloped AS s
)
SELECT t.generation, t.position, t.run_index, t.execute, f.slope, f.intercept, f.tau, t.unit
FROM timed AS t CROSS JOIN fitted AS f
ORDER BY t.run_index;
