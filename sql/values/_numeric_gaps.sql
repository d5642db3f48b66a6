-- The difference between the values of the two captures of a pair for one debug handle, as in `numeric_gap`.
CREATE MACRO _numeric_gaps(
    compared,  -- the name of a table with columns pair, base_key and new_key
    metric
) AS TABLE
WITH sides AS MATERIALIZED (
    SELECT p.pair, false AS is_new, p.base_key AS capture_id FROM query_table(compared) AS p
    UNION ALL
    SELECT p.pair, true, p.new_key FROM query_table(compared) AS p
),
valued AS MATERIALIZED (
    SELECT s.pair, s.is_new, v.*
    FROM sides AS s
    JOIN _values_by_handle('sides') AS v USING (capture_id)
),
matched AS (
    SELECT coalesce(b.pair, n.pair) AS pair, coalesce(b.method, n.method) AS method,
        coalesce(b.debug_handle, n.debug_handle) AS debug_handle,
        coalesce(b.output_index, n.output_index) AS output_index, b.op_name AS base_op, n.op_name AS new_op,
        b.sizes AS base_sizes, n.sizes AS new_sizes, b.elements AS base_elements, n.elements AS new_elements,
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
    FROM (FROM valued AS v WHERE NOT v.is_new) AS b
    FULL JOIN (FROM valued AS v WHERE v.is_new) AS n USING (pair, method, debug_handle, output_index)
    WINDOW same_op AS (
        PARTITION BY coalesce(b.pair, n.pair), coalesce(b.method, n.method), coalesce(b.debug_handle, n.debug_handle)
    )
),
elements AS (
    SELECT m.pair, m.method, m.debug_handle, m.output_index, unnest(m.base_elements) AS truth,
        unnest(m.new_elements) AS given
    FROM matched AS m
    WHERE m.problem IS NULL
),
differences AS (
    SELECT e.*, CASE WHEN e.truth = e.given THEN 0 ELSE e.given - e.truth END AS difference,
        -- NaN and infinities that are equal on both sides don't affect the cosine.
        e.truth <> e.given OR isfinite(e.truth) AS has_angle
    FROM elements AS e
),
gaps AS (
    SELECT d.pair, d.method, d.debug_handle, d.output_index, count(*) AS elements,
        count(*) FILTER (WHERE isnan(d.truth) <> isnan(d.given)) AS nan_mismatches,
        avg(d.difference * d.difference) AS mse, sum(abs(d.difference)) AS l1, max(abs(d.difference)) AS max_abs,
        max(CASE
            WHEN d.difference = 0 THEN 0
            WHEN isinf(d.difference) THEN abs(d.difference)
            ELSE abs(d.difference) / abs(d.truth)
        END) AS max_rel,
        avg(d.truth * d.truth) FILTER (WHERE isfinite(d.truth)) AS truth_power,
        sum(d.truth * d.truth) FILTER (WHERE d.has_angle) AS truth_square,
        sum(d.given * d.given) FILTER (WHERE d.has_angle) AS given_square,
        sum(d.truth * d.given) FILTER (WHERE d.has_angle) AS product
    FROM differences AS d
    GROUP BY d.pair, d.method, d.debug_handle, d.output_index
),
measured AS (
    SELECT m.*, g.elements, g.nan_mismatches,
        CASE _checked_metric(metric)
            WHEN 'mse' THEN g.mse
            WHEN 'l1' THEN g.l1
            WHEN 'max_abs' THEN g.max_abs
            WHEN 'max_rel' THEN g.max_rel
            WHEN 'snr' THEN CASE WHEN g.max_abs = 0 THEN 'inf'::DOUBLE ELSE 10 * log10(g.truth_power / g.mse) END
            WHEN 'cosine' THEN CASE
                WHEN g.max_abs = 0 THEN 1
                WHEN g.nan_mismatches > 0 THEN 'nan'::DOUBLE
                WHEN g.truth_square = 0 OR g.given_square = 0 THEN 0
                ELSE g.product / (sqrt(g.truth_square) * sqrt(g.given_square))
            END
        END AS gap
    FROM matched AS m
    LEFT JOIN gaps AS g USING (pair, method, debug_handle, output_index)
),
judged AS (
    SELECT m.*,
        CASE
            WHEN m.nan_mismatches > 0 THEN m.nan_mismatches || ' elements are NaN on one side only'
            WHEN m.problem IS NULL AND len(m.base_elements) = 0 THEN 'no elements'
            WHEN m.problem IS NULL AND coalesce(isnan(m.gap), true)
                THEN 'not defined: elements are not finite, too large or too small'
            ELSE m.problem
        END AS reason
    FROM measured AS m
)
SELECT j.pair, j.method, j.debug_handle, j.output_index, j.base_op, j.new_op, lower(metric) AS metric,
    CASE WHEN j.gap IS NOT NULL THEN j.mapping END AS mapping, j.gap, j.reason AS problem, j.elements, j.base_sizes,
    j.new_sizes, j.module_path, j.source_file, j.source_line
FROM judged AS j;
