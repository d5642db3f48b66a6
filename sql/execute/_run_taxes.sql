-- The executes of one recorded run, and the work in them: one row per run with a Method::execute (or Method::step). All
-- times are NULL if those of one of its executes are impossible.
CREATE MACRO _executes(capture_key, steps, phase, method, runs) AS TABLE
WITH
added AS (
    SELECT
        t.run_index,
        bool_or(t.is_impossible AND t.event_index = t.execute_index) AS is_impossible,
        _sum_where(t.duration_ticks, t.event_index = t.execute_index) AS execute_ticks,
        _sum_where(t.self_ticks, s.kind = 'kernel') AS kernel_ticks,
        _sum_where(t.self_ticks, s.kind IN ('delegate_call', 'delegate'))
            AS delegate_ticks,
        _sum_where(t.self_ticks, s.kind = 'operator_call' AND t.children = 0)
            AS operator_ticks
    FROM _self_times(capture_key, steps, phase, method, runs) AS t
    CROSS JOIN (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE t.execute_index IS NOT NULL AND t.is_additive
    GROUP BY t.run_index
)
SELECT
    d.run_index,
    CASE WHEN NOT d.is_impossible THEN d.execute_ticks END AS execute_ticks,
    CASE WHEN NOT d.is_impossible THEN d.kernel_ticks END AS kernel_ticks,
    CASE WHEN NOT d.is_impossible THEN d.delegate_ticks END AS delegate_ticks,
    CASE WHEN NOT d.is_impossible THEN d.operator_ticks END AS operator_ticks
FROM added AS d;

-- The times of one run that executed, and its framework tax without a baseline.
CREATE MACRO _run_taxes(capture_key, unit, steps, phase, method, runs) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT c.capture_id, c.unit, c.scale, coalesce(c.profiling_level = 'method_only', false) AS is_untraced
    FROM _scaled_key(capture_key, unit) AS c
)
SELECT
    x.run_index, r.scope, r.method,
    _in_unit(x.execute_ticks, a.scale) AS execute,
    _in_unit(x.kernel_ticks, a.scale) AS kernels,
    _in_unit(x.delegate_ticks, a.scale) AS delegates,
    _in_unit(x.operator_ticks, a.scale) AS operators,
    _in_unit(x.kernel_ticks + x.delegate_ticks + x.operator_ticks, a.scale) AS work,
    CASE
        WHEN NOT a.is_untraced
            THEN _in_unit(x.execute_ticks - x.kernel_ticks - x.delegate_ticks - x.operator_ticks, a.scale)
    END AS tax,
    100e0 * tax / nullif(execute, 0) AS tax_percent,
    CASE WHEN a.is_untraced THEN 'no operators traced' ELSE 'includes tracing' END
        AS note,
    a.is_untraced, a.unit
FROM _executes((SELECT a.capture_id FROM target AS a), steps, phase, method, runs) AS x
CROSS JOIN target AS a
JOIN runs AS r USING (capture_id, run_index);
