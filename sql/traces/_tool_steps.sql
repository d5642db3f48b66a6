-- One step of a trace by the annotations of any tool: the profiler's steps, or those of servers and of diffusion
-- models. If there are none, steps are the outermost annotations that have the same name apart from numbers, repeat,
-- and launch at least half of what is launched (or contain at least half of the ops, if nothing is launched). Of a step
-- that exceeds the recording, if the recording's span is known and contains a part of the step, only that part counts,
-- as the rest is not recorded.
CREATE MACRO _tool_steps(capture_key) AS TABLE
WITH recorded AS (
    SELECT min(e.start_ticks) AS start_ticks, max(e.start_ticks + e.elapsed_ticks) AS end_ticks
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS i ON i.capture_id = a.capture_id AND i.category = 'Trace'
    JOIN event_ticks AS e ON e.capture_id = a.capture_id AND e.signature_index = i.signature_index
    WHERE e.elapsed_ticks > 0
),
written AS MATERIALIZED (
    SELECT greatest(w.start_ticks, r.start_ticks) AS start_ticks, least(w.end_ticks, r.end_ticks) AS end_ticks
    FROM _written_steps AS w
    LEFT JOIN recorded AS r ON w.start_ticks < r.end_ticks AND w.end_ticks > r.start_ticks
    WHERE w.capture_id = capture_key AND w.end_ticks > w.start_ticks
),
outer_annotations AS MATERIALIZED (
    SELECT regexp_replace(s.label, '\d+', '*', 'g') AS pattern, t.thread_index, t.start_ticks,
        t.start_ticks + t.elapsed_ticks AS end_ticks
    FROM (
        SELECT i.signature_index, i.label
        FROM (SELECT capture_key AS capture_id) AS a
        JOIN signatures AS i USING (capture_id)
        WHERE i.activity = 'annotation'
            AND coalesce(i.purpose, 'denoising') = 'denoising'
            AND NOT _is_torch_annotation(i.label)
    ) AS s
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t ON t.event_signature = s.signature_index
    WHERE t.annotation_index IS NULL AND t.elapsed_ticks > 0 AND NOT EXISTS (FROM written AS w)
),
launching AS MATERIALIZED (
    SELECT l.at_ticks FROM _host_launches(capture_key) AS l WHERE EXISTS (FROM outer_annotations AS o)
),
launches AS (
    SELECT l.at_ticks, count(*) OVER (ORDER BY l.at_ticks ROWS UNBOUNDED PRECEDING) AS launched
    FROM (
        SELECT n.at_ticks FROM launching AS n
        UNION ALL
        SELECT e.start_ticks
        FROM (SELECT capture_key AS capture_id) AS a
        JOIN signatures AS i ON i.capture_id = a.capture_id AND i.activity = 'op'
        JOIN event_ticks AS e ON e.capture_id = a.capture_id AND e.signature_index = i.signature_index
        WHERE EXISTS (FROM outer_annotations AS o) AND NOT EXISTS (FROM launching AS n)
    ) AS l
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

-- One time in which steps overlap or follow each other without a gap.
CREATE MACRO _merged_steps(
    tool_steps  -- a table of the rows of `_tool_steps`
) AS TABLE
WITH ordered AS (
    SELECT t.start_ticks, t.end_ticks,
        max(t.end_ticks) OVER (
            ORDER BY t.start_ticks, t.end_ticks
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM query_table(tool_steps) AS t
),
numbered AS (
    SELECT o.start_ticks, o.end_ticks,
        count(*) FILTER (o.before_ticks IS NULL OR o.start_ticks > o.before_ticks) OVER (
            ORDER BY o.start_ticks, o.end_ticks
            ROWS UNBOUNDED PRECEDING
        ) AS number
    FROM ordered AS o
)
SELECT min(n.start_ticks) AS start_ticks, max(n.end_ticks) AS end_ticks FROM numbered AS n GROUP BY n.number;

-- One time of `_merged_steps`, until the end of what was launched in it; the recording if there are none.
CREATE MACRO _whole_steps(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    tool_steps  -- a table of the rows of `_tool_steps`
) AS TABLE
WITH spans AS MATERIALIZED (FROM _merged_steps(tool_steps))
SELECT t.start_ticks, greatest(t.end_ticks, max(w.end_ticks)) AS end_ticks, true AS is_step
FROM spans AS t
LEFT JOIN (
    SELECT b.start_ticks, w.end_ticks
    FROM query_table(launches) AS w
    ASOF JOIN spans AS b ON row(w.call_start_ticks) >= row(b.start_ticks)
    WHERE w.call_start_ticks < b.end_ticks
) AS w USING (start_ticks)
GROUP BY t.start_ticks, t.end_ticks
UNION ALL
SELECT r.start_ticks, r.end_ticks, false
FROM _recording(capture_key) AS r
WHERE NOT EXISTS (FROM query_table(tool_steps) AS t);

-- The time of the steps of `_whole_steps`: all of it, the part in communication while nothing is computed, and the part
-- in which data is loaded while devices run nothing. One row.
CREATE MACRO _tool_step_times(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    tool_steps  -- a table of the rows of `_tool_steps`
) AS TABLE
WITH work AS MATERIALIZED (
    SELECT l.start_ticks, l.end_ticks, _work_type(l.kind, l.kernel_family) AS type FROM query_table(launches) AS l
),
steps AS MATERIALIZED (FROM _whole_steps(capture_key, launches, tool_steps)),
spans AS (
    SELECT s.start_ticks, s.end_ticks, 'step' AS type FROM steps AS s
    UNION ALL
    SELECT w.start_ticks, w.end_ticks, w.type FROM work AS w
    UNION ALL
    SELECT e.start_ticks, e.start_ticks + e.elapsed_ticks, i.purpose
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS i USING (capture_id)
    JOIN event_ticks AS e USING (capture_id, signature_index)
    WHERE NOT i.on_device
        AND e.elapsed_ticks > 0
        AND (i.purpose = 'data_loading' OR i.purpose = 'communication' AND NOT EXISTS (FROM work))
),
edges AS (
    SELECT s.start_ticks AS at_ticks, s.type, 1 AS change FROM spans AS s
    UNION ALL
    SELECT s.end_ticks, s.type, -1 FROM spans AS s
),
moments AS (
    SELECT e.at_ticks, _sum_where(e.change, e.type = 'step') AS step,
        _sum_where(e.change, e.type = 'computation') AS computes,
        _sum_where(e.change, e.type = 'communication') AS communicates,
        _sum_where(e.change, e.type = 'memory') AS copies, _sum_where(e.change, e.type = 'data_loading') AS loads
    FROM edges AS e
    GROUP BY e.at_ticks
),
swept AS (
    SELECT lead(m.at_ticks) OVER so_far - m.at_ticks AS ticks, sum(m.step) OVER so_far AS step,
        sum(m.computes) OVER so_far AS computes, sum(m.communicates) OVER so_far AS communicates,
        sum(m.copies) OVER so_far AS copies, sum(m.loads) OVER so_far AS loads
    FROM moments AS m
    WINDOW so_far AS (ORDER BY m.at_ticks)
)
SELECT sum(s.ticks)::BIGINT AS ticks,
    _sum_where(s.ticks, s.communicates > 0 AND s.computes = 0)::BIGINT AS communication_ticks,
    _sum_where(s.ticks, s.loads > 0 AND s.computes + s.communicates + s.copies = 0)::BIGINT AS data_loader_ticks,
    EXISTS (FROM steps AS t WHERE t.is_step) AS has_steps
FROM swept AS s
WHERE s.step > 0;
