-- The name of an op of a trace as `cost_formulas` has it; that of its own, if it has
-- a formula for what it does in place.
CREATE MACRO _traced_op(label) AS (
    regexp_replace(label, '^(\w+)::(\w+?)_*$', '\1.\2')
);

-- One op of a trace that took time: the device time of what it launched, or, in a
-- trace without device events, its own time on the host. What ops without a formula
-- launch counts for the innermost op around them that has one, if nothing else in it
-- is priced: aten::_flash_attention_forward for the attention that called it.
CREATE MACRO _working_ops(capture_key, steps, phase) AS TABLE
WITH
work AS MATERIALIZED (
    SELECT
        l.op_index,
        l.device_ticks AS ticks,
        l.kind,
        l.label,
        l.kernel_family,
        l.uses_matrix_units
    FROM _launches(capture_key) AS l
    JOIN runs AS r ON r.capture_id = capture_key AND r.run_index = l.run_index
    WHERE _is_recorded(r.iteration, r.phase, steps, phase)
    UNION ALL
    SELECT c.event_index, c.host_self_ticks, 'op', NULL, NULL, NULL
    FROM (SELECT 1 WHERE NOT EXISTS (FROM _launches(capture_key))) AS n
    CROSS JOIN _operator_calls(capture_key) AS c
    JOIN runs AS r ON r.capture_id = capture_key AND r.run_index = c.run_index
    WHERE c.is_operator AND _is_recorded(r.iteration, r.phase, steps, phase)
),
ops AS (
    SELECT
        w.op_index,
        sum(w.ticks) AS ticks,
        sum(CASE WHEN w.kind IN ('copy', 'fill') THEN w.ticks ELSE 0 END)
            AS copy_ticks,
        count(*) AS events,
        count(*) FILTER (w.kind = 'kernel') AS kernels,
        arg_max(w.label, w.ticks) AS top_event,
        arg_max(w.kernel_family, w.ticks) AS kernel_family,
        bool_or(w.uses_matrix_units) AS uses,
        bool_or(w.kind = 'kernel' AND w.uses_matrix_units IS NULL) AS may_use
    FROM work AS w
    GROUP BY w.op_index, CASE WHEN w.op_index IS NULL THEN w.label END
),
named AS MATERIALIZED (
    SELECT
        s.signature_index,
        s.label,
        CASE
            WHEN f.op IS NOT NULL THEN f.op
            WHEN p.op IS NOT NULL THEN p.op
        END AS op
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.activity = 'op'
    LEFT JOIN cost_formulas AS f ON f.op = replace(s.label, '::', '.')
    LEFT JOIN cost_formulas AS p ON p.op = _traced_op(s.label)
),
placed AS MATERIALIZED (
    SELECT t.event_index, t.op_index AS parent_index, n.signature_index, n.label, n.op
    FROM (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
    JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e
        ON e.event_index = t.event_index
    JOIN named AS n ON n.signature_index = e.signature_index
),
chains AS (
    SELECT
        o.*,
        a.op,
        a.label,
        b.event_index AS parent,
        b.op AS parent_op,
        c.event_index AS grandparent,
        c.op AS grandparent_op
    FROM ops AS o
    LEFT JOIN placed AS a ON a.event_index = o.op_index
    LEFT JOIN placed AS b ON b.event_index = a.parent_index
    LEFT JOIN placed AS c ON c.event_index = b.parent_index
),
-- Ops that contain others which have costs of their own.
composite AS (
    SELECT DISTINCT unnest([c.parent, c.grandparent]) AS event_index
    FROM chains AS c
    WHERE c.op IS NOT NULL
),
owned AS (
    SELECT
        c.*,
        CASE
            WHEN c.op IS NOT NULL THEN c.op_index
            WHEN c.parent_op IS NOT NULL AND p.event_index IS NULL THEN c.parent
            WHEN c.parent_op IS NULL AND c.grandparent_op IS NOT NULL
                AND g.event_index IS NULL THEN c.grandparent
            ELSE c.op_index
        END AS owner
    FROM chains AS c
    LEFT JOIN composite AS p ON p.event_index = c.parent
    LEFT JOIN composite AS g ON g.event_index = c.grandparent
)
SELECT
    o.owner,
    any_value(n.signature_index) AS signature_index,
    any_value(n.label) AS label,
    any_value(n.op) AS op,
    arg_max(o.kernel_family, o.ticks) AS kernel_family,
    sum(o.ticks)::BIGINT AS ticks,
    sum(o.copy_ticks)::BIGINT AS copy_ticks,
    sum(o.events)::BIGINT AS events,
    sum(o.kernels)::BIGINT AS kernels,
    arg_max(o.top_event, o.ticks) AS top_event,
    bool_or(o.uses) AS uses,
    bool_or(o.may_use) AS may_use
FROM owned AS o
LEFT JOIN placed AS n ON n.event_index = o.owner
GROUP BY o.owner, CASE WHEN o.owner IS NULL THEN o.top_event END;

-- The peak rates of the devices that ran a trace's work, in operations and bytes per
-- second: those given, else of the device that is named, else the capture's metrics,
-- else those of the devices in the trace, if they are all the same.
CREATE MACRO _trace_peaks(capture_key, peak_flops, peak_bandwidth, device) AS TABLE
WITH
used AS (
    SELECT DISTINCT t.name
    FROM trace_devices AS t
    WHERE t.capture_id = capture_key
        AND (
            t.device IN (
                SELECT d.device FROM device_events AS d WHERE d.capture_id = capture_key
            )
            OR NOT EXISTS (
                FROM device_events AS d
                WHERE d.capture_id = capture_key AND d.device IS NOT NULL
            )
        )
),
named AS (
    SELECT
        CASE
            WHEN device IS NOT NULL THEN device
            WHEN (SELECT count(*) FROM used AS u) = 1 THEN (SELECT u.name FROM used AS u)
        END AS name
),
matched AS (
    SELECT p.*
    FROM named AS n
    JOIN (SELECT q.*, row_number() OVER () AS place FROM device_peaks AS q) AS p
        ON regexp_matches(n.name, p.pattern, 'i')
    ORDER BY p.place
    LIMIT 1
)
SELECT
    CASE
        WHEN device IS NOT NULL AND m.device IS NULL
            THEN error('no device is called ' || device || ' in device_peaks')
        ELSE coalesce(m.device, n.name)
    END AS device,
    _peak(
        CASE WHEN device IS NULL THEN capture_key END,
        'peak_flops', 'FLOP/s', peak_flops
    ) AS any_flops,
    coalesce(
        _peak(
            CASE WHEN device IS NULL THEN capture_key END,
            'peak_bandwidth', 'B/s', peak_bandwidth
        ),
        m.memory_bandwidth
    ) AS bandwidth,
    m.* EXCLUDE (device, place)
FROM named AS n
LEFT JOIN matched AS m ON true;

-- The peak rate of operations on a type of a trace, of matrix units or without them;
-- NULL where it isn't known.
CREATE MACRO _peak_of_type(
    peaks,  -- row of `_trace_peaks`
    dtype,  -- type of the inputs, as in the trace
    is_product,  -- whether matrix units are made for it
    uses  -- whether its kernels use matrix units; NULL if unknown
) AS (
    CASE
        WHEN peaks.any_flops IS NOT NULL THEN peaks.any_flops
        WHEN starts_with(dtype, 'c10::Float8') THEN peaks.matrix_fp8
        WHEN is_product AND dtype IN ('c10::Half', 'c10::BFloat16') THEN peaks.matrix_fp16
        WHEN is_product AND dtype IN ('signed char', 'unsigned char')
            THEN peaks.matrix_int8
        WHEN is_product AND uses AND dtype = 'float' THEN peaks.matrix_fp32
        WHEN is_product AND uses AND dtype = 'double' THEN peaks.matrix_fp64
        WHEN is_product AND uses IS NULL THEN NULL
        WHEN dtype = 'c10::Half' THEN peaks.vector_fp16
        WHEN dtype = 'c10::BFloat16' THEN peaks.vector_bf16
        WHEN dtype = 'double' THEN peaks.vector_fp64
        WHEN dtype IS NOT NULL THEN peaks.vector_fp32
    END
);

-- One op of a trace by the shapes, types and strides of its inputs, as in
-- `op_efficiency`, in ticks.
CREATE MACRO _costed_calls(capture_key, steps, phase) AS TABLE
WITH
working AS MATERIALIZED (FROM _working_ops(capture_key, steps, phase)),
grouped AS (
    SELECT
        w.label,
        w.op,
        o.shapes,
        o.dtypes,
        o.strides,
        o.inputs,
        CASE WHEN w.owner IS NULL THEN w.top_event END AS event,
        arg_max(w.kernel_family, w.ticks) AS kernel_family,
        count(w.owner) AS calls,
        sum(w.ticks) AS ticks,
        sum(w.copy_ticks) AS copy_ticks,
        sum(w.events) AS events,
        sum(w.kernels) AS kernels,
        arg_max(w.top_event, w.ticks) AS top_event,
        bool_or(w.uses) AS uses,
        bool_or(w.may_use) AS may_use
    FROM working AS w
    LEFT JOIN (FROM op_arguments AS i WHERE i.capture_id = capture_key) AS o
        ON o.event_index = w.owner
    GROUP BY ALL
),
called AS MATERIALIZED (SELECT g.*, row_number() OVER () AS call FROM grouped AS g),
costs AS MATERIALIZED (
    FROM _call_costs((
        SELECT list({
            'call': c.call,
            'op': c.op,
            'shapes': c.shapes,
            'dtypes': c.dtypes,
            'strides': c.strides,
            'inputs': c.inputs
        })
        FROM called AS c
        WHERE c.op IS NOT NULL AND c.shapes IS NOT NULL
    ))
)
SELECT
    c.label,
    coalesce(f.family, c.kernel_family) AS family,
    c.shapes,
    c.dtypes,
    c.strides,
    s.type,
    s.flops,
    s.bytes_read + s.bytes_written AS bytes,
    CASE
        WHEN c.label IS NULL THEN 'no op launched it'
        WHEN c.op IS NULL THEN 'no formula for ' || c.label
        WHEN c.shapes IS NULL
            THEN 'recorded without shapes: profile(record_shapes=True) writes them'
        ELSE s.reason
    END AS reason,
    sum(c.calls)::BIGINT AS calls,
    sum(c.ticks)::BIGINT AS ticks,
    sum(c.copy_ticks)::BIGINT AS copy_ticks,
    sum(c.events)::BIGINT AS events,
    sum(c.kernels)::BIGINT AS kernels,
    arg_max(c.top_event, c.ticks) AS top_event,
    CASE
        WHEN bool_or(c.uses) THEN true
        WHEN bool_or(c.may_use) THEN NULL
        ELSE false
    END AS uses
FROM called AS c
LEFT JOIN costs AS s ON s.call = c.call
LEFT JOIN cost_formulas AS f ON f.op = c.op
GROUP BY ALL;

-- How far one op of a trace is from the peak of its device, by the shapes, types and
-- strides of its inputs: its device time against the least that its operations and
-- bytes take. Costs are counted by `cost_formulas`; inputs are read once, of those that
-- repeat elements only what is stored; outputs are written once. Kernels, copies and
-- fills count for the op that launched them; those without a formula for the op around
-- it, as aten::_flash_attention_forward for the attention that called it. In a trace
-- without device events, it is time on the host. Peaks are those of `device_peaks` for
-- the device in the trace.
-- Needs: torch_trace; else: etq roofline
-- Empty: {capture} has no ops
-- Columns:
--   family: what it computes: GEMM, convolution, attention, MoE, normalization, softmax, reduction, pooling, elementwise, embedding, copy, fill; without a formula that of its kernels; NULL if unknown
--   op: the op, such as aten::mm; NULL for what no op launched, and by family
--   shapes: sizes of its inputs, as a JSON list; NULL where not written, by op and by family
--   types: types of its inputs, as a JSON list; NULL as shapes
--   strides: strides of its inputs, as a JSON list; NULL as shapes
--   calls: number of calls; of what no op launched, of kernels, copies and fills
--   total: sum of the times of its kernels, copies and fills
--   avg: total / calls
--   share_percent: total in percent of all rows
--   unit: the requested unit of time
--   flops: operations of one call, the mean if they differ; NULL where unknown
--   bytes: bytes that one call reads and writes, the mean if they differ; NULL where unknown
--   intensity: operations per byte; NULL where unknown, or if no bytes are moved
--   flops_per_second: operations per second; NULL where unknown
--   bytes_per_second: bytes per second; NULL where unknown
--   peak_flops: operations per second at the peak of its type and units; NULL where unknown, and by op and by family
--   roof_percent: smallest possible time at the peaks in percent of its time, of the calls whose costs are known; NULL where unknown
--   bound: the limit that takes longer: compute or memory; latency if its smallest possible time is shorter than that many of the trace's shortest kernels; NULL where unknown, and by op and by family if it differs
--   above_roof: total less the smallest possible time, of the calls whose costs are known: the most that can be saved
--   above_roof_percent: above_roof in percent of the total of all rows
--   known_percent: share of total in calls whose smallest possible time is known, in percent
--   events: number of kernels, copies and fills
--   copy_time: part of total in copies and fills by the runtime
--   top_event: name of the kernel, copy or fill with most time; NULL in a trace without device events
--   device: the device whose peaks apply; NULL if unknown
--   reason: why a cost is unknown; NULL if all are known
--   steps: number of the trace's steps; NULL without steps
--   per_step: total / steps
CREATE MACRO op_efficiency(
    capture,
    peak_flops := NULL,  -- peak rate of the device, in operations per second, for all types; NULL: the device's
    peak_bandwidth := NULL,  -- peak bandwidth of its memory, in bytes per second; NULL: the device's
    device := NULL,  -- name of a device of `device_peaks`; NULL: that of the trace
    "by" := 'shape',  -- shape, op or family: the columns by which ops are separated
    unit := NULL, steps := NULL, phase := NULL
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT
        a.*,
        _step_count(a.capture_id, steps, phase) AS step_count,
        CASE
            WHEN "by" IN ('shape', 'op', 'family') THEN "by"
            ELSE error('by must be shape, op or family, not ' || coalesce("by", 'NULL'))
        END AS parted_by
    FROM _capture(capture, unit) AS a
),
peaks AS MATERIALIZED (
    FROM _trace_peaks(
        (SELECT a.capture_id FROM target AS a), peak_flops, peak_bandwidth, device
    )
),
shortest AS (
    SELECT min(e.elapsed_ticks) AS ticks
    FROM target AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.activity = 'kernel'
    JOIN event_ticks AS e
        ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    WHERE e.elapsed_ticks > 0
),
costed AS MATERIALIZED (
    SELECT
        c.*,
        p.device,
        p.bandwidth,
        _peak_of_type(
            p, c.type, c.family IN ('GEMM', 'convolution', 'attention', 'MoE'), c.uses
        ) AS most_flops
    FROM _costed_calls((SELECT a.capture_id FROM target AS a), steps, phase) AS c
    CROSS JOIN peaks AS p
),
limited AS (
    SELECT
        c.*,
        CASE
            WHEN c.flops = 0 THEN 0
            ELSE c.flops * 1e9 / c.most_flops
        END AS compute_ticks,
        c.bytes * 1e9 / c.bandwidth AS memory_ticks
    FROM costed AS c
    CROSS JOIN target AS a
),
rated AS (
    SELECT
        l.*,
        CASE
            WHEN l.flops + l.bytes > 0
                THEN greatest(l.compute_ticks, l.memory_ticks) * l.calls
                    + 0 * (l.compute_ticks + l.memory_ticks)
        END AS least_ticks
    FROM limited AS l
),
bounded AS (
    SELECT
        r.*,
        CASE
            WHEN r.least_ticks < r.kernels * s.ticks THEN 'latency'
            WHEN r.compute_ticks >= r.memory_ticks AND r.least_ticks > 0 THEN 'compute'
            WHEN r.compute_ticks < r.memory_ticks THEN 'memory'
        END AS bound,
        CASE WHEN r.least_ticks IS NOT NULL THEN r.ticks END AS known_ticks
    FROM rated AS r
    CROSS JOIN shortest AS s
),
summed AS (
    SELECT
        b.family,
        CASE WHEN a.parted_by <> 'family' THEN b.label END AS op,
        CASE WHEN a.parted_by = 'shape' THEN b.shapes END AS shapes,
        CASE WHEN a.parted_by = 'shape' THEN b.dtypes END AS types,
        CASE WHEN a.parted_by = 'shape' THEN b.strides END AS strides,
        CASE WHEN a.parted_by = 'shape' THEN {'flops': b.flops, 'bytes': b.bytes} END
            AS cost,
        sum(CASE WHEN b.label IS NULL THEN b.events ELSE b.calls END)::BIGINT AS calls,
        sum(b.ticks)::BIGINT AS ticks,
        CASE WHEN count(*) = count(b.flops) THEN sum(b.flops::DOUBLE * b.calls) END
            AS flops,
        CASE WHEN count(*) = count(b.bytes) THEN sum(b.bytes::DOUBLE * b.calls) END
            AS bytes,
        any_value(CASE WHEN a.parted_by = 'shape' THEN b.most_flops END) AS peak_flops,
        sum(b.least_ticks) AS least_ticks,
        sum(b.known_ticks)::BIGINT AS known_ticks,
        sum(greatest(b.known_ticks - b.least_ticks, 0)) AS above_ticks,
        CASE
            WHEN count(DISTINCT b.bound) = 1 AND count(*) = count(b.bound)
                THEN any_value(b.bound)
        END AS bound,
        sum(b.events)::BIGINT AS events,
        sum(b.copy_ticks)::BIGINT AS copy_ticks,
        arg_max(b.top_event, b.ticks) AS top_event,
        any_value(b.device) AS device,
        arg_max(
            coalesce(
                b.reason,
                CASE
                    WHEN b.least_ticks IS NULL AND b.device IS NULL
                        THEN 'the peaks of its device are not known'
                    WHEN b.least_ticks IS NULL AND b.flops + b.bytes > 0
                        THEN 'the peak for its type is not known'
                END
            ),
            b.ticks
        ) AS reason
    FROM bounded AS b
    CROSS JOIN target AS a
    GROUP BY ALL
)
SELECT
    s.family,
    s.op,
    s.shapes,
    s.types,
    s.strides,
    s.calls,
    _in_unit(s.ticks, a.time_scale, a.unit) AS total,
    _in_unit(s.ticks::DOUBLE / s.calls, a.time_scale, a.unit) AS avg,
    100 * s.ticks::DOUBLE / nullif(sum(s.ticks) OVER (), 0) AS share_percent,
    a.unit,
    try_cast(s.flops / s.calls AS BIGINT) AS flops,
    try_cast(s.bytes / s.calls AS BIGINT) AS bytes,
    s.flops / nullif(s.bytes, 0) AS intensity,
    s.flops * 1e9 / nullif(s.ticks, 0) AS flops_per_second,
    s.bytes * 1e9 / nullif(s.ticks, 0) AS bytes_per_second,
    s.peak_flops,
    100 * s.least_ticks / nullif(s.known_ticks, 0) AS roof_percent,
    s.bound,
    _in_unit(s.above_ticks, a.time_scale, a.unit) AS above_roof,
    100 * s.above_ticks / nullif(sum(s.ticks) OVER (), 0) AS above_roof_percent,
    100 * coalesce(s.known_ticks, 0)::DOUBLE / nullif(s.ticks, 0) AS known_percent,
    s.events,
    _in_unit(s.copy_ticks, a.time_scale, a.unit) AS copy_time,
    s.top_event,
    s.device,
    s.reason,
    a.step_count AS steps,
    total / a.step_count AS per_step
FROM summed AS s
CROSS JOIN target AS a
ORDER BY s.ticks DESC, s.family, s.op, s.shapes, s.types, s.strides;
