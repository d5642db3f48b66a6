-- Rule: some ops run as kernels although there are delegates. Each such op also
-- splits the graph, so that delegates are called more often.
CREATE MACRO _advice_fallback_kernels(
    ops,  -- rows of `_advice_ops` as a list
    kernels_percent := 2  -- share of the executes in percent from which the kernels are reported: less than for other rules, as splitting the graph costs time too
) AS TABLE
WITH
input AS (
    SELECT unnest(ops, recursive := true)
),
kernels AS (
    SELECT
        g.*,
        row_number() OVER (ORDER BY g.per_run DESC, g.op) AS place
    FROM input AS g
    WHERE g.kind = 'kernel'
),
fallbacks AS (
    SELECT
        sum(k.calls) AS calls,
        sum(k.per_run) AS per_run,
        sum(k.share_percent) AS share_percent,
        max(k.op) FILTER (WHERE k.place = 1) AS worst,
        -- An op that a delegate takes includes the copies of its weights.
        coalesce(
            string_agg(k.op, ', ' ORDER BY k.place)
                FILTER (WHERE NOT k.is_copy AND k.place <= 3),
            worst
        ) AS to_delegate,
        string_agg(k.words, ', ' ORDER BY k.place) FILTER (WHERE k.place <= 3)
            AS words,
        any_value(k.unit) AS unit
    FROM kernels AS k
),
delegate_calls AS (
    SELECT sum(g.calls) AS calls
    FROM input AS g
    WHERE g.kind = 'delegate_call'
)
SELECT
    'fallback kernels' AS rule,
    _advice_severity(f.share_percent) AS severity,
    'Next to ' || _advice_count(c.calls, 'delegate call') || ', the average run has '
    || _advice_count(f.calls, 'kernel') || ' for ops that no delegate took: '
    || _advice_time(f.per_run, f.unit) || ' ('
    || _advice_percent(f.share_percent) || '), most of it in ' || f.worst || '.'
        AS finding,
    f.words AS evidence,
    f.per_run AS time_at_stake,
    f.share_percent,
    'List the nodes that were left: etq coverage. Have the partitioner take '
    || f.to_delegate || ' (a supported op, data type or static shape; a version of the '
    || 'backend that has it), or write it with ops that the backend supports.' AS remedy
FROM fallbacks AS f
CROSS JOIN delegate_calls AS c
WHERE c.calls > 0 AND f.share_percent >= kernels_percent;
