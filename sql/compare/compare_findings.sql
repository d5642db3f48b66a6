-- Needs etq: in DuckDB alone, it is an error.
-- One reason to trust the verdicts of a comparison less.
-- Shown: rule!, detail!|
-- Columns:
--   rule: no times, one trace per side, measured apart, time order unknown, disturbed capture, disturbed steps, unstable side, conditions differ, labels differ, ranks of one job (not builds), ranks of jobs, different programs, few common ops, different clocks, no common shift, common shift, few captures
--   detail: what was found, and what to do
CREATE MACRO compare_findings(
    base, new, quantile := 0.25, phase := NULL, history := NULL, allow_mismatch := false
) AS TABLE
SELECT c.item AS rule, coalesce(k.name || ' ', '') || c.note AS detail
FROM _comparison(base, new, NULL, quantile, phase, history, 0.05, NULL, allow_mismatch) AS c
LEFT JOIN captures AS k USING (capture_id)
WHERE c.level = 'finding'
ORDER BY c.place, coalesce(k.name || ' ', '') || c.note;
