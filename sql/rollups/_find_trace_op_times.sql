-- Whether a step time of a trace is a device's.
CREATE MACRO _is_device_time(kind) AS (starts_with(kind, 'device_'));

-- The suffix of the name of an op or annotation of a trace whose time is that of the work that it launched.
CREATE MACRO _device_suffix(kind) AS (
    CASE WHEN kind IN ('device_op', 'device_annotation') THEN ' on devices' ELSE '' END
);

-- Whether a step time of a trace is the whole step's.
CREATE MACRO _is_step_total(kind) AS (kind IN ('framework', 'device_total'));

-- Whether a step time of a trace is an outermost part of the step's time.
CREATE MACRO _is_part_of_step(kind) AS (
    kind NOT IN ('annotation', 'module', 'device_op', 'device_annotation', 'device_module')
);

-- The identity of the item that a step time of a trace is about, in all captures.
CREATE MACRO _step_item(scope, kind, label) AS (
    CASE WHEN _is_step_total(kind) THEN scope ELSE concat_ws('|', scope, kind, '?', label, 1) END
);

-- One row of `step_times` of a trace, once for all phases and once for the phase of its step, if it has one.
CREATE MACRO _phase_step_times(capture_key) AS TABLE
WITH timed AS (
    SELECT t.*,
        -- The time of the step outside of its ops.
        CASE
            WHEN t.kind = 'framework' THEN sum(
                CASE t.kind WHEN 'framework' THEN t.ticks ELSE -t.ticks END
            ) FILTER (WHERE _is_part_of_step(t.kind)) OVER (PARTITION BY t.run_index, t.scope)
        END AS outside_ticks
    FROM step_times AS t
    WHERE t.capture_id = capture_key
)
SELECT t.capture_id, t.scope, t.kind, t.label, t.calls, t.ticks, t.outside_ticks, NULL AS phase FROM timed AS t
UNION ALL
SELECT t.capture_id, t.scope, t.kind, t.label, t.calls, t.ticks, t.outside_ticks, r.phase
FROM timed AS t
JOIN runs AS r USING (capture_id, run_index)
WHERE r.phase IS NOT NULL;

-- The clock of a step time of a trace, in `capture_clocks`.
CREATE MACRO _clock_of_step_time(kind) AS (CASE WHEN _is_device_time(kind) THEN 'device' ELSE 'host' END);

-- The time of one op of a trace over its steps. A row of the table `op_times`, from `step_times`.
CREATE MACRO _find_trace_op_times(capture_key) AS TABLE
WITH numbers AS (
    SELECT p.capture_id, p.phase, p.scope, p.kind, p.label, count(*)::INTEGER AS runs, sum(p.calls)::BIGINT AS calls,
        try_cast(sum(p.ticks) AS BIGINT) AS total_ticks, quantile_cont(p.ticks::DOUBLE, [0.25, 0.5, 0.9]) AS quantiles,
        quantile_cont(p.outside_ticks::DOUBLE, [0.25, 0.5, 0.9]) AS outside
    FROM _phase_step_times(capture_key) AS p
    WHERE p.kind NOT IN ('module', 'device_module')
    GROUP BY p.capture_id, p.phase, p.scope, p.kind, p.label
),
placed AS (
    SELECT n.*,
        -- The totals are ordered last.
        CASE
            WHEN NOT _is_step_total(n.kind) THEN dense_rank() OVER (
                ORDER BY _is_step_total(n.kind), n.scope, n.kind, n.label
            )
            ELSE 0
        END AS op_index
    FROM numbers AS n
)
SELECT p.capture_id, p.op_index::INTEGER AS op_index, p.phase, _step_item(p.scope, p.kind, p.label) AS item, p.scope,
    p.kind, p.label, p.label AS family, -1::BIGINT AS chain_index, NULL::INTEGER AS instruction_id,
    NULL::VARCHAR AS op_type, NULL::VARCHAR AS module_path, 1::INTEGER AS place_in_module, 1::INTEGER AS place_in_kind,
    'ticks' AS value_unit, _is_part_of_step(p.kind) AS is_additive, p.runs, p.calls, p.total_ticks,
    p.quantiles[1] AS p25, p.quantiles[2] AS p50, p.quantiles[3] AS p90, p.outside[1] AS outside_p25,
    p.outside[2] AS outside_p50, p.outside[3] AS outside_p90, _resolution(k.step_ticks) AS resolution
FROM placed AS p
LEFT JOIN capture_clocks AS k ON k.capture_id = p.capture_id AND k.clock = _clock_of_step_time(p.kind)
ORDER BY p.capture_id, p.op_index, p.scope, p.phase NULLS FIRST;

-- The time of one module of a trace over its steps, with its submodules. A row of the table `module_times`, from
-- `step_times`.
CREATE MACRO _find_trace_module_times(capture_key) AS TABLE
SELECT p.capture_id, p.phase, p.scope, p.label AS module_path, count(*)::INTEGER AS runs,
    try_cast(sum(p.ticks) AS BIGINT) AS total_ticks, quantile_cont(p.ticks::DOUBLE, 0.25) AS p25,
    quantile_cont(p.ticks::DOUBLE, 0.5) AS p50, quantile_cont(p.ticks::DOUBLE, 0.9) AS p90,
    _resolution(max(k.step_ticks)) AS resolution
FROM _phase_step_times(capture_key) AS p
LEFT JOIN capture_clocks AS k ON k.capture_id = p.capture_id AND k.clock = _clock_of_step_time(p.kind)
WHERE p.kind IN ('module', 'device_module')
GROUP BY p.capture_id, p.phase, p.scope, p.label
ORDER BY p.capture_id, p.scope, p.label, p.phase NULLS FIRST;

-- The identity of the ops of one trace. A row of the table `capture_ops`, from `op_times`.
CREATE MACRO _find_trace_ops(capture_key) AS TABLE
SELECT o.capture_id, min(o.scope) FILTER (WHERE o.kind = 'framework') AS scope, false AS is_method,
    md5(string_agg(concat_ws('|', o.kind, o.label), chr(10) ORDER BY o.op_index, o.kind)) AS ops_hash
FROM op_times AS o
WHERE o.capture_id = capture_key AND o.phase IS NULL
GROUP BY o.capture_id
ORDER BY o.capture_id;
