-- The executes of one recorded run, and the work in them: one row per run with a Method::execute (or Method::step). All
-- times are NULL if those of one of its executes are impossible.
CREATE MACRO _run_executes(
    times  -- a table with rows of `_timed_events`
) AS TABLE
WITH added AS (
    SELECT t.capture_id, t.run_index, any_value(t.scope) AS scope, any_value(t.method) AS method,
        any_value(t.time_scale) AS time_scale, any_value(t.unit) AS unit, any_value(t.is_untraced) AS is_untraced,
        any_value(t.is_typical) AS is_typical,
        bool_or(t.is_impossible AND t.execute_ticks IS NOT NULL) AS is_impossible,
        _sum_where(t.execute_ticks, t.execute_ticks IS NOT NULL) AS execute_ticks,
        _sum_where(t.self_ticks, t.kind = 'kernel') AS kernel_ticks,
        _sum_where(t.self_ticks, t.kind IN ('delegate_call', 'delegate')) AS delegate_ticks,
        _sum_where(t.self_ticks, t.kind = 'operator_call' AND t.children = 0) AS operator_ticks
    FROM query_table(times) AS t
    WHERE t.execute_index IS NOT NULL AND t.is_additive
    GROUP BY t.capture_id, t.run_index
)
SELECT d.capture_id, d.run_index, d.scope, d.method, d.time_scale, d.unit, d.is_untraced, d.is_typical,
    CASE WHEN NOT d.is_impossible THEN d.execute_ticks END AS execute_ticks,
    CASE WHEN NOT d.is_impossible THEN d.kernel_ticks END AS kernel_ticks,
    CASE WHEN NOT d.is_impossible THEN d.delegate_ticks END AS delegate_ticks,
    CASE WHEN NOT d.is_impossible THEN d.operator_ticks END AS operator_ticks
FROM added AS d;

-- The ticks of the executes of one run of a capture, without the work in them: no other event is read.
CREATE MACRO _executes(capture_key, steps, phase, method, runs) AS TABLE
SELECT r.capture_id, r.run_index,
    CASE WHEN bool_and(e.duration_ticks IS NOT NULL) THEN try_cast(sum(e.duration_ticks) AS BIGINT) END AS execute_ticks
FROM _selected_runs(capture_key, steps, phase, method, runs) AS r
JOIN _capture_events(capture_key) AS e USING (run_index)
WHERE e.event_index = e.execute_index AND e.is_host_ticks
GROUP BY r.capture_id, r.run_index;

-- The times of one run that executed, and its framework tax without a baseline.
CREATE MACRO _run_taxes(
    times  -- a table with rows of `_timed_events`
) AS TABLE
WITH scaled AS (
    SELECT x.*, _multiplier(x.time_scale, x.unit) AS multiplier, _divisor(x.time_scale, x.unit) AS divisor
    FROM _run_executes(times) AS x
)
SELECT x.capture_id, x.run_index, x.scope, x.method, x.is_typical, x.execute_ticks,
    x.execute_ticks * x.multiplier / x.divisor AS execute, x.kernel_ticks * x.multiplier / x.divisor AS kernels,
    x.delegate_ticks * x.multiplier / x.divisor AS delegates, x.operator_ticks * x.multiplier / x.divisor AS operators,
    (x.kernel_ticks + x.delegate_ticks + x.operator_ticks) * x.multiplier / x.divisor AS work,
    CASE
        WHEN NOT x.is_untraced THEN x.execute_ticks - x.kernel_ticks - x.delegate_ticks - x.operator_ticks
    END AS tax_ticks,
    tax_ticks * x.multiplier / x.divisor AS tax,
    100e0 * tax / nullif(execute, 0) AS tax_percent,
    CASE WHEN x.is_untraced THEN 'no operators traced' ELSE 'includes tracing' END AS note, x.is_untraced, x.unit
FROM scaled AS x;
