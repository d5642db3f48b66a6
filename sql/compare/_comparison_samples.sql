-- One sample of a comparison: a quantile of the runs of one op, or of the executes,
-- of one capture. An item is the same op in all captures: the same event, if all
-- captures ran the same program; else by method, module, op type and order, if all
-- have a complete record; else by name and order, see `_aligned_ops`. A resolution
-- of 1 us (or 1000 cycles) and more is coarse for times below 500 times that.
-- Columns:
--   comparison: index of the comparison: always 0
--   capture_id: the capture
--   side: base, new or history
--   position: as in `_comparison_captures`
--   level: total or op
--   scope: scope: the method that ran; if unknown, the name of its runs
--   item: key of the item, equal in all captures; of a total, its scope
--   ticks: the quantile, in ns, or cycles if ticks are cycles
--   resolution: value that its times are multiples of, in the unit of ticks
--   is_coarse: whether that resolution is coarse for the time
--   matched: how ops are matched: event, module or name
--   op: op type if matched by module, else family
--   module_path: its module; NULL where unknown
--   kind: kernel, delegate, delegate_call, operator_call, user, framework
--   instruction_id: the instruction; NULL where none is named
--   place: position among the ops of its capture
--   is_additive: whether it is part of the total
--   counted: unit of ticks: ns or cycles; for values that a backend counts, its unit
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
                END || ' execute' || coalesce(' of phase ' || phase, '')
                || ' to compare: only ETDumps and prof_results with '
                || 'Method::execute events can be compared'
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
        coalesce(_nanoseconds(s.time_scale), 1) AS scale,
        CASE s.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'ns' END AS counted,
        CASE
            WHEN min(s.ops) OVER () = max(s.ops) OVER () THEN 'event'
            WHEN bool_and(coalesce(r.is_complete, false)) OVER () THEN 'module'
            ELSE 'name'
        END AS matched,
        CASE
            WHEN e.message IS NOT NULL THEN error(e.message)
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
    WHERE d.matched <> 'event'
),
aligned AS (
    FROM _aligned_ops((SELECT list(o) FROM of_other_programs AS o))
)
SELECT
    0 AS comparison,
    d.capture_id,
    d.side,
    d.position,
    CASE t.op_index WHEN 0 THEN 'total' ELSE 'op' END AS level,
    coalesce(d.only_scope, t.scope) AS scope,
    CASE
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
    CASE d.matched WHEN 'module' THEN coalesce(t.op_type, t.family) ELSE t.family END
        AS op,
    t.module_path,
    t.kind,
    t.instruction_id,
    t.op_index AS place,
    t.is_additive,
    CASE t.value_unit
        WHEN 'ticks' THEN d.counted WHEN 'cycles' THEN 'cycles' ELSE 'ns'
    END AS counted
FROM sides AS d
JOIN (
    SELECT
        o.*,
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
) AS t
    ON t.capture_id = d.capture_id
LEFT JOIN aligned AS a ON a.capture_id = d.capture_id AND a.op_index = t.op_index
WHERE d.is_comparable;

-- Nanoseconds, or cycles, in one tick of an op's times.
CREATE MACRO _op_scale(
    value_unit,  -- of `op_times`
    scale  -- unit of one tick of the capture
) AS (
    CASE value_unit
        WHEN 'ticks' THEN scale ELSE coalesce(_nanoseconds(value_unit), 1)
    END
);

-- One sample of a comparison of modules, like those of ops.
-- Columns:
--   comparison: index of the comparison: always 0
--   capture_id: the capture
--   side: base, new or history
--   position: as in `_comparison_captures`
--   level: always module
--   scope: the method that ran; if unknown, the name of its runs
--   item: key of the item: scope and module
--   ticks: the quantile, in ns, or cycles if ticks are cycles
--   resolution: value that its times are multiples of, as the sum of all its runs is, in the unit of ticks
--   is_coarse: whether that resolution is coarse for the time
--   module_path: the module; empty for the model itself
CREATE MACRO _module_samples(
    chosen,  -- rows of `_comparison_captures` as a list
    quantile,  -- as in `compare_ops`
    phase  -- as in `compare_ops`
) AS TABLE
WITH
-- Computed in any case: no plan can leave the error out.
linked AS MATERIALIZED (
    SELECT
        f.capture_id,
        f.side,
        f.position,
        f.only_scope,
        coalesce(_nanoseconds(k.time_scale), 1) AS scale,
        CASE
            WHEN k.record_id IS NULL AND f.side <> 'history' THEN error(
                k.name || ' has no record, so its events have no modules; '
                || 'link one: etq link ' || k.name || ' RECORD, or for '
                || 'files --etrecord'
            )
            ELSE true
        END AS is_linked
    FROM (SELECT unnest(chosen, recursive := true)) AS f
    JOIN captures AS k ON k.capture_id = f.capture_id
)
SELECT
    0 AS comparison,
    m.capture_id,
    m.side,
    m.position,
    'module' AS level,
    m.scope,
    m.scope || '|' || m.module_path AS item,
    m.ticks * m.scale AS ticks,
    m.resolution * m.scale AS resolution,
    _is_clock_coarse(m.ticks, m.resolution, m.scale) AS is_coarse,
    m.module_path
FROM (
    SELECT
        d.capture_id,
        d.side,
        d.position,
        coalesce(d.only_scope, t.scope) AS scope,
        t.module_path,
        CASE quantile WHEN 0.25 THEN t.p25 WHEN 0.5 THEN t.p50 ELSE t.p90 END AS ticks,
        CASE
            WHEN t.total_ticks % 1000000 = 0 THEN 1000000
            WHEN t.total_ticks % 1000 = 0 THEN 1000
            ELSE 1
        END AS resolution,
        d.scale
    FROM linked AS d
    JOIN module_times AS t ON t.capture_id = d.capture_id
    WHERE t.phase IS NOT DISTINCT FROM phase AND d.is_linked
) AS m;
