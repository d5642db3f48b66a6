-- The slices that a trace's critical path may have: all except modules and Python functions; of annotations,
-- only the requested ones. A thread that only polls the runtime, as NCCL's watchdog polls events, does no work of the
-- trace.
CREATE MACRO _path_slices(capture_key, step_name) AS TABLE
WITH every AS MATERIALIZED (
    FROM _trace_slices(capture_key) AS s
    WHERE s.kind NOT IN ('module', 'python') AND (s.kind <> 'annotation' OR s.label = step_name)
)
SELECT s.*
FROM every AS s
LEFT JOIN (
    SELECT s.thread_index
    FROM every AS s
    GROUP BY s.thread_index
    HAVING bool_and(s.kind = 'call' AND coalesce(s.purpose = 'query', false))
) AS q USING (thread_index)
WHERE q.thread_index IS NULL;

-- Whether a trace has a step, or call of an annotation, whose critical path is requested. A trace without one is an
-- error if it is the only capture, see `_lacking`. Table aliases begin with an underscore, as in _named.sql.
CREATE MACRO _has_step(capture, capture_key, step, step_name) AS (
    CASE
        WHEN step IS NULL AND step_name IS NULL THEN true
        ELSE (
            SELECT CASE
                WHEN _known.is_there THEN true
                WHEN typeof(capture) NOT IN ('VARCHAR', 'HUGEINT') THEN false
                WHEN step_name IS NOT NULL THEN error(
                    'call ' || coalesce(step, 0) || ' of ' || step_name
                    || ' is not in the trace; calls are numbered from 0'
                )
                ELSE error('step ' || step || ' is not complete in the trace; etq steps lists them')
            END
            FROM (
                SELECT
                    CASE
                        WHEN step_name IS NULL THEN EXISTS (
                            FROM trace_steps AS _step
                            WHERE _step.capture_id = capture_key AND _step.step = step AND _step.end_ticks IS NOT NULL
                        )
                        ELSE EXISTS (
                            FROM _annotation_steps(capture_key, step_name) AS _call
                            WHERE _call.run_index = coalesce(step, 0)
                        )
                    END AS is_there
            ) AS _known
        )
    END
);

-- The part of a trace whose critical path is requested, with the thread in which its path ends, unless a device event
-- ends last: the thread of the last slice to end, or, of several that end together, of the first to start. Empty for a
-- trace without ops, and for a step that isn't there, see `_has_step`.
CREATE MACRO _path_window(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    step, step_name
) AS TABLE
WITH slices AS MATERIALIZED (FROM _path_slices(capture_key, step_name)),
found AS (
    SELECT min(s.start_ticks) AS start_ticks, max(s.end_ticks) AS end_ticks
    FROM slices AS s
    WHERE step IS NULL AND step_name IS NULL AND s.end_ticks > s.start_ticks
    UNION ALL
    -- A step that several threads wrote is one step.
    SELECT min(d.start_ticks), max(d.end_ticks)
    FROM trace_steps AS d
    WHERE d.capture_id = capture_key AND step_name IS NULL AND d.step = step
    UNION ALL
    SELECT n.start_ticks, greatest(n.end_ticks, max(l.end_ticks))
    FROM _annotation_steps(capture_key, step_name) AS n
    LEFT JOIN query_table(launches) AS l ON l.call_start_ticks >= n.start_ticks AND l.call_start_ticks < n.end_ticks
    WHERE n.run_index = coalesce(step, 0)
    GROUP BY n.start_ticks, n.end_ticks
)
SELECT f.start_ticks, f.end_ticks,
    arg_max(s.thread_index, (s.end_ticks, -s.start_ticks, -s.event_index)) AS thread_index
FROM found AS f
LEFT JOIN slices AS s
    ON s.end_ticks <= f.end_ticks AND s.end_ticks > f.start_ticks AND s.kind IN ('op', 'step', 'call', 'annotation')
WHERE f.end_ticks IS NOT NULL
GROUP BY f.start_ticks, f.end_ticks;
