-- The framework tax of one run with a Method::execute (or Method::step). Tracing slows a run down, so the tax of a
-- traced run includes it. A baseline is a capture of the same program at level method_only. The median of its executes
-- (of the same phase, if one is requested) is then the run's time without tracing. If the baseline's runs have methods,
-- only runs of the traced run's method count. With a baseline, the tax is unknown in three cases. First, the baseline's
-- runs have no methods and the traced runs are of several. Second, the traced work alone takes longer than the
-- baseline, because tracing also slows the kernels. Third, the baseline takes more than 1.5 times as long as the traced
-- run, because it is of another program, or the device was in another state.
-- Needs: dump; else: key_averages
-- Shown: run_index!#, method, execute!~, kernels~, delegates~, operators~, tracing~, tax!~, tax_percent!%, note!, unit
-- Columns:
--   run_index: the run
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   execute: time of its Method::execute (or Method::step) events; NULL, like the rest of the row, if one of these times is impossible
--   kernels: self time of the kernels in it; NULL, like the next two columns, if ops or delegates' calls have impossible times, or take longer than the execute
--   delegates: self time of the DELEGATE_CALLs and delegates' events in it
--   operators: self time of the OPERATOR_CALLs in it without a kernel event
--   tracing: execute minus the baseline's median; NULL without a baseline
--   tax: execute, or the baseline's median, minus the work; NULL if unknown
--   tax_percent: tax in percent of execute; if the time without tracing is known, in percent of that
--   note: includes tracing; without tracing; no operators traced; times of its work are unknown; work is slower when traced; the baseline is slower; the baseline is of another method; the baseline does not distinguish methods
--   unit: unit of execute to tax
CREATE MACRO framework_tax(
    capture,
    baseline := NULL,  -- a capture of level method_only, by name, hash prefix or selector; NULL: none
    unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'all'
) AS TABLE
WITH target AS MATERIALIZED (
    FROM _capture_with_method(capture, unit, method)
),
baseline_capture AS MATERIALIZED (
    SELECT c.capture_id, c.time_scale, c.profiling_level, c.name
    FROM (SELECT _capture_id(baseline) AS capture_id WHERE baseline IS NOT NULL) AS k
    JOIN captures AS c USING (capture_id)
),
baseline_executes AS (
    SELECT r.scope, any_value(r.method) AS method,
        _in_unit(median(x.execute_ticks), any_value(_scale(k.time_scale, a.unit))) AS execute
    -- Without a baseline, the key is -1, which no capture has, so no events are read. With NULL, DuckDB would read
    -- some.
    FROM _executes((SELECT coalesce(max(k.capture_id), -1) FROM baseline_capture AS k), NULL, phase, NULL, 'all') AS x
    CROSS JOIN target AS a CROSS JOIN baseline_capture AS k
    JOIN runs AS r ON r.capture_id = k.capture_id AND r.run_index = x.run_index
    WHERE CASE
        WHEN (k.time_scale = 'cycles') <> (a.unit = 'cycles') THEN error(
            'the baseline ' || k.name || ' counts ' || k.time_scale || ', which cannot be converted to ' || a.unit
        )
        WHEN k.profiling_level = 'method_only' THEN true
        ELSE error(
            'the baseline ' || k.name || ' is of level '
            || coalesce(k.profiling_level, 'unknown') || '; it must be of level method_only'
        )
    END
    GROUP BY r.scope
),
-- The baseline's median, if there is one, for runs of a capture with a single method.
one_baseline AS (
    SELECT
        CASE
            WHEN baseline IS NOT NULL AND count(*) = 0 THEN error(coalesce(
                'no execute of the baseline ' || (SELECT any_value(k.name) FROM baseline_capture AS k)
                || ' is of phase ' || phase || '; set the phases with etq label --phase',
                'the baseline ' || baseline::VARCHAR || ' has no execute'
            ))
            WHEN count(*) = 1 AND any_value(m.methods) = 1 THEN any_value(b.execute)
        END AS execute,
        any_value(b.method) AS method
    FROM baseline_executes AS b
    CROSS JOIN (
        SELECT count(DISTINCT r.scope) AS methods
        FROM target AS a
        JOIN runs AS r USING (capture_id)
        JOIN signatures AS s
            ON s.capture_id = r.capture_id
            AND s.block_index = r.block_index
            AND s.name IN ('Method::execute', 'Method::step')
    ) AS m
),
timed_runs AS (
    FROM _timed_runs(
        (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a), steps, phase, method, runs
    ) AS t
),
work_times AS (
    SELECT x.run_index, x.scope, x.execute, x.kernels, x.delegates, x.operators, x.work, x.tax AS traced_tax, x.note,
        x.is_untraced, x.unit,
        coalesce(
            b.execute,
            -- Two known methods are different.
            CASE WHEN x.method IS NULL OR o.method IS NULL THEN o.execute END
        ) AS untraced,
        x.method <> o.method AS is_of_another
    FROM _run_taxes('timed_runs') AS x CROSS JOIN one_baseline AS o
    LEFT JOIN baseline_executes AS b USING (scope)
)
SELECT
    w.run_index, w.scope AS method, w.execute, w.kernels, w.delegates, w.operators, w.execute - w.untraced AS tracing,
    CASE
        WHEN w.is_untraced OR w.work > w.untraced OR w.untraced > 1.5 * w.execute
            OR baseline IS NOT NULL AND w.untraced IS NULL
            THEN NULL
        ELSE coalesce(w.untraced - w.work, w.traced_tax)
    END AS tax,
    100e0 * tax / nullif(coalesce(w.untraced, w.execute), 0) AS tax_percent,
    CASE
        WHEN w.is_untraced OR w.work IS NULL THEN w.note
        WHEN w.work > w.untraced THEN 'work is slower when traced'
        WHEN w.untraced > 1.5 * w.execute THEN 'the baseline is slower'
        WHEN w.untraced IS NOT NULL THEN 'without tracing'
        WHEN w.is_of_another THEN 'the baseline is of another method'
        WHEN baseline IS NOT NULL THEN 'the baseline does not distinguish methods'
        ELSE w.note
    END AS note,
    w.unit
FROM work_times AS w
ORDER BY w.run_index;

-- The rows of `framework_tax` of each capture, without a baseline.
CREATE MACRO _framework_taxes(
    taxes  -- a table with rows of `_run_taxes`
) AS TABLE
SELECT x.capture_id, x.run_index, x.scope AS method, x.execute, x.kernels, x.delegates, x.operators,
    NULL::DOUBLE AS tracing, x.tax, x.tax_percent, x.note, x.unit
FROM query_table(taxes) AS x;
