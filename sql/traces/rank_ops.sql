-- The time that one rank of a job spends on one kernel on its device, or on one op on its host (the op's self time),
-- compared with the other ranks; without communication and calls that wait. With `by := 'part'`, rows are the parts of
-- `step_breakdown`, into which a step is divided, communication included. The largest excess over the other ranks comes
-- first.
-- Empty: {view} has no rows: no trace has a label rank; ingest the traces of a job's ranks
-- Shown: job, rank!#, place!, op!, per_step!~, others!~, excess!~, change_percent%, calls#, unit
-- Columns:
--   job: the traces' label job; NULL if they have none
--   rank: the trace's label rank
--   place: device or host; NULL by part
--   op: name of the kernel or op, or the part
--   calls: number of its calls in the rank's steps; NULL by part
--   per_step: its time per step, a mean
--   others: median of the same over the other ranks; NULL if there are none
--   excess: per_step minus others
--   change_percent: excess in percent of others; NULL where others is 0 or NULL
--   unit: the requested unit of time
CREATE MACRO rank_ops(
    selector := NULL,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    unit := NULL,
    "by" := 'op'  -- op or part
) AS TABLE
WITH asked AS (SELECT _checked_by("by", ['op', 'part']) AS parted_by),
steps AS MATERIALIZED (FROM _job_steps(selector, unit)),
ranks AS (
    SELECT coalesce(s.job, '') AS job, s.rank, count(DISTINCT s.run_index) AS steps, any_value(s.unit) AS unit,
        any_value(s.scale) AS scale
    FROM steps AS s
    GROUP BY 1, s.rank
),
measured AS (
    SELECT s.job, s.rank, e.place, e.op, 1 AS calls, e.ticks
    FROM asked AS a CROSS JOIN steps AS s
    JOIN _rank_work() AS e USING (capture_id, run_index)
    WHERE a.parted_by = 'op'
    UNION ALL
    SELECT s.job, s.rank, NULL, p.part.name, NULL, p.part.ticks
    FROM asked AS a CROSS JOIN steps AS s
    JOIN (
        SELECT t.capture_id, t.run_index,
            unnest([
                {'name': 'kernel', 'ticks': t.kernel_ticks},
                {'name': 'communication', 'ticks': t.communication_ticks},
                {'name': 'memcpy', 'ticks': t.memcpy_ticks},
                {'name': 'memset', 'ticks': t.memset_ticks},
                {'name': 'runtime', 'ticks': t.runtime_ticks},
                {'name': 'data_loader', 'ticks': t.data_loader_ticks},
                {'name': 'cpu_exec', 'ticks': t.cpu_exec_ticks},
                {'name': 'other', 'ticks': t.other_ticks}
            ]) AS part
        FROM trace_steps AS t
    ) AS p USING (capture_id, run_index)
    WHERE a.parted_by = 'part'
),
summed AS (
    SELECT coalesce(m.job, '') AS job, m.rank, m.place, m.op, sum(m.calls)::BIGINT AS calls,
        sum(m.ticks)::BIGINT AS ticks
    FROM measured AS m
    GROUP BY 1, m.rank, m.place, m.op
),
-- Each op of a job at each of its ranks.
whole AS MATERIALIZED (
    SELECT r.job, r.rank, o.place, o.op, s.calls, coalesce(s.ticks, 0)::DOUBLE / r.steps AS ticks, r.unit, r.scale
    FROM ranks AS r
    JOIN (SELECT DISTINCT u.job, u.place, u.op FROM summed AS u) AS o USING (job)
    LEFT JOIN summed AS s
        ON s.job = r.job AND s.rank = r.rank AND s.op = o.op AND s.place IS NOT DISTINCT FROM o.place
),
compared AS (
    SELECT w.*,
        list_median(list_transform(list_filter(l.ranks, lambda n: n.rank <> w.rank), lambda n: n.ticks)) AS others
    FROM whole AS w
    JOIN (
        SELECT i.job, i.place, i.op, list({'rank': i.rank, 'ticks': i.ticks}) AS ranks
        FROM whole AS i
        GROUP BY i.job, i.place, i.op
    ) AS l ON l.job = w.job AND l.op = w.op AND l.place IS NOT DISTINCT FROM w.place
)
SELECT nullif(c.job, '') AS job, c.rank, c.place, c.op, c.calls, _in_unit(c.ticks, c.scale) AS per_step,
    _in_unit(c.others, c.scale) AS others, _in_unit(c.ticks - c.others, c.scale) AS excess,
    100 * (c.ticks - c.others) / nullif(c.others, 0) AS change_percent, c.unit
FROM compared AS c
WHERE c.calls IS NOT NULL OR c.place IS NULL
ORDER BY c.ticks - c.others DESC NULLS LAST, c.job, c.rank, c.place, c.op;

-- One kernel, copy or fill of a rank's device, by its time, or op of its host, by its self time; without communication and
-- calls that wait.
CREATE MACRO _rank_work() AS TABLE
SELECT e.capture_id, e.run_index, CASE WHEN g.on_device THEN 'device' ELSE 'host' END AS place, g.label AS op,
    e.start_ticks + e.elapsed_ticks AS end_ticks,
    CASE WHEN g.on_device THEN e.elapsed_ticks ELSE e.self_ticks END AS ticks
FROM signatures AS g
JOIN event_ticks AS e USING (capture_id, signature_index)
WHERE e.elapsed_ticks >= 0
    AND g.kernel_family IS DISTINCT FROM 'communication'
    AND g.activity IN ('kernel', 'copy', 'fill', 'op', 'python_function', 'call')
    AND coalesce(g.purpose, '') NOT IN ('communication', 'collective', 'profiler', 'synchronization')
    AND g.waits IS DISTINCT FROM true;
