-- One part of the critical path of a job's step. The path goes from rank to rank, and is followed backwards: from the
-- rank that ends the step last to that rank's last collective, whose transfer began when the last rank reached it; then
-- from that rank to the collective before, and so on, to the start of the step. A collective is skipped if the rank
-- leaves it only after the rank has reached the path's next collective. Clocks are aligned by `clock_offsets`. Only
-- collectives whose wait is known are on the path, see `collective_waits`: all-reduce, all-gather, reduce-scatter,
-- all-to-all and barriers; time in other collectives is work. Parts follow each other without a gap, from the start of
-- the step's first rank to the end of its last, on host and device.
-- Empty: {view} has no rows: no wait of a rank for another is known; etq show collective_waits says why
-- Shown: job, step!#, position#, rank!#, kind!, start~, duration!~, share_percent!%, last_rank#, collective!,
--   process_group, place, op!, op_time~, computation~, unit
-- Share: of the step's path
-- Columns:
--   job: the traces' label job; NULL if they have none
--   step: number of the step in the trace; NULL for a whole trace
--   position: position of the part in its step, from 1
--   rank: rank that works; for a transfer, the rank that works after it
--   kind: work; transfer (of a collective, since its last rank came); late start (of the rank, behind the step's first)
--   start: time from the start of the step on its first rank
--   duration: time of the part
--   share_percent: duration in percent of the step's path
--   last_rank: for a transfer, the rank that reached it last; else NULL
--   collective: name of the collective that is transferred, or that work ends before; NULL for work to the end of the step
--   process_group: name of its process group
--   computation: of work, time of the kernels, copies and fills that end in it, without communication
--   place: device, or host where its device computes for less than half of the work; NULL where no op or kernel ends in it
--   op: kernel, copy, fill or op at that place with the most time that ends in the part
--   op_time: that time; for an op, its self time
--   unit: the requested unit of time
CREATE MACRO job_critical_path(
    selector := NULL,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    unit := NULL
) AS TABLE
WITH steps AS MATERIALIZED (
    SELECT s.*, coalesce(s.job, '') AS of_job, coalesce(s.step, -1) AS number FROM _job_steps(selector, unit) AS s
),
ranks AS MATERIALIZED (SELECT DISTINCT s.capture_id, s.job, s.rank FROM steps AS s),
calls AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY c.capture_id, c.run_index, c.event_index) AS node, c.capture_id, c.run_index,
        c.job AS of_job, c.step AS number, c.rank, c.last_rank, c.last_start, c.ends_at, c.collective, c.process_group,
        c.start_ticks - c.starts_at AS ahead_ticks
    FROM _collective_calls('ranks') AS c
    WHERE c.no_wait IS NULL
),
clocks AS (SELECT c.capture_id, any_value(c.ahead_ticks) AS ahead_ticks FROM calls AS c GROUP BY c.capture_id),
device_ends AS (
    SELECT d.capture_id, d.run_index, max(d.start_ticks + d.elapsed_ticks) AS end_ticks
    FROM clocks AS k
    JOIN device_events AS d USING (capture_id)
    WHERE d.elapsed_ticks >= 0
    GROUP BY d.capture_id, d.run_index
),
-- The steps of ranks on one clock.
aligned AS MATERIALIZED (
    SELECT s.capture_id, s.run_index, s.of_job, s.number, s.rank, k.ahead_ticks,
        s.start_ticks - k.ahead_ticks AS start_ticks,
        greatest(s.start_ticks + s.ticks, d.end_ticks) - k.ahead_ticks AS end_ticks
    FROM steps AS s
    JOIN clocks AS k USING (capture_id)
    LEFT JOIN device_ends AS d USING (capture_id, run_index)
),
whole AS MATERIALIZED (
    SELECT a.of_job, a.number, min(a.start_ticks) AS start_ticks, max(a.end_ticks) AS end_ticks,
        arg_max(a.rank, (a.end_ticks, -a.rank)) AS last_rank
    FROM aligned AS a
    GROUP BY a.of_job, a.number
),
-- What a path goes through, backwards: the end of a step, and the ends of collectives, by rank. Before each, its last rank
-- works.
moments AS (
    SELECT c.node, false AS is_last, c.of_job, c.number, c.last_rank, c.last_start AS until_ticks, c.rank,
        c.ends_at AS end_ticks, c.collective, c.process_group
    FROM calls AS c
    UNION ALL
    SELECT -row_number() OVER (ORDER BY w.of_job, w.number), true, w.of_job, w.number, w.last_rank, w.end_ticks, NULL,
        NULL, NULL, NULL
    FROM whole AS w
),
-- If a rank leaves several collectives at once, the last one that began.
left_calls AS (
    FROM calls AS c
    QUALIFY row_number() OVER (PARTITION BY c.capture_id, c.run_index, c.ends_at ORDER BY c.last_start DESC, c.node) = 1
),
nodes AS MATERIALIZED (
    SELECT m.*, c.node AS before, c.ends_at AS from_ticks
    FROM moments AS m
    ASOF LEFT JOIN left_calls AS c
        ON c.of_job = m.of_job
        AND c.number = m.number
        AND c.rank = m.last_rank
        AND row(m.until_ticks) >= row(c.ends_at)
),
walk AS MATERIALIZED (
    SELECT n.*, a.capture_id, a.run_index, a.ahead_ticks, w.start_ticks AS first_ticks,
        coalesce(n.from_ticks, greatest(least(a.start_ticks, n.until_ticks), w.start_ticks)) AS since_ticks
    FROM _walked('nodes') AS n
    JOIN whole AS w USING (of_job, number)
    JOIN aligned AS a ON a.of_job = n.of_job AND a.number = n.number AND a.rank = n.last_rank
),
worked AS (
    SELECT p.node, e.place, e.op, sum(least(e.ticks, e.end_ticks - p.ahead_ticks - p.since_ticks)) AS ticks
    FROM (
        SELECT w.capture_id, w.run_index, w.place, w.op, w.end_ticks, w.ticks
        FROM _rank_work() AS w
        WHERE w.capture_id IN (SELECT k.capture_id FROM clocks AS k)
    ) AS e
    ASOF JOIN walk AS p
        ON p.capture_id = e.capture_id
        AND p.run_index = e.run_index
        AND row(e.end_ticks) > row(p.since_ticks + p.ahead_ticks)
    WHERE e.end_ticks <= p.until_ticks + p.ahead_ticks
    GROUP BY p.node, e.place, e.op
),
of_places AS (
    SELECT w.node, coalesce(sum(w.ticks) FILTER (WHERE w.place = 'device'), 0) AS computation_ticks,
        arg_max({'op': w.op, 'ticks': w.ticks}, (w.ticks, w.op)) FILTER (WHERE w.place = 'device') AS on_device,
        arg_max({'op': w.op, 'ticks': w.ticks}, (w.ticks, w.op)) FILTER (WHERE w.place = 'host') AS on_host
    FROM worked AS w
    GROUP BY w.node
),
parts AS (
    SELECT p.of_job, p.number, 'late start' AS kind, p.last_rank AS rank, NULL AS last_rank, NULL AS collective,
        NULL AS process_group, p.first_ticks, p.first_ticks AS start_ticks, p.since_ticks AS end_ticks, NULL AS node
    FROM walk AS p
    WHERE p.before IS NULL
    UNION ALL
    SELECT p.of_job, p.number, 'work', p.last_rank, NULL, p.collective, p.process_group, p.first_ticks, p.since_ticks,
        p.until_ticks, p.node
    FROM walk AS p
    UNION ALL
    SELECT p.of_job, p.number, 'transfer', p.rank, p.last_rank, p.collective, p.process_group, p.first_ticks,
        p.until_ticks, p.end_ticks, NULL
    FROM walk AS p
    WHERE NOT p.is_last
),
placed AS (
    SELECT p.*, p.end_ticks - p.start_ticks AS ticks, o.computation_ticks,
        2 * o.computation_ticks >= p.end_ticks - p.start_ticks AND o.on_device IS NOT NULL OR o.on_host IS NULL
            AS is_on_device,
        CASE WHEN is_on_device THEN o.on_device ELSE o.on_host END AS most
    FROM parts AS p
    LEFT JOIN of_places AS o USING (node)
    WHERE p.end_ticks > p.start_ticks
)
SELECT nullif(p.of_job, '') AS job, nullif(p.number, -1) AS step,
    row_number() OVER (PARTITION BY p.of_job, p.number ORDER BY p.start_ticks) AS position, p.rank, p.kind,
    _in_unit(p.start_ticks - p.first_ticks, u.scale) AS start, _in_unit(p.ticks, u.scale) AS duration,
    100 * p.ticks::DOUBLE / sum(p.ticks) OVER (PARTITION BY p.of_job, p.number) AS share_percent, p.last_rank,
    p.collective, p.process_group,
    CASE WHEN p.kind = 'work' THEN _in_unit(coalesce(p.computation_ticks, 0), u.scale) END AS computation,
    CASE WHEN p.most IS NULL THEN NULL WHEN p.is_on_device THEN 'device' ELSE 'host' END AS place,
    p.most['op'] AS op, _in_unit(p.most['ticks'], u.scale) AS op_time, u.unit
FROM placed AS p
CROSS JOIN (SELECT any_value(s.unit) AS unit, any_value(s.scale) AS scale FROM steps AS s) AS u
ORDER BY p.of_job, p.number, p.start_ticks;
