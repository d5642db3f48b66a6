-- One part of the critical path of a step of a trace, in the order of time: the chain of events that the end of the
-- step waited for. The parts follow each other without a gap, from the step's start to its end, so that their durations
-- sum up to its duration; other events that ran at the same time are not on the path, and the step would not be shorter
-- without them. `critical_ops` has the sums by op. The path is followed backwards from the end of the step: from a
-- device event to the last thing that it waited for (its launch, the previous event of its stream, an event of another
-- stream), from a thread of the host to the last call that waited for a device, or to the thread that it waited for.
-- Shortening a part shortens the step by at most the part's duration. A step begins and ends as in `step_breakdown`.
-- The path of the whole recording begins with its first device event, if the trace doesn't show what this event waited
-- for during most of the time before it.
-- Needs: torch_trace; else: execute_breakdown
-- Shown: kind, name!, op, device#, stream#, start! (time), duration! (time), share_percent%, call_kind,
--   correlation_id#, unit
-- Share: of the path
-- Columns:
--   kind: on the host: op, call (of the runtime or driver), annotation, python, other, or host (no event). On a device: kernel, memcpy or memset. Waits until an event of a device starts: launch_delay (since the start of its call), stream_delay (since the end of the previous event of the stream), dependency (since the end of an event of another stream), or unknown_wait (since the launch or the end of the previous event of the stream, for something that the trace doesn't show). Waits of the host: synchronization (from the end of the event that a call waited for until the call returns), or handover (from the end of what a thread waited for until its next op). unknown: the time before an event of a device whose launch was not recorded
--   name: label of the event; of the event that started late, for delays, dependency and handover; NULL outside of events
--   op: innermost op that contains it, or its launch; NULL if none does
--   thread: thread of the host, as in the file; NULL for devices and waits
--   device: number of the device; NULL for the host, and if not written
--   stream: stream; NULL for the host, and if not written
--   start: start of the part, relative to the start of the recording
--   duration: duration of the part
--   share_percent: duration in percent of the path
--   call_kind: for parts in calls and synchronization, what the call is for: launch, copy, synchronization, stream_wait, event_record, allocation, free, pinned_memory, module_load, graph_instantiation, creation or query; NULL for other parts, and if the call isn't known
--   correlation_id: id that a call shares with the events that it launched; NULL if there is none
--   event_index: the event, in `events`; NULL outside of events
--   unit: the requested unit of time
CREATE MACRO critical_path(
    capture,
    step := NULL,  -- number of a step; with step_name, number of a call, from 0; NULL: the whole recording, or with step_name the first call
    unit := NULL,
    step_name := NULL  -- name of an annotation or op whose calls are the steps; NULL: steps of the profiler
) AS TABLE
WITH target AS MATERIALIZED (
    FROM _scaled_capture(capture, unit) AS _asked WHERE _has_step(capture, _asked.capture_id, step, step_name)
)
SELECT p.kind, p.label AS name, p.op, h.thread, p.device, p.stream,
    _in_unit(p.start_ticks - r.start_ticks, a.scale) AS start,
    _in_unit(p.end_ticks - p.start_ticks, a.scale) AS duration,
    100 * (p.end_ticks - p.start_ticks)::DOUBLE / sum(p.end_ticks - p.start_ticks) OVER () AS share_percent,
    p.call_kind, p.correlation_id, p.event_index, a.unit
FROM target AS a CROSS JOIN _recording((SELECT a.capture_id FROM target AS a)) AS r
CROSS JOIN _path_elements((SELECT a.capture_id FROM target AS a), step, step_name) AS p
LEFT JOIN threads AS h ON h.capture_id = a.capture_id AND h.thread_index = p.thread_index
ORDER BY p.start_ticks;

-- The time of one op on the critical path, see `critical_path`: the step would be shorter by at most this time if the
-- op took no time. The ops with the longest time come first. Time outside of ops counts for the innermost annotation or
-- Python function; ProfilerStep* is a step.
-- Needs: torch_trace; else: execute_breakdown
-- Shown: coalesce(op, '(no op)') AS op!, total!~, share_percent!%, host~, device~, delay~, call, kernel, parts#, unit
-- Share: of the path
-- Columns:
--   op: family of the op, or of the innermost event if no op contains it; NULL outside of events, and for unknown_wait and unknown, which belong to no op
--   total: time on the path, the most that the op could shorten it by
--   share_percent: total in percent of the path
--   host: part of it on the host
--   device: part of it in kernels, copies and fills
--   delay: part of it in launch_delay, stream_delay, dependency, unknown_wait, synchronization, handover and unknown
--   call: call of the runtime or driver in which the host is longest for the op on the path; NULL if it is in none
--   kernel: kernel, copy or fill of the op that takes most time on the path; NULL if it has none there
--   parts: number of parts of the path
--   unit: the requested unit of time
CREATE MACRO critical_ops(
    capture,
    step := NULL,  -- as in `critical_path`
    unit := NULL,
    step_name := NULL  -- as in `critical_path`
) AS TABLE
WITH target AS MATERIALIZED (
    FROM _scaled_capture(capture, unit) AS _asked WHERE _has_step(capture, _asked.capture_id, step, step_name)
),
-- A part is on the host, of a device (in a kernel), or a delay.
by_event AS (
    SELECT CASE WHEN p.kind NOT IN ('unknown', 'unknown_wait') THEN p.owner END AS op, p.call,
        CASE WHEN p.kind IN ('kernel', 'memcpy', 'memset') THEN p.label END AS kernel,
        sum(p.end_ticks - p.start_ticks) AS ticks,
        _sum_where(
            p.end_ticks - p.start_ticks, p.kind IN ('op', 'call', 'annotation', 'python', 'other', 'host')
        ) AS host_ticks,
        count(*) AS parts
    FROM _path_elements((SELECT a.capture_id FROM target AS a), step, step_name) AS p
    GROUP BY 1, 2, 3
),
totals AS (
    SELECT e.op, try_cast(sum(e.ticks) AS BIGINT) AS ticks, try_cast(sum(e.host_ticks) AS BIGINT) AS host_ticks,
        _sum_where(e.ticks, e.kernel IS NOT NULL) AS device_ticks,
        arg_min(e.call, (-e.ticks, e.call)) FILTER (WHERE e.call IS NOT NULL) AS call,
        arg_min(e.kernel, (-e.ticks, e.kernel)) FILTER (WHERE e.kernel IS NOT NULL) AS kernel,
        sum(e.parts)::BIGINT AS parts
    FROM by_event AS e
    GROUP BY e.op
)
SELECT t.op, _in_unit(t.ticks, a.scale) AS total, 100 * t.ticks::DOUBLE / sum(t.ticks) OVER () AS share_percent,
    _in_unit(t.host_ticks, a.scale) AS host, _in_unit(t.device_ticks, a.scale) AS device,
    _in_unit(t.ticks - t.host_ticks - t.device_ticks, a.scale) AS delay, t.call, t.kernel, t.parts, a.unit
FROM totals AS t CROSS JOIN target AS a
ORDER BY t.ticks DESC, t.op;
