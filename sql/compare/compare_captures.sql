-- One part of the answer whether new is slower than base: the total of the
-- executes, the common shift of all ops (from the clock, or the load of the
-- machine), the sum of the ops, and the time outside of ops.
-- Columns:
--   what: total; common shift; ops: sum of the ops that are part of the total; outside ops: total less ops
--   method: the method that ran; if unknown, the name of its runs; of traces what their steps are, followed by ` on devices` for times there; NULL for the common shift
--   verdict: verdict on the total, as in `compare_ops`, or unstable: some captures of new, more than of base, are slower and left out; NULL for the others
--   change_percent: change in percent of base; for the total, by the median ratio of a new to a base capture, over all pairs of these, which may differ from that of the medians base and new
--   low_percent: lower end of its interval: of 95 % if the sides were measured in turns; else of the spread of the captures, without what the machine changed from side to side; NULL with fewer than 4 captures per side
--   high_percent: upper end of that interval
--   base: time in base, median over captures; for ops, the sum of their medians
--   new: time in new, median over captures; for ops, the sum of their medians
--   difference: new less base
--   unit: unit of base, new and difference; NULL if one side counts cycles and the other time
--   explained_percent: difference in percent of the total's difference
--   p: probability of a difference this large by chance; NULL for single captures
--   note: why no verdict is possible, or what is needed for one
--   base_captures: number of captures of base used; disturbed captures are excluded
--   new_captures: number of captures of new used
CREATE MACRO compare_captures(
    base,  -- name, hash prefix, @latest, or a selector of one or several captures
    new,  -- as `base`
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- quantile of a capture's runs that is compared: 0.25 (least affected by noise), 0.5, or 0.9 (slow tails)
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    history := NULL,  -- captures that show the usual variation if each side is one capture; NULL: others with the same events and all labels that both sides share
    alpha := 0.05,  -- accepted probability of a false verdict slower or faster
    min_effect := NULL,  -- smallest change that counts, as a fraction; NULL: 0.02, 0.03 if the sides were not measured in turn, 0.1 for single captures
    allow_mismatch := false  -- whether to compare captures of different profiling levels or models, and to give verdicts although conditions differ
) AS TABLE
WITH
comparison AS MATERIALIZED (
    FROM _comparison(
        base, new, quantile := quantile, phase := phase, history := history,
        alpha := alpha, min_effect := min_effect, allow_mismatch := allow_mismatch
    )
)
FROM _compared_totals(
    (SELECT c.chosen FROM comparison AS c),
    (SELECT c.samples FROM comparison AS c),
    (SELECT c.verdicts FROM comparison AS c),
    unit := unit,
    allow_mismatch := allow_mismatch
);

-- The totals of a comparison that is computed already.
-- Columns: as in `compare_captures`
CREATE MACRO _compared_totals(
    chosen,  -- as in `_comparison`
    samples,  -- as in `_comparison`
    verdicts,  -- as in `_comparison`
    unit := NULL,  -- as in `compare_ops`
    allow_mismatch := false  -- as in `compare_ops`
) AS TABLE
WITH
sampled AS MATERIALIZED (
    SELECT unnest(samples, recursive := true)
),
compared AS MATERIALIZED (
    SELECT unnest(verdicts, recursive := true)
),
-- The same op may be a kernel on one side and in a delegate call on the other.
added AS (
    SELECT
        s.item,
        bool_or(s.is_additive) FILTER (WHERE s.side = 'base') AS is_in_base,
        bool_or(s.is_additive) FILTER (WHERE s.side = 'new') AS is_in_new
    FROM sampled AS s
    WHERE s.level = 'op'
    GROUP BY s.item
),
ops AS (
    SELECT
        c.scope,
        coalesce(fsum(c.base_ticks) FILTER (WHERE a.is_in_base), 0) AS base_ticks,
        coalesce(fsum(c.new_ticks) FILTER (WHERE a.is_in_new), 0) AS new_ticks
    FROM compared AS c
    JOIN added AS a ON a.item = c.item
    WHERE c.level = 'op'
    GROUP BY c.scope
),
shown AS (
    FROM _display_scale(
        (SELECT list(DISTINCT s.counted) FROM sampled AS s WHERE s.level = 'total'),
        unit
    )
),
lines AS (
    SELECT
        CASE c.level WHEN 'total' THEN 1 ELSE 2 END AS place,
        CASE c.level WHEN 'total' THEN 'total' ELSE 'common shift' END AS what,
        CASE
            WHEN c.level <> 'total' AND c.comparison > 0 THEN 'on devices' ELSE c.scope
        END AS scope,
        c.base_ticks,
        c.new_ticks,
        c.change,
        c.change_low,
        c.change_high,
        c.verdict,
        c.p,
        c.note,
        c.base_captures,
        c.new_captures
    FROM compared AS c
    WHERE c.level = 'total' OR c.level = 'common shift' AND c.change IS NOT NULL
    UNION ALL
    SELECT
        3, 'ops', o.scope, o.base_ticks, o.new_ticks,
        o.new_ticks / nullif(o.base_ticks, 0) - 1,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ops AS o
    UNION ALL
    SELECT
        4, 'outside ops', t.scope,
        t.base_ticks - o.base_ticks,
        t.new_ticks - o.new_ticks,
        (t.new_ticks - o.new_ticks) / nullif(t.base_ticks - o.base_ticks, 0) - 1,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM compared AS t
    JOIN ops AS o ON o.scope = t.scope
    -- The total on devices is the sum of the events there.
    WHERE t.level = 'total' AND t.comparison = 0
)
SELECT
    l.what,
    l.scope AS method,
    CASE
        WHEN u.unit IS NULL AND l.place = 1 THEN 'can''t judge'
        ELSE _verdict_label(l.verdict, d.conditions)
    END AS verdict,
    CASE WHEN u.unit IS NOT NULL THEN 100 * l.change END AS change_percent,
    CASE WHEN u.unit IS NOT NULL THEN 100 * l.change_low END AS low_percent,
    CASE WHEN u.unit IS NOT NULL THEN 100 * l.change_high END AS high_percent,
    l.base_ticks / u.divisor AS base,
    l.new_ticks / u.divisor AS new,
    (l.new_ticks - l.base_ticks) / u.divisor AS difference,
    u.unit,
    CASE
        WHEN u.unit IS NOT NULL THEN 100 * (l.new_ticks - l.base_ticks) / nullif(
            t.new_ticks - t.base_ticks, 0
        )
    END AS explained_percent,
    CASE WHEN u.unit IS NOT NULL THEN l.p END AS p,
    CASE
        WHEN u.unit IS NULL AND l.place = 1
            THEN 'one side counts cycles and the other time: only shares are comparable'
        ELSE l.note
    END AS note,
    l.base_captures,
    l.new_captures
FROM lines AS l
CROSS JOIN shown AS u
CROSS JOIN (
    SELECT CASE WHEN allow_mismatch THEN 0 ELSE count(*) END AS conditions
    FROM _differing_conditions(chosen) AS x
) AS d
LEFT JOIN compared AS t ON t.level = 'total' AND t.scope = l.scope
ORDER BY l.place = 2, l.scope, l.place;
