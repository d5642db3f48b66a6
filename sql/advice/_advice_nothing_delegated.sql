-- Rule: no delegate runs anything, though much of the time is spent in ops that
-- backends are made for. Names don't show whether the kernels are the portable
-- ones.
CREATE MACRO _advice_nothing_delegated(
    ops,  -- rows of `_advice_ops` as a list
    heavy_percent := 20  -- share of the executes in percent, in convolutions and matrix products, from which it is reported: the limit of high severity
) AS TABLE
WITH
input AS (
    SELECT unnest(ops, recursive := true)
),
heavy AS (
    SELECT
        string_agg(
            DISTINCT string_split(g.op, '.')[1], ', '
            ORDER BY string_split(g.op, '.')[1]
        ) AS names,
        fsum(g.per_run) AS per_run,
        fsum(g.share_percent) AS share_percent,
        string_agg(g.words, ', ' ORDER BY g.per_run DESC, g.op) AS words,
        any_value(g.unit) AS unit
    FROM input AS g
    WHERE g.is_heavy
)
SELECT
    'nothing delegated' AS rule,
    _advice_severity(h.share_percent) AS severity,
    'No delegate runs anything: convolutions and matrix products ('
    || h.names || '), which backends are made for, take '
    || _advice_time(h.per_run, h.unit) || ' of the average run ('
    || _advice_percent(h.share_percent) || ') in kernels.' AS finding,
    h.words AS evidence,
    h.per_run AS time_at_stake,
    h.share_percent,
    'Lower the model with a partitioner for the device (XnnpackPartitioner on '
    || 'CPUs) by to_edge_transform_and_lower. If none fits, link optimized kernels '
    || 'if these are the portable ones.'
        AS remedy
FROM heavy AS h
WHERE h.share_percent >= heavy_percent
    AND NOT EXISTS (FROM input AS g WHERE g.kind IN ('delegate_call', 'delegate'));
