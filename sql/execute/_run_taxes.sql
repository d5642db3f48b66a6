-- One run with a Method::execute (or Method::step) and columns of its capture.
CREATE MACRO _timed_runs(
    capture_key,
    unit,  -- unit of results, which is checked; NULL: the default one
    steps, phase, method, runs
) AS TABLE
SELECT r.*, c.time_scale, coalesce(unit, _default_unit(c.time_scale)) AS unit,
    coalesce(c.profiling_level = 'method_only', false) AS is_untraced
FROM (SELECT capture_key AS capture_id) AS k
JOIN captures AS c USING (capture_id)
JOIN runs AS r USING (capture_id)
WHERE r.executes IS NOT NULL
    AND _is_selected_run(r.iteration, r.phase, r.scope, r.is_typical, steps, phase, method, runs);

-- The same runs of all captures from one key up to another.
CREATE MACRO _answered_runs(first_key, last_key) AS TABLE
SELECT r.*, c.time_scale, _default_unit(c.time_scale) AS unit,
    coalesce(c.profiling_level = 'method_only', false) AS is_untraced
FROM runs AS r
JOIN captures AS c USING (capture_id)
WHERE r.capture_id BETWEEN first_key AND last_key AND r.executes IS NOT NULL;

-- The ticks of the executes of one run of a capture.
CREATE MACRO _executes(capture_key, steps, phase, method, runs) AS TABLE
SELECT r.capture_id, r.run_index, r.execute_ticks
FROM _selected_runs(capture_key, steps, phase, method, runs) AS r
WHERE r.executes IS NOT NULL;

-- The times of one run that executed, and its framework tax without a baseline.
CREATE MACRO _run_taxes(
    timed_runs  -- a table with rows of `_timed_runs`
) AS TABLE
WITH scaled AS (
    SELECT x.*, _multiplier(x.time_scale, x.unit) AS multiplier, _divisor(x.time_scale, x.unit) AS divisor
    FROM query_table(timed_runs) AS x
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
    CASE
        WHEN x.is_untraced THEN 'no operators traced'
        WHEN x.execute_ticks IS NOT NULL AND x.kernel_ticks IS NULL THEN 'times of its work are unknown'
        ELSE 'includes tracing'
    END AS note, x.is_untraced, x.unit
FROM scaled AS x;
