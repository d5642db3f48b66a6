-- One sample of a comparison: a quantile of the runs of one op, or of the executes,
-- of one capture. An item is the same op in all captures: the same event, if all
-- captures ran the same program; else by method, module, op type and order, if all
-- have a complete record; else by name and order, see `_aligned_ops`; of traces by
-- kind and name. The runs of a trace are its steps; times on devices are a comparison
-- of their own, as they have another clock. If each side is one trace, and the history
-- has fewer than 10, the samples are its steps, at most 30: they share the state of the
-- machine, so they don't show how much other traces would differ. A resolution
-- of 1 us (or 1000 cycles) and more is coarse for times below 500 times that.
-- Columns:
--   comparison: index of the comparison: 0; 1 for times on devices
--   capture_id: the capture; for a step of a trace -2 * (1 + run_index), less 1 on the side of new
--   side: base, new or history
--   position: as in `_comparison_captures`
--   level: total or op; call for the time per call of an op that is called more often on one side than on the other
--   scope: scope: the method that ran; if unknown, the name of its runs
--   item: key of the item, equal in all captures; of a total, its scope
--   ticks: the quantile, in ns, or cycles if ticks are cycles
--   resolution: value that its times are multiples of, in the unit of ticks
--   is_coarse: whether that resolution is coarse for the time
--   matched: how ops are matched: event, module or name
--   op: op type if matched by module, else family
--   module_path: its module; NULL where unknown
--   kind: kernel, delegate, delegate_call, operator_call, user, framework; of traces as in `step_times`
--   instruction_id: the instruction; NULL where none is named
--   place: position among the ops of its capture
--   is_additive: whether it is part of the total
--   counted: unit of ticks: ns or cycles; for values that a backend counts, its unit
--   calls: mean number of calls in a step of a trace that has it; NULL for other captures
--   source_id: the capture
CREATE MACRO _comparison_samples(
    chosen,  -- rows of `_comparison_captures` as a list
    quantile,  -- as in `compare_ops`
    phase,  -- as in `compare_ops`
    allow_mismatch  -- as in `compare_ops`
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(chosen, recursive := true)
),
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
    FROM input AS g
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
of_other_programs AS (
    SELECT d.capture_id, d.ops, d.only_scope, d.matched
    FROM sides AS d
    WHERE d.matched <> 'event' AND NOT d.is_trace
),
aligned AS (
    FROM _aligned_ops((SELECT list(o) FROM of_other_programs AS o))
),
-- Numbers of captures, and, with a step, of the steps of traces.
times AS (
    SELECT
        o.capture_id, 0 AS step, o.op_index, o.item, o.scope, o.kind, o.label, o.family,
        o.chain_index, o.instruction_id, o.op_type, o.module_path, o.value_unit,
        o.is_additive, o.resolution, o.runs, o.calls,
        CASE quantile
            WHEN 0.25 THEN o.p25
            WHEN 0.5 THEN o.p50
            WHEN 0.9 THEN o.p90
            ELSE error(
                'quantile must be 0.25, 0.5 or 0.9, not '
                || coalesce(quantile::VARCHAR, 'NULL')
            )
        END AS ticks
    FROM op_times AS o
    WHERE o.phase IS NOT DISTINCT FROM phase
    UNION ALL
    SELECT
        t.capture_id, 1 + t.run_index, (NOT _is_step_total(t.kind))::INTEGER,
        _step_item(t.scope, t.kind, t.label), t.scope, t.kind, t.label, t.label,
        -1, NULL, NULL, NULL, 'ticks', _is_part_of_step(t.kind),
        _resolution(t.ticks), 1, t.calls, t.ticks
    FROM step_times AS t
    WHERE t.is_sample AND t.kind NOT IN ('module', 'device_module')
),
found_samples AS MATERIALIZED (
    SELECT
        (d.is_trace AND _is_device_time(t.kind))::INTEGER AS comparison,
        CASE
            WHEN d.is_by_step THEN -2 * t.step - (d.side = 'new')::BIGINT
            ELSE d.capture_id
        END AS capture_id,
        d.side,
        CASE WHEN NOT d.is_by_step THEN d.position END AS position,
        CASE t.op_index WHEN 0 THEN 'total' ELSE 'op' END AS level,
        CASE WHEN d.is_trace THEN t.scope ELSE coalesce(d.only_scope, t.scope) END
            AS scope,
        CASE
            WHEN d.is_trace THEN t.item
            WHEN t.op_index = 0 THEN coalesce(d.only_scope, t.scope)
            WHEN d.matched = 'event' THEN concat_ws(
                '|', coalesce(d.only_scope, t.scope), t.kind, t.label, t.chain_index,
                t.instruction_id
            )
            ELSE a.item
        END AS item,
        t.ticks * _op_scale(t.value_unit, d.scale) AS ticks,
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
        CASE WHEN d.is_trace THEN t.calls::DOUBLE / t.runs END AS calls,
        d.capture_id AS source_id
    FROM sides AS d
    JOIN times AS t ON t.capture_id = d.capture_id AND (t.step > 0) = d.is_by_step
    LEFT JOIN aligned AS a
        ON a.capture_id = d.capture_id AND a.op_index = t.op_index
    WHERE d.is_comparable AND NOT (d.is_by_step AND d.side = 'history')
)
FROM found_samples
UNION ALL
SELECT
    f.comparison, f.capture_id, f.side, f.position, 'call', f.scope, f.item,
    f.ticks / f.calls, f.resolution, f.is_coarse, f.matched, f.op, f.module_path,
    f.kind, f.instruction_id, f.place, f.is_additive, f.counted, f.calls, f.source_id
FROM found_samples AS f
WHERE f.level = 'op' AND f.calls IS NOT NULL
WINDOW in_item AS (PARTITION BY f.item)
QUALIFY min(f.calls) FILTER (WHERE f.side = 'base') OVER in_item
    > max(f.calls) FILTER (WHERE f.side = 'new') OVER in_item
    OR min(f.calls) FILTER (WHERE f.side = 'new') OVER in_item
    > max(f.calls) FILTER (WHERE f.side = 'base') OVER in_item;

-- Nanoseconds, or cycles, in one tick of an op's times.
CREATE MACRO _op_scale(
    value_unit,  -- of `op_times`
    scale  -- unit of one tick of the capture
) AS (
    CASE value_unit
        WHEN 'ticks' THEN scale ELSE coalesce(_nanoseconds(value_unit), 1)
    END
);
