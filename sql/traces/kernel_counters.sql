-- The floating-point operations for which one unit of a counter stands: 2 for instructions that multiply and add, 1 for
-- instructions that only multiply or only add; NULL for other counters. As in HolisticTraceAnalysis.
CREATE MACRO _operations_counted(counter) AS (
    CASE
        WHEN regexp_matches(counter, '^smsp__sass_thread_inst_executed_op_[dfh]fma_pred_on[.]sum$') THEN 2
        WHEN regexp_matches(counter, '^smsp__sass_thread_inst_executed_op_[dfh](add|mul)_pred_on[.]sum$') THEN 1
    END
);

-- One counter of one kernel of a trace, as CUPTI's profiler of ranges counted it (`profiler_metrics` of PyTorch's
-- experimental configuration, with `profiler_measure_per_kernel`), with the ops around its launch. A trace with
-- counters has no other events of kernels, and their times are not known: PyTorch's profiler divides the time of the
-- recording evenly among the ranges. Ranges and launches are matched by their order, as in HolisticTraceAnalysis.
-- Needs: torch_trace
-- Empty: {capture} has no counters of CUPTI: record them with profiler_metrics of experimental_config
-- Shown: place#, device#, event!, top_op, op, counter!, value!#, flops#, reason
-- Columns:
--   place: number of the kernel in the order of time, from 1
--   run_index: run that launched it; NULL if the launch is unknown
--   event_index: the range
--   device: number of the device; NULL if not written
--   event: label of the range, the name of the kernel
--   op: label of the innermost op that contains its launch; NULL if none does or the launch is unknown
--   top_op: label of the outermost such op
--   op_stack: labels of all such ops, the outermost first; empty if none contains the launch, NULL if that is unknown
--   counter: name of the counter, such as smsp__inst_executed.sum
--   value: its value
--   flops: floating-point operations that the value stands for, without those of tensor cores; NULL for counters of other things
--   reason: why the launch is unknown; NULL if it is known
CREATE MACRO kernel_counters(capture) AS TABLE
WITH RECURSIVE target AS MATERIALIZED (SELECT _capture_id(capture) AS capture_id),
-- Without the capture, as in `_trace_slices`.
kinds AS MATERIALIZED (
    SELECT s.signature_index, s.label, s.category = 'cuda_profiler_range' AS is_range
    FROM target AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.category = 'cuda_profiler_range' OR s.category = 'cuda_runtime' AND starts_with(s.label, 'cudaLaunchKernel')
),
-- If a trace is known to have no counters, the rest is not planned.
numbered AS MATERIALIZED (
    SELECT t.run_index, t.event_index, t.thread_index, t.op_index, t.start_ticks, t.elapsed_ticks, k.label, k.is_range,
        row_number() OVER (PARTITION BY k.is_range ORDER BY t.start_ticks, t.event_index) AS place
    FROM (SELECT DISTINCT a.capture_id FROM target AS a JOIN event_counters AS c USING (capture_id)) AS a
    JOIN trace_events AS t USING (capture_id)
    JOIN kinds AS k ON k.signature_index = t.event_signature
),
ranges AS (
    SELECT n.*, try_cast(h.process AS INTEGER) AS device, h.process
    FROM numbered AS n CROSS JOIN target AS a
    JOIN threads AS h ON h.capture_id = a.capture_id AND h.thread_index = n.thread_index
    WHERE n.is_range
),
counts AS (
    SELECT count(*) AS ranges,
        (SELECT count(*) FROM numbered AS n WHERE NOT n.is_range) AS launches,
        count(DISTINCT r.process) AS devices
    FROM ranges AS r
),
checked AS (
    SELECT
        CASE
            WHEN c.ranges <> c.launches THEN c.ranges || ' ranges, ' || c.launches || ' kernel launches'
            WHEN c.devices > 1 THEN 'ranges of ' || c.devices || ' devices'
        END AS reason
    FROM counts AS c
),
-- Ranges of counters, each with the launch of its kernel. Ranges have no ids: the first is that of the first launch,
-- and so on, if there are as many ranges as launches (calls of cudaLaunchKernel and of names that begin so), all of one
-- device. The ranges of several devices are in no known order.
kernels AS MATERIALIZED (
    SELECT r.event_index, r.label, r.device, r.start_ticks, r.elapsed_ticks, r.place, l.run_index,
        l.op_index AS call_op_index, c.reason
    FROM ranges AS r CROSS JOIN checked AS c
    LEFT JOIN numbered AS l ON NOT l.is_range AND l.place = r.place AND c.reason IS NULL
),
ops AS MATERIALIZED (
    SELECT t.event_index, t.op_index AS outer_index, s.label AS op
    FROM (SELECT a.capture_id FROM target AS a WHERE EXISTS (FROM kernels)) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.activity = 'op'
    JOIN trace_events AS t ON t.capture_id = s.capture_id AND t.event_signature = s.signature_index
),
-- From the outermost ops inwards, so that it ends with any rows.
stacks AS (
    SELECT o.event_index, o.op, [o.op] AS ops FROM ops AS o WHERE o.outer_index IS NULL
    UNION ALL
    SELECT o.event_index, o.op, list_append(s.ops, o.op) FROM stacks AS s JOIN ops AS o ON o.outer_index = s.event_index
)
SELECT k.place, k.run_index, k.event_index, k.device, k.label AS event, o.op, o.ops[1] AS top_op,
    CASE WHEN k.reason IS NULL THEN coalesce(o.ops, []::VARCHAR[]) END AS op_stack, c.counter, c.value,
    c.value * _operations_counted(c.counter) AS flops, k.reason
FROM target AS a CROSS JOIN kernels AS k
JOIN event_counters AS c ON c.capture_id = a.capture_id AND c.event_index = k.event_index
LEFT JOIN stacks AS o ON o.event_index = k.call_op_index
ORDER BY k.place, c.counter;
