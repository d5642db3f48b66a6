-- The change of one module of the model, with its submodules, from base to new, as
-- `compare_ops` for ops. The common shift is that of the ops. All captures need
-- linked records; PyTorch traces have modules if they have Python functions, and a row
-- for the time on the host and one for that on devices.
-- Columns:
--   module_path: the module's path; empty for the model itself; of traces the name of the module's call
--   method: the method that ran; of traces as in `compare_captures`
--   verdict: as in `compare_ops`
--   change_percent: change of its time in percent, without the common shift
--   low_percent: lower end of its interval: of 95 % if the sides were measured in turns; else of the spread of the captures, without what the machine changed from side to side; NULL with fewer than 4 captures per side
--   high_percent: upper end of that interval
--   base: time in base, median over captures; NULL if the item is added
--   new: time in new, median over captures; NULL if the item is removed
--   difference: new less base, common shift included
--   unit: unit of base, new and difference; NULL if one side counts cycles and the other time
--   share_percent: base in percent of base's total
--   q: as in `compare_ops`
--   note: why no verdict is possible, or what is needed for one
--   base_captures: number of captures of base used; disturbed captures are excluded
--   new_captures: number of captures of new used
CREATE MACRO compare_modules(
    base,  -- name, hash prefix, @latest, or a selector of one or several captures
    new,  -- as `base`
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- quantile of a capture's runs that is compared: 0.25 (least affected by noise), 0.5, or 0.9 (slow tails)
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    history := NULL,  -- captures that show the usual variation if each side is one capture; NULL: others with the same events and all labels that both sides share
    alpha := 0.05,  -- accepted probability of a false verdict slower or faster
    min_effect := NULL,  -- smallest change that counts, as a fraction; NULL: 0.02, or 0.1 for single captures
    allow_mismatch := false  -- whether to compare captures of different profiling levels or models, and to give verdicts although conditions differ
) AS TABLE
WITH
chosen AS MATERIALIZED (
    FROM _comparison_captures(base, new, history)
),
sampled AS MATERIALIZED (
    FROM _comparison_samples(
        (SELECT list(k) FROM chosen AS k), quantile, phase, allow_mismatch
    )
),
of_modules AS MATERIALIZED (
    FROM _module_samples((SELECT list(k) FROM chosen AS k), quantile, phase)
),
combined_samples AS (
    SELECT
        s.comparison, s.capture_id, s.side, s.position, s.level, s.scope, s.item,
        s.op, s.ticks, s.resolution, s.is_coarse
    FROM sampled AS s
    UNION ALL
    SELECT
        m.comparison, m.capture_id, m.side, m.position, m.level, m.scope, m.item,
        m.op, m.ticks, m.resolution, m.is_coarse
    FROM of_modules AS m
),
tested AS (
    FROM _verdicts((SELECT list(c) FROM combined_samples AS c), alpha, min_effect)
),
compared AS (
    FROM _trace_verdicts(
        (SELECT list(k) FROM chosen AS k),
        (SELECT list(s) FROM sampled AS s),
        (SELECT list(t) FROM tested AS t),
        min_effect
    )
),
paths AS (
    SELECT m.item, any_value(m.module_path) AS module_path
    FROM of_modules AS m
    GROUP BY m.item
),
shown AS (
    FROM _display_scale(
        (SELECT list(DISTINCT s.counted) FROM sampled AS s WHERE s.level = 'total'),
        unit
    )
)
SELECT
    p.module_path,
    c.scope AS method,
    _verdict_label(c.verdict, d.conditions) AS verdict,
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
    SELECT CASE WHEN allow_mismatch THEN 0 ELSE count(*) END AS conditions
    FROM _differing_conditions((SELECT list(k) FROM chosen AS k)) AS x
) AS d
WHERE c.level = 'module'
    AND _has_valid_options(alpha, min_effect)
ORDER BY
    abs(coalesce(c.new_ticks, 0) - coalesce(c.base_ticks, 0)) DESC,
    p.module_path,
    c.scope;
