-- The gaps of devices as periods of the host: until the next launch returns.
CREATE MACRO _gap_periods(
    gaps  -- a table of the rows of `_device_gaps`
) AS TABLE
SELECT g.next_index AS period, g.call_thread AS thread_index, g.start_ticks, g.start_ticks + g.host_ticks AS end_ticks
FROM query_table(gaps) AS g
WHERE g.host_ticks > 0;

-- One part of one gap of a device, in ticks, as in `idle_parts`. `gap` is the event that ends it.
CREATE MACRO _idle_parts(
    capture_key,
    names,  -- a table of the rows of `_host_names`
    gaps  -- a table of the rows of `_device_gaps`
) AS TABLE
WITH did AS MATERIALIZED (
    SELECT p.period, min(p.at_ticks) AS at_ticks, p.cause, p.did,
        _state_label(n.family, n.kind, p.did) AS label, n.kind, sum(p.ticks)::BIGINT AS ticks
    FROM (
        SELECT i.event_index AS period, i.cause, i.did, i.host_signature, min(i.start_ticks) AS at_ticks,
            sum(i.ticks)::BIGINT AS ticks
        FROM gap_parts AS i
        WHERE i.capture_id = capture_key
        GROUP BY i.event_index, i.cause, i.did, i.host_signature
    ) AS p
    LEFT JOIN query_table(names) AS n ON n.signature_index = p.host_signature
    GROUP BY p.period, p.cause, p.did, _state_label(n.family, n.kind, p.did), n.kind
),
calls AS (
    SELECT n.label, e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM query_table(names) AS n
    JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e USING (signature_index)
    WHERE n.waits AND n.call_cause = 'synchronization' AND e.elapsed_ticks > 0
),
-- The call that waited when the gap began: without it, the host would have continued earlier by that time.
waits AS (
    SELECT g.next_index AS period, c.label, g.start_ticks - c.start_ticks AS waited_ticks
    FROM query_table(gaps) AS g
    ASOF JOIN calls AS c ON row(g.start_ticks) > row(c.start_ticks)
    WHERE c.end_ticks >= g.start_ticks
),
-- The time that counts for such a wait: the time in which the host launches after it, up to the length of the wait.
-- `open_ticks` is the part of it in which only a step or an annotation is recorded, so that the host isn't known to
-- launch.
saved AS MATERIALIZED (
    SELECT l.period, w.label, least(l.ticks, w.waited_ticks) AS ticks,
        round(least(l.ticks, w.waited_ticks) * l.open_ticks / l.ticks)::BIGINT AS open_ticks,
        least(l.ticks, w.waited_ticks) / l.ticks AS part
    FROM (
        SELECT d.period, sum(d.ticks)::BIGINT AS ticks,
            _sum_where(d.ticks, d.cause = 'step' AND coalesce(d.kind IN ('step', 'annotation'), true)) AS open_ticks
        FROM did AS d
        WHERE d.cause IN ('host', 'step', 'op_function')
        GROUP BY d.period
    ) AS l
    JOIN waits AS w USING (period)
),
spent AS (
    SELECT d.period, d.at_ticks, d.cause, d.did, d.label, d.kind,
        CASE
            WHEN d.cause IN ('host', 'step', 'op_function') THEN round(d.ticks * (1 - coalesce(s.part, 0)))::BIGINT
            ELSE d.ticks
        END AS ticks
    FROM did AS d
    LEFT JOIN saved AS s USING (period)
    UNION ALL
    SELECT s.period, NULL, 'synchronization', 'synchronization', s.label, 'call', s.ticks - s.open_ticks FROM saved AS s
    UNION ALL
    SELECT s.period, NULL, 'after_synchronization', 'synchronization', s.label, 'call', s.open_ticks FROM saved AS s
    UNION ALL
    SELECT g.next_index, g.start_ticks + coalesce(g.host_ticks, 0),
        CASE
            WHEN g.host_ticks IS NULL THEN 'unknown'
            WHEN _is_long_call(g.call_ticks) AND 2 * g.call_ticks >= g.ticks - g.host_ticks THEN 'launch'
            WHEN 2 * (g.ticks - g.host_ticks) < g.ticks THEN 'latency'
            WHEN g.wait_kind IN ('launch_delay', 'stream_delay') THEN 'launch_delay'
            WHEN g.wait_kind = 'dependency'
                THEN CASE WHEN g.awaits_message THEN 'communication' ELSE 'dependency' END
            WHEN g.is_early THEN 'earlier_work'
            ELSE 'unknown_wait'
        END,
        NULL, g.launch, CASE WHEN g.launch IS NOT NULL THEN 'call' END, g.ticks - coalesce(g.host_ticks, 0)
    FROM query_table(gaps) AS g
)
SELECT g.device, coalesce(p.at_ticks, g.start_ticks) AS start_ticks, p.cause, p.did, p.label, p.kind, p.ticks,
    g.next_index AS gap
FROM spent AS p
JOIN query_table(gaps) AS g ON g.next_index = p.period
WHERE p.ticks > 0;

-- One part of a gap of a device of a trace, by its cause: what the host does until the next launch returns, and what
-- the launched event then waits for. `device_idle` gives each gap the cause of its longer part; the parts here sum up
-- to the gap. If a gap begins while the host waits for the device, as much of the gap as the host had waited counts for
-- that wait: without it, the next launch would come earlier by that time. Steps are those that any tool writes: the
-- profiler's, a server's, a diffusion model's, or annotations that repeat and launch most of what is launched.
-- Needs: torch_trace, device_events; else: framework_tax
-- Empty: {capture} has no gaps between device events
-- Shown: device!#, start! (time), cause!, duration! (time), host!, host_kind, host_cause, unit
-- Columns:
--   device: number of the device; NULL if not written
--   start: start of the part, or of the first part if the gap has several of its name, relative to the start of the recording
--   cause: what the time was spent on. Before the launch returns, it is what the host did: host (in ops that launch, or short ones), step (between the ops of a step), op_function (in functions within an op, such as a custom op or what torch.compile generates, if they launch or are short), cpu_op (in an op of 20 us and more that launches nothing), function (in an annotation, module or function that launches nothing), compilation, data_loading, communication, between_steps, or not_recorded (nothing is recorded, and the trace has no steps). In a call, it is the purpose of the call: synchronization, allocation, free, pinned_memory, module_load, graph_instantiation (also the capture of a graph), creation, call (of no known kind), or, if the call takes a millisecond or more, launch or copy (launch also after the launch, if at least half of that time passes in the call). after_synchronization is the part of the time counted for a synchronization in which only a step or an annotation of the host is recorded. After the launch, it is what the event waited for: launch_delay, dependency, communication, unknown_wait, or earlier_work (an unknown_wait before a stream's first event: the stream may still run work from before the recording, so the device may not be idle); latency, if the time after the launch is less than half of the gap. It is unknown if no launch is recorded
--   duration: length of the part
--   host: op, annotation, module, function or call that the host was in; NULL if it was in none
--   host_kind: op, step, annotation, module, function or call: what `host` is; NULL if host is NULL
--   host_cause: for time between steps, what the host did, in the words of `cause`; NULL if nothing is recorded, and for parts after the launch
--   unit: the requested unit of time
CREATE MACRO idle_parts(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
device_launches AS MATERIALIZED (FROM _launches((SELECT a.capture_id FROM target AS a))),
host_names AS MATERIALIZED (FROM _host_names((SELECT a.capture_id FROM target AS a))),
gaps_of_devices AS MATERIALIZED (
    FROM _device_gaps((SELECT a.capture_id FROM target AS a), 'device_launches', 'device')
)
SELECT p.device, _in_unit(p.start_ticks - r.start_ticks, a.scale) AS start, p.cause,
    _in_unit(p.ticks, a.scale) AS duration, p.label AS host, p.kind AS host_kind, p.did AS host_cause, a.unit
FROM _idle_parts((SELECT a.capture_id FROM target AS a), 'host_names', 'gaps_of_devices') AS p
CROSS JOIN target AS a
CROSS JOIN _recording((SELECT a.capture_id FROM target AS a)) AS r
ORDER BY p.start_ticks, p.device, p.ticks DESC, p.cause, p.label;
