-- What a comparison of ops rests on: a quantile of the runs of each op of each
-- capture, and of the executes. What is the same op in all captures is one item:
-- by its event, where all captures ran the same program; else by method, module
-- and op type, and order among those alike, where all have a complete record;
-- else by name and order. A resolution of 1 us (or 1000 cycles) and more is
-- coarse for what takes less than 500 times as long.
-- Columns:
--   comparison: which of the comparisons: 0, the only one
--   capture_id: the capture
--   side: base, new or history
--   position: as in `_sides`
--   level: total or op
--   scope: the method that ran, or else the name of its runs
--   item: what is the same in all captures; of a total, its scope
--   ticks: the quantile, in ns, or cycles where ticks are cycles
--   resolution: what its times are multiples of, likewise
--   is_coarse: whether that is coarse
--   matched: event, module or name
--   op: op type where matched by module, else family
--   module_path: its module; NULL where none is told
--   kind: kernel, delegate, delegate_call, operator_call, user, framework
--   instruction_id: the instruction; NULL where none is named
--   place: position among the ops of its capture
--   is_added: whether it adds up to the total
--   counted: what ticks are: ns or cycles; of what a backend counts itself, as it does
CREATE MACRO _samples(
    chosen,  -- rows of `_sides` as a list
    quantile,  -- as in `compare_ops`
    phase,  -- as in `compare_ops`
    forced  -- as in `compare_ops`
) AS TABLE
WITH
given AS MATERIALIZED (
    SELECT unnest(chosen, recursive := true)
),
found AS MATERIALIZED (
    SELECT g.*, t.capture_id IS NOT NULL AS has_times
    FROM given AS g
    LEFT JOIN (
        SELECT DISTINCT o.capture_id
        FROM given AS n
        JOIN op_times AS o ON o.capture_id = n.capture_id
        WHERE o.phase IS NOT DISTINCT FROM CASE
            WHEN phase IS NOT NULL THEN _known_phase(phase)
        END
    ) AS t
        ON t.capture_id = g.capture_id
),
empty AS (
    SELECT
        any_value(f.selector) AS selector,
        any_value(c.name) AS name,
        count(*) AS captures
    FROM found AS f
    JOIN captures AS c ON c.capture_id = f.capture_id
    WHERE f.side <> 'history'
    GROUP BY f.side
    HAVING NOT bool_or(f.has_times)
),
sides AS MATERIALIZED (
    SELECT
        s.capture_id,
        s.side,
        s.position,
        s.only_scope,
        coalesce(_nanoseconds(c.time_scale), 1) AS scale,
        CASE c.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'ns' END AS counted,
        bool_and(coalesce(r.is_complete, false)) OVER () AS has_records,
        CASE
            WHEN EXISTS (SELECT 1 FROM empty AS e) THEN error((
                SELECT
                    CASE e.captures
                        WHEN 1 THEN e.name || ' has no'
                        ELSE 'no capture of ' || e.selector || ' has an'
                    END || ' execute' || coalesce(' of phase ' || phase, '')
                    || ' to compare: of an ETDump or prof_result, the times of '
                    || 'Method::execute are, and of what is in it'
                FROM empty AS e
                ORDER BY e.selector
                LIMIT 1
            ))
            WHEN forced
                OR min(coalesce(c.profiling_level, 'none')) OVER ()
                    = max(coalesce(c.profiling_level, 'none')) OVER ()
                THEN true
            ELSE error(
                'captures of different profiling levels ('
                || string_agg(DISTINCT coalesce(c.profiling_level, 'none'), ', ')
                    OVER ()
                || ') are compared: tracing takes time itself; forced := true does it '
                || 'all the same'
            )
        END AS is_alike
    FROM found AS s
    JOIN captures AS c ON c.capture_id = s.capture_id
    LEFT JOIN records AS r ON r.record_id = c.record_id
    WHERE s.has_times OR EXISTS (SELECT 1 FROM empty AS e)
),
ops AS MATERIALIZED (
    SELECT
        o.*,
        coalesce(d.only_scope, o.scope) AS method,
        d.side,
        d.position,
        CASE o.value_unit
            WHEN 'ticks' THEN d.scale ELSE coalesce(_nanoseconds(o.value_unit), 1)
        END AS scale,
        CASE quantile
            WHEN 0.25 THEN o.p25
            WHEN 0.5 THEN o.p50
            WHEN 0.9 THEN o.p90
            ELSE error(
                'quantile is 0.25, 0.5 or 0.9, not '
                || coalesce(quantile::VARCHAR, 'NULL')
            )
        END AS ticks,
        d.has_records,
        d.counted,
        concat_ws(
            '|', coalesce(d.only_scope, o.scope), o.kind, o.label, o.chain_index,
            o.instruction_id
        ) AS event
    FROM sides AS d
    JOIN op_times AS o ON o.capture_id = d.capture_id
    WHERE o.phase IS NOT DISTINCT FROM phase AND d.is_alike
),
way AS (
    SELECT
        CASE
            WHEN count(DISTINCT p.program) = 1 THEN 'event'
            WHEN bool_and(p.has_records) THEN 'module'
            ELSE 'name'
        END AS matched
    FROM (
        SELECT
            any_value(o.has_records) AS has_records,
            string_agg(o.event, chr(10) ORDER BY o.op_index) AS program
        FROM ops AS o
        GROUP BY o.capture_id
    ) AS p
)
SELECT
    0 AS comparison,
    o.capture_id,
    o.side,
    o.position,
    CASE o.op_index WHEN 0 THEN 'total' ELSE 'op' END AS level,
    o.method AS scope,
    CASE
        WHEN o.op_index = 0 THEN o.method
        WHEN w.matched = 'event' THEN o.event
        WHEN w.matched = 'module' THEN concat_ws(
            '|', o.method, coalesce(o.module_path, '?'),
            coalesce(o.op_type, o.family), row_number() OVER among_alike
        )
        ELSE concat_ws(
            '|', o.method, o.kind, o.family, row_number() OVER among_alike
        )
    END AS item,
    o.ticks * o.scale AS ticks,
    o.resolution * o.scale AS resolution,
    _counts_coarsely(o.ticks, o.resolution, o.scale) AS is_coarse,
    w.matched,
    CASE w.matched WHEN 'module' THEN coalesce(o.op_type, o.family) ELSE o.family END
        AS op,
    o.module_path,
    o.kind,
    o.instruction_id,
    o.op_index AS place,
    o.is_added,
    CASE o.value_unit
        WHEN 'ticks' THEN o.counted WHEN 'cycles' THEN 'cycles' ELSE 'ns'
    END AS counted
FROM ops AS o
CROSS JOIN way AS w
WINDOW among_alike AS (
    PARTITION BY
        o.capture_id,
        o.scope,
        CASE w.matched WHEN 'module' THEN o.module_path ELSE o.kind END,
        CASE w.matched
            WHEN 'module' THEN coalesce(o.op_type, o.family)
            ELSE o.family
        END
    ORDER BY o.op_index
);

-- The same of the modules of captures that are compared.
-- Columns:
--   comparison: which of the comparisons: 0, the only one
--   capture_id: the capture
--   side: base, new or history
--   position: as in `_sides`
--   level: always module
--   scope: the method that ran, or else the name of its runs
--   item: scope and module
--   ticks: the quantile, in ns, or cycles where ticks are cycles
--   resolution: what its times are multiples of, as the sum of all its runs is, likewise
--   is_coarse: whether that is coarse
--   module_path: the module; empty for the model itself
CREATE MACRO _module_samples(
    chosen,  -- rows of `_sides` as a list
    quantile,  -- as in `compare_ops`
    phase  -- as in `compare_ops`
) AS TABLE
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
    _counts_coarsely(m.ticks, m.resolution, m.scale) AS is_coarse,
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
        coalesce(_nanoseconds(c.time_scale), 1) AS scale
    FROM (
        SELECT
            f.*,
            CASE
                WHEN k.record_id IS NULL AND f.side <> 'history' THEN error(
                    k.name || ' has no record, so that its events have no modules; '
                    || 'give it one: etq link ' || k.name || ' RECORD'
                )
                ELSE true
            END AS is_linked
        FROM (SELECT unnest(chosen, recursive := true)) AS f
        JOIN captures AS k ON k.capture_id = f.capture_id
    ) AS d
    JOIN captures AS c ON c.capture_id = d.capture_id
    JOIN module_times AS t ON t.capture_id = d.capture_id
    WHERE t.phase IS NOT DISTINCT FROM phase AND d.is_linked
) AS m;
