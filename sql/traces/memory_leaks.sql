-- The memory that one op of a trace holds on one device at the end of one step, see `held_memory`.
CREATE MACRO _held_memory(capture_key) AS TABLE
WITH steps AS MATERIALIZED (
    SELECT s.run_index, s.step, s.end_ticks, row_number() OVER (ORDER BY s.end_ticks, s.run_index) AS number,
        coalesce(lag(s.end_ticks) OVER (ORDER BY s.end_ticks, s.run_index), -(2 ** 62))::BIGINT AS after_ticks
    FROM _host_steps(capture_key) AS s
    WHERE EXISTS (FROM trace_memory AS m WHERE m.capture_id = capture_key)
),
owned AS MATERIALIZED (
    SELECT l.device, g.label AS op, l.bytes, l.at_ticks, l.until_ticks
    FROM _allocations(capture_key) AS l
    LEFT JOIN _event_labels(capture_key) AS g ON g.event_index = l.call_index
    WHERE l.bytes > 0
),
-- Changes until the end of each step, its last tick included.
changes AS (
    SELECT c.device, c.op, s.number, c.bytes, c.allocations
    FROM (
        SELECT o.device, o.op, o.at_ticks, o.bytes, 1 AS allocations FROM owned AS o
        UNION ALL
        SELECT o.device, o.op, o.until_ticks, -o.bytes, -1 FROM owned AS o WHERE o.until_ticks IS NOT NULL
    ) AS c
    ASOF JOIN steps AS s ON row(c.at_ticks) > row(s.after_ticks)
    WHERE c.at_ticks <= s.end_ticks
    UNION ALL
    SELECT o.device, o.op, s.number, 0, 0
    FROM (SELECT DISTINCT w.device, w.op FROM owned AS w) AS o CROSS JOIN steps AS s
),
summed AS (
    SELECT
        c.device, c.op, c.number, try_cast(sum(c.bytes) AS BIGINT) AS bytes, sum(c.allocations)::BIGINT AS allocations
    FROM changes AS c
    GROUP BY c.device, c.op, c.number
),
held AS (
    SELECT h.device, h.op, h.number, sum(h.bytes) OVER so_far AS bytes, sum(h.allocations) OVER so_far AS allocations
    FROM summed AS h
    WINDOW so_far AS (PARTITION BY h.device, h.op ORDER BY h.number ROWS UNBOUNDED PRECEDING)
)
SELECT h.device, h.op, s.run_index, s.step, h.number, h.allocations::BIGINT AS allocations,
    try_cast(h.bytes AS BIGINT) AS bytes
FROM held AS h
JOIN steps AS s USING (number)
QUALIFY max(h.bytes) OVER (PARTITION BY h.device, h.op) > 0;

-- The memory that one op of a trace holds on one device at the end of one step. Only memory that was allocated during
-- the recording is counted. Ops that hold no memory at the end of any step are excluded. Empty for traces that don't
-- record memory (`profile_memory`).
-- Shown: op!, held_bytes! (bytes), device, step!#, allocations#
-- Columns:
--   run_index: the run
--   step: number of the step in the trace; 0 if the trace has no steps
--   device: CPU, GPU0, ...
--   op: innermost op or module of the thread at the allocation; NULL if there is none
--   allocations: number of allocations that are held
--   held_bytes: sum of their sizes in bytes
CREATE MACRO held_memory(capture) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, NULL))
SELECT h.run_index, h.step, h.device, h.op, h.allocations, h.bytes AS held_bytes
FROM _held_memory((SELECT a.capture_id FROM target AS a)) AS h
ORDER BY h.number, h.device, h.bytes DESC, h.op;

-- How the memory that one op of a trace holds on one device at the end of steps grows from the first step to the last;
-- the op whose memory grows most is first. Memory that grows with every step is likely kept by mistake, such as losses
-- with their graphs in a list; gradients and states of optimizers grow only in the first step. Empty for traces that
-- don't record memory (`profile_memory`).
-- Needs: torch_trace; else: memory_totals
-- Empty: {capture} has no allocations that a step holds at its end: record them with profile_memory=True
-- Shown: coalesce(op, '(no op)') AS op!, device, growth_per_step_bytes! (bytes), first_bytes (bytes), last_bytes!
--   (bytes), steps#, is_leak, growing_steps#, allocations#
-- Columns:
--   device: CPU, GPU0, ...
--   op: innermost op or module of the thread at the allocation; NULL if there is none
--   steps: number of steps
--   growing_steps: number of steps, after the first, at whose end more is held than at the end of the one before
--   is_leak: whether more is held at the end of each step than of the one before, from the second on; NULL with fewer than 3 steps
--   first_bytes: bytes held at the end of the first step
--   last_bytes: bytes held at the end of the last step
--   growth_bytes: last_bytes minus first_bytes
--   growth_per_step_bytes: growth_bytes per step after the first; NULL with one step
--   allocations: number of allocations held at the end of the last step
CREATE MACRO memory_leaks(capture) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, NULL)),
held AS MATERIALIZED (
    SELECT h.device, h.op, h.number, h.bytes, h.allocations,
        h.bytes - lag(h.bytes) OVER (PARTITION BY h.device, h.op ORDER BY h.number) AS growth
    FROM _held_memory((SELECT a.capture_id FROM target AS a)) AS h
),
summed AS (
    SELECT h.device, h.op, count(*) AS steps, count(*) FILTER (WHERE h.growth > 0) AS growing_steps,
        arg_min(h.bytes, h.number) AS first_bytes, arg_max(h.bytes, h.number) AS last_bytes,
        arg_max(h.allocations, h.number) AS allocations
    FROM held AS h
    GROUP BY h.device, h.op
)
SELECT
    s.device, s.op, s.steps, s.growing_steps, CASE WHEN s.steps >= 3 THEN s.growing_steps = s.steps - 1 END AS is_leak,
    s.first_bytes, s.last_bytes, s.last_bytes - s.first_bytes AS growth_bytes,
    (s.last_bytes - s.first_bytes)::DOUBLE / nullif(s.steps - 1, 0) AS growth_per_step_bytes,
    s.allocations
FROM summed AS s
ORDER BY s.last_bytes - s.first_bytes DESC, s.device, s.op;
