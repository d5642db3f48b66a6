-- One step of one rank of a job: a trace with the label rank. Steps of the same number and job belong together,
-- whatever the clocks of the hosts show. A rank waits in collectives that all ranks end together, see
-- `collective_waits`; other communication, such as broadcasts, is no wait. If no wait of the job is known, as in traces
-- before PyTorch 2.2, waits are estimated from the time in such collectives: processes that reach a collective early
-- wait in its kernel for the last process, so the rank with the least time in such collectives is the one that the
-- others wait for. If no trace of a job has profiler steps, each trace as a whole is one step.
-- Empty: {view} has no rows: no trace has a label rank; ingest the traces of a job's ranks
-- Shown: job, step!#, rank!#, capture, duration!~, computation~, communication~, exposed~, waited!~, transfer~,
--   waits_for!#, waited_by, mfu_percent%, unit
-- Columns:
--   job: the traces' label job; NULL if they have none
--   step: number of the step in the trace; NULL for a whole trace
--   rank: the trace's label rank
--   capture: the trace's name
--   duration: time from the start of the step to its end on the host, or from the first event on the host to the last
--   computation: time of the kernels of computation that the step launched
--   communication: time of the kernels of communication (NCCL, RCCL) that it launched; of a trace without kernels, time of the collectives of gloo
--   exposed: time of the step in which kernels of communication ran and none of computation, as in `step_breakdown`; NULL for steps that do not count there
--   waited: time that it waited for the last rank, in collectives whose wait is known; otherwise an estimate, see waited_by; 0 without such collectives; NULL if unknown
--   transfer: time in these collectives from then on; NULL if unknown
--   waits_for: rank that the ranks of the step wait for longest; NULL if there is none, or it is unknown
--   waited_by: clocks, as in `collective_waits`; communication: the time in collectives that may end together, minus the least such time of the step's ranks; NULL if waits are unknown
--   mfu_percent: MFU of the step, as in `all_step_efficiency`; NULL where it has none
--   mfu_is_least: whether mfu_percent is a lower bound; NULL if that is NULL
--   unit: the requested unit of time
CREATE MACRO rank_steps(
    selector := NULL,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    unit := NULL
) AS TABLE
SELECT r.job, r.step, r.rank, r.capture, _in_unit(r.ticks, r.scale) AS duration,
    _in_unit(r.computation_ticks, r.scale) AS computation, _in_unit(r.communication_ticks, r.scale) AS communication,
    _in_unit(r.exposed_ticks, r.scale) AS exposed, _in_unit(r.waited_ticks, r.scale) AS waited,
    _in_unit(r.transfer_ticks, r.scale) AS transfer, r.waits_for, r.waited_by, r.mfu_percent,
    r.is_least AS mfu_is_least, r.unit
FROM _rank_steps(selector, unit) AS r
ORDER BY r.job, r.step, r.rank, r.capture;

-- One rank of a job, see `rank_steps`, with sums over its steps; ranks that others wait for longest come first.
-- Empty: {view} has no rows: no trace has a label rank; ingest the traces of a job's ranks
-- Shown: job, rank!#, steps!#, waited_for_steps!#, waited_for!~, waited!~, communication~, duration~,
--   mfu_percent%, unit
-- Columns:
--   job: the traces' label job; NULL if they have none
--   rank: the trace's label rank
--   steps: number of its steps
--   waited_for_steps: number of steps in which the others wait for it
--   waited_for: time that the other ranks waited for it in these steps, on average; NULL if unknown
--   waited: time that it waited for others; NULL if unknown
--   communication: time of its kernels of communication, or without kernels of the collectives of gloo
--   duration: time of its steps on the host
--   mfu_percent: median over its steps of their MFU, as in `rank_steps`; NULL where none is known
--   mfu_is_least: whether the MFU of any step is a lower bound; NULL if mfu_percent is NULL
--   unit: the requested unit of time
CREATE MACRO stragglers(
    selector := NULL,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    unit := NULL
) AS TABLE
WITH steps AS MATERIALIZED (FROM _rank_steps(selector, unit)),
-- For each step, how long its other ranks waited on average.
waits AS (
    SELECT DISTINCT s.job, s.waits_for AS rank, s.step, s.waited_for_ticks::DOUBLE / (s.ranks - 1) AS ticks
    FROM steps AS s
    WHERE s.waits_for IS NOT NULL
),
waited AS (SELECT w.job, w.rank, count(*) AS steps, fsum(w.ticks) AS ticks FROM waits AS w GROUP BY w.job, w.rank),
ranks AS (
    SELECT s.job, s.rank, s.unit, s.scale, count(*) AS steps, try_cast(sum(s.ticks) AS BIGINT) AS ticks,
        try_cast(sum(s.waited_ticks) AS BIGINT) AS waited_ticks,
        try_cast(sum(s.communication_ticks) AS BIGINT) AS communication_ticks, median(s.mfu_percent) AS mfu_percent,
        bool_or(s.is_least) AS is_least
    FROM steps AS s
    GROUP BY s.job, s.rank, s.unit, s.scale
)
SELECT r.job, r.rank, r.steps, coalesce(w.steps, 0) AS waited_for_steps,
    CASE WHEN r.waited_ticks IS NOT NULL THEN _in_unit(coalesce(w.ticks, 0), r.scale) END AS waited_for,
    _in_unit(r.waited_ticks, r.scale) AS waited, _in_unit(r.communication_ticks, r.scale) AS communication,
    _in_unit(r.ticks, r.scale) AS duration, r.mfu_percent, r.is_least AS mfu_is_least, r.unit
FROM ranks AS r
LEFT JOIN waited AS w ON coalesce(w.job, '') = coalesce(r.job, '') AND w.rank = r.rank
ORDER BY coalesce(w.ticks, 0) DESC, r.job, r.rank;
