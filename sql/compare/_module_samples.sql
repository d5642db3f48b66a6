-- One sample of a comparison of modules, like those of ops; of traces with the calls
-- of modules, which a record of Python functions has.
-- Columns:
--   comparison: index of the comparison: 0; 1 for times on devices
--   capture_id: the capture; for a step as in `_comparison_samples`
--   side: base, new or history
--   position: as in `_comparison_captures`
--   level: always module
--   scope: the method that ran; if unknown, the name of its runs
--   item: key of the item: scope and module
--   op: always NULL: modules are of no op type
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
linked AS MATERIALIZED (
    SELECT
        f.capture_id,
        f.side,
        f.position,
        f.only_scope,
        f.is_trace,
        f.is_trace
        AND phase IS NULL
        AND count(*) FILTER (WHERE f.side = 'base') OVER () = 1
        AND count(*) FILTER (WHERE f.side = 'new') OVER () = 1
        AND count(*) FILTER (WHERE f.side = 'history') OVER () < 10 AS is_by_step,
        coalesce(_nanoseconds(k.time_scale), 1) AS scale,
        CASE
            WHEN NOT f.is_trace AND k.record_id IS NULL AND f.side <> 'history'
                THEN error(
                    k.name || ' has no record, so its events have no modules; '
                    || 'link one: etq link ' || k.name || ' RECORD, or for '
                    || 'files --etrecord'
                )
            ELSE true
        END AS is_linked
    FROM (SELECT unnest(chosen, recursive := true)) AS f
    JOIN captures AS k ON k.capture_id = f.capture_id
),
times AS (
    SELECT
        t.capture_id, 0 AS step, t.scope, t.module_path, false AS is_on_device,
        CASE quantile WHEN 0.25 THEN t.p25 WHEN 0.5 THEN t.p50 ELSE t.p90 END AS ticks,
        CASE
            WHEN t.total_ticks % 1000000 = 0 THEN 1000000
            WHEN t.total_ticks % 1000 = 0 THEN 1000
            ELSE 1
        END AS resolution
    FROM module_times AS t
    WHERE t.phase IS NOT DISTINCT FROM phase
    UNION ALL
    SELECT
        t.capture_id, 1 + t.run_index, t.scope, t.label, _is_device_time(t.kind),
        t.ticks, _resolution(t.ticks)
    FROM step_times AS t
    WHERE t.is_sample AND t.kind IN ('module', 'device_module')
)
SELECT
    m.comparison,
    m.capture_id,
    m.side,
    m.position,
    'module' AS level,
    m.scope,
    m.scope || '|' || m.module_path AS item,
    NULL::VARCHAR AS op,
    m.ticks * m.scale AS ticks,
    m.resolution * m.scale AS resolution,
    _is_clock_coarse(m.ticks, m.resolution, m.scale) AS is_coarse,
    m.module_path
FROM (
    SELECT
        (
            t.is_on_device OR d.is_trace AND ends_with(t.scope, ' on devices')
        )::INTEGER AS comparison,
        CASE
            WHEN d.is_by_step THEN -2 * t.step - (d.side = 'new')::BIGINT
            ELSE d.capture_id
        END AS capture_id,
        d.side,
        CASE WHEN NOT d.is_by_step THEN d.position END AS position,
        CASE WHEN d.is_trace THEN t.scope ELSE coalesce(d.only_scope, t.scope) END
            AS scope,
        t.module_path,
        t.ticks,
        t.resolution,
        d.scale
    FROM linked AS d
    JOIN times AS t ON t.capture_id = d.capture_id AND (t.step > 0) = d.is_by_step
    WHERE d.is_linked AND NOT (d.is_by_step AND d.side = 'history')
) AS m
-- Never a row, but no plan can leave the error out, as where no capture has modules.
UNION ALL
SELECT NULL, NULL, d.side, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM linked AS d
WHERE NOT d.is_linked;
