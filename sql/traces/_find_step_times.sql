-- Whether a step is one of at most 30 that are evenly spaced among all.
CREATE MACRO _is_sampled_step(
    place,  -- its place among all, from 1
    steps  -- how many they are
) AS (place * 30 // greatest(30, steps) > (place - 1) * 30 // greatest(30, steps));

-- The time of one total, op, annotation or module in one step of a trace, on the host. Events that begin in the step
-- count: ops and runtime calls without children, others with them. Where events of a thread overlap, a moment counts
-- once for the ops and runtime calls, as in self_ticks, and once for an annotation or module of one name. The time of
-- the profiler's helper events belongs to the events that contain them.
CREATE MACRO _find_step_times(
    capture_key,
    step_name  -- name of an annotation whose calls are the steps; NULL: profiler steps
) AS TABLE
WITH kinds AS MATERIALIZED (
    SELECT k.signature_index, k.is_helper, k.activity = 'step' AS is_step,
        CASE WHEN k.label IS DISTINCT FROM step_name THEN _step_kind(k.activity) END AS kind,
        _step_label(k.activity, k.family) AS label
    FROM (
        SELECT s.*, coalesce(s.purpose = 'profiler', false) AS is_helper
        FROM signatures AS s
        WHERE s.capture_id = capture_key AND NOT s.on_device
    ) AS k
),
-- Without texts, which would take most of the memory of an ingest.
hosts AS MATERIALIZED (
    SELECT e.run_index, e.event_index, e.parent_index, e.signature_index, e.start_ticks, e.elapsed_ticks,
        e.overlap_ticks, k.is_helper, k.is_step, k.kind IN ('op', 'runtime') AS is_exclusive
    FROM kinds AS k
    JOIN event_ticks AS e ON e.capture_id = capture_key AND e.signature_index = k.signature_index
),
found AS (
    SELECT r.run_index, r.name AS scope, min(h.start_ticks) AS start_ticks,
        max(h.start_ticks + h.elapsed_ticks) AS end_ticks
    FROM runs AS r
    JOIN hosts AS h USING (run_index)
    WHERE r.capture_id = capture_key
        AND step_name IS NULL
        AND NOT h.is_helper
        AND h.elapsed_ticks >= 0
        AND CASE WHEN _is_step_run(r.name) THEN h.is_step ELSE r.name = 'Trace' END
    GROUP BY r.run_index, r.name
    UNION ALL
    SELECT a.run_index, step_name, a.start_ticks, a.end_ticks
    FROM _annotation_steps(capture_key, step_name) AS a
    WHERE step_name IS NOT NULL
),
steps AS MATERIALIZED (
    SELECT f.*, _is_sampled_step(f.place, f.steps) AS is_sample
    FROM (SELECT s.*, row_number() OVER (ORDER BY s.run_index) AS place, count(*) OVER () AS steps FROM found AS s) AS f
),
placed AS (
    SELECT h.*, t.run_index AS step_index
    FROM hosts AS h
    JOIN steps AS t USING (run_index)
    WHERE step_name IS NULL AND NOT h.is_helper
    UNION ALL
    SELECT h.*, t.run_index
    FROM hosts AS h
    ASOF JOIN steps AS t ON row(h.start_ticks) >= row(t.start_ticks)
    WHERE step_name IS NOT NULL AND NOT h.is_helper AND h.start_ticks < t.end_ticks
),
-- An event's parent is the nearest event that is not a helper.
stepped AS MATERIALIZED (
    SELECT p.step_index, p.event_index,
        CASE WHEN h.event_index IS NULL THEN p.parent_index ELSE h.parent_index END AS parent_index, p.signature_index,
        p.run_index, p.is_exclusive, p.start_ticks, greatest(p.elapsed_ticks, 0) AS ticks,
        greatest(p.elapsed_ticks, 0) - coalesce(p.overlap_ticks, 0) AS counted_ticks
    FROM placed AS p
    LEFT JOIN (FROM hosts AS h WHERE h.is_helper) AS h ON h.event_index = p.parent_index
),
-- The part of each event that earlier annotations or modules of its name and thread cover.
repeated AS (
    SELECT s.step_index, s.signature_index,
        _part_before(
            s.start_ticks, s.start_ticks + s.ticks, max(s.start_ticks + s.ticks) OVER (
                PARTITION BY s.step_index, k.kind, k.label, t.thread_index
                ORDER BY s.start_ticks, s.ticks DESC, s.event_index
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS ticks
    FROM stepped AS s
    JOIN kinds AS k ON k.signature_index = s.signature_index AND k.kind IN ('annotation', 'module')
    JOIN trace_events AS t ON t.capture_id = capture_key AND t.run_index = s.run_index AND t.event_index = s.event_index
),
sums AS (
    SELECT s.step_index, s.signature_index, count(*) AS calls,
        sum(CASE WHEN s.is_exclusive THEN s.counted_ticks ELSE s.ticks END) AS ticks
    FROM stepped AS s
    GROUP BY s.step_index, s.signature_index
    UNION ALL
    SELECT p.step_index, p.signature_index, 0, -sum(c.counted_ticks)
    FROM stepped AS c
    JOIN stepped AS p ON p.event_index = c.parent_index
    WHERE p.is_exclusive
    GROUP BY p.step_index, p.signature_index
    UNION ALL
    SELECT r.step_index, r.signature_index, 0, -sum(r.ticks) FROM repeated AS r GROUP BY r.step_index, r.signature_index
),
parts AS (
    SELECT t.run_index, t.scope, t.is_sample, 'framework' AS kind, t.scope AS label, 1 AS calls,
        t.end_ticks - t.start_ticks AS ticks
    FROM steps AS t
    UNION ALL
    SELECT t.run_index, t.scope, t.is_sample, k.kind, k.label, s.calls, s.ticks
    FROM sums AS s
    JOIN kinds AS k USING (signature_index)
    JOIN steps AS t ON t.run_index = s.step_index
    WHERE k.kind IS NOT NULL
)
SELECT capture_key::INTEGER AS capture_id, p.run_index, p.scope, p.kind, p.label, sum(p.calls)::INTEGER AS calls,
    try_cast(sum(p.ticks) AS BIGINT) AS ticks, p.is_sample
FROM parts AS p
GROUP BY p.run_index, p.scope, p.is_sample, p.kind, p.label
HAVING try_cast(sum(p.ticks) AS BIGINT) IS NOT NULL
ORDER BY p.run_index, p.kind, p.label;
