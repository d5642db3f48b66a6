-- One gap of a device of a trace, the longest first: the time from the end of all its earlier events (kernels, copies,
-- fills) to the start of the next. By device, no stream ran anything during a gap; by stream, this stream ran nothing,
-- but others may have. The time before a device's first event and after its last is not in any gap. A gap has two
-- parts: until the launch of the next event returned, nothing was waiting to run (host time); from then on, the next
-- event was launched and had not started (queued time). If a call waits for the event that it launches, the event
-- counts as launched when the call begins; so do the events of a graph whose call began before the gap. The longer part
-- determines the cause. If host time is longer, the first of these that applies is the cause: between_steps, if more
-- than half of the host time lies in no step of any tool; data_loading or communication, if the threads that launch
-- work spent half of it there; the purpose of calls of the runtime or driver in which these threads waited for half of
-- it; synchronization or free, if a call that waits for a device was open when the gap began, and the host then went on
-- for at most a millisecond, or at most as long as it had waited (such a wait prevents launches ahead); not_recorded,
-- if the trace has no steps and nothing is recorded of the launching thread for more than half of it; host. The
-- purposes of calls are synchronization, allocation, free, pinned_memory, module_load, graph_instantiation, creation
-- (of streams, events, contexts), call (of no known kind), and, for calls of a millisecond or more, launch and copy. If
-- queued time is longer, the first of these that applies is the cause. dependency: the trace's records (`cuda_sync`) or
-- calls (hipStreamWaitEvent) show that the next event waited for an event of another stream during half of the queued
-- time. launch_delay: the queued time is at most launch_delay_us, or half of it passed before the launch returned.
-- dependency: an event of another stream or device ended at most launch_delay_us before the next event started; it is
-- the event that records or calls name, or, in CUDA graphs and in traces with neither, any event. unknown_wait: the
-- trace doesn't show what the next event waited for. This may be work launched before the recording, which a stream may
-- still run before its first event; then it isn't known whether the device is idle. A dependency on a kernel of
-- communication is called communication. A gap without a recorded launch is unknown.
-- Needs: torch_trace, device_events; else: framework_tax
-- Empty: {capture} has no gaps between device events
-- Shown: device!#, stream#, step#, start! (time), duration! (time), share_percent%, cause!, host_op, call, next_event,
--   waited_for, unit
-- Share: of the time from the first event of the device, or of the stream, to the end of its last
-- Columns:
--   device: number of the device; NULL if not written
--   stream: the stream; NULL by device, and if not written
--   run_index: run that launched the next event
--   step: number of that run's step in the trace; NULL if it is not a step
--   start: start of the gap, relative to the start of the recording
--   duration: length of the gap
--   share_percent: length in percent of the time from the first event of the device, or of the stream, to the end of its last
--   cause: host, between_steps, not_recorded, synchronization, data_loading, communication, allocation, free, pinned_memory, module_load, graph_instantiation, creation, call, launch, copy, dependency, launch_delay, unknown_wait or unknown
--   host_op: innermost op or annotation that the launching thread was in when the wait began, or, if the cause is host, between_steps or not_recorded, in the middle of the host time; steps are ProfilerStep*. NULL if there is none, and if the cause is in queued time
--   call: for a cause that is a call of the runtime or driver, the call in which most of the host time passed; for launch_delay the launch, if half of the time passed in it; NULL for other causes
--   next_event: label of the event that ended the gap
--   waited_for: label of the event of another stream or device that the next event waited for; NULL for other causes
--   host_time: part of the gap before the launch of the next event returned; NULL if the trace has no launch
--   queued_time: part of the gap after the launch of the next event returned; NULL if the trace has no launch
--   hta_cause: as in HolisticTraceAnalysis: host_wait, if the launch began after the gap did, else kernel_wait below kernel_wait_us, else other
--   unit: the requested unit of time
CREATE MACRO device_idle(
    capture, unit := NULL,
    "by" := 'device',  -- device or stream
    launch_delay_us := NULL,  -- longest time from a launch to its start that counts as launch delay, in microseconds; NULL: twice the median of that time for kernels that find their device idle, 10 at least, 100 at most
    kernel_wait_us := 30  -- shortest gap whose hta_cause is not kernel_wait, in microseconds
) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
idle_causes AS MATERIALIZED (
    FROM _idle_causes((SELECT a.capture_id FROM target AS a), "by", launch_delay_us * 1000) AS i
),
steps AS (
    SELECT w.run_index, w.step FROM _written_steps AS w WHERE w.capture_id = (SELECT a.capture_id FROM target AS a)
)
SELECT i.device, i.stream, i.run_index, s.step, _in_unit(i.start_ticks - r.start_ticks, a.scale) AS start,
    _in_unit(i.ticks, a.scale) AS duration,
    100 * i.ticks::DOUBLE / i.span_ticks AS share_percent, i.cause, i.host_op, i.call, i.next_label AS next_event,
    i.waited_label AS waited_for, _in_unit(i.host_ticks, a.scale) AS host_time,
    _in_unit(i.ticks - i.host_ticks, a.scale) AS queued_time,
    CASE
        WHEN i.is_late THEN 'host_wait'
        WHEN i.ticks < kernel_wait_us * 1000 THEN 'kernel_wait'
        ELSE 'other'
    END AS hta_cause,
    a.unit
FROM idle_causes AS i CROSS JOIN target AS a CROSS JOIN _recording((SELECT a.capture_id FROM target AS a)) AS r
LEFT JOIN steps AS s USING (run_index)
ORDER BY i.ticks DESC, i.device, i.stream, i.start_ticks;

-- The idle time of one device, or stream, by its cause, see `device_idle`; the longest first.
-- Needs: torch_trace, device_events; else: framework_tax
-- Empty: {capture} has no gaps between device events
-- Shown: cause!, device#, stream#, total!~, share_percent!%, gaps#, mean~, max~, host_time~, host_op, call, unit
-- Share: of the time from the first event of the device, or of the stream, to the end of its last
-- Columns:
--   device: number of the device; NULL if not written
--   stream: the stream; NULL by device, and if not written
--   cause: as in `device_idle`
--   gaps: number of gaps of that cause
--   total: sum of their lengths
--   share_percent: sum in percent of the time from the first event of the device, or of the stream, to the end of its last
--   mean: mean length
--   max: greatest length
--   host_time: part of the gaps before the launches of the next events returned; NULL if the trace has no launches
--   host_op: op or annotation that the host was in for most of the gaps' time; NULL if there is none
--   call: call of the runtime or driver that the host was in for most of the gaps' time; NULL if there is none
--   unit: the requested unit of time
CREATE MACRO device_idle_causes(
    capture, unit := NULL,
    "by" := 'device',  -- device or stream
    launch_delay_us := NULL  -- as in `device_idle`
) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
by_op AS (
    SELECT i.device, i.stream, i.cause, i.host_op, i.call, count(*) AS gaps, try_cast(sum(i.ticks) AS BIGINT) AS ticks,
        try_cast(sum(i.host_ticks) AS BIGINT) AS host_ticks, max(i.ticks) AS longest,
        any_value(i.span_ticks) AS span_ticks
    FROM _idle_causes((SELECT a.capture_id FROM target AS a), "by", launch_delay_us * 1000) AS i
    GROUP BY i.device, i.stream, i.cause, i.host_op, i.call
),
summed AS (
    SELECT b.*, sum(b.ticks) OVER (PARTITION BY b.device, b.stream, b.cause, b.host_op) AS op_ticks,
        sum(b.ticks) OVER (PARTITION BY b.device, b.stream, b.cause, b.call) AS of_call_ticks
    FROM by_op AS b
),
by_cause AS (
    SELECT r.device, r.stream, r.cause, sum(r.gaps)::BIGINT AS gaps, try_cast(sum(r.ticks) AS BIGINT) AS ticks,
        try_cast(sum(r.host_ticks) AS BIGINT) AS host_ticks, max(r.longest) AS longest,
        any_value(r.span_ticks) AS span_ticks,
        arg_max(r.host_op, (r.op_ticks, r.host_op)) FILTER (WHERE r.host_op IS NOT NULL) AS host_op,
        arg_max(r.call, (r.of_call_ticks, r.call)) FILTER (WHERE r.call IS NOT NULL) AS call
    FROM summed AS r
    GROUP BY r.device, r.stream, r.cause
)
SELECT c.device, c.stream, c.cause, c.gaps, _in_unit(c.ticks, a.scale) AS total,
    100 * c.ticks::DOUBLE / c.span_ticks AS share_percent,
    _in_unit(c.ticks::DOUBLE / c.gaps, a.scale) AS mean, _in_unit(c.longest, a.scale) AS max,
    _in_unit(c.host_ticks, a.scale) AS host_time, c.host_op, c.call, a.unit
FROM by_cause AS c CROSS JOIN target AS a
ORDER BY c.device, c.stream, c.ticks DESC, c.cause;
