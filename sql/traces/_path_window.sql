-- Whether a trace has a step, or call of an annotation, whose critical path is requested. A trace without one is an
-- error if it is the only capture, see `_lacking`. Table aliases begin with an underscore, as in _named.sql.
CREATE MACRO _has_step(capture, capture_key, step, step_name) AS (
    CASE
        WHEN step IS NULL AND step_name IS NULL THEN true
        ELSE (
            SELECT CASE
                WHEN _known.is_there THEN true
                WHEN typeof(capture) NOT IN ('VARCHAR', 'HUGEINT') THEN false
                WHEN step IS NULL THEN error(
                    'no annotation or op of the trace is named ' || step_name || '; etq ops lists them'
                )
                WHEN step_name IS NOT NULL THEN error(
                    'call ' || step || ' of ' || step_name || ' is not in the trace; calls are numbered from 0'
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
-- ends last. Empty for a trace without ops, and for a step that isn't there, see `_has_step`.
CREATE MACRO _path_window(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    step, step_name
) AS TABLE
SELECT r.path_start_ticks AS start_ticks, r.path_end_ticks AS end_ticks, r.path_thread AS thread_index
FROM recordings AS r
WHERE r.capture_id = capture_key AND step IS NULL AND step_name IS NULL AND r.path_end_ticks IS NOT NULL
UNION ALL
-- A step that several threads wrote is one step.
SELECT min(d.start_ticks), max(d.end_ticks), arg_max(d.end_thread, d.end_ticks)
FROM trace_steps AS d
WHERE d.capture_id = capture_key AND step_name IS NULL AND d.step = step
HAVING max(d.end_ticks) IS NOT NULL
UNION ALL
SELECT n.start_ticks, greatest(n.end_ticks, max(l.end_ticks)), n.thread_index
FROM _annotation_steps(capture_key, step_name) AS n
LEFT JOIN query_table(launches) AS l ON l.call_start_ticks >= n.start_ticks AND l.call_start_ticks < n.end_ticks
WHERE n.run_index = coalesce(step, 0)
GROUP BY n.start_ticks, n.end_ticks, n.thread_index;
