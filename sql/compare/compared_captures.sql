-- The captures that a comparison rests on, and which of them are disturbed: of
-- another state of the machine than the rest of their side, and left out.
-- Columns:
--   side: base, new, or history: others, which one capture a side is judged by
--   capture: its name
--   captured_at: when it was measured, in UTC; NULL where unknown
--   total: a quarter of its runs took less (or as `quantile` says)
--   unit: unit of total; NULL where one side counts cycles and the other time
--   off_percent: by how much its ops took more than those of its side, in percent; of its total where ops can't tell
--   is_disturbed: whether that is so much that it is left out
CREATE MACRO compared_captures(
    base,  -- name, hash prefix, @latest, or a selector, which may mean many
    new,  -- likewise
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- of the runs of a capture: 0.25, which noise moves least; 0.9 for slow tails; 0.5
    phase := NULL,  -- load, prefill, decode, other: only runs of that phase
    history := NULL,  -- captures to judge one a side by; NULL: others of the same events, and of all labels that both sides share
    forced := false  -- whether to compare captures of different profiling levels
) AS TABLE
WITH
chosen AS MATERIALIZED (
    FROM _sides(base, new, history)
),
sampled AS MATERIALIZED (
    FROM _samples((SELECT list(k) FROM chosen AS k), quantile, phase, forced)
),
shown AS (
    FROM _shown_scale(
        (SELECT list(DISTINCT s.counted) FROM sampled AS s WHERE s.level = 'total'),
        unit
    )
)
SELECT
    a.side,
    c.name AS capture,
    c.captured_at,
    sum(a.ticks) / any_value(u.divisor) AS total,
    any_value(u.unit) AS unit,
    100 * (exp(any_value(a.off)) - 1) AS off_percent,
    bool_or(a.is_disturbed) AS is_disturbed
FROM _adjusted((SELECT list(s) FROM sampled AS s)) AS a
JOIN captures AS c ON c.capture_id = a.capture_id
CROSS JOIN shown AS u
WHERE a.level = 'total'
GROUP BY a.side, c.name, c.captured_at, c.capture_id
ORDER BY a.side, c.captured_at, c.capture_id;
