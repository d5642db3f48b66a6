-- One sample of a comparison: a quantile of the runs of one op, or of the executes,
-- of one capture. An item is the same op in all captures: the same event, if all
-- captures ran the same program; else by method, module, op type and order, if all
-- have a complete record; else by name and order, see `etq.verdicts.alignment`; of
-- traces by kind and name. The runs of a trace are its steps; times on devices are a
-- comparison of their own, as they have another clock. If each side is one trace, and
-- the history has fewer than 10, the samples are its steps, at most 30: they share the
-- state of the machine, so they don't show how much other traces would differ. A
-- resolution of 1 us (or 1000 cycles) and more is coarse for times below 500 times that.
-- Columns:
--   comparison: index of the comparison: 0; 1 for times on devices
--   capture_id: the capture
--   step: for a step of a trace, its position from 1; 0 for a capture
--   side: base, new or history
--   position: as in `_comparison_captures`; NULL for a step
--   level: total, op or module; call for the time per call of an op that is called more often on one side than on the other; none for a capture without times
--   scope: scope: the method that ran; if unknown, the name of its runs
--   item: key of the item, equal in all captures; of a total, its scope
--   ticks: the quantile, in ns, or cycles if ticks are cycles
--   slow_ticks: with the quantile 0.25, the quantile 0.9: the slowest tenth of its runs; NULL otherwise
--   resolution: value that its times are multiples of, in the unit of ticks
--   is_coarse: whether that resolution is coarse for the time
--   matched: how ops are matched: event, module or name
--   op: op type if matched by module, else family; NULL for modules
--   module_path: its module; NULL where unknown
--   kind: kernel, delegate, delegate_call, operator_call, user, framework, module; of traces as in `step_times`
--   instruction_id: the instruction; NULL where none is named
--   place: position among the ops of its capture
--   is_additive: whether it is part of the total
--   counted: unit of ticks: ns or cycles; for values that a backend counts, its unit
--   calls: mean number of calls in a step of a trace that has it; NULL for other captures
--   is_trace: whether the capture is a PyTorch trace
CREATE MACRO _comparison_samples(
    base,  -- as in `compare_ops`
    new,  -- as in `compare_ops`
    quantile,  -- as in `compare_ops`
    phase,  -- as in `compare_ops`
    history,  -- as in `compare_ops`
    allow_mismatch  -- as in `compare_ops`
) AS TABLE
WITH
found AS MATERIALIZED (
    SELECT
        g.*,
        CASE
            WHEN phase IS NULL THEN g.ops IS NOT NULL
            ELSE g.capture_id IN (
                SELECT o.capture_id
                FROM op_times AS o
                WHERE phase IS NOT NULL AND o.phase = _known_phase(phase)
            )
        END AS has_times
    FROM _comparison_captures(base, new, history) AS g
),
-- The error message for a side without times.
empty AS (
    SELECT min(e.message) AS message
    FROM (
        SELECT
            CASE WHEN NOT bool_or(f.has_times) THEN
                CASE count(*)
                    WHEN 1 THEN any_value(f.name) || ' has no'
                    ELSE 'no capture of ' || any_value(f.selector) || ' has an'
                END
                || CASE WHEN bool_and(f.is_trace) THEN ' step' ELSE ' execute' END
                || coalesce(' of phase ' || phase, '')
                || ' to compare: only ETDumps and prof_results with Method::execute '
                || 'events, and PyTorch traces with events of the host, can be compared'
            END AS message
        FROM found AS f
        WHERE f.side <> 'history'
        GROUP BY f.side
    ) AS e
),
sides AS MATERIALIZED (
    SELECT
        s.capture_id,
        s.side,
        s.position,
        s.only_scope,
        s.ops,
        s.is_trace,
        phase IS NULL
        AND s.is_trace
        AND count(*) FILTER (WHERE s.side = 'base') OVER () = 1
        AND count(*) FILTER (WHERE s.side = 'new') OVER () = 1
        AND count(*) FILTER (WHERE s.side = 'history') OVER () < 10 AS is_by_step,
        coalesce(_nanoseconds(s.time_scale), 1) AS scale,
        CASE s.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'ns' END AS counted,
        CASE
            WHEN min(s.ops) OVER () = max(s.ops) OVER () THEN 'event'
            WHEN bool_and(coalesce(r.is_complete, false)) OVER () THEN 'module'
            ELSE 'name'
        END AS matched,
        CASE
            WHEN e.message IS NOT NULL THEN error(e.message)
            WHEN bool_or(s.is_trace) OVER () THEN _have_same_steps(
                min(s.name) FILTER (WHERE s.is_trace) OVER (),
                min(s.name) FILTER (WHERE NOT s.is_trace) OVER (),
                min(s.scope) OVER (),
                max(s.scope) OVER ()
            )
            WHEN NOT allow_mismatch
                AND s.side <> 'history'
                AND min(m.value) OVER in_side < max(m.value) OVER in_side
                THEN error(
                    s.side || ' has captures of several models, '
                    || min(m.value) OVER in_side || ' and ' || max(m.value) OVER in_side
                    || ': compare them one by one, as with model='
                    || min(m.value) OVER in_side || ',...; to compare them '
                    || 'nevertheless: --allow-mismatch, or in SQL '
                    || 'allow_mismatch := true'
                )
            WHEN allow_mismatch
                OR min(coalesce(s.profiling_level, 'none')) OVER ()
                    = max(coalesce(s.profiling_level, 'none')) OVER ()
                THEN true
            ELSE error(
                'captures of different profiling levels ('
                || string_agg(DISTINCT coalesce(s.profiling_level, 'none'), ', ')
                    OVER ()
                || ') cannot be compared, as tracing takes time; to compare them '
                || 'nevertheless: --allow-mismatch, or allow_mismatch := true in SQL'
            )
        END AS is_comparable
    FROM found AS s
    CROSS JOIN empty AS e
    LEFT JOIN records AS r ON r.record_id = s.record_id
    LEFT JOIN labels AS m ON m.capture_id = s.capture_id AND m.key = 'model'
    WHERE s.has_times OR e.message IS NOT NULL
    WINDOW in_side AS (PARTITION BY s.side)
),
named AS (
    SELECT
        o.capture_id::BIGINT AS capture_id,
        o.op_index::BIGINT AS op_index,
        d.ops AS program,
        CASE d.matched
            WHEN 'module' THEN concat_ws(
                '|', coalesce(d.only_scope, o.scope), coalesce(o.module_path, '?'),
                coalesce(o.op_type, o.family)
            )
            ELSE concat_ws('|', coalesce(d.only_scope, o.scope), o.kind, o.family)
        END AS name,
        d.matched = 'module' AS is_by_module,
        o.p25::DOUBLE AS ticks
    FROM sides AS d
    JOIN op_times AS o ON o.capture_id = d.capture_id
    WHERE d.matched <> 'event'
        AND NOT d.is_trace
        AND o.phase IS NULL
        AND o.op_index > 0
),
aligned AS (
    SELECT unnest(
        needs_etq_to_align(
            (SELECT list(n ORDER BY n.capture_id, n.op_index) FROM named AS n)
        ),
        recursive := true
    )
),
-- Of captures, and, with a step, of the steps of traces.
times AS (
    SELECT
        o.capture_id, 0 AS step, CASE o.op_index WHEN 0 THEN 'total' ELSE 'op' END
            AS level,
        o.op_index, o.item, o.scope, o.kind, o.label, o.family, o.chain_index,
        o.instruction_id, o.op_type, o.module_path, o.value_unit, o.is_additive,
        o.resolution, o.calls::DOUBLE / o.runs AS calls,
        CASE quantile
            WHEN 0.25 THEN o.p25
            WHEN 0.5 THEN o.p50
            WHEN 0.9 THEN o.p90
            ELSE error(
                'quantile must be 0.25, 0.5 or 0.9, not '
                || coalesce(quantile::VARCHAR, 'NULL')
            )
        END AS ticks,
        CASE quantile WHEN 0.25 THEN o.p90 END AS slow_ticks
    FROM op_times AS o
    WHERE o.phase IS NOT DISTINCT FROM phase
    UNION ALL
    SELECT
        m.capture_id, 0, 'module', NULL, NULL, m.scope, 'module', m.module_path, NULL,
        NULL, NULL, NULL, m.module_path, 'ticks', false,
        CASE
            WHEN m.total_ticks % 1000000 = 0 THEN 1000000
            WHEN m.total_ticks % 1000 = 0 THEN 1000
            ELSE 1
        END,
        NULL,
        CASE quantile WHEN 0.25 THEN m.p25 WHEN 0.5 THEN m.p50 ELSE m.p90 END, NULL
    FROM module_times AS m
    WHERE m.phase IS NOT DISTINCT FROM phase
    UNION ALL
    SELECT
        t.capture_id, 1 + t.run_index,
        CASE
            WHEN t.kind IN ('module', 'device_module') THEN 'module'
            WHEN _is_step_total(t.kind) THEN 'total'
            ELSE 'op'
        END,
        (NOT _is_step_total(t.kind))::INTEGER, _step_item(t.scope, t.kind, t.label),
        t.scope, t.kind, t.label, t.label, -1, NULL, NULL,
        CASE WHEN t.kind IN ('module', 'device_module') THEN t.label END, 'ticks',
        _is_part_of_step(t.kind), _resolution(t.ticks),
        CASE WHEN t.kind NOT IN ('module', 'device_module') THEN t.calls::DOUBLE END,
        t.ticks, NULL
    FROM step_times AS t
    WHERE t.is_sample
),
found_samples AS MATERIALIZED (
    SELECT
        (
            d.is_trace AND CASE
                WHEN t.kind = 'module' THEN ends_with(t.scope, ' on devices')
                ELSE _is_device_time(t.kind)
            END
        )::INTEGER AS comparison,
        d.capture_id,
        t.step,
        d.side,
        CASE WHEN NOT d.is_by_step THEN d.position END AS position,
        t.level,
        CASE WHEN d.is_trace THEN t.scope ELSE coalesce(d.only_scope, t.scope) END
            AS scope,
        CASE
            WHEN t.level = 'module' THEN
                CASE WHEN d.is_trace THEN t.scope ELSE coalesce(d.only_scope, t.scope)
                END || '|' || t.module_path
            WHEN d.is_trace THEN t.item
            WHEN t.level = 'total' THEN coalesce(d.only_scope, t.scope)
            WHEN d.matched = 'event' THEN concat_ws(
                '|', coalesce(d.only_scope, t.scope), t.kind, t.label, t.chain_index,
                t.instruction_id
            )
            ELSE a.item
        END AS item,
        t.ticks * _op_scale(t.value_unit, d.scale) AS ticks,
        t.slow_ticks * _op_scale(t.value_unit, d.scale) AS slow_ticks,
        t.resolution * _op_scale(t.value_unit, d.scale) AS resolution,
        _is_clock_coarse(t.ticks, t.resolution, _op_scale(t.value_unit, d.scale))
            AS is_coarse,
        d.matched,
        CASE d.matched
            WHEN 'module' THEN coalesce(t.op_type, t.family) ELSE t.family
        END AS op,
        t.module_path,
        t.kind,
        t.instruction_id,
        t.op_index AS place,
        t.is_additive,
        CASE t.value_unit
            WHEN 'ticks' THEN d.counted WHEN 'cycles' THEN 'cycles' ELSE 'ns'
        END AS counted,
        CASE WHEN d.is_trace THEN t.calls END AS calls,
        d.is_trace
    FROM sides AS d
    JOIN times AS t ON t.capture_id = d.capture_id AND (t.step > 0) = d.is_by_step
    LEFT JOIN aligned AS a
        ON a.capture_id = d.capture_id AND a.op_index = t.op_index
    WHERE d.is_comparable AND NOT (d.is_by_step AND d.side = 'history')
)
FROM found_samples
UNION ALL
SELECT
    f.comparison, f.capture_id, f.step, f.side, f.position, 'call', f.scope, f.item,
    f.ticks / f.calls, NULL, f.resolution, f.is_coarse, f.matched, f.op, f.module_path,
    f.kind, f.instruction_id, f.place, f.is_additive, f.counted, f.calls, f.is_trace
FROM found_samples AS f
WHERE f.level = 'op' AND f.calls IS NOT NULL
WINDOW in_item AS (PARTITION BY f.item)
QUALIFY min(f.calls) FILTER (WHERE f.side = 'base') OVER in_item
    > max(f.calls) FILTER (WHERE f.side = 'new') OVER in_item
    OR min(f.calls) FILTER (WHERE f.side = 'new') OVER in_item
    > max(f.calls) FILTER (WHERE f.side = 'base') OVER in_item
UNION ALL
SELECT
    0, n.capture_id, 0, n.side, NULL, 'none', NULL, n.name, NULL, NULL, NULL, false,
    NULL,
    NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, n.is_trace
FROM found AS n
WHERE NOT n.has_times;

-- Nanoseconds, or cycles, in one tick of an op's times.
CREATE MACRO _op_scale(
    value_unit,  -- of `op_times`
    scale  -- unit of one tick of the capture
) AS (
    CASE value_unit
        WHEN 'ticks' THEN scale ELSE coalesce(_nanoseconds(value_unit), 1)
    END
);
