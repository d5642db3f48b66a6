-- A sequence of kernels that calls of an op of a trace launch, as in HolisticTraceAnalysis: sequences that are frequent
-- or take long may be worth a fused kernel. Only calls that are within no other op, or within no other call of the
-- requested op, are included. Kernels, copies and fills are in the order in which they ran. The sequences with the most
-- time on devices come first.
-- Needs: torch_trace, device_events
-- Empty: {capture} has no calls of ops that launched so many kernels, copies and fills
-- Shown: op!, length!#, calls!#, device_time!~, host_time!~, unit, sequence!
-- Columns:
--   op: label of the op
--   sequence: labels of the device events, separated by ` | `
--   length: number of the device events
--   calls: number of calls of the op that launched this sequence
--   device_time: sum of the durations of the device events
--   host_time: sum of the durations of the calls of the op
--   unit: the requested unit of time
CREATE MACRO kernel_sequences(
    capture,
    op := NULL,  -- label of an op; NULL: all ops
    min_length := 3,  -- least number of device events of a sequence
    unit := NULL
) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
work AS MATERIALIZED (FROM _launches((SELECT a.capture_id FROM target AS a)) AS w WHERE w.call_index IS NOT NULL),
begun AS (
    SELECT s.event_index, s.label, s.thread_index, s.start_ticks, s.end_ticks,
        max(s.end_ticks) OVER (
            PARTITION BY s.thread_index
            ORDER BY s.start_ticks, s.end_ticks DESC, s.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM _trace_slices((SELECT a.capture_id FROM target AS a)) AS s
    WHERE s.kind = 'op' AND (op IS NULL OR s.label = op) AND EXISTS (FROM work)
),
outermost AS (
    FROM begun AS b WHERE b.end_ticks > b.start_ticks AND (b.before_ticks IS NULL OR b.start_ticks >= b.before_ticks)
),
launched AS (
    SELECT o.event_index, o.label, o.end_ticks - o.start_ticks AS host_ticks,
        string_agg(w.label, ' | ' ORDER BY w.start_ticks, w.event_index) AS sequence, count(*) AS length,
        try_cast(sum(w.end_ticks - w.start_ticks) AS BIGINT) AS device_ticks
    FROM work AS w
    ASOF JOIN outermost AS o ON o.thread_index = w.call_thread AND row(w.call_start_ticks) >= row(o.start_ticks)
    WHERE w.call_start_ticks < o.end_ticks
    GROUP BY o.event_index, o.label, o.end_ticks - o.start_ticks
),
summed AS (
    SELECT l.label, l.sequence, l.length, count(*) AS calls, try_cast(sum(l.device_ticks) AS BIGINT) AS device_ticks,
        try_cast(sum(l.host_ticks) AS BIGINT) AS host_ticks
    FROM launched AS l
    WHERE l.length >= min_length
    GROUP BY l.label, l.sequence, l.length
)
SELECT s.label AS op, s.sequence, s.length, s.calls, _in_unit(s.device_ticks, a.scale) AS device_time,
    _in_unit(s.host_ticks, a.scale) AS host_time, a.unit
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.device_ticks DESC, s.calls DESC, s.label, s.sequence;
