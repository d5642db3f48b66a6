-- One job: the traces with the same label job, or those that have a label rank but no label job. It has the ranks with
-- traces, the time of a step, and the share of it in which ranks wait for each other, from `rank_steps`; the job with
-- the most waiting comes first.
-- Empty: {view} has no rows: no trace has a label rank; ingest the traces of a job's ranks
-- Shown: job!, ranks!#, missing!#, missing_ranks, steps!#, step!~, waited_percent!%, exposed_percent!%, last_rank!#,
--   last_rank_percent!%, last_rank_steps#, waited_by, world_size#, unit
-- Columns:
--   job: the traces' label job; NULL if they have none
--   ranks: number of ranks with a trace
--   world_size: number of the job's processes, by its traces; NULL where not written
--   missing: number of ranks without a trace; NULL if world_size is NULL
--   missing_ranks: the first 16 ranks without a trace; NULL if there are none
--   steps: number of its steps; 1 without steps
--   step: median over the steps of the time of the rank that takes longest
--   waited_percent: waits of all ranks in percent of the time of those of their steps whose waits are known; NULL if unknown
--   exposed_percent: time in which kernels of communication ran and none of computation, in percent of the time of those steps for which this is known
--   last_rank: rank that the others wait for longest, as in `stragglers`; NULL if there is none, or it is unknown
--   last_rank_percent: waits for last_rank, in the steps in which the others wait for it, in percent of all waits; NULL if last_rank is NULL
--   last_rank_steps: number of these steps; NULL if last_rank is NULL
--   waited_by: how waits are known, as in `rank_steps`
--   unit: the requested unit of time
CREATE MACRO jobs(
    selector := NULL,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    unit := NULL
) AS TABLE
WITH ranks AS MATERIALIZED (FROM _job_ranks(selector, unit)),
sizes AS (
    SELECT coalesce(k.job, '') AS job, list(DISTINCT k.rank) AS present, max(try_cast(w.value AS BIGINT)) AS world_size
    FROM ranks AS k
    LEFT JOIN labels AS w ON w.capture_id = k.capture_id AND w.key = 'world_size'
    GROUP BY 1
),
rank_steps AS MATERIALIZED (FROM _rank_steps_of('ranks')),
job_steps AS (
    SELECT coalesce(r.job, '') AS job, r.step, max(r.ticks) AS longest, sum(r.waited_ticks)::BIGINT AS waited_ticks,
        _sum_where(r.ticks, r.waited_ticks IS NOT NULL) AS waiting_ticks,
        sum(r.exposed_ticks)::BIGINT AS exposed_ticks,
        _sum_where(r.ticks, r.exposed_ticks IS NOT NULL) AS counting_ticks, any_value(r.waited_by) AS waited_by,
        any_value(r.scale) AS scale, any_value(r.unit) AS unit
    FROM rank_steps AS r
    GROUP BY 1, r.step
),
summed AS (
    SELECT s.job, count(*) AS steps, median(s.longest) AS step_ticks, sum(s.waited_ticks)::BIGINT AS waited_ticks,
        sum(s.waiting_ticks)::BIGINT AS waiting_ticks, sum(s.exposed_ticks)::BIGINT AS exposed_ticks,
        sum(s.counting_ticks)::BIGINT AS counting_ticks,
        any_value(s.waited_by) AS waited_by, any_value(s.scale) AS scale, any_value(s.unit) AS unit
    FROM job_steps AS s
    GROUP BY s.job
),
waits AS (
    SELECT w.job, w.rank, count(*) AS steps, sum(w.ticks)::BIGINT AS ticks
    FROM (
        SELECT DISTINCT coalesce(r.job, '') AS job, r.step, r.waits_for AS rank, r.waited_for_ticks AS ticks
        FROM rank_steps AS r
        WHERE r.waits_for IS NOT NULL
    ) AS w
    GROUP BY w.job, w.rank
),
last_ranks AS (
    SELECT w.job, arg_max(w.rank, (w.ticks, -w.rank)) AS rank, arg_max(w.steps, (w.ticks, -w.rank)) AS steps,
        max(w.ticks) AS ticks
    FROM waits AS w
    GROUP BY w.job
)
SELECT nullif(z.job, '') AS job, len(z.present) AS ranks, z.world_size, z.world_size - len(z.present) AS missing,
    nullif(array_to_string(
        list_filter(range(least(z.world_size, 2000)), lambda n: NOT list_contains(z.present, n))[:16], ', '
    ), '') AS missing_ranks,
    s.steps, _in_unit(s.step_ticks, s.scale) AS step,
    100 * s.waited_ticks::DOUBLE / nullif(s.waiting_ticks, 0) AS waited_percent,
    100 * s.exposed_ticks::DOUBLE / nullif(s.counting_ticks, 0) AS exposed_percent, l.rank AS last_rank,
    100 * l.ticks::DOUBLE / s.waited_ticks AS last_rank_percent, l.steps AS last_rank_steps, s.waited_by, s.unit
FROM sizes AS z
LEFT JOIN summed AS s ON s.job = z.job
LEFT JOIN last_ranks AS l ON l.job = z.job
ORDER BY waited_percent DESC NULLS LAST, z.job;
