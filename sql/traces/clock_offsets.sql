-- How far the clock of each rank of a job is ahead of the job's median, estimated
-- from collectives that all processes of a group end at about the same time:
-- all-reduce, all-gather, reduce-scatter, all-to-all and barriers. The estimate is the
-- median over these. Ranks that share no group are compared over those that share
-- groups with both, at most two in between. For traces with the label rank whose
-- kernels name their collectives and groups, as since PyTorch 2.2, or without kernels,
-- whose processes are in a single group of gloo. A clock is that
-- of the trace's times: two hosts whose clocks agree may differ by microseconds
-- here, as clocks of devices are converted to those of hosts.
-- Columns:
--   job: the traces' label job; NULL if they have none
--   rank: the trace's label rank
--   capture: the trace's name
--   collectives: number of collectives of the rank that the estimate uses; 0 if none matches
--   clock_offset: time of its clock less the median of the job's ranks; NULL if unknown
--   spread: median distance of the collectives from the estimate; NULL if unknown
--   unit: the requested unit of time
CREATE MACRO clock_offsets(
    selector := NULL,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    unit := NULL
) AS TABLE
WITH
ranks AS MATERIALIZED (FROM _job_ranks(selector, unit)),
matched AS MATERIALIZED (FROM _matched_collectives(selector)),
middles AS MATERIALIZED (
    SELECT
        m.job,
        m.process_group,
        m.capture_id,
        count(*) AS collectives,
        quantile_cont(m.ticks, 0.5) AS ticks
    FROM matched AS m
    GROUP BY m.job, m.process_group, m.capture_id
),
sizes AS (
    SELECT
        m.job,
        m.process_group,
        count(*) AS ranks,
        sum(m.collectives)::BIGINT AS collectives
    FROM middles AS m
    GROUP BY m.job, m.process_group
),
-- The largest group of each job is what others are compared with.
largest AS (
    SELECT s.job, s.process_group
    FROM sizes AS s
    QUALIFY row_number() OVER (
        PARTITION BY s.job ORDER BY s.ranks DESC, s.collectives DESC, s.process_group
    ) = 1
),
near AS MATERIALIZED (
    SELECT m.job, m.capture_id, m.process_group, m.collectives, m.ticks
    FROM largest AS g
    JOIN middles AS m USING (job, process_group)
),
-- Of the groups that a further rank shares with near ones, the one with most
-- collectives.
nearer AS MATERIALIZED (
    SELECT n.* FROM near AS n
    UNION ALL
    (
        SELECT f.job, f.capture_id, f.process_group, f.collectives, f.ticks + g.ticks
        FROM middles AS f
        JOIN (
            SELECT
                m.job,
                m.process_group,
                quantile_cont(n.ticks - m.ticks, 0.5) AS ticks
            FROM near AS n
            JOIN middles AS m USING (capture_id)
            GROUP BY m.job, m.process_group
        ) AS g ON g.job = f.job AND g.process_group = f.process_group
        WHERE f.capture_id NOT IN (SELECT n.capture_id FROM near AS n)
        QUALIFY row_number() OVER (
            PARTITION BY f.capture_id ORDER BY f.collectives DESC, f.process_group
        ) = 1
    )
),
reached AS MATERIALIZED (
    SELECT n.* FROM nearer AS n
    UNION ALL
    (
        SELECT f.job, f.capture_id, f.process_group, f.collectives, f.ticks + g.ticks
        FROM middles AS f
        JOIN (
            SELECT
                m.job,
                m.process_group,
                quantile_cont(n.ticks - m.ticks, 0.5) AS ticks
            FROM nearer AS n
            JOIN middles AS m USING (capture_id)
            GROUP BY m.job, m.process_group
        ) AS g ON g.job = f.job AND g.process_group = f.process_group
        WHERE f.capture_id NOT IN (SELECT n.capture_id FROM nearer AS n)
        QUALIFY row_number() OVER (
            PARTITION BY f.capture_id ORDER BY f.collectives DESC, f.process_group
        ) = 1
    )
),
spreads AS (
    SELECT m.capture_id, quantile_cont(abs(m.ticks - d.ticks), 0.5) AS ticks
    FROM reached AS r
    JOIN matched AS m USING (capture_id, process_group)
    JOIN middles AS d USING (capture_id, process_group)
    GROUP BY m.capture_id
),
medians AS (
    SELECT r.job, quantile_cont(r.ticks, 0.5) AS ticks
    FROM reached AS r
    GROUP BY r.job
)
SELECT
    k.job,
    k.rank,
    k.name AS capture,
    coalesce(r.collectives, 0) AS collectives,
    _in_unit(r.ticks - m.ticks, k.time_scale, k.unit) AS clock_offset,
    _in_unit(s.ticks, k.time_scale, k.unit) AS spread,
    k.unit
FROM ranks AS k
LEFT JOIN reached AS r USING (capture_id)
LEFT JOIN medians AS m ON m.job = r.job
LEFT JOIN spreads AS s USING (capture_id)
ORDER BY k.job, k.rank, k.name;
