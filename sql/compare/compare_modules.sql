-- What became of each module of the model, with the modules within it, from base to
-- new: as `compare_ops` has it of ops. What all ops have in common is taken off by
-- ops. All captures need linked records.
-- Columns:
--   module_path: the module's path; empty for the model itself
--   method: the method that ran
--   verdict: as in `compare_ops`
--   change_percent: what became more of its time, typically, in percent, without what all ops have in common
--   low_percent: lower end of an interval of 95 % for it; NULL with fewer than 4 captures a side
--   high_percent: upper end of that interval
--   base: its time in base: the median over captures; NULL where it is added
--   new: its time in new; NULL where it is removed
--   difference: new less base, what all ops have in common included
--   unit: unit of these three; NULL where one side counts cycles and the other time
--   share_percent: base in percent of the total of base
--   q: as in `compare_ops`
--   note: why it can't be judged, or what would be needed
--   base_captures: captures of base that it rests on
--   new_captures: captures of new that it rests on
CREATE MACRO compare_modules(
    base,  -- name, hash prefix, @latest, or a selector, which may mean many
    new,  -- likewise
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- of the runs of a capture: 0.25, which noise moves least; 0.9 for slow tails; 0.5
    phase := NULL,  -- load, prefill, decode, other: only runs of that phase
    history := NULL,  -- captures to judge one a side by; NULL: others of the same events, and of all labels that both sides share
    alpha := 0.05,  -- how many false ones of those that are told slower or faster are put up with
    min_effect := NULL,  -- smallest change that counts, as a fraction; NULL: 0.02, one by one 0.1
    forced := false  -- whether to compare captures of different profiling levels, and to call slower what was measured under other conditions
) AS TABLE
WITH
chosen AS MATERIALIZED (
    FROM _sides(base, new, history)
),
sampled AS MATERIALIZED (
    FROM _samples((SELECT list(k) FROM chosen AS k), quantile, phase, forced)
),
of_modules AS MATERIALIZED (
    FROM _module_samples((SELECT list(k) FROM chosen AS k), quantile, phase)
),
columns_alike AS (
    SELECT
        s.comparison, s.capture_id, s.side, s.position, s.level, s.scope, s.item,
        s.ticks, s.resolution, s.is_coarse
    FROM sampled AS s
    UNION ALL
    SELECT
        m.comparison, m.capture_id, m.side, m.position, m.level, m.scope, m.item,
        m.ticks, m.resolution, m.is_coarse
    FROM of_modules AS m
),
compared AS (
    FROM _compared((SELECT list(c) FROM columns_alike AS c), alpha, min_effect)
),
paths AS (
    SELECT m.item, any_value(m.module_path) AS module_path
    FROM of_modules AS m
    GROUP BY m.item
),
shown AS (
    FROM _shown_scale(
        (SELECT list(DISTINCT s.counted) FROM sampled AS s WHERE s.level = 'total'),
        unit
    )
)
SELECT
    p.module_path,
    c.scope AS method,
    _told(c.verdict, d.conditions) AS verdict,
    100 * c.change AS change_percent,
    100 * c.change_low AS low_percent,
    100 * c.change_high AS high_percent,
    c.base_ticks / u.divisor AS base,
    c.new_ticks / u.divisor AS new,
    (coalesce(c.new_ticks, 0) - coalesce(c.base_ticks, 0)) / u.divisor
        AS difference,
    u.unit,
    100 * c.share AS share_percent,
    c.q,
    c.note,
    c.base_captures,
    c.new_captures
FROM compared AS c
JOIN paths AS p ON p.item = c.item
CROSS JOIN shown AS u
CROSS JOIN (
    SELECT CASE WHEN forced THEN 0 ELSE count(*) END AS conditions
    FROM _differing_conditions((SELECT list(k) FROM chosen AS k)) AS x
) AS d
WHERE c.level = 'module'
ORDER BY
    abs(coalesce(c.new_ticks, 0) - coalesce(c.base_ticks, 0)) DESC,
    p.module_path,
    c.scope;
