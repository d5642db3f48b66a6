-- One row of `_costed_calls` with the least time that its costs take at the peaks.
CREATE MACRO _rated_work(
    capture_key,
    work,  -- as in `_costed_calls`
    trace_peaks,  -- a table of the row of `_trace_peaks`
    is_compared  -- as in `_costed_calls`
) AS TABLE
WITH shortest AS (
    -- A kernel that takes longer than ten microseconds has work to do.
    SELECT least(min(e.elapsed_ticks), 10000) AS ticks
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.activity = 'kernel'
    JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    WHERE e.elapsed_ticks > 0
),
peaked AS MATERIALIZED (
    SELECT c.*, p.peak.named_device AS device, p.peak.bandwidth,
        -- Clocks vary: a twentieth is no cache.
        c.bytes * 1e9 / p.peak.bandwidth > 1.05 * c.ticks / c.calls AS is_cached,
        _peak_of_type(p.peak, c.type, c.family, c.uses) AS most_flops
    FROM _costed_calls(capture_key, work, is_compared) AS c
    CROSS JOIN (SELECT q AS peak FROM query_table(trace_peaks) AS q) AS p
),
costed AS (
    SELECT p.* REPLACE (
        CASE WHEN p.is_cached AND p.is_bytes_alone THEN NULL ELSE p.bytes END AS bytes,
        CASE
            WHEN p.is_cached AND p.is_bytes_alone THEN 'it reads part of the tensors that it names, or from a cache'
            WHEN p.is_cached THEN 'it is faster than memory: its data was in a cache'
            ELSE p.reason
        END AS reason
    )
    FROM peaked AS p
),
limited AS (
    SELECT c.*, CASE WHEN c.flops = 0 OR c.is_bytes_alone THEN 0 ELSE c.flops * 1e9 / c.most_flops END AS compute_ticks,
        -- If the operations take longer than reading everything, it doesn't matter how much is read.
        coalesce(
            CASE WHEN NOT c.is_cached THEN c.bytes END,
            CASE WHEN c.most_bytes * c.most_flops <= c.flops * c.bandwidth THEN c.most_bytes END
        ) * 1e9 / c.bandwidth AS memory_ticks
    FROM costed AS c
),
rated AS (
    SELECT l.*,
        CASE
            WHEN coalesce(l.flops, 0) + l.memory_ticks > 0
                THEN greatest(l.compute_ticks, l.memory_ticks) * l.calls + 0 * (l.compute_ticks + l.memory_ticks)
        END AS least_ticks
    FROM limited AS l
)
SELECT r.*,
    CASE
        WHEN r.least_ticks < r.kernels * s.ticks THEN 'latency'
        WHEN r.compute_ticks >= r.memory_ticks AND r.least_ticks > 0 THEN 'compute'
        WHEN r.compute_ticks < r.memory_ticks THEN 'memory'
    END AS bound,
    CASE WHEN r.least_ticks IS NOT NULL THEN r.ticks END AS known_ticks, s.ticks AS shortest_ticks
FROM rated AS r CROSS JOIN shortest AS s;

-- One row of `_rated_work` for devices, or for the host in a trace without device events.
CREATE MACRO _rated_calls(
    capture_key, peak_flops, peak_bandwidth, device, steps, phase, is_compared
) AS TABLE
WITH rated_launches AS MATERIALIZED (FROM _launches(capture_key)),
all_work AS MATERIALIZED (
    FROM _device_work(capture_key, 'rated_launches', steps, phase, is_compared) AS d
    UNION ALL
    FROM _host_work(capture_key, steps, phase, is_compared) AS h
),
trace_peaks AS MATERIALIZED (FROM _trace_peaks(capture_key, peak_flops, peak_bandwidth, device) AS q)
FROM _rated_work(capture_key, 'all_work', 'trace_peaks', is_compared) AS r;

-- How far one op of a trace is from the peak of its device, by the shapes, types and strides of its inputs: its device
-- time against the least that its operations and bytes take. Costs are computed with `cost_formulas`: inputs are read
-- once, and inputs that repeat elements only as far as they are stored; outputs are written once. Kernels, copies and
-- fills count for the op that launched them, or, if that op has no formula, for the op around it: those of
-- aten::_flash_attention_forward count for the attention that called it. Copies and fills that no op launched have the
-- bytes that the trace has. Peaks are those of `device_peaks` for the device in the trace. In a trace without device
-- events, the time is that on the host, whose peaks must be given.
-- Needs: torch_trace; else: roofline
-- Empty: {capture} has no ops
-- Shown: coalesce(op, '(no op)') AS op!, coalesce(family, '(unknown)') AS family!, inputs!, per_step!~, roof_percent!%,
--   bound!, share_percent!%, above_roof_percent%, bytes_per_second / 1e12 AS tb_s!#, flops_per_second / 1e12 AS
--   tflop_s#, calls!#, per_call~, known_percent%, flops#, bytes (bytes), intensity#, flops_at_most#, flops_at_least#, reason, assumed!, top_event,
--   nullif(outside_steps, 0) AS outside_steps!~, total+~, above_roof-, copy_time-, steps+#, unit
-- Share: of all that steps launched, or of all rows without steps
-- Columns:
--   family: what it computes: GEMM, convolution, attention, MoE, normalization, softmax, reduction, pooling, elementwise, embedding, optimizer, recurrence, transform, copy, fill, communication; without a formula that of its kernels; NULL if unknown
--   op: the op, such as aten::mm; NULL for what no op launched, and by family
--   inputs: types and sizes of the tensors that it takes, those in lists one by one: bf16[8,4] bf16[4,2]; the types of lists are from the name of the kernel, which for aten::cat shows only the size of an element: 16bit[8,4]; NULL where not written, and by op and by family
--   calls: number of calls; for what no op launched, number of kernels, copies and fills
--   total: sum of the times of its kernels, copies and fills
--   per_call: total / calls
--   share_percent: time in percent of all that steps launched, or of all rows without steps
--   unit: the requested unit of time
--   flops: operations of one call, the mean if they differ; NULL where unknown
--   bytes: bytes that one call reads and writes, the mean if they differ; NULL where unknown
--   intensity: operations per byte; NULL where unknown, or if no bytes are moved
--   flops_per_second: operations per second, in the calls whose operations are known; NULL where unknown
--   bytes_per_second: bytes per second, in the calls whose bytes are known; NULL where unknown
--   peak_flops: operations per second at the peak of its type and units; NULL where unknown, and by op and by family
--   roof_percent: smallest possible time at the peaks in percent of its time, of the calls whose costs are known; NULL where unknown
--   bound: compute or memory, whichever limit takes longer. latency, if the op's smallest possible time is shorter than its kernels would take if each took as long as the trace's shortest kernel, or 10 us if all kernels take longer than that. NULL where unknown, and by op and by family if it differs
--   above_roof: total minus the smallest possible time, of the calls whose costs are known: the most that can be saved; NULL where unknown
--   above_roof_percent: above_roof in percent of the total of all rows
--   known_percent: share of total in calls whose smallest possible time is known, in percent; NULL for communication, which a link limits, and left out of other rows
--   events: number of kernels, copies and fills
--   copy_time: part of total in copies and fills by the runtime
--   top_event: name of the kernel, copy or fill with most time; NULL in a trace without device events
--   device: the device whose peaks apply; NULL if unknown
--   reason: why a cost is unknown or only a lower bound; NULL if all are known
--   flops_at_most: upper bound of the operations of one call, the mean if calls differ, where flops is NULL because values of tensors decide what is left out; otherwise NULL
--   flops_at_least: lower bound of the operations of one call, the mean if they differ, for kernels that Inductor wrote, by the ops in their names, if flops is NULL; otherwise NULL
--   assumed: assumed sizes on which its costs depend, such as top_k=4; NULL if there are none
--   shapes: sizes of its inputs, as a JSON list in the trace; NULL where inputs is NULL
--   types: types of its inputs, as a JSON list in the trace; NULL where inputs is NULL
--   strides: strides of its inputs, as a JSON list in the trace; NULL where inputs is NULL
--   steps: number of the trace's steps; NULL without steps
--   per_step: time of what steps launched, per step; on the host, of what began in them
--   outside_steps: rest of total, of what no step launched, or whose launch the trace lacks; NULL without steps
CREATE MACRO op_efficiency(
    capture,
    peak_flops := NULL,  -- peak rate of the device, in operations per second, for all types; NULL: the device's
    peak_bandwidth := NULL,  -- peak bandwidth of its memory, in bytes per second; NULL: the device's
    device := NULL,  -- name of a device of `device_peaks`; NULL: the trace's device
    "by" := 'shape',  -- shape, op or family: the columns by which ops are separated
    unit := NULL, steps := NULL, phase := NULL
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.*, _checked_by("by", ['shape', 'op', 'family']) AS parted_by
    FROM _capture_with_steps(capture, unit, steps, phase) AS c
),
rated AS MATERIALIZED (
    FROM _rated_calls(
        (SELECT a.capture_id FROM target AS a), peak_flops, peak_bandwidth, device, steps, phase, false
    ) AS r
),
summed AS (
    SELECT b.family, CASE WHEN a.parted_by <> 'family' THEN b.label END AS op,
        CASE WHEN a.parted_by = 'shape' THEN b.inputs END AS inputs,
        CASE WHEN a.parted_by = 'shape' THEN b.shapes END AS shapes,
        CASE WHEN a.parted_by = 'shape' THEN b.dtypes END AS types,
        CASE WHEN a.parted_by = 'shape' THEN b.strides END AS strides,
        CASE WHEN a.parted_by = 'shape' THEN {'flops': b.flops, 'bytes': b.bytes} END AS cost,
        sum(b.calls)::BIGINT AS calls, sum(b.ticks)::BIGINT AS ticks,
        sum(b.step_ticks)::BIGINT AS step_ticks,
        sum(CASE WHEN b.family = 'communication' THEN b.ticks ELSE 0 END)::BIGINT AS sent_ticks,
        CASE WHEN count(*) = count(b.flops) THEN sum(b.flops::DOUBLE * b.calls) END AS flops,
        CASE WHEN count(*) = count(b.bytes) THEN sum(b.bytes::DOUBLE * b.calls) END AS bytes,
        CASE
            WHEN count(*) > count(b.flops) AND count(*) = count(coalesce(b.flops, b.flops_at_most))
                THEN sum(coalesce(b.flops, b.flops_at_most)::DOUBLE * b.calls)
        END AS flops_at_most,
        CASE
            WHEN count(*) > count(b.flops) AND count(*) = count(coalesce(b.flops, b.flops_at_least))
                THEN sum(coalesce(b.flops, b.flops_at_least)::DOUBLE * b.calls)
        END AS flops_at_least,
        sum(b.flops::DOUBLE * b.calls) * 1e9
        / nullif(sum(CASE WHEN b.flops IS NOT NULL THEN b.ticks END), 0) AS flops_per_second,
        sum(b.bytes::DOUBLE * b.calls) * 1e9
        / nullif(sum(CASE WHEN b.bytes IS NOT NULL THEN b.ticks END), 0) AS bytes_per_second,
        any_value(CASE WHEN a.parted_by = 'shape' THEN b.most_flops END) AS peak_flops,
        sum(b.least_ticks) AS least_ticks, sum(b.known_ticks)::BIGINT AS known_ticks,
        sum(
            CASE
                WHEN b.known_ticks > b.least_ticks THEN b.known_ticks - b.least_ticks
                WHEN b.known_ticks <= b.least_ticks THEN 0
            END
        ) AS above_ticks,
        CASE WHEN count(DISTINCT b.bound) = 1 AND count(*) = count(b.bound) THEN any_value(b.bound) END AS bound,
        sum(b.events)::BIGINT AS events, sum(b.copy_ticks)::BIGINT AS copy_ticks,
        string_agg(DISTINCT b.assumed, '; ' ORDER BY b.assumed) AS assumed,
        arg_max(b.top_event, (b.ticks, b.top_event)) AS top_event, any_value(b.device) AS device,
        arg_max(
            coalesce(
                b.reason,
                CASE
                    WHEN b.least_ticks IS NOT NULL OR b.flops + b.bytes = 0 THEN NULL
                    WHEN coalesce(b.bandwidth, b.most_flops) IS NULL THEN 'the peaks of its device are not known'
                    WHEN b.bandwidth IS NULL THEN 'its roof needs peak_bandwidth'
                    ELSE 'the peak for its type is not known'
                END
            ),
            b.ticks
        ) AS reason
    FROM rated AS b CROSS JOIN target AS a
    GROUP BY ALL
)
SELECT s.family, s.op, s.inputs, s.calls, _in_unit(s.ticks, a.scale) AS total,
    _in_unit(s.ticks::DOUBLE / s.calls, a.scale) AS per_call,
    CASE
        WHEN a.step_count IS NULL THEN 100 * s.ticks::DOUBLE / nullif(sum(s.ticks) OVER (), 0)
        ELSE 100 * s.step_ticks::DOUBLE / nullif(sum(s.step_ticks) OVER (), 0)
    END AS share_percent,
    a.unit,
    try_cast(s.flops / s.calls AS BIGINT) AS flops, try_cast(s.bytes / s.calls AS BIGINT) AS bytes,
    s.flops / nullif(s.bytes, 0) AS intensity, s.flops_per_second, s.bytes_per_second, s.peak_flops,
    100 * s.least_ticks / nullif(s.known_ticks, 0) AS roof_percent, s.bound,
    _in_unit(s.above_ticks, a.scale) AS above_roof,
    100 * s.above_ticks / nullif(sum(s.ticks) OVER (), 0) AS above_roof_percent,
    100 * coalesce(s.known_ticks, 0)::DOUBLE / nullif(s.ticks - s.sent_ticks, 0) AS known_percent, s.events,
    _in_unit(s.copy_ticks, a.scale) AS copy_time, s.top_event, s.device, s.reason,
    try_cast(s.flops_at_most / s.calls AS BIGINT) AS flops_at_most,
    try_cast(s.flops_at_least / s.calls AS BIGINT) AS flops_at_least, s.assumed, s.shapes, s.types, s.strides,
    a.step_count AS steps, _in_unit(s.step_ticks::DOUBLE / a.step_count, a.scale) AS per_step,
    CASE WHEN a.step_count IS NOT NULL THEN _in_unit(s.ticks - s.step_ticks, a.scale) END AS outside_steps
FROM summed AS s CROSS JOIN target AS a
ORDER BY share_percent DESC, s.ticks DESC, s.family, s.op, s.shapes, s.types, s.strides;
