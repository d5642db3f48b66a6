-- The values that two captures logged for one debug handle, and the differences between them by each metric of
-- `numeric_gap`.
CREATE MACRO _value_distances(
    base_key, new_key,
    of_reference  -- whether base is a reference and new is not; NULL: any
) AS TABLE
WITH matched AS (
    SELECT coalesce(b.method, n.method) AS method, coalesce(b.debug_handle, n.debug_handle) AS debug_handle,
        coalesce(b.output_index, n.output_index) AS output_index, b.op_name AS base_op, n.op_name AS new_op,
        b.sizes AS base_sizes, n.sizes AS new_sizes, b.elements AS base_elements, n.elements AS new_elements,
        b.scalar_type AS base_type, n.scalar_type AS new_type, n.debug_handles AS new_handles,
        coalesce(b.module_path, n.module_path) AS module_path,
        CASE WHEN b.source_file IS NULL THEN n.source_file ELSE b.source_file END AS source_file,
        CASE WHEN b.source_file IS NULL THEN n.source_line ELSE b.source_line END AS source_line,
        CASE WHEN 'inferred' IN (b.mapping, n.mapping) THEN 'inferred' ELSE 'exact' END AS mapping,
        CASE
            WHEN max(b.problem) OVER same_op IS NOT NULL THEN 'unknown in base: ' || max(b.problem) OVER same_op
            WHEN max(n.problem) OVER same_op IS NOT NULL THEN 'unknown in new: ' || max(n.problem) OVER same_op
            WHEN n.output_index IS NULL THEN 'not logged in new'
            WHEN b.output_index IS NULL THEN 'not logged in base'
            WHEN NOT b.is_known THEN 'unknown in base: not in a debug buffer'
            WHEN NOT n.is_known THEN 'unknown in new: not in a debug buffer'
            WHEN b.elements IS NULL THEN 'not kept in base: ingest it with keep_values (--values)'
            WHEN n.elements IS NULL THEN 'not kept in new: ingest it with keep_values (--values)'
            WHEN _without_ones(coalesce(b.sizes, []))
                <> _without_ones(coalesce(n.sizes, []))
                THEN 'sizes differ'
        END AS problem
    FROM _values_by_handle(base_key, of_reference) AS b
    FULL JOIN _values_by_handle(new_key, NOT of_reference) AS n USING (method, debug_handle, output_index)
    WINDOW same_op AS (PARTITION BY coalesce(b.method, n.method), coalesce(b.debug_handle, n.debug_handle))
),
pairs AS (
    SELECT m.method, m.debug_handle, m.output_index, unnest(m.base_elements) AS truth, unnest(m.new_elements) AS given
    FROM matched AS m
    WHERE m.problem IS NULL
),
differences AS (
    SELECT p.*, CASE WHEN p.truth = p.given THEN 0 ELSE p.given - p.truth END AS difference FROM pairs AS p
),
gaps AS (
    SELECT d.method, d.debug_handle, d.output_index, count(*) AS elements,
        count(*) FILTER (WHERE isnan(d.truth) <> isnan(d.given)) AS nan_mismatches,
        avg(d.difference * d.difference) AS mse, sum(abs(d.difference)) AS l1, max(abs(d.difference)) AS max_abs,
        max(CASE WHEN d.difference = 0 THEN 0 ELSE abs(d.difference) / abs(d.truth) END) AS max_rel,
        avg(d.truth * d.truth) FILTER (WHERE isfinite(d.truth)) AS truth_power, sum(d.truth * d.truth) AS truth_square,
        sum(d.given * d.given) AS given_square, sum(d.truth * d.given) AS product
    FROM differences AS d
    GROUP BY d.method, d.debug_handle, d.output_index
)
SELECT m.method, m.debug_handle, m.output_index, m.base_op, m.new_op, m.mapping,
    CASE
        WHEN g.nan_mismatches > 0 THEN g.nan_mismatches || ' elements are NaN on one side only'
        WHEN m.problem IS NULL AND len(m.base_elements) = 0 THEN 'no elements'
        ELSE m.problem
    END AS problem,
    g.elements, g.mse, g.l1, g.max_abs, g.max_rel,
    CASE WHEN g.mse = 0 THEN 'inf'::DOUBLE ELSE 10 * log10(g.truth_power / g.mse) END AS snr,
    CASE
        WHEN g.mse = 0 THEN 1
        WHEN g.truth_square = 0 OR g.given_square = 0 THEN 0
        ELSE g.product / (sqrt(g.truth_square) * sqrt(g.given_square))
    END AS cosine,
    m.base_sizes, m.new_sizes, m.base_type, m.new_type, m.base_elements, m.new_elements, m.new_handles, m.module_path,
    m.source_file, m.source_line
FROM matched AS m
LEFT JOIN gaps AS g USING (method, debug_handle, output_index);

-- The difference between the values of two captures for one debug handle, as in `numeric_gap`.
CREATE MACRO _numeric_gap(base_key, new_key, metric) AS TABLE
WITH judged AS (
    SELECT d.*,
        CASE lower(metric)
            WHEN 'mse' THEN d.mse
            WHEN 'l1' THEN d.l1
            WHEN 'max_abs' THEN d.max_abs
            WHEN 'max_rel' THEN d.max_rel
            WHEN 'snr' THEN d.snr
            WHEN 'cosine' THEN d.cosine
            ELSE error(
                'unknown metric ' || coalesce(metric, 'NULL') || '; known are mse, l1, snr, cosine, max_abs, max_rel'
            )
        END AS gap
    FROM _value_distances(base_key, new_key, NULL) AS d
)
SELECT j.method, j.debug_handle, j.output_index, j.base_op, j.new_op, lower(metric) AS metric,
    CASE WHEN j.gap IS NOT NULL THEN j.mapping END AS mapping, j.gap, j.problem, j.elements, j.base_sizes, j.new_sizes,
    j.module_path, j.source_file, j.source_line
FROM judged AS j;
