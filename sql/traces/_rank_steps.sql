-- One step of one rank of a job. If no trace of the job has steps, each trace is one step.
CREATE MACRO _job_steps(selector, unit) AS TABLE
WITH job_ranks AS MATERIALIZED (FROM _job_ranks(selector, unit))
FROM _steps_of_ranks('job_ranks');

-- The same for some ranks.
CREATE MACRO _steps_of_ranks(
    job_ranks  -- the name of a table with the rows of `_job_ranks`
) AS TABLE
WITH profiler_steps AS MATERIALIZED (
    SELECT w.capture_id, w.run_index, w.step, w.start_ticks, w.end_ticks - w.start_ticks AS ticks
    FROM query_table(job_ranks) AS k
    JOIN _written_steps AS w USING (capture_id)
),
steps AS (
    SELECT p.capture_id, p.run_index, p.step, p.start_ticks, p.ticks FROM profiler_steps AS p
    UNION ALL
    SELECT k.capture_id, e.run_index, NULL, min(e.start_ticks),
        try_cast(max(e.start_ticks::HUGEINT + e.elapsed_ticks) - min(e.start_ticks) AS BIGINT)
    FROM query_table(job_ranks) AS k
    JOIN signatures AS s ON s.capture_id = k.capture_id AND NOT s.on_device AND s.purpose IS DISTINCT FROM 'profiler'
    JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    WHERE e.elapsed_ticks >= 0
        AND coalesce(k.job, '') NOT IN (
            SELECT coalesce(j.job, '') FROM profiler_steps AS p JOIN query_table(job_ranks) AS j USING (capture_id)
        )
    GROUP BY k.capture_id, e.run_index
)
SELECT k.capture_id, k.name, k.job, k.rank, s.run_index, s.step, s.start_ticks, s.ticks, k.unit, k.scale
FROM query_table(job_ranks) AS k
JOIN steps AS s USING (capture_id);

-- One step of one rank of a job in ticks, see `rank_steps`. This is where waits of steps are defined: from the calls of
-- `_collective_calls` whose wait is known; if no wait of the job is known, from the time in collectives.
CREATE MACRO _rank_steps(selector, unit) AS TABLE
WITH job_ranks AS MATERIALIZED (FROM _job_ranks(selector, unit))
FROM _rank_steps_of('job_ranks');

-- The same for some ranks.
CREATE MACRO _rank_steps_of(
    job_ranks  -- the name of a table with the rows of `_job_ranks`
) AS TABLE
WITH steps AS MATERIALIZED (FROM _steps_of_ranks(job_ranks)),
ranks AS MATERIALIZED (SELECT DISTINCT s.capture_id, s.job, s.rank FROM steps AS s),
work AS (
    -- A collective is named by torch's annotation around its launch where its kernel doesn't: all-to-alls are SendRecv.
    SELECT k.capture_id, e.run_index, s.kernel_family = 'communication' AS is_communication, e.elapsed_ticks AS ticks,
        coalesce(d.collective, a.label, s.label) AS collective
    FROM ranks AS k
    JOIN signatures AS s ON s.capture_id = k.capture_id AND s.activity = 'kernel'
    JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    LEFT JOIN device_events AS d ON d.capture_id = e.capture_id AND d.event_index = e.event_index
    LEFT JOIN signatures AS a
        ON a.capture_id = d.capture_id
        AND a.signature_index = d.annotation_signature
        AND starts_with(a.label, 'nccl:')
    WHERE e.elapsed_ticks >= 0
    UNION ALL
    -- Collectives on the host last until the last process has come, as kernels do.
    SELECT g.capture_id, g.run_index, true, g.elapsed_ticks, g.collective
    FROM ranks AS k
    JOIN host_collectives AS g USING (capture_id)
),
worked AS (
    SELECT w.capture_id, w.run_index,
        _sum_where(w.ticks, w.is_communication IS DISTINCT FROM true) AS computation_ticks,
        _sum_where(w.ticks, w.is_communication) AS communication_ticks,
        _sum_where(w.ticks, w.is_communication AND _may_end_together(w.collective)) AS together_ticks
    FROM work AS w
    GROUP BY w.capture_id, w.run_index
),
calls AS MATERIALIZED (
    SELECT c.job, c.capture_id, c.run_index, c.rank, c.last_rank, c.waited_ticks, c.transfer_ticks
    FROM _collective_calls('ranks') AS c
    WHERE c.no_wait IS NULL
),
known AS (
    SELECT c.capture_id, c.run_index, sum(c.waited_ticks)::BIGINT AS waited_ticks,
        sum(c.transfer_ticks)::BIGINT AS transfer_ticks
    FROM calls AS c
    GROUP BY c.capture_id, c.run_index
),
-- The rank that the other ranks of a step wait for longest.
last_ranks AS (
    SELECT l.job, l.step, arg_max(l.last_rank, (l.ticks, -l.last_rank)) AS last_rank, max(l.ticks) AS ticks
    FROM (
        SELECT c.job, s.step, c.last_rank, sum(c.waited_ticks)::BIGINT AS ticks
        FROM calls AS c
        JOIN steps AS s USING (capture_id, run_index)
        WHERE c.rank <> c.last_rank
        GROUP BY c.job, s.step, c.last_rank
    ) AS l
    GROUP BY l.job, l.step
    HAVING max(l.ticks) > 0
),
joined AS (
    SELECT s.job, s.step, s.rank, s.name AS capture, s.ticks, coalesce(w.computation_ticks, 0) AS computation_ticks,
        coalesce(w.communication_ticks, 0) AS communication_ticks, coalesce(w.together_ticks, 0) AS together_ticks,
        t.communication_ticks AS exposed_ticks, k.waited_ticks, k.transfer_ticks, l.last_rank, l.ticks AS last_ticks,
        count(k.capture_id) OVER (PARTITION BY s.job) > 0 AS is_by_clocks, s.unit, s.scale, e.mfu_percent, e.is_least
    FROM steps AS s
    LEFT JOIN worked AS w USING (capture_id, run_index)
    LEFT JOIN known AS k USING (capture_id, run_index)
    LEFT JOIN last_ranks AS l ON l.job = coalesce(s.job, '') AND l.step IS NOT DISTINCT FROM s.step
    LEFT JOIN trace_steps AS t USING (capture_id, run_index)
    LEFT JOIN all_step_efficiency AS e USING (capture_id, run_index)
),
least AS (
    SELECT j.*,
        CASE
            WHEN max(j.together_ticks) OVER of_step > 0 AND count(*) OVER of_step > 1
                THEN min(j.together_ticks) OVER of_step
        END AS least_ticks,
        max(j.together_ticks) OVER of_step AS most_ticks, CASE WHEN j.together_ticks = 0 THEN 0 END AS none_ticks,
        first_value(j.rank) OVER (PARTITION BY j.job, j.step ORDER BY j.together_ticks, j.rank) AS least_rank,
        sum(j.together_ticks) OVER of_step AS all_ticks, count(*) OVER of_step AS ranks
    FROM joined AS j
    WINDOW of_step AS (PARTITION BY j.job, j.step)
)
SELECT l.job, l.step, l.rank, l.capture, l.ticks, l.computation_ticks, l.communication_ticks, l.exposed_ticks,
    CASE WHEN l.is_by_clocks THEN coalesce(l.waited_ticks, l.none_ticks) ELSE l.together_ticks - l.least_ticks END
        AS waited_ticks,
    CASE WHEN l.is_by_clocks THEN coalesce(l.transfer_ticks, l.none_ticks) END AS transfer_ticks,
    CASE
        WHEN l.is_by_clocks THEN l.last_rank
        WHEN l.most_ticks > l.least_ticks THEN l.least_rank
    END AS waits_for,
    -- How long the other ranks waited for that rank in total.
    CASE WHEN l.is_by_clocks THEN l.last_ticks ELSE l.all_ticks - l.ranks * l.least_ticks END AS waited_for_ticks,
    CASE WHEN l.is_by_clocks THEN 'clocks' WHEN l.least_ticks IS NOT NULL THEN 'communication' END AS waited_by,
    l.ranks, l.unit, l.scale, l.mfu_percent, l.is_least
FROM least AS l;
