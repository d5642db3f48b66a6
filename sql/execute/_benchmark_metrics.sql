-- One metric of a capture for a benchmark database. It is computed from the recorded runs, or was attached to the
-- capture.
CREATE MACRO _benchmark_metrics(capture, steps := NULL, phase := NULL) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.capture_id, c.time_scale, CASE c.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'ms' END AS unit
    FROM _capture(capture, NULL) AS c
),
executes AS (
    SELECT r.method, list(_in_unit(e.execute_ticks, _scale(a.time_scale, a.unit)) ORDER BY e.run_index) AS samples,
        any_value(a.unit) AS unit
    FROM _executes((SELECT a.capture_id FROM target AS a), steps, phase, NULL, 'all') AS e CROSS JOIN target AS a
    JOIN runs AS r ON r.capture_id = a.capture_id AND r.run_index = e.run_index
    WHERE e.execute_ticks IS NOT NULL
    GROUP BY r.method
),
loads AS (
    SELECT list(l.total ORDER BY l.run_index) AS samples, any_value(l.unit) AS unit
    FROM _load_breakdown('target') AS l
    WHERE l.component = 'Program::load_method' AND l.total IS NOT NULL
    HAVING count(*) > 0
),
measured AS (
    SELECT m.name, m.run_index, list(m.value ORDER BY m.source NULLS FIRST, m.sample) AS samples, m.unit, m.better
    FROM target AS a
    JOIN metrics AS m USING (capture_id)
    GROUP BY m.name, m.run_index, m.unit, m.better
),
computed_metrics AS (
    SELECT 1 AS position, 'avg_inference_latency' AS name, e.method, NULL::INTEGER AS run_index,
        [fsum(e.sample) / count(*)] AS samples, any_value(e.unit) AS unit, 'lower' AS better
    FROM (SELECT x.method, unnest(x.samples) AS sample, x.unit FROM executes AS x) AS e
    GROUP BY e.method
    UNION ALL
    SELECT 2, 'inference_latency', e.method, NULL, e.samples, e.unit, 'lower' FROM executes AS e
    UNION ALL
    SELECT 3, 'model_load_time', NULL, NULL, l.samples, l.unit, 'lower' FROM loads AS l
    UNION ALL
    SELECT 4, m.name, NULL, m.run_index, m.samples, m.unit, m.better FROM measured AS m
)
FROM computed_metrics AS s ORDER BY s.position, s.name, s.method, s.run_index NULLS FIRST, s.unit;
