-- The device time of each event of a trace's CPU: of the kernels that share its
-- external id, and of those of what is within it.
-- Columns:
--   run_index: the run
--   event_index: the event
--   self_ticks: ticks of the kernels that it launched itself
--   total_ticks: the same with what is within it
CREATE MACRO _device_times(
    capture_key  -- key of a capture
) AS TABLE
WITH
kernels AS MATERIALIZED (
    SELECT t.external_id, sum(coalesce(e.duration_ticks, 0)) AS ticks
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN device_events AS d ON d.capture_id = a.capture_id
    JOIN trace_events AS t
        ON t.capture_id = d.capture_id
        AND t.run_index = d.run_index
        AND t.event_index = d.event_index
    JOIN events AS e
        ON e.capture_id = t.capture_id
        AND e.run_index = t.run_index
        AND e.event_index = t.event_index
    WHERE e.category <> 'gpu_user_annotation'
        AND t.external_id > 0
    GROUP BY t.external_id
),
-- Nothing is read where no kernel tells its op, and nothing is planned of what is
-- known to have no device.
traced AS (
    SELECT
        e.run_index,
        e.event_index,
        e.start_ticks,
        e.start_ticks + coalesce(e.duration_ticks, 0) AS end_ticks,
        e.category,
        t.thread_index,
        t.external_id
    FROM (
        SELECT DISTINCT d.capture_id
        FROM device_events AS d
        WHERE d.capture_id = capture_key AND EXISTS (FROM kernels)
    ) AS a
    JOIN trace_events AS t ON t.capture_id = a.capture_id
    JOIN events AS e
        ON e.capture_id = a.capture_id
        AND e.run_index = t.run_index
        AND e.event_index = t.event_index
    WHERE NOT _is_of_device(e.category)
),
-- With what the events before it in its thread launched: those that it stands in
-- come before it, what is within it behind it.
launched AS (
    SELECT
        t.*,
        coalesce(k.ticks, 0) AS ticks,
        sum(coalesce(k.ticks, 0)) OVER (
            PARTITION BY t.thread_index
            ORDER BY t.start_ticks, t.end_ticks DESC, t.event_index
        ) AS so_far
    FROM traced AS t
    LEFT JOIN kernels AS k
        ON k.external_id = t.external_id
        AND t.category IN ('cpu_op', 'Operator', 'user_annotation')
),
running AS (
    SELECT l.thread_index, l.start_ticks, max(l.so_far) AS so_far
    FROM launched AS l
    GROUP BY l.thread_index, l.start_ticks
)
SELECT
    l.run_index,
    l.event_index,
    l.ticks AS self_ticks,
    greatest(coalesce(u.so_far, 0) - l.so_far, 0) + l.ticks AS total_ticks
FROM launched AS l
ASOF LEFT JOIN running AS u
    ON u.thread_index = l.thread_index AND l.end_ticks > u.start_ticks;

-- The innermost nn.Module that each event of a trace stands in, itself for a
-- module's own call; only where the trace has Python functions.
-- Columns:
--   run_index: the run
--   event_index: the event
--   module: the module as the trace names it, without `nn.Module: `
CREATE MACRO _modules_of_events(
    capture_key  -- key of a capture
) AS TABLE
WITH RECURSIVE
called AS MATERIALIZED (
    SELECT
        e.run_index,
        e.event_index,
        e.parent_run_index,
        e.parent_index,
        CASE
            WHEN e.category = 'python_function' AND starts_with(e.label, 'nn.Module: ')
                THEN substr(e.label, 12)
        END AS module
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN events AS e ON e.capture_id = a.capture_id
    WHERE e.category IS NOT NULL
),
found AS (
    SELECT c.run_index, c.event_index, c.module
    FROM called AS c
    WHERE c.module IS NOT NULL
    UNION ALL
    SELECT c.run_index, c.event_index, f.module
    FROM found AS f
    JOIN called AS c
        ON c.parent_run_index = f.run_index
        AND c.parent_index = f.event_index
        AND c.module IS NULL
)
SELECT f.run_index, f.event_index, f.module FROM found AS f;
