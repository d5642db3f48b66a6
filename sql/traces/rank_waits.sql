-- One rank of a job that waits for another: in those collectives of one process group and name whose wait is known, see
-- `collective_waits`. The pair with most waiting comes first.
-- Empty: {view} has no rows: no wait of a rank for another is known; etq show collective_waits says why
-- Shown: job, rank!#, last_rank!#, collective!, process_group!, calls!#, waited!~, share_percent!%, max_waited~,
--   group_description, unit
-- Share: of all waiting of the job
-- Columns:
--   job: the traces' label job; NULL if they have none
--   rank: rank that waits
--   last_rank: rank that it waits for, which comes last
--   collective: name of the collective, such as allreduce
--   process_group: name of the process group
--   group_description: description of the process group; NULL where not written
--   calls: number of calls in which it waits for that rank
--   waited: time from the start of its kernels to the start of the last rank's kernels
--   share_percent: waited in percent of all waiting of the job
--   max_waited: the longest wait of a call
--   unit: the requested unit of time
CREATE MACRO rank_waits(
    selector := NULL,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    unit := NULL
) AS TABLE
WITH ranks AS MATERIALIZED (FROM _job_ranks(selector, unit)),
waits AS (
    SELECT c.job, c.rank, c.last_rank, c.collective, c.process_group, any_value(c.group_description) AS description,
        count(*) AS calls, sum(c.waited_ticks)::BIGINT AS ticks, max(c.waited_ticks) AS longest
    FROM _collective_calls('ranks') AS c
    WHERE c.no_wait IS NULL AND c.waited_ticks > 0
    GROUP BY c.job, c.rank, c.last_rank, c.collective, c.process_group
)
SELECT nullif(w.job, '') AS job, w.rank, w.last_rank, w.collective, w.process_group,
    w.description AS group_description, w.calls, _in_unit(w.ticks, t.scale) AS waited,
    100 * w.ticks::DOUBLE / sum(w.ticks) OVER (PARTITION BY w.job) AS share_percent,
    _in_unit(w.longest, t.scale) AS max_waited, t.unit
FROM waits AS w CROSS JOIN (SELECT any_value(k.unit) AS unit, any_value(k.scale) AS scale FROM ranks AS k) AS t
ORDER BY w.ticks DESC, w.job, w.rank, w.last_rank, w.collective, w.process_group;
