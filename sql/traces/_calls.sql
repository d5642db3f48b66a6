-- Names of events that torch's tables leave out: helpers of the profiler's own.
CREATE MACRO _is_profilers_own(
    label,  -- the event's label
    category  -- its category
) AS (
    coalesce(category, '') = 'Trace' OR label IN (
        'profiler::_record_function_enter', 'profiler::_record_function_enter_new',
        'profiler::_record_function_exit', 'aten::is_leaf', 'aten::output_nr',
        'aten::_version'
    )
);

-- Whether a device ran an event of that category.
CREATE MACRO _is_of_device(
    category  -- the event's category; NULL for formats without any
) AS (
    coalesce(category, '') IN (
        'kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation', 'cuda_sync',
        'Kernel', 'Memcpy', 'Memset'
    )
);

-- The events of the recorded runs as torch counts calls: one that only calls
-- another of its own name is one call with that, and helpers of the profiler's
-- own are none. Own time and own memory of what is no call go to the call that
-- it stands in.
-- Columns:
--   run_index: the run
--   event_index: the event
--   signature_index: the event, in `signatures`
--   start_ticks: clock at the start
--   duration_ticks: duration in ticks
--   self_ticks: the same without what is within it
--   is_call: whether it counts as a call
--   call_run_index: run of the call that it belongs to: itself, for a call
--   call_index: that call; NULL where it stands in none
CREATE MACRO _calls(
    capture,  -- as everywhere
    skip_first,  -- as in `schedule`
    wait,  -- as in `schedule`
    warmup,  -- as in `schedule`
    active,  -- as in `schedule`
    repeat,  -- as in `schedule`
    skip_first_wait,  -- as in `schedule`
    phase  -- as everywhere
) AS TABLE
WITH RECURSIVE
timed AS MATERIALIZED (
    SELECT t.*, s.family, _is_profilers_own(s.label, s.category) AS is_own
    FROM _capture(capture, NULL) AS a
    CROSS JOIN _self_times(
        capture, skip_first, wait, warmup, active, repeat, skip_first_wait, phase
    ) AS t
    JOIN signatures AS s
        ON s.capture_id = a.capture_id AND s.signature_index = t.signature_index
),
judged AS MATERIALIZED (
    SELECT
        t.*,
        NOT t.is_own AND NOT coalesce(
            p.family = t.family AND p.children = 1 AND NOT p.is_own, false
        ) AS is_call
    FROM timed AS t
    LEFT JOIN timed AS p
        ON p.run_index = t.parent_run_index AND p.event_index = t.parent_index
),
-- What is no call, and the event above it, up to a call.
climbing AS (
    SELECT
        j.run_index,
        j.event_index,
        j.parent_run_index AS above_run_index,
        j.parent_index AS above_index
    FROM judged AS j
    WHERE NOT j.is_call
    UNION ALL
    SELECT c.run_index, c.event_index, p.parent_run_index, p.parent_index
    FROM climbing AS c
    JOIN judged AS p
        ON p.run_index = c.above_run_index AND p.event_index = c.above_index
    WHERE NOT p.is_call
),
found AS (
    SELECT c.run_index, c.event_index, p.run_index AS call_run_index, c.above_index
    FROM climbing AS c
    JOIN judged AS p
        ON p.run_index = c.above_run_index AND p.event_index = c.above_index
    WHERE p.is_call
)
SELECT
    j.run_index,
    j.event_index,
    j.signature_index,
    j.start_ticks,
    j.duration_ticks,
    j.self_ticks,
    j.is_call,
    CASE WHEN j.is_call THEN j.run_index ELSE f.call_run_index END AS call_run_index,
    CASE WHEN j.is_call THEN j.event_index ELSE f.above_index END AS call_index
FROM judged AS j
LEFT JOIN found AS f
    ON f.run_index = j.run_index AND f.event_index = j.event_index;

-- What was allocated and released within each event, by any thread, as torch
-- counts it: what happened from its start to its end. Of a trace that records
-- memory; empty for all others.
-- Columns:
--   run_index: the run
--   event_index: the event
--   cpu_bytes: bytes allocated less bytes released, on the CPU
--   device_bytes: the same on devices
CREATE MACRO _memory_within(
    capture_key  -- key of a capture
) AS TABLE
WITH
moments AS (
    SELECT
        m.at_ticks,
        sum(CASE WHEN m.device_type IN (0, 2, 5) THEN m.bytes ELSE 0 END) AS cpu,
        sum(
            CASE WHEN m.device_type IN (1, 6, 12, 20) THEN m.bytes ELSE 0 END
        ) AS device
    FROM trace_memory AS m
    WHERE m.capture_id = capture_key
    GROUP BY m.at_ticks
),
running AS (
    SELECT
        m.at_ticks,
        sum(m.cpu) OVER (ORDER BY m.at_ticks)::BIGINT AS cpu,
        sum(m.device) OVER (ORDER BY m.at_ticks)::BIGINT AS device
    FROM moments AS m
),
asked AS (
    SELECT
        e.run_index,
        e.event_index,
        e.start_ticks,
        e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM event_ticks AS e
    WHERE e.capture_id = capture_key AND EXISTS (FROM moments)
)
SELECT
    a.run_index,
    a.event_index,
    coalesce(u.cpu, 0) - coalesce(b.cpu, 0) AS cpu_bytes,
    coalesce(u.device, 0) - coalesce(b.device, 0) AS device_bytes
FROM asked AS a
ASOF LEFT JOIN running AS u ON a.end_ticks >= u.at_ticks
ASOF LEFT JOIN running AS b ON a.start_ticks > b.at_ticks;
