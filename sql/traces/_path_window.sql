-- The part of a trace whose critical path is requested: its start and end, and the thread that the path ends in unless
-- a device event ends last. A thread that only polls the runtime, as NCCL's watchdog polls events, does no work of the
-- trace. Empty for a trace without ops.
CREATE MACRO _path_window(capture_key, step, step_name) AS TABLE
WITH every AS MATERIALIZED (
    FROM _trace_slices(capture_key) AS s
    WHERE s.kind NOT IN ('module', 'python') AND (s.kind <> 'annotation' OR s.label = step_name)
),
slices AS MATERIALIZED (
    FROM every AS s
    ANTI JOIN (
        SELECT s.thread_index
        FROM every AS s
        GROUP BY s.thread_index
        HAVING bool_and(s.kind = 'call' AND coalesce(s.purpose = 'query', false))
    ) AS q USING (thread_index)
),
-- A step of several threads is one.
steps AS (
    SELECT min(d.start_ticks) AS start_ticks, max(d.end_ticks) AS end_ticks
    FROM trace_steps AS d
    WHERE d.capture_id = capture_key AND step_name IS NULL AND d.step = step
),
calls AS (
    SELECT n.start_ticks, n.end_ticks
    FROM _annotation_steps(capture_key, step_name) AS n
    WHERE n.run_index = coalesce(step, 0)
),
launched AS (
    SELECT c.start_ticks, greatest(c.end_ticks, max(l.end_ticks)) AS end_ticks
    FROM calls AS c
    LEFT JOIN _launches(capture_key) AS l ON l.call_start_ticks >= c.start_ticks AND l.call_start_ticks < c.end_ticks
    GROUP BY c.start_ticks, c.end_ticks
),
recording AS (
    SELECT min(s.start_ticks) AS start_ticks, max(s.end_ticks) AS end_ticks
    FROM slices AS s
    WHERE s.kind <> 'annotation' AND s.end_ticks > s.start_ticks
),
bounds AS (
    SELECT
        CASE
            WHEN step_name IS NOT NULL THEN (SELECT l.start_ticks FROM launched AS l)
            WHEN step IS NULL THEN r.start_ticks
            ELSE (SELECT s.start_ticks FROM steps AS s)
        END AS start_ticks,
        CASE
            WHEN step_name IS NOT NULL THEN (SELECT l.end_ticks FROM launched AS l)
            WHEN step IS NULL THEN r.end_ticks
            ELSE (SELECT s.end_ticks FROM steps AS s)
        END AS end_ticks
    FROM recording AS r
    WHERE r.start_ticks IS NOT NULL
),
found AS (
    SELECT b.start_ticks,
        CASE
            WHEN b.end_ticks IS NOT NULL THEN b.end_ticks
            WHEN step_name IS NOT NULL
                THEN error(
                    'call ' || coalesce(step, 0) || ' of ' || step_name
                    || ' is not in the trace; calls are numbered from 0'
                )
            ELSE error('step ' || step || ' is not complete in the trace; etq steps lists them')
        END AS end_ticks
    FROM bounds AS b
),
-- The last to end, of those the first to start.
last_of_host AS (
    SELECT s.thread_index
    FROM found AS f
    JOIN slices AS s ON s.end_ticks <= f.end_ticks AND s.end_ticks > f.start_ticks
    WHERE s.kind IN ('op', 'step', 'call', 'annotation')
    ORDER BY s.end_ticks DESC, s.start_ticks, s.event_index
    LIMIT 1
)
SELECT f.start_ticks, f.end_ticks, l.thread_index FROM found AS f LEFT JOIN last_of_host AS l ON true;
