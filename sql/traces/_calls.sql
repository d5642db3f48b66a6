-- The innermost lines of Python that called an op, without those that torch leaves
-- out: how it gets into its backward pass and its tests.
CREATE MACRO _called_from(
    call_stack,  -- stack of the trace, the innermost line first, separated by semicolons
    stack_depth  -- number of lines
) AS (
    array_to_string(
        list_slice(
            list_filter(
                string_split(call_stack, ';'),
                lambda n: n <> '' AND NOT regexp_matches(
                    n,
                    'autograd/__init__.*(_make_grads|backward)|torch/tensor.*backward|'
                    || '_internal/common_utils.*prof_(callable|func_call|meth_call)'
                )
            ),
            1,
            stack_depth
        ),
        ';'
    )
);

-- One event of the recorded runs with the call that it belongs to. As in torch, an
-- event that only calls another event of its own name is one call together with it,
-- and the profiler's helper events are not calls. Self time and self memory of
-- events that are not calls belong to the call that contains them.
CREATE MACRO _calls(capture_key, steps, phase, method, runs) AS TABLE
WITH RECURSIVE
named AS (
    SELECT
        s.signature_index,
        -- A number takes less memory than a text.
        min(s.signature_index) OVER (PARTITION BY s.family) AS family_index,
        coalesce(s.purpose = 'profiler', false) AS is_own
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id
),
timed AS MATERIALIZED (
    SELECT
        t.run_index,
        t.event_index,
        t.signature_index,
        t.parent_run_index,
        t.parent_index,
        t.start_ticks,
        t.duration_ticks,
        t.self_ticks,
        t.torch_self_ticks,
        t.children,
        n.family_index,
        n.is_own
    FROM _self_times(
        capture_key, steps, phase, method, runs
    ) AS t
    JOIN named AS n ON n.signature_index = t.signature_index
),
-- Events that are not calls, each with its parent.
others AS MATERIALIZED (
    SELECT t.run_index, t.event_index, t.parent_run_index, t.parent_index
    FROM timed AS t
    LEFT JOIN (FROM timed AS i WHERE i.children = 1 AND NOT i.is_own) AS p
        ON p.run_index = t.parent_run_index AND p.event_index = t.parent_index
    WHERE t.is_own OR p.family_index = t.family_index
),
-- Events that are not calls, each with all its ancestors up to a call.
ancestors AS (
    FROM others AS o
    UNION ALL
    SELECT c.run_index, c.event_index, o.parent_run_index, o.parent_index
    FROM ancestors AS c
    JOIN others AS o
        ON o.run_index = c.parent_run_index AND o.event_index = c.parent_index
),
placed AS (
    SELECT
        c.run_index,
        c.event_index,
        p.run_index AS call_run_index,
        p.event_index AS call_index,
        p.signature_index AS call_signature
    FROM ancestors AS c
    LEFT JOIN timed AS p
        ON p.run_index = c.parent_run_index AND p.event_index = c.parent_index
    WHERE NOT EXISTS (
        FROM others AS o
        WHERE o.run_index = c.parent_run_index AND o.event_index = c.parent_index
    )
)
SELECT
    t.run_index,
    t.event_index,
    t.parent_run_index,
    t.parent_index,
    t.start_ticks,
    t.duration_ticks,
    t.self_ticks,
    t.torch_self_ticks,
    p.run_index IS NULL AS is_call,
    CASE WHEN p.run_index IS NULL THEN t.run_index ELSE p.call_run_index END
        AS call_run_index,
    CASE WHEN p.run_index IS NULL THEN t.event_index ELSE p.call_index END
        AS call_index,
    CASE WHEN p.run_index IS NULL THEN t.signature_index ELSE p.call_signature END
        AS call_signature
FROM timed AS t
LEFT JOIN placed AS p
    ON p.run_index = t.run_index AND p.event_index = t.event_index;

-- Bytes of an allocation or release on the CPU; 0 for devices.
CREATE MACRO _cpu_bytes(
    device_type,  -- type of the device: as in c10's DeviceType
    bytes  -- number of bytes; negative for a release
) AS (
    CASE WHEN device_type IN (0, 2, 5) THEN bytes ELSE 0 END
);

-- Bytes of an allocation or release on CUDA, HIP, XPU or PrivateUse1, the devices
-- that torch counts; 0 for others.
CREATE MACRO _device_bytes(
    device_type,  -- type of the device: as in c10's DeviceType
    bytes  -- number of bytes; negative for a release
) AS (
    CASE WHEN device_type IN (1, 6, 12, 20) THEN bytes ELSE 0 END
);

-- The memory that any thread allocated and released between the start and the end
-- of one event, as torch counts it. Only for a trace that records memory.
CREATE MACRO _memory_within(capture_key) AS TABLE
WITH
moments AS (
    SELECT
        m.at_ticks,
        sum(_cpu_bytes(m.device_type, m.bytes)) AS cpu,
        sum(_device_bytes(m.device_type, m.bytes)) AS device
    FROM trace_memory AS m
    WHERE m.capture_id = capture_key
    GROUP BY m.at_ticks
),
running AS (
    SELECT
        m.at_ticks,
        sum(m.cpu) OVER (ORDER BY m.at_ticks) AS cpu,
        sum(m.device) OVER (ORDER BY m.at_ticks) AS device
    FROM moments AS m
),
target AS (
    SELECT
        e.run_index,
        e.event_index,
        e.start_ticks,
        e.start_ticks + e.elapsed_ticks AS end_ticks
    -- If a trace is known to record no memory, the rest is not planned.
    FROM (
        SELECT DISTINCT m.capture_id
        FROM trace_memory AS m
        WHERE m.capture_id = capture_key
    ) AS a
    JOIN event_ticks AS e ON e.capture_id = a.capture_id
)
SELECT
    a.run_index,
    a.event_index,
    try_cast(coalesce(u.cpu, 0) - coalesce(b.cpu, 0) AS BIGINT) AS cpu_bytes,
    try_cast(coalesce(u.device, 0) - coalesce(b.device, 0) AS BIGINT) AS device_bytes
FROM target AS a
ASOF LEFT JOIN running AS u ON a.end_ticks >= u.at_ticks
ASOF LEFT JOIN running AS b ON a.start_ticks > b.at_ticks;

-- One allocation or release while no thread has a CPU event. torch shows it as a
-- separate event.
CREATE MACRO _memory_outside(capture_key) AS TABLE
WITH
spans AS (
    SELECT e.start_ticks, max(e.start_ticks + e.elapsed_ticks) AS end_ticks
    -- If a trace is known to record no memory, the rest is not planned.
    FROM (
        SELECT DISTINCT m.capture_id
        FROM trace_memory AS m
        WHERE m.capture_id = capture_key
    ) AS a
    JOIN signatures AS s
        ON s.capture_id = a.capture_id
        AND NOT s.on_device
        AND s.purpose IS DISTINCT FROM 'profiler'
    JOIN event_ticks AS e
        ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    GROUP BY e.start_ticks
),
covered AS (
    SELECT
        s.start_ticks,
        max(s.end_ticks) OVER (ORDER BY s.start_ticks) AS until_ticks
    FROM spans AS s
)
SELECT
    m.capture_id,
    m.event_index,
    coalesce(_cpu_bytes(m.device_type, m.bytes), 0) AS cpu_bytes,
    coalesce(_device_bytes(m.device_type, m.bytes), 0) AS device_bytes
FROM (FROM trace_memory AS i WHERE i.capture_id = capture_key) AS m
ASOF LEFT JOIN covered AS c ON m.at_ticks >= c.start_ticks
WHERE c.until_ticks IS NULL OR c.until_ticks < m.at_ticks;
