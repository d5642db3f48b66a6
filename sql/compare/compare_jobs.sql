-- The times of the steps of one rank of a job, compared with the same rank of another job. The first row, without a
-- rank, is about the slowest rank of each step. Times are medians over steps. As ranks wait for each other, a job is a
-- single sample, whatever the number of its ranks: a change is possible at most, and there is no verdict.
-- Empty: {view} has no rows: no trace of a side has a label rank; ingest the traces of jobs' ranks
-- Shown: rank!#, change_percent! (change), base! (time), new! (time), base_waited~, new_waited~, base_computation~,
--   new_computation~, base_exposed~, new_exposed~, base_mfu_percent%, new_mfu_percent%, base_steps#, new_steps#,
--   unit, note
-- Columns:
--   rank: the traces' label rank; NULL for the slowest rank of each step
--   change_percent: change from base to new in percent of base; NULL where base or new has no such rank
--   base: time of a step in base; NULL where it has no such rank
--   new: time of a step in new; NULL where it has no such rank
--   base_waited: time that it waits in a step, as in `rank_steps`; without a rank, a mean of the ranks; NULL if unknown
--   new_waited: the same in new
--   base_computation: time of its kernels of computation in a step; without a rank, a mean of the ranks
--   new_computation: the same in new
--   base_exposed: time of a step in which kernels of communication ran and none of computation
--   new_exposed: the same in new
--   base_mfu_percent: its MFU in base, as in `rank_steps`; without a rank, a mean of the ranks; NULL where unknown
--   new_mfu_percent: the same in new
--   base_mfu_is_least: whether base_mfu_percent is a lower bound; NULL if that is NULL
--   new_mfu_is_least: the same of new
--   base_steps: number of its steps in base; 0 where it has no such rank
--   new_steps: number of its steps in new; 0 where it has no such rank
--   unit: the requested unit of time
--   note: what is missing for a comparison; NULL if nothing is missing
CREATE MACRO compare_jobs(base, new, unit := NULL) AS TABLE
WITH steps AS MATERIALIZED (
    SELECT a.side = 'new' AS is_new, r.*
    FROM _asked_sides(base, new) AS a, LATERAL (FROM _rank_steps(a.meant, unit)) AS r
),
slowest AS (
    SELECT s.is_new, s.step, max(s.ticks) AS ticks, avg(s.waited_ticks) AS waited_ticks,
        avg(s.computation_ticks) AS computation_ticks, avg(s.exposed_ticks) AS exposed_ticks,
        avg(s.mfu_percent) AS mfu_percent, bool_or(s.is_least) AS is_least,
        any_value(s.scale) AS scale, any_value(s.unit) AS unit
    FROM steps AS s
    GROUP BY s.is_new, s.step
),
measured AS (
    SELECT s.is_new, s.rank, s.ticks, s.waited_ticks, s.computation_ticks, s.exposed_ticks, s.mfu_percent,
        s.is_least, s.scale, s.unit
    FROM steps AS s
    UNION ALL
    SELECT w.is_new, NULL, w.ticks, w.waited_ticks, w.computation_ticks, w.exposed_ticks, w.mfu_percent, w.is_least,
        w.scale, w.unit
    FROM slowest AS w
),
summed AS (
    SELECT b.rank, any_value(b.unit) AS unit, any_value(b.scale) AS scale,
        median(b.ticks) FILTER (NOT b.is_new) AS base, median(b.ticks) FILTER (b.is_new) AS new,
        median(b.waited_ticks) FILTER (NOT b.is_new) AS base_waited,
        median(b.waited_ticks) FILTER (b.is_new) AS new_waited,
        median(b.computation_ticks) FILTER (NOT b.is_new) AS base_computation,
        median(b.computation_ticks) FILTER (b.is_new) AS new_computation,
        median(b.exposed_ticks) FILTER (NOT b.is_new) AS base_exposed,
        median(b.exposed_ticks) FILTER (b.is_new) AS new_exposed,
        median(b.mfu_percent) FILTER (NOT b.is_new) AS base_mfu_percent,
        median(b.mfu_percent) FILTER (b.is_new) AS new_mfu_percent,
        bool_or(b.is_least) FILTER (NOT b.is_new) AS base_mfu_is_least,
        bool_or(b.is_least) FILTER (b.is_new) AS new_mfu_is_least, count(*) FILTER (NOT b.is_new) AS base_steps,
        count(*) FILTER (b.is_new) AS new_steps
    FROM measured AS b
    GROUP BY b.rank
)
SELECT s.rank, 100 * (s.new - s.base) / nullif(s.base, 0) AS change_percent, _in_unit(s.base, s.scale) AS base,
    _in_unit(s.new, s.scale) AS new, _in_unit(s.base_waited, s.scale) AS base_waited,
    _in_unit(s.new_waited, s.scale) AS new_waited, _in_unit(s.base_computation, s.scale) AS base_computation,
    _in_unit(s.new_computation, s.scale) AS new_computation, _in_unit(s.base_exposed, s.scale) AS base_exposed,
    _in_unit(s.new_exposed, s.scale) AS new_exposed, s.base_mfu_percent, s.new_mfu_percent,
    s.base_mfu_is_least, s.new_mfu_is_least, s.base_steps, s.new_steps, s.unit,
    CASE WHEN s.base IS NULL THEN 'not in base' WHEN s.new IS NULL THEN 'not in new' END AS note
FROM summed AS s
ORDER BY s.rank NULLS FIRST;
