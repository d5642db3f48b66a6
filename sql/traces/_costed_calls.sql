-- One kernel, copy or fill of a trace as work that an op may have launched, in ticks.
CREATE MACRO _device_work(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    steps, phase,
    is_compared  -- as in `_costed_calls`
) AS TABLE
SELECT l.run_index, l.op_index, l.device_ticks AS ticks,
    CASE WHEN _is_step_run(r.name) THEN l.device_ticks ELSE 0 END AS step_ticks, l.kind, l.label,
    coalesce(l.kernel_family, nullif(l.kind, 'kernel')) AS kernel_family, l.uses_matrix_units,
    -- Through the memory of one device: a copy within it is read and written there.
    l.bytes * CASE WHEN regexp_matches(l.label, 'DtoD|DeviceToDevice') THEN 2 ELSE 1 END AS bytes
FROM query_table(launches) AS l
JOIN runs AS r ON r.capture_id = capture_key AND r.run_index = l.run_index
WHERE _is_recorded(r.iteration, r.phase, steps, phase) AND NOT (is_compared AND _is_outside_steps(r.name));

-- One op of a trace without device events as work, as in `_device_work`: its own time on the host.
CREATE MACRO _host_work(capture_key, steps, phase, is_compared) AS TABLE
SELECT c.run_index, c.event_index AS op_index, c.host_ticks AS ticks,
    CASE WHEN _is_step_run(r.name) THEN c.host_ticks ELSE 0 END AS step_ticks, 'op' AS kind, NULL::VARCHAR AS label,
    NULL::VARCHAR AS kernel_family, NULL::BOOLEAN AS uses_matrix_units, NULL::BIGINT AS bytes
FROM costed_ops AS c
JOIN runs AS r ON r.capture_id = c.capture_id AND r.run_index = c.run_index
WHERE c.capture_id = capture_key
    AND c.host_ticks IS NOT NULL
    AND _is_recorded(r.iteration, r.phase, steps, phase)
    AND NOT (is_compared AND _is_outside_steps(r.name));

-- One op of a trace by the shapes, types and strides of its inputs, as in `op_efficiency`, in ticks: the device time of
-- what it launched, or, in a trace without device events, its own time on the host. Columns of `call_costs` have their
-- meaning. `parts` has its calls one by one, each with its run, and `inner_flops` and `is_recomputed` of `costed_ops`.
-- Work that no op launched has one part for each run, and as many calls as kernels, copies and fills; its copies and
-- fills have the bytes that the trace has.
CREATE MACRO _costed_calls(
    capture_key,
    work,  -- a table of the rows of `_device_work`, or `_host_work`
    is_compared  -- for comparisons: calls of ops that stand for others have all that is launched within them
) AS TABLE
WITH ops AS (FROM costed_ops AS i WHERE i.capture_id = capture_key),
costs AS (FROM call_costs AS i WHERE i.capture_id = capture_key),
working AS (
    SELECT o.owner, arg_max(o.kernel_family, (o.ticks, o.kernel_family)) AS kernel_family,
        sum(o.ticks)::BIGINT AS ticks,
        sum(o.step_ticks)::BIGINT AS step_ticks,
        sum(CASE WHEN o.kind IN ('copy', 'fill') THEN o.ticks ELSE 0 END)::BIGINT AS copy_ticks,
        CASE WHEN o.owner IS NULL AND count(*) = count(o.bytes) THEN sum(o.bytes)::BIGINT END AS bytes,
        count(*) AS events, count(*) FILTER (o.kind = 'kernel') AS kernels,
        arg_max(o.label, (o.ticks, o.label)) AS top_event, bool_or(o.uses_matrix_units) AS uses,
        bool_or(o.kind = 'kernel' AND o.uses_matrix_units IS NULL) AS may_use, min(o.run_index) AS run_index
    FROM (
        SELECT w.*,
            CASE WHEN is_compared THEN coalesce(c.compared_index, c.owner_index) ELSE c.owner_index END AS owner
        FROM query_table(work) AS w
        LEFT JOIN ops AS c ON c.event_index = w.op_index
    ) AS o
    GROUP BY o.owner, CASE WHEN o.owner IS NULL THEN {'label': o.label, 'run_index': o.run_index} END
),
called AS (
    SELECT k.cost_index, arg_max(w.kernel_family, (w.ticks, w.kernel_family)) AS kernel_family,
        CASE WHEN k.cost_index IS NULL THEN sum(w.events)::BIGINT ELSE count(*) END AS calls,
        CASE WHEN count(*) = count(w.bytes) THEN sum(w.bytes) END AS bytes,
        sum(w.ticks)::BIGINT AS ticks,
        sum(w.step_ticks)::BIGINT AS step_ticks, sum(w.copy_ticks)::BIGINT AS copy_ticks,
        sum(w.events)::BIGINT AS events, sum(w.kernels)::BIGINT AS kernels,
        arg_max(w.top_event, (w.ticks, w.top_event)) AS top_event,
        CASE WHEN bool_or(w.uses) THEN true WHEN bool_or(w.may_use) THEN NULL ELSE false END AS uses,
        list({
            'run_index': w.run_index, 'inner_flops': k.inner_flops, 'is_recomputed': k.is_recomputed, 'ticks': w.ticks,
            'copy_ticks': w.copy_ticks
        }) AS parts
    FROM working AS w
    LEFT JOIN ops AS k ON k.event_index = w.owner
    LEFT JOIN costs AS s ON s.cost_index = k.cost_index
    -- Ops without a formula may do different work.
    GROUP BY k.cost_index, CASE WHEN s.family IS NULL THEN w.kernel_family END,
        CASE WHEN w.owner IS NULL AND w.kernels = 0 THEN w.top_event END
)
SELECT s.op AS label, coalesce(s.family, c.kernel_family) AS family, s.shapes, s.dtypes, s.strides, s.inputs,
    -- Products whose kernel names 8 bits convert what they take.
    CASE
        WHEN s.family IN ('GEMM', 'MoE') AND s.type IN ('c10::BFloat16', 'c10::Half', 'float')
            AND regexp_matches(c.top_event, '(?i)e4m3|e5m2') THEN 'c10::Float8_e4m3fn'
        ELSE s.type
    END AS type,
    CASE WHEN s.op IS NULL AND c.bytes IS NOT NULL THEN 0 ELSE s.flops END AS flops,
    coalesce(s.bytes, (c.bytes / c.calls)::BIGINT) AS bytes, s.most_bytes, s.flops_at_most, s.flops_at_least, s.assumed,
    coalesce(s.is_bytes_alone, false) AS is_bytes_alone, coalesce(s.is_least, false) AS is_least,
    CASE
        WHEN s.op IS NOT NULL THEN s.reason WHEN c.bytes IS NULL THEN 'no op is known to have launched it'
    END AS reason,
    s.compared_as, s.compared_family, s.compared_inputs,
    c.calls, c.ticks, c.step_ticks, c.copy_ticks, c.events, c.kernels, c.top_event, c.parts, c.uses
FROM called AS c
LEFT JOIN costs AS s ON s.cost_index = c.cost_index;
