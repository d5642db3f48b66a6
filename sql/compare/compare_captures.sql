-- Needs etq: in DuckDB alone, it is an error.
-- One part of the change from base to new: the total of the executes, the common shift of all ops (from the clock, or
-- the load of the machine), the sum of the ops, and the time outside of ops. Each is a quantile of the runs, so the ops
-- and the time outside don't add up to the total exactly.
-- Shown: what!, method, verdict! (verdict), change_percent! (change), low_percent (interval), high_percent%, base!
--   (time), new! (time), difference (time), unit, note
-- Columns:
--   what: total; common shift; ops: sum of the ops that are part of the total, each times the share of captures that have it; outside ops: the rest of each run's total
--   method: the method that ran; if unknown, the name of its runs; for traces, the kind of steps, with ` on devices` for times there; NULL for the common shift
--   verdict: verdict on the total, as in `compare_ops`, or unstable: some captures of new, more than of base, are slower and left out; NULL in the other rows
--   change_percent: change in percent of base; for the total, by the geometric means of both sides, which may differ from the ratio of base and new
--   low_percent: lower end of its 95 % interval, which covers changes of the machine between the sides only if they were measured in turns; NULL with fewer than 3 captures in all, and where noise may change times by a factor of 10
--   high_percent: upper end of that interval
--   base: time in base, median over captures; for ops, the sum of their medians
--   new: time in new, median over captures; for ops, the sum of their medians
--   difference: new minus base
--   unit: unit of base, new and difference; NULL if one side counts cycles and the other time
--   explained_percent: difference in percent of the total's difference
--   p: probability of a difference this large by chance; NULL for single captures
--   note: why no verdict is possible, or what is needed for one
--   base_captures: number of captures of base used; disturbed captures are excluded
--   new_captures: number of captures of new used
CREATE MACRO compare_captures(
    base, new,
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25, phase := NULL, history := NULL, alpha := 0.05,
    min_effect := NULL,  -- smallest change that counts, as a fraction, for single captures at least 0.1; NULL: 0.02, or 0.03 if the sides were not measured in turns
    allow_mismatch := false
) AS TABLE
WITH comparison AS MATERIALIZED (FROM _comparison(
    base, new, unit, quantile, phase, history, alpha, min_effect, allow_mismatch
)),
-- The same op may be a kernel on one side and in a delegate call on the other. An op that only some captures of a side
-- have is a part of only their totals.
ops AS (
    SELECT c.scope,
        CASE WHEN bool_or(c.is_in_base) THEN fsum(c.base * c.base_part) FILTER (WHERE c.is_in_base) ELSE 0 END AS base,
        CASE WHEN bool_or(c.is_in_new) THEN fsum(c.new * c.new_part) FILTER (WHERE c.is_in_new) ELSE 0 END AS new
    FROM comparison AS c
    WHERE c.level = 'op'
    GROUP BY c.scope
),
lines AS (
    SELECT CASE c.level WHEN 'total' THEN 1 ELSE 2 END AS place, c.level AS what,
        CASE WHEN c.level <> 'total' AND c.comparison > 0 THEN 'on devices' ELSE c.scope END AS scope, c.verdict,
        c.change_percent, c.low_percent, c.high_percent, c.base, c.new, c.p, c.note, c.base_captures, c.new_captures
    FROM comparison AS c
    WHERE c.level IN ('total', 'common shift')
    UNION ALL
    SELECT 3, 'ops', o.scope, NULL, 100 * (o.new / nullif(o.base, 0) - 1), NULL, NULL, o.base, o.new, NULL, NULL, NULL,
        NULL
    FROM ops AS o
    UNION ALL
    SELECT 4, t.level, t.scope, NULL, 100 * (t.new / nullif(t.base, 0) - 1), NULL, NULL, t.base, t.new, NULL, NULL,
        NULL, NULL
    FROM comparison AS t
    JOIN ops AS o USING (scope)
    WHERE t.level = 'outside ops'
),
shown AS (SELECT any_value(c.unit) AS unit FROM comparison AS c WHERE c.level = 'total')
SELECT l.what, l.scope AS method, l.verdict, l.change_percent, l.low_percent, l.high_percent, l.base, l.new,
    l.new - l.base AS difference, u.unit, 100 * (l.new - l.base) / nullif(t.new - t.base, 0) AS explained_percent, l.p,
    l.note, l.base_captures, l.new_captures
FROM lines AS l CROSS JOIN shown AS u
LEFT JOIN comparison AS t ON t.level = 'total' AND t.scope = l.scope
ORDER BY l.place = 2, l.scope, l.place;
