-- Whether new is slower than base in all, and what makes up the difference: what
-- the executes take, what all ops have in common (a clock, the load of the
-- machine), what the ops explain together, and what is left beside them.
-- Columns:
--   what: total; all ops alike; ops: those that add up to the total; beside ops: the total less these
--   method: the method that ran, or else the name of its runs; NULL for all ops alike
--   verdict: of the total, as in `compare_ops`; NULL for the others
--   change_percent: what became more of it, in percent
--   low_percent: lower end of an interval of 95 % for it; NULL with fewer than 4 captures a side
--   high_percent: upper end of that interval
--   base: its time in base: the median over captures, of ops added up
--   new: its time in new
--   difference: new less base
--   unit: unit of these three; NULL where one side counts cycles and the other time
--   explained_percent: difference in percent of the total's
--   p: probability of a difference as large if there was none; NULL where captures are compared one by one
--   note: why it can't be judged, or what would be needed
--   base_captures: captures of base that it rests on, disturbed ones left out
--   new_captures: captures of new that it rests on
CREATE MACRO compare_captures(
    base,  -- name, hash prefix, @latest, or a selector, which may mean many
    new,  -- likewise
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- of the runs of a capture: 0.25, which noise moves least; 0.9 for slow tails; 0.5
    phase := NULL,  -- load, prefill, decode, other: only runs of that phase
    history := NULL,  -- captures to judge one a side by; NULL: others of the same events, and of all labels that both sides share
    alpha := 0.05,  -- how many false ones of those that are told slower or faster are put up with
    min_effect := NULL,  -- smallest change that counts, as a fraction; NULL: 0.02, not measured in turn 0.03, one by one 0.1
    forced := false  -- whether to compare captures of different profiling levels, and to call slower what was measured under other conditions
) AS TABLE
WITH
chosen AS MATERIALIZED (
    FROM _sides(base, new, history)
),
sampled AS MATERIALIZED (
    FROM _samples((SELECT list(k) FROM chosen AS k), quantile, phase, forced)
),
compared AS MATERIALIZED (
    FROM _compared((SELECT list(s) FROM sampled AS s), alpha, min_effect)
),
-- The same op may be a kernel on one side and within a delegate's call on the other.
added AS (
    SELECT
        s.item,
        bool_or(s.is_added) FILTER (WHERE s.side = 'base') AS is_in_base,
        bool_or(s.is_added) FILTER (WHERE s.side = 'new') AS is_in_new
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
    FROM _shown_scale(
        (SELECT list(DISTINCT s.counted) FROM sampled AS s WHERE s.level = 'total'),
        unit
    )
),
lines AS (
    SELECT
        CASE c.level WHEN 'total' THEN 1 ELSE 2 END AS place,
        CASE c.level WHEN 'total' THEN 'total' ELSE 'all ops alike' END AS what,
        c.scope,
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
    WHERE c.level = 'total' OR c.level = 'alike' AND c.change IS NOT NULL
    UNION ALL
    SELECT
        3, 'ops', o.scope, o.base_ticks, o.new_ticks,
        o.new_ticks / nullif(o.base_ticks, 0) - 1,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ops AS o
    UNION ALL
    SELECT
        4, 'beside ops', t.scope,
        t.base_ticks - o.base_ticks,
        t.new_ticks - o.new_ticks,
        (t.new_ticks - o.new_ticks) / nullif(t.base_ticks - o.base_ticks, 0) - 1,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM compared AS t
    JOIN ops AS o ON o.scope = t.scope
    WHERE t.level = 'total'
)
SELECT
    l.what,
    l.scope AS method,
    CASE
        WHEN u.unit IS NULL AND l.place = 1 THEN 'can''t judge'
        ELSE _told(l.verdict, d.conditions)
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
            THEN 'one side counts cycles and the other time: shares alone compare'
        ELSE l.note
    END AS note,
    l.base_captures,
    l.new_captures
FROM lines AS l
CROSS JOIN shown AS u
CROSS JOIN (
    SELECT CASE WHEN forced THEN 0 ELSE count(*) END AS conditions
    FROM _differing_conditions((SELECT list(k) FROM chosen AS k)) AS x
) AS d
LEFT JOIN compared AS t ON t.level = 'total' AND t.scope = l.scope
ORDER BY l.place = 2, l.scope, l.place;
