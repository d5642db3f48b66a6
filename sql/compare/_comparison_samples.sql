-- One sample of a comparison: a quantile of the runs of one op, module or total of one capture. An item is the same op
-- in all captures. If all captures ran the same program, it is the same event; else ops are matched by method, module,
-- op type and order, if all captures have a complete record; else by name and order, see `etq.verdicts.alignment`. In
-- traces, ops are matched by kind and name. The runs of a trace are its steps; times on devices are a separate
-- comparison, as they have another clock. If each side is one trace, and the history has fewer than 10, the samples are
-- at most 30 steps of the phase: they share the machine's state, so they don't show how much other traces would differ.
-- A capture without times has one sample, of level none. Where captures ran different programs, ops have no item yet:
-- rows of level to align have the place, name (item) and program (op) of each op of a capture.
CREATE MACRO _comparison_samples(
    compared,  -- the name of a table with the rows of `_comparison_captures`, or of `_placed_sides` without a history
    times,  -- the name of a table with the rows of `_compared_times`, and of `_compared_steps`
    phase, allow_mismatch
) AS TABLE
WITH found AS (
    SELECT g.*, g.format = 'torch_trace' AS is_trace,
        -- Equal in captures of the same ops; NULL where a capture has none.
        CASE WHEN g.only_scope IS NULL THEN coalesce(g.scope, '') || '|' ELSE '' END || g.ops_hash AS ops,
        CASE
            WHEN phase IS NULL THEN g.ops_hash IS NOT NULL
            ELSE g.capture_id IN (
                SELECT o.capture_id FROM op_times AS o WHERE phase IS NOT NULL AND o.phase = _known_phase(phase)
            )
        END AS has_times
    FROM query_table(compared) AS g
),
checked AS MATERIALIZED (
    SELECT f.*,
        CASE WHEN f.side <> 'history' AND NOT bool_or(f.has_times) OVER in_side
            THEN error(
                CASE count(*) OVER in_side
                    WHEN 1 THEN f.name || ' has no'
                    ELSE 'no capture of ' || f.selector || ' has an'
                END
                || CASE WHEN bool_and(f.is_trace) OVER in_side THEN ' step' ELSE ' execute' END
                || coalesce(
                    ' of phase ' || phase || ' to compare: steps of vLLM and SGLang '
                    || 'have phases, other runs those set with etq label --phase',
                    ' to compare: only ETDumps and prof_results with Method::execute '
                    || 'events, and PyTorch traces with events of the host, can be compared'
                )
            )
            ELSE f.has_times
        END AS is_measured
    FROM found AS f
    WINDOW in_side AS (PARTITION BY f.side)
),
sides AS MATERIALIZED (
    SELECT s.*, s.is_trace
        AND count(CASE WHEN s.side = 'base' THEN 1 END) OVER () = 1
        AND count(CASE WHEN s.side = 'new' THEN 1 END) OVER () = 1
        AND count(CASE WHEN s.side = 'history' THEN 1 END) OVER () < 10 AS is_by_step,
        coalesce(_nanoseconds(s.time_scale), 1) AS scale,
        CASE s.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'ns' END AS counted,
        CASE
            WHEN min(s.ops) OVER () = max(s.ops) OVER () THEN 'event'
            WHEN bool_and(coalesce(r.is_complete, false)) OVER () THEN 'module'
            ELSE 'name'
        END AS matched,
        CASE
            WHEN bool_or(s.is_trace) OVER () AND bool_or(NOT s.is_trace) OVER ()
                THEN error(
                    min(s.name) FILTER (WHERE s.is_trace) OVER ()
                    || ' is a PyTorch trace and ' || min(s.name) FILTER (WHERE NOT s.is_trace) OVER ()
                    || ' is not: only traces can be compared with traces; etq show model_map '
                    || 'shows an ETDump next to a trace of its model'
                )
            WHEN s.is_trace THEN CASE
                WHEN min(s.scope) OVER () < max(s.scope) OVER () THEN error(
                    'the traces have different steps, ' || min(s.scope) OVER ()
                    || ' and ' || max(s.scope) OVER () || ' (ProfilerStep: those of '
                    || 'the profiler; ServingStep: of vLLM or SGLang; Trace: none): '
                    || 'compare the calls of an annotation that all of them have, with --step-name NAME'
                )
                ELSE true
            END
            WHEN NOT allow_mismatch
                AND s.side <> 'history'
                AND min(m.value) OVER in_side < max(m.value) OVER in_side
                THEN error(
                    s.side || ' has captures of several models, '
                    || min(m.value) OVER in_side || ' and ' || max(m.value) OVER in_side
                    || ': compare them one by one, as with model='
                    || min(m.value) OVER in_side || ',...; to compare them '
                    || 'nevertheless: --allow-mismatch, or in SQL allow_mismatch := true'
                )
            WHEN allow_mismatch
                OR min(coalesce(s.profiling_level, 'none')) OVER () = max(coalesce(s.profiling_level, 'none')) OVER ()
                THEN true
            ELSE error(
                'captures of different profiling levels ('
                || array_to_string(list_sort(list(DISTINCT coalesce(s.profiling_level, 'none')) OVER ()), ', ')
                || ') cannot be compared, as tracing takes time; to compare them '
                || 'nevertheless: --allow-mismatch, or allow_mismatch := true in SQL'
            )
        END AS is_comparable
    FROM checked AS s
    LEFT JOIN records AS r USING (record_id)
    LEFT JOIN labels AS m ON m.capture_id = s.capture_id AND m.key = 'model'
    WHERE s.is_measured
    WINDOW in_side AS (PARTITION BY s.side)
)
SELECT
    (
        d.is_trace AND CASE
            WHEN t.kind = 'module' THEN ends_with(t.scope, ' on devices')
            ELSE _is_device_time(t.kind)
        END
    )::BIGINT AS comparison,
    d.capture_id::BIGINT AS capture_id, t.step::BIGINT AS step, d.side,
    CASE WHEN NOT d.is_by_step THEN d.position END::DOUBLE AS position, t.level,
    CASE WHEN d.is_trace THEN t.scope ELSE coalesce(d.only_scope, t.scope) END AS scope,
    CASE
        WHEN t.level = 'module' THEN
            CASE WHEN d.is_trace THEN t.scope ELSE coalesce(d.only_scope, t.scope) END || '|' || t.module_path
        WHEN d.is_trace THEN t.item
        WHEN t.level IN ('total', 'outside ops') THEN coalesce(d.only_scope, t.scope)
        WHEN d.matched = 'event' THEN concat_ws(
            '|', coalesce(d.only_scope, t.scope), t.kind, t.label, t.chain_index, t.instruction_id
        )
    END AS item,
    CASE d.matched WHEN 'module' THEN coalesce(t.op_type, t.family) ELSE t.family END AS op,
    (t.ticks * _op_scale(t.value_unit, d.scale))::DOUBLE AS ticks,
    (t.slow_ticks * _op_scale(t.value_unit, d.scale))::DOUBLE AS slow_ticks,
    (t.resolution * _op_scale(t.value_unit, d.scale))::DOUBLE AS resolution,
    t.calls, d.matched, d.is_trace, t.module_path, t.kind,
    t.instruction_id::DOUBLE AS instruction_id, t.op_index::DOUBLE AS place, t.is_additive,
    CASE t.value_unit WHEN 'ticks' THEN d.counted WHEN 'cycles' THEN 'cycles' ELSE 'ns' END AS counted
FROM sides AS d
JOIN query_table(times) AS t ON t.capture_id = d.capture_id AND (t.step > 0) = d.is_by_step
WHERE d.is_comparable AND NOT (d.is_by_step AND d.side = 'history')
UNION ALL
SELECT 0, o.capture_id, 0, d.side, NULL, 'to align', NULL,
    CASE d.matched
        WHEN 'module' THEN concat_ws(
            '|', coalesce(d.only_scope, o.scope), coalesce(o.module_path, '?'), coalesce(o.op_type, o.family)
        )
        ELSE concat_ws('|', coalesce(d.only_scope, o.scope), o.kind, o.family)
    END,
    d.ops, o.p25, NULL, NULL, NULL, d.matched, false, NULL, NULL, NULL, o.op_index, false, NULL
FROM sides AS d
JOIN op_times AS o USING (capture_id)
WHERE d.matched <> 'event' AND NOT d.is_trace AND o.phase IS NULL AND o.op_index > 0
UNION ALL
SELECT 0, n.capture_id, 0, n.side, NULL, 'none', NULL, n.name, NULL, NULL, NULL, NULL, NULL, NULL, n.is_trace,
    NULL, NULL, NULL, NULL, false, NULL
FROM checked AS n
WHERE NOT n.is_measured;

-- The times of captures that comparisons read: a quantile of the runs of each op, module and total.
CREATE MACRO _compared_times(quantile, phase) AS TABLE
SELECT o.capture_id, 0 AS step, CASE o.op_index WHEN 0 THEN 'total' ELSE 'op' END AS level, o.op_index, o.item,
    o.scope, o.kind, o.label, o.family, o.chain_index, o.instruction_id, o.op_type, o.module_path, o.value_unit,
    o.is_additive, o.resolution, o.calls::DOUBLE / o.runs AS calls,
    _at_quantile(o.p25, o.p50, o.p90, quantile) AS ticks, CASE quantile WHEN 0.25 THEN o.p90 END AS slow_ticks
FROM op_times AS o
WHERE o.phase IS NOT DISTINCT FROM phase
UNION ALL
SELECT o.capture_id, 0, 'outside ops', NULL, o.item, o.scope, o.kind, o.label, o.family, NULL, NULL, NULL, NULL,
    o.value_unit, false, o.resolution, NULL, _at_quantile(o.outside_p25, o.outside_p50, o.outside_p90, quantile),
    NULL
FROM op_times AS o
WHERE o.phase IS NOT DISTINCT FROM phase AND o.outside_p25 IS NOT NULL
UNION ALL
SELECT
    m.capture_id, 0, 'module', NULL, NULL, m.scope, 'module', m.module_path, NULL, NULL, NULL, NULL, m.module_path,
    'ticks', false, m.resolution, NULL, _at_quantile(m.p25, m.p50, m.p90, quantile), NULL
FROM module_times AS m
WHERE m.phase IS NOT DISTINCT FROM phase;

-- The times of steps, in the same columns: of those that are samples, or, for a phase, of those that are evenly spread
-- over its steps.
CREATE MACRO _compared_steps(
    compared,  -- as in `_comparison_samples`
    phase
) AS TABLE
WITH sampled AS (
    SELECT n.capture_id, n.run_index
    FROM (
        SELECT t.capture_id, t.run_index, row_number() OVER (PARTITION BY t.capture_id ORDER BY t.run_index) AS place,
            count(*) OVER (PARTITION BY t.capture_id) AS steps
        FROM step_times AS t
        JOIN runs AS r ON r.capture_id = t.capture_id AND r.run_index = t.run_index
        JOIN query_table(compared) AS d ON d.capture_id = t.capture_id
        WHERE phase IS NOT NULL AND r.phase = phase AND t.kind = 'framework'
    ) AS n
    WHERE _is_sampled_step(n.place, n.steps)
)
SELECT t.capture_id, 1 + t.run_index,
    CASE
        WHEN t.kind IN ('module', 'device_module') THEN 'module'
        WHEN _is_step_total(t.kind) THEN 'total'
        ELSE 'op'
    END,
    (NOT _is_step_total(t.kind))::INTEGER, _step_item(t.scope, t.kind, t.label),
    t.scope, t.kind, t.label, t.label, -1, NULL, NULL,
    CASE WHEN t.kind IN ('module', 'device_module') THEN t.label END, 'ticks',
    _is_part_of_step(t.kind), coalesce(k.resolution, 1),
    CASE WHEN t.kind NOT IN ('module', 'device_module') THEN t.calls::DOUBLE END, t.ticks, NULL
FROM step_times AS t
LEFT JOIN sampled AS m USING (capture_id, run_index)
-- The total of the same clock.
LEFT JOIN op_times AS k
    ON k.capture_id = t.capture_id AND k.scope = t.scope AND k.op_index = 0 AND k.phase IS NULL
WHERE CASE WHEN phase IS NULL THEN t.is_sample ELSE m.run_index IS NOT NULL END
UNION ALL
SELECT t.capture_id, 1 + t.run_index, 'outside ops', NULL, t.scope, t.scope, 'framework', t.scope, t.scope, NULL,
    NULL, NULL, NULL, 'ticks', false, 1, NULL,
    sum(CASE t.kind WHEN 'framework' THEN t.ticks ELSE -t.ticks END) FILTER (WHERE _is_part_of_step(t.kind)), NULL
FROM step_times AS t
LEFT JOIN sampled AS m USING (capture_id, run_index)
WHERE CASE WHEN phase IS NULL THEN t.is_sample ELSE m.run_index IS NOT NULL END AND NOT _is_device_time(t.kind)
GROUP BY t.capture_id, t.run_index, t.scope
HAVING bool_or(t.kind = 'framework');

-- One of three quantiles.
CREATE MACRO _at_quantile(p25, p50, p90, quantile) AS (
    CASE quantile
        WHEN 0.25 THEN p25
        WHEN 0.5 THEN p50
        WHEN 0.9 THEN p90
        ELSE error('quantile must be 0.25, 0.5 or 0.9, not ' || coalesce(quantile::VARCHAR, 'NULL'))
    END
);

-- Nanoseconds, or cycles, in one tick of an op's times, by the unit of these times and that of the capture's ticks.
CREATE MACRO _op_scale(value_unit, scale) AS (
    CASE value_unit WHEN 'ticks' THEN scale ELSE coalesce(_nanoseconds(value_unit), 1) END
);
