-- Needs etq: in DuckDB alone, it is an error.
-- The change from base to new of what a capture does once: loading its methods, and the first execute of each method,
-- which may include a warm-up. One value per capture, tested as in `compare_metrics`. The other comparisons use
-- quantiles over the runs, which the first run doesn't influence.
-- Shown: what!, method, verdict! (verdict), change_percent! (change), base! (time), new! (time), unit, note
-- Columns:
--   what: load (all Program::load_method of the capture), or first execute
--   method: the method that executed; if unknown, the name of its runs; NULL for load
--   verdict: slower, faster, ~ (no difference that counts), not decided, too few, can't judge (all times of a side are unknown), conditions differ, added, removed
--   change_percent: change from base to new in percent of base; NULL if base is 0
--   base: median over captures of base; NULL if no capture of base has it
--   new: median over captures of new; NULL if no capture of new has it
--   unit: unit of base and new
--   p: probability of a difference this large by chance
--   q: p, corrected for the number of rows
--   note: what is needed for a verdict; NULL if nothing
--   base_captures: number of captures of base that have it
--   new_captures: number of captures of new that have it
CREATE MACRO compare_startup(
    base, new, unit := NULL,
    alpha := 0.05,  -- accepted share of false positives among the verdicts slower and faster
    min_effect := NULL,  -- smallest change that counts, as a fraction; NULL: 0.02
    allow_mismatch := false  -- whether to give verdicts although conditions differ
) AS TABLE
WITH sides AS MATERIALIZED (
    SELECT s.capture_id, s.side, s.position, s.only_scope,
        CASE s.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'ns' END AS counted,
        coalesce(_nanoseconds(s.time_scale), 1) AS factor
    FROM _compared_sides(base, new) AS s
),
-- The loads of all methods are one value, without a run.
timed AS (
    SELECT s.capture_id, e.duration_ticks,
        CASE WHEN e.name = 'Program::load_method' THEN 'load' ELSE 'first execute' END AS what,
        CASE what WHEN 'first execute' THEN coalesce(s.only_scope, r.method, r.name) END AS method,
        CASE what WHEN 'first execute' THEN e.run_index END AS run_index
    FROM sides AS s
    JOIN events AS e USING (capture_id)
    JOIN runs AS r USING (capture_id, run_index)
    LEFT JOIN events AS p
        ON p.capture_id = e.capture_id
        AND p.run_index = e.run_index
        AND p.event_index = e.parent_index
        AND p.name IN ('Program::load_method', 'Method::init')
    WHERE e.event_index = e.execute_index
        -- A load within a load is part of the outer one's time.
        OR e.name = 'Program::load_method' AND p.name IS NULL
        -- If the first execute has an impossible time, no later one takes its place.
        OR e.name = 'Method::execute' AND e.duration_ticks IS NULL
),
startups AS (
    SELECT t.capture_id, t.what, t.method,
        CASE WHEN bool_and(t.duration_ticks IS NOT NULL) THEN sum(t.duration_ticks) END AS ticks
    FROM timed AS t
    GROUP BY t.capture_id, t.what, t.method, t.run_index
    QUALIFY row_number() OVER (PARTITION BY t.capture_id, t.what, t.method ORDER BY t.run_index) = 1
),
of_captures AS MATERIALIZED (
    SELECT u.what || '|' || coalesce(u.method, '') AS name,
        -- If one side counts cycles, each keeps its own unit.
        coalesce(d.shown, s.counted) AS unit, 'lower' AS better, s.side = 'new' AS is_new,
        s.position::DOUBLE AS position,
        u.ticks::DOUBLE * s.factor
        / CASE WHEN d.shown IS NULL THEN 1 ELSE _divisor(d.counted[1], d.shown) END AS value
    FROM startups AS u
    JOIN sides AS s USING (capture_id)
    CROSS JOIN (
        SELECT k.counted, _shown_unit(k.counted, unit) AS shown
        FROM (SELECT list_sort(list(DISTINCT k.counted)) AS counted FROM sides AS k) AS k
    ) AS d
),
judged AS (
    FROM _value_changes(
        (SELECT list(c) FROM of_captures AS c WHERE c.value IS NOT NULL),
        'time', 'sides', alpha, min_effect, allow_mismatch
    )
)
SELECT split_part(j.name, '|', 1) AS what, nullif(substr(j.name, length(split_part(j.name, '|', 1)) + 2), '') AS method,
    CASE
        -- A side whose times are all unknown has them.
        WHEN j.verdict IN ('added', 'removed') AND j.name IN (SELECT c.name FROM of_captures AS c WHERE c.value IS NULL)
            THEN 'can''t judge'
        ELSE j.verdict
    END AS verdict, 100 * j.change AS change_percent, j.base, j.new, j.unit, j.p, j.q, j.note, j.base_captures,
    j.new_captures
FROM judged AS j
ORDER BY j.name DESC, j.unit;
