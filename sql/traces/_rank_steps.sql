-- One step of one rank of a job in ticks, see `rank_steps`. If no trace of the job has steps, each trace is one step.
CREATE MACRO _rank_steps(selector, unit) AS TABLE
WITH ranks AS MATERIALIZED (FROM _job_ranks(selector, unit)),
profiler_steps AS MATERIALIZED (
    SELECT w.capture_id, w.run_index, w.step, w.end_ticks - w.start_ticks AS ticks
    FROM ranks AS k
    JOIN _written_steps AS w USING (capture_id)
),
steps AS (
    SELECT p.capture_id, p.run_index, p.step, p.ticks FROM profiler_steps AS p
    UNION ALL
    SELECT k.capture_id, e.run_index, NULL,
        try_cast(max(e.start_ticks::HUGEINT + e.elapsed_ticks) - min(e.start_ticks) AS BIGINT)
    FROM ranks AS k
    JOIN signatures AS s ON s.capture_id = k.capture_id AND NOT s.on_device AND s.purpose IS DISTINCT FROM 'profiler'
    JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    WHERE e.elapsed_ticks >= 0
        AND coalesce(k.job, '') NOT IN (
            SELECT coalesce(j.job, '') FROM profiler_steps AS p JOIN ranks AS j USING (capture_id)
        )
    GROUP BY k.capture_id, e.run_index
),
work AS (
    SELECT k.capture_id, e.run_index,
        _sum_where(e.elapsed_ticks, s.kernel_family IS DISTINCT FROM 'communication') AS computation_ticks,
        _sum_where(e.elapsed_ticks, s.kernel_family = 'communication') AS communication_ticks
    FROM ranks AS k
    JOIN signatures AS s ON s.capture_id = k.capture_id AND s.activity = 'kernel'
    JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    WHERE e.elapsed_ticks >= 0
    GROUP BY k.capture_id, e.run_index
    UNION ALL
    -- Collectives on the host last until the last process has come, as kernels do.
    SELECT g.capture_id, g.run_index, 0, try_cast(sum(g.elapsed_ticks) AS BIGINT)
    FROM _gloo_events((SELECT list(k.capture_id) FROM ranks AS k)) AS g
    GROUP BY g.capture_id, g.run_index
),
joined AS (
    SELECT k.job, s.step, k.rank, k.name AS capture, s.ticks, coalesce(w.computation_ticks, 0) AS computation_ticks,
        coalesce(w.communication_ticks, 0) AS communication_ticks, k.unit, k.scale
    FROM ranks AS k
    JOIN steps AS s USING (capture_id)
    LEFT JOIN work AS w USING (capture_id, run_index)
)
SELECT j.job, j.step, j.rank, j.capture, j.ticks, j.computation_ticks, j.communication_ticks,
    CASE
        WHEN max(j.communication_ticks) OVER ranks_of_step > 0
            THEN j.communication_ticks - min(j.communication_ticks) OVER ranks_of_step
    END AS waited_ticks,
    CASE
        WHEN max(j.communication_ticks) OVER ranks_of_step
            > min(j.communication_ticks) OVER ranks_of_step
            THEN first_value(j.rank) OVER (PARTITION BY j.job, j.step ORDER BY j.communication_ticks, j.rank)
    END AS waits_for,
    j.unit, j.scale
FROM joined AS j
WINDOW ranks_of_step AS (PARTITION BY j.job, j.step);
