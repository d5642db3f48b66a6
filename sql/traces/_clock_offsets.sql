-- How far the clock of each rank of a job is ahead of the job's median, see `clock_offsets`; ranks that no collective
-- connects to other ranks are left out. Collectives are matched between the ranks by the step, the process group, the
-- name of the collective, and its number among those of the step. A collective counts if all ranks that ran any
-- collective of its group in the trace ran it, and ran it equally often in the step.
CREATE MACRO _clock_offsets(
    numbered  -- a table of the rows of `_numbered_collectives`
) AS TABLE
WITH RECURSIVE
calls AS MATERIALIZED (
    SELECT n.job, n.capture_id, n.process_group, n.group_size, n.matched_name AS collective, n.step, n.end_ticks,
        n.number, n.calls
    FROM query_table(numbered) AS n
    WHERE n.ends_together
),
-- The first end is subtracted before numbers become fractions: a clock's ticks since 1970 have more digits than a
-- DOUBLE.
collectives AS (
    SELECT c.job, c.process_group, c.collective, c.step, c.number, count(*) AS ranks, min(c.end_ticks) AS first_ticks
    FROM calls AS c
    GROUP BY c.job, c.process_group, c.collective, c.step, c.number
    HAVING count(*) > 1 AND count(*) <= coalesce(max(c.group_size), count(*)) AND min(c.calls) = max(c.calls)
),
complete AS (FROM collectives AS m QUALIFY m.ranks = max(m.ranks) OVER (PARTITION BY m.job, m.process_group)),
ended AS (
    SELECT m.job, m.process_group, c.capture_id, c.end_ticks - m.first_ticks AS ticks,
        quantile_cont((c.end_ticks - m.first_ticks)::DOUBLE, 0.5) OVER (
            PARTITION BY m.job, m.process_group, m.collective, m.step, m.number
        ) AS middle_ticks
    FROM complete AS m
    JOIN calls AS c USING (job, process_group, collective, step, number)
),
matched AS MATERIALIZED (
    SELECT e.job, e.process_group, e.capture_id, e.ticks - e.middle_ticks AS ticks FROM ended AS e
),
middles AS MATERIALIZED (
    SELECT m.job, m.process_group, m.capture_id, count(*) AS collectives, quantile_cont(m.ticks, 0.5) AS ticks
    FROM matched AS m
    GROUP BY m.job, m.process_group, m.capture_id
),
sizes AS (
    SELECT m.job, m.process_group, count(*) AS ranks, sum(m.collectives)::BIGINT AS collectives
    FROM middles AS m
    GROUP BY m.job, m.process_group
),
-- Other groups are compared with the largest group of each job.
largest AS (
    SELECT s.job, s.process_group
    FROM sizes AS s
    QUALIFY row_number() OVER (PARTITION BY s.job ORDER BY s.ranks DESC, s.collectives DESC, s.process_group) = 1
),
-- The ranks of the largest group, and, in two rounds, the ranks that share a group with ranks of the round before. If
-- they share several groups, the group with the most collectives is used.
rounds AS (
    SELECT 0 AS round, m.job, m.capture_id, m.process_group, m.collectives, m.ticks
    FROM largest AS g
    JOIN middles AS m ON m.job = g.job AND m.process_group = g.process_group
    UNION ALL
    (
        SELECT n.round + 1, n.job, n.capture_id, n.process_group, n.collectives, n.ticks
        FROM rounds AS n
        WHERE n.round < 2
        UNION ALL
        (
            SELECT g.round + 1, f.job, f.capture_id, f.process_group, f.collectives, f.ticks + g.ticks
            FROM middles AS f
            JOIN (
                SELECT n.round, m.job, m.process_group, quantile_cont(n.ticks - m.ticks, 0.5) AS ticks
                FROM rounds AS n
                JOIN middles AS m ON m.capture_id = n.capture_id
                WHERE n.round < 2
                GROUP BY n.round, m.job, m.process_group
            ) AS g ON g.job = f.job AND g.process_group = f.process_group
            WHERE f.capture_id NOT IN (SELECT n.capture_id FROM rounds AS n)
            QUALIFY row_number() OVER (PARTITION BY f.capture_id ORDER BY f.collectives DESC, f.process_group) = 1
        )
    )
),
reached AS MATERIALIZED (FROM rounds AS r WHERE r.round = 2),
spreads AS (
    SELECT m.capture_id, quantile_cont(abs(m.ticks - d.ticks), 0.5) AS ticks
    FROM reached AS r
    JOIN matched AS m ON m.capture_id = r.capture_id AND m.process_group = r.process_group
    JOIN middles AS d ON d.capture_id = r.capture_id AND d.process_group = r.process_group
    GROUP BY m.capture_id
),
medians AS (SELECT r.job, quantile_cont(r.ticks, 0.5) AS ticks FROM reached AS r GROUP BY r.job)
SELECT r.job, r.capture_id, r.collectives, r.ticks - m.ticks AS ticks,
    -- Halves of a tick are rounded up for all ranks: rounded to both sides, ranks would be a tick apart.
    floor(r.ticks - m.ticks + 0.5)::BIGINT AS shift_ticks, s.ticks AS spread_ticks
FROM reached AS r
JOIN medians AS m ON m.job = r.job
LEFT JOIN spreads AS s ON s.capture_id = r.capture_id;
