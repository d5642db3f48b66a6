-- How far the clock of each rank of a job is ahead of the job's median, estimated from collectives that all processes
-- of a group end at about the same time: all-reduce, all-gather, reduce-scatter, all-to-all and barriers. The estimate
-- is the median over these. Ranks that share no group are compared through at most two other ranks that share groups.
-- Needs traces with the label rank whose kernels name their collectives and groups (PyTorch 2.2 or later), or traces
-- without kernels whose processes are in a single group of gloo. A clock is that of the trace's times: two hosts whose
-- clocks agree may differ by microseconds here, because clocks of devices are converted to those of hosts.
-- Empty: {view} has no rows: no trace has a label rank; ingest the traces of a job's ranks
-- Shown: job, rank!#, capture, clock_offset! (time), spread! (time), collectives!#, unit
-- Columns:
--   job: the traces' label job; NULL if they have none
--   rank: the trace's label rank
--   capture: the trace's name
--   collectives: number of collectives of the rank that the estimate uses; 0 if none matches
--   clock_offset: time of its clock minus the median time of the clocks of the job's ranks; NULL if unknown
--   spread: median distance of the collectives from the estimate; NULL if unknown
--   unit: the requested unit of time
CREATE MACRO clock_offsets(
    selector := NULL,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    unit := NULL
) AS TABLE
WITH ranks AS MATERIALIZED (FROM _job_ranks(selector, unit)),
numbered AS MATERIALIZED (FROM _numbered_collectives('ranks'))
SELECT k.job, k.rank, k.name AS capture, coalesce(o.collectives, 0) AS collectives,
    _in_unit(o.ticks, k.scale) AS clock_offset, _in_unit(o.spread_ticks, k.scale) AS spread, k.unit
FROM ranks AS k
LEFT JOIN _clock_offsets('numbered') AS o ON o.capture_id = k.capture_id
ORDER BY k.job, k.rank, k.name;
