-- How far the clock of each rank of a job is ahead of the job's median, see `clock_offsets`; ranks that no collective
-- connects to other ranks are left out.
CREATE MACRO _clock_offsets(capture_keys) AS TABLE
WITH matched AS MATERIALIZED (FROM _matched_collectives(capture_keys)),
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
near AS MATERIALIZED (
    SELECT m.job, m.capture_id, m.process_group, m.collectives, m.ticks
    FROM largest AS g
    JOIN middles AS m ON m.job = g.job AND m.process_group = g.process_group
),
-- Of the groups that another rank shares with compared ranks, the group with the most collectives.
nearer AS MATERIALIZED (
    SELECT n.* FROM near AS n
    UNION ALL
    (
        SELECT f.job, f.capture_id, f.process_group, f.collectives, f.ticks + g.ticks
        FROM middles AS f
        JOIN (
            SELECT m.job, m.process_group, quantile_cont(n.ticks - m.ticks, 0.5) AS ticks
            FROM near AS n
            JOIN middles AS m ON m.capture_id = n.capture_id
            GROUP BY m.job, m.process_group
        ) AS g ON g.job = f.job AND g.process_group = f.process_group
        WHERE f.capture_id NOT IN (SELECT n.capture_id FROM near AS n)
        QUALIFY row_number() OVER (PARTITION BY f.capture_id ORDER BY f.collectives DESC, f.process_group) = 1
    )
),
reached AS MATERIALIZED (
    SELECT n.* FROM nearer AS n
    UNION ALL
    (
        SELECT f.job, f.capture_id, f.process_group, f.collectives, f.ticks + g.ticks
        FROM middles AS f
        JOIN (
            SELECT m.job, m.process_group, quantile_cont(n.ticks - m.ticks, 0.5) AS ticks
            FROM nearer AS n
            JOIN middles AS m ON m.capture_id = n.capture_id
            GROUP BY m.job, m.process_group
        ) AS g ON g.job = f.job AND g.process_group = f.process_group
        WHERE f.capture_id NOT IN (SELECT n.capture_id FROM nearer AS n)
        QUALIFY row_number() OVER (PARTITION BY f.capture_id ORDER BY f.collectives DESC, f.process_group) = 1
    )
),
spreads AS (
    SELECT m.capture_id, quantile_cont(abs(m.ticks - d.ticks), 0.5) AS ticks
    FROM reached AS r
    JOIN matched AS m ON m.capture_id = r.capture_id AND m.process_group = r.process_group
    JOIN middles AS d ON d.capture_id = r.capture_id AND d.process_group = r.process_group
    GROUP BY m.capture_id
),
medians AS (SELECT r.job, quantile_cont(r.ticks, 0.5) AS ticks FROM reached AS r GROUP BY r.job)
SELECT r.job, r.capture_id, r.collectives, r.ticks - m.ticks AS ticks, s.ticks AS spread_ticks
FROM reached AS r
JOIN medians AS m ON m.job = r.job
LEFT JOIN spreads AS s ON s.capture_id = r.capture_id;
