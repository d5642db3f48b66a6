-- A comparison: what all its views are made of, in one row, so that it is computed once
-- for several of them.
-- Columns:
--   chosen: rows of `_comparison_captures` as a list
--   samples: rows of `_comparison_samples` as a list
--   verdicts: rows of `_trace_verdicts` as a list
CREATE MACRO _comparison(
    base,  -- as in `compare_ops`
    new,  -- as in `compare_ops`
    quantile := 0.25,  -- as in `compare_ops`
    phase := NULL,  -- as in `compare_ops`
    history := NULL,  -- as in `compare_ops`
    alpha := 0.05,  -- as in `compare_ops`
    min_effect := NULL,  -- as in `compare_ops`
    allow_mismatch := false  -- as in `compare_ops`
) AS TABLE
WITH
runtime AS MATERIALIZED (
    FROM _comparison_of_runtime(
        base, new, quantile := quantile, phase := phase, history := history,
        alpha := alpha, min_effect := min_effect, allow_mismatch := allow_mismatch
    )
),
compared AS MATERIALIZED (
    FROM _trace_verdicts(
        (SELECT r.chosen FROM runtime AS r),
        (SELECT r.samples FROM runtime AS r),
        (SELECT r.verdicts FROM runtime AS r),
        min_effect
    )
)
SELECT r.chosen, r.samples, (SELECT list(c) FROM compared AS c) AS verdicts
FROM runtime AS r;

-- A comparison without the verdicts on steps, calls and shapes of PyTorch traces.
-- Callers that know that no capture is a trace use it, as planning these takes long.
-- Columns:
--   chosen: rows of `_comparison_captures` as a list
--   samples: rows of `_comparison_samples` as a list
--   verdicts: rows of `_verdicts` as a list
CREATE MACRO _comparison_of_runtime(
    base,  -- as in `compare_ops`
    new,  -- as in `compare_ops`
    quantile := 0.25,  -- as in `compare_ops`
    phase := NULL,  -- as in `compare_ops`
    history := NULL,  -- as in `compare_ops`
    alpha := 0.05,  -- as in `compare_ops`
    min_effect := NULL,  -- as in `compare_ops`
    allow_mismatch := false  -- as in `compare_ops`
) AS TABLE
WITH
selected AS MATERIALIZED (
    FROM _comparison_captures(base, new, history)
),
sampled AS MATERIALIZED (
    FROM _comparison_samples(
        (SELECT list(k) FROM selected AS k), quantile, phase, allow_mismatch
    )
),
tested AS MATERIALIZED (
    FROM _verdicts((SELECT list(s) FROM sampled AS s), alpha, min_effect)
)
SELECT
    (SELECT list(k) FROM selected AS k) AS chosen,
    (SELECT list(s) FROM sampled AS s) AS samples,
    (SELECT list(t) FROM tested AS t) AS verdicts
WHERE _has_valid_options(alpha, min_effect, phase);
