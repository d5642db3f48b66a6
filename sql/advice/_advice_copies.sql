-- Rule: much of the time is spent in ops that compute nothing: changes of layout,
-- type conversions and copies, in kernels and within delegates.
CREATE MACRO _advice_copies(
    ops,  -- rows of `_advice_ops` as a list
    copies_percent := 5  -- share of the executes in percent from which copies are reported: the limit of medium severity
) AS TABLE
WITH
input AS (
    SELECT unnest(ops, recursive := true)
),
copies AS (
    SELECT
        g.*,
        row_number() OVER (ORDER BY g.per_run DESC, g.op) AS place
    FROM input AS g
    WHERE g.is_copy
),
added AS (
    SELECT
        sum(c.calls) AS calls,
        sum(c.per_run) AS per_run,
        sum(c.share_percent) AS share_percent,
        100e0 * sum(c.of_constants) / nullif(sum(c.per_run), 0)
            AS constant_percent,
        string_agg(c.words, ', ' ORDER BY c.place) FILTER (WHERE c.place <= 4)
            AS words,
        bool_or(c.kind = 'delegate') AS is_within_delegates,
        bool_or(regexp_matches(c.op, '(?i)quantize')) AS is_quantized,
        bool_or(regexp_matches(c.op, 'dim_order|clone|contiguous')) AS is_of_format,
        any_value(c.unit) AS unit
    FROM copies AS c
)
SELECT
    'copies' AS rule,
    _advice_severity(a.share_percent) AS severity,
    'Ops that compute nothing, but move or convert data, take '
    || _advice_time(a.per_run, a.unit) || ' of the average run ('
    || _advice_percent(a.share_percent) || ')'
    || CASE
        WHEN a.constant_percent >= 1 THEN ', ' || _advice_percent(a.constant_percent)
            || ' of it on weights or inputs of the model.'
        ELSE '.'
    END AS finding,
    a.words AS evidence,
    a.per_run AS time_at_stake,
    a.share_percent,
    concat_ws(
        ' ',
        CASE
            WHEN a.constant_percent >= 1 THEN 'Work on a weight is the same in every '
                || 'run: fold it before lowering ends (constant_prop_pass), or '
                || 'delegate the whole op, such as linear, to a backend that packs '
                || 'weights when loading. '
                || 'Inputs can be given in the layout that the model needs.'
        END,
        CASE
            WHEN a.is_quantized THEN 'Remaining quantize and dequantize pairs are '
                || 'parts of patterns that no backend took as a whole: quantize with '
                || 'the quantizer of the backend that runs the model.'
        END,
        CASE
            WHEN a.is_of_format THEN 'Export with inputs in the memory format that the '
                || 'ops need, so that dim orders do not change between ops.'
        END,
        CASE
            WHEN a.is_within_delegates THEN 'Give the delegate its inputs in the '
                || 'layout that it computes in (channels last for convolutions of '
                || 'XNNPACK).'
        END,
        'Look for permute, transpose, expand and contiguous in the lines named, and '
        || 'for ops that can be delegated together with their neighbours.'
    ) AS remedy
FROM added AS a
WHERE a.share_percent >= copies_percent;
