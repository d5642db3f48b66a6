-- One kernel of attention in single ops: a kernel of a softmax (or, backward, its gradient) between two batches of
-- products in its stream, one of these products, or one of the other kernels between them, which prepare the scores.
-- Other work of the stream between the products leaves all of them out.
CREATE MACRO _unfused_attention(
    capture_key,
    launches  -- a table of the rows of `_launches`
) AS TABLE
WITH ordered AS (
    SELECT w.event_index, w.device, w.stream, w.device_ticks AS ticks, g.label AS op,
        CASE
            WHEN regexp_matches(g.label, '^aten::(bmm|baddbmm)') THEN 'product'
            WHEN regexp_matches(g.label, '^aten::_(safe_)?softmax') THEN 'softmax'
            WHEN w.kernel_family IN ('elementwise', 'copy', 'reduction') THEN 'between'
            ELSE 'other'
        END AS part,
        row_number() OVER (PARTITION BY w.device, w.stream ORDER BY w.start_ticks, w.event_index) AS place
    FROM query_table(launches) AS w
    LEFT JOIN _event_labels(capture_key) AS g ON g.event_index = w.op_index
),
-- Each kernel with the nearest products and other work before and after it.
numbered AS (
    SELECT o.*, max(CASE WHEN o.part = 'product' THEN o.place END) OVER so_far AS product_before,
        min(CASE WHEN o.part = 'product' THEN o.place END) OVER from_here AS product_after,
        max(CASE WHEN o.part = 'other' THEN o.place END) OVER so_far AS other_before,
        min(CASE WHEN o.part = 'other' THEN o.place END) OVER from_here AS other_after
    FROM ordered AS o
    WINDOW
        so_far AS (PARTITION BY o.device, o.stream ORDER BY o.place ROWS UNBOUNDED PRECEDING),
        from_here AS (PARTITION BY o.device, o.stream ORDER BY o.place ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
),
scores AS (
    SELECT DISTINCT n.device, n.stream, n.product_before, n.product_after
    FROM numbered AS n
    WHERE n.part = 'softmax'
        AND n.product_before > coalesce(n.other_before, 0)
        AND n.product_after < coalesce(n.other_after, n.product_after + 1)
)
SELECT DISTINCT n.event_index, n.ticks, n.op, n.part = 'softmax' AS is_softmax
FROM scores AS s
JOIN numbered AS n
    ON n.device IS NOT DISTINCT FROM s.device
    AND n.stream IS NOT DISTINCT FROM s.stream
    AND n.place BETWEEN s.product_before AND s.product_after;
