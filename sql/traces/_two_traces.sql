-- Both sides of a comparison of two PyTorch traces; it is an error if one is of another format.
CREATE MACRO _two_traces(base, new, unit) AS TABLE
WITH sides AS MATERIALIZED (
    SELECT a.capture_id, a.unit, a.scale, false AS is_new FROM _scaled_capture(base, unit) AS a
    UNION ALL
    SELECT b.capture_id, b.unit, b.scale, true FROM _scaled_capture(new, unit) AS b
),
formats AS (
    SELECT s.*,
        -- Where both sides are of another format, the error is about base.
        min(CASE WHEN c.format <> 'torch_trace' THEN s.is_new::INTEGER || c.name || ' is of format ' || c.format
        END) OVER () AS other
    FROM sides AS s
    JOIN captures AS c USING (capture_id)
)
SELECT
    CASE
        WHEN f.other IS NULL THEN f.capture_id
        ELSE error(substr(f.other, 2) || '; name two PyTorch traces')
    END AS capture_id,
    f.scale, f.unit, f.is_new
FROM formats AS f;
