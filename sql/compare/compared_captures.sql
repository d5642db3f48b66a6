-- One capture of a comparison; if each side is one PyTorch trace, one of its steps,
-- of which at most 30 are compared. Disturbed captures, measured in another state of the
-- machine than the rest of their side, are excluded.
-- Columns:
--   side: base, new, or history: others by which single captures are judged
--   capture: its name; of a step, followed by # and its position
--   captured_at: when it was measured, in UTC; NULL where unknown
--   total: quantile of the times of its runs, by default the 25th percentile
--   unit: unit of total; NULL where one side counts cycles and the other time
--   off_percent: deviation of its ops from those of its side, in percent; of its total if the ops' is unknown
--   is_disturbed: whether it is excluded as disturbed
CREATE MACRO compared_captures(
    base,  -- name, hash prefix, @latest, or a selector of one or several captures
    new,  -- as `base`
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- quantile of a capture's runs that is compared: 0.25 (least affected by noise), 0.5, or 0.9 (slow tails)
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    history := NULL,  -- captures that show the usual variation if each side is one capture; NULL: others with the same events and all labels that both sides share
    allow_mismatch := false  -- whether to compare captures of different profiling levels or models
) AS TABLE
WITH
selected AS MATERIALIZED (
    FROM _comparison_captures(base, new, history)
),
sampled AS MATERIALIZED (
    FROM _comparison_samples(
        (SELECT list(k) FROM selected AS k), quantile, phase, allow_mismatch
    )
)
FROM _compared_sides(
    (SELECT list(s) FROM sampled AS s),
    unit := unit
);

-- The captures of a comparison that is computed already.
-- Columns: as in `compared_captures`
CREATE MACRO _compared_sides(
    samples,  -- as in `_comparison`
    unit := NULL  -- as in `compare_ops`
) AS TABLE
WITH
sampled AS MATERIALIZED (
    SELECT unnest(samples, recursive := true)
),
shown AS (
    FROM _display_scale(
        (SELECT list(DISTINCT s.counted) FROM sampled AS s WHERE s.level = 'total'),
        unit
    )
)
SELECT
    a.side,
    c.name || CASE
        WHEN a.capture_id < 0 THEN ' #' || -a.capture_id // 2 ELSE ''
    END AS capture,
    c.captured_at,
    sum(a.ticks) / any_value(u.divisor) AS total,
    any_value(u.unit) AS unit,
    100 * (exp(any_value(a.off)) - 1) AS off_percent,
    bool_or(a.is_disturbed) AS is_disturbed
FROM _normalized_samples(samples) AS a
JOIN (SELECT DISTINCT s.capture_id, s.source_id FROM sampled AS s) AS s
    ON s.capture_id = a.capture_id
JOIN captures AS c ON c.capture_id = s.source_id
CROSS JOIN shown AS u
WHERE a.level = 'total' AND a.comparison = 0
GROUP BY a.side, c.name, c.captured_at, c.ingested_at, a.capture_id
ORDER BY
    a.side,
    _recorded_at(c.captured_at, c.ingested_at),
    c.ingested_at,
    abs(a.capture_id);
