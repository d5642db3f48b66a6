-- One step of a trace by the annotations of any tool: the profiler's steps, those of servers and of diffusion models, or
-- else the outermost annotations with numbers for names or none that repeat, and launch most of what is launched.
CREATE MACRO _tool_steps(capture_key) AS TABLE
WITH written AS MATERIALIZED (
    SELECT w.start_ticks, w.end_ticks
    FROM _written_steps AS w
    WHERE w.capture_id = capture_key AND w.end_ticks > w.start_ticks
),
outer_annotations AS MATERIALIZED (
    SELECT regexp_replace(s.label, '\d+', '*', 'g') AS pattern, t.thread_index, e.start_ticks,
        e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM (
        SELECT i.signature_index, i.label
        FROM (SELECT capture_key AS capture_id) AS a
        JOIN signatures AS i USING (capture_id)
        WHERE i.activity = 'annotation'
            AND i.purpose IS NULL
            AND NOT _is_torch_annotation(i.label)
            AND NOT _is_compilation(i.label)
    ) AS s
    JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e USING (signature_index)
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t USING (event_index)
    WHERE t.annotation_index IS NULL AND e.elapsed_ticks > 0 AND NOT EXISTS (FROM written AS w)
),
launches AS (
    SELECT l.at_ticks, count(*) OVER (ORDER BY l.at_ticks ROWS UNBOUNDED PRECEDING) AS launched
    FROM _host_launches(capture_key) AS l
    WHERE EXISTS (FROM outer_annotations AS o)
),
kinds AS (
    SELECT o.pattern, sum(coalesce(u.launched, 0) - coalesce(b.launched, 0)) AS launched
    FROM outer_annotations AS o
    ASOF LEFT JOIN launches AS b ON row(o.start_ticks) > row(b.at_ticks)
    ASOF LEFT JOIN launches AS u ON row(o.end_ticks) > row(u.at_ticks)
    GROUP BY o.pattern
    HAVING count(*) > 1
),
chosen AS (
    SELECT k.pattern
    FROM kinds AS k
    WHERE 2 * k.launched >= (SELECT max(l.launched) FROM launches AS l)
    ORDER BY k.launched DESC, k.pattern
    LIMIT 1
)
SELECT NULL AS pattern, w.start_ticks, w.end_ticks FROM written AS w
UNION ALL
SELECT o.pattern, o.start_ticks, o.end_ticks FROM outer_annotations AS o JOIN chosen AS c USING (pattern);
