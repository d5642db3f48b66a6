-- Needs etq: in DuckDB alone, it is an error.
-- One capture of a comparison; if each side is one PyTorch trace, one of its steps, of which at most 30 are compared.
-- Disturbed captures, measured in another state of the machine than the rest of their side, are excluded.
-- Shown: side!, capture!, total! (time), unit, off_percent! (change), is_disturbed!, captured_at (moment)
-- Columns:
--   side: base, new, or history (other captures, by which single captures are judged)
--   capture: its name; of a step, followed by # and its position
--   captured_at: when it was measured, in UTC; NULL where unknown
--   total: quantile of the times of its runs, by default the 25th percentile
--   unit: unit of total; NULL where one side counts cycles and the other time
--   off_percent: deviation of its ops from the ops of its side, or of all captures if few ops match, in percent; the deviation of its total if that of its ops is unknown; NULL if its side has one capture
--   is_disturbed: whether it is excluded as disturbed
CREATE MACRO compared_captures(
    base, new,
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25, phase := NULL, history := NULL,
    allow_mismatch := false  -- whether to compare captures of different profiling levels or models
) AS TABLE
SELECT c.side, k.name || CASE WHEN c.step > 0 THEN ' #' || c.step ELSE '' END AS capture, k.captured_at,
    c.base AS total, c.unit,
    CASE WHEN count(*) OVER (PARTITION BY c.side) > 1 THEN 100 * (exp(c.off) - 1) END AS off_percent, c.is_disturbed
FROM _comparison(base, new, unit, quantile, phase, history, 0.05, NULL, allow_mismatch) AS c
JOIN captures AS k USING (capture_id)
WHERE c.level = 'capture' AND c.comparison = 0
ORDER BY c.side, _recorded_at(k.captured_at, k.ingested_at), k.ingested_at, c.capture_id, c.step;
