-- The findings of `trace_recommendations`, the causes of idle devices, the ops of the
-- critical path and the families of kernels as rows of `advice`, without their order, of a capture by its key.
CREATE MACRO _trace_advice(capture_key, unit) AS TABLE
SELECT
    replace(r.rule, '_', ' ') AS rule,
    'medium' AS severity,
    r.finding,
    r.evidence,
    NULL::DOUBLE AS time_at_stake,
    NULL::DOUBLE AS share_percent,
    r.remedy,
    NULL::VARCHAR AS unit
FROM _trace_recommendations(capture_key) AS r
UNION ALL
FROM _advice_idle_devices(capture_key, unit)
UNION ALL
FROM _advice_critical_path(capture_key, unit)
UNION ALL
FROM _advice_kernels(capture_key, unit);

-- One finding about a capture that a runtime on a device wrote, with its evidence,
-- the time at stake and a remedy, the most severe first. Each rule is a macro
-- `_advice_...` with its thresholds and their reasons. Shares of ops and modules
-- are of typical runs, see `typical_runs`, unless all are requested; other runs
-- have their own rules. For a PyTorch trace, the findings are those of
-- `trace_recommendations`; device idle: a cause of idle time, as in
-- `device_idle_causes`, that takes a twentieth of a device's time or more, from its
-- first event to the end of its last; critical path: an op that has a fifth or more of
-- the critical path, as in `critical_ops`; device time: a family of kernels that takes a
-- fifth or more of the time of devices, as in `kernel_families`; and fusable kernels:
-- chains of kernels whose fusion could save a twentieth of the devices' time, as in `fusable_chains`.
-- No rows: no rule applies.
-- Empty: no rule of advice applies to {capture}
-- Planned as: _advice_of_trace (torch_trace), _advice_of_runtime
-- Columns:
--   rule: rule that applies
--   severity: high (from a fifth of the time of the executes, or if numbers are misleading), medium (from a twentieth) or low; some rules have other limits
--   finding: what was found, as a sentence
--   evidence: ops, instructions, lines, runs or views that the finding is based on
--   time_at_stake: mean time per run that the finding is about, which limits what a remedy can save; for PyTorch traces, time in the whole trace; NULL for findings that are not about time
--   share_percent: time_at_stake in percent of the executes; for loading, of loading and executes together; for device idle, of the device's time; for critical path, of the path; for device time, of the time of kernels, copies and fills; for fusable kernels, of the devices' time; NULL for findings that are not about time
--   remedy: what to do
--   unit: unit of time_at_stake and of the times in the texts; NULL for the findings of `trace_recommendations`
CREATE MACRO advice(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    steps := NULL,  -- runs to use, as a schedule: skip_first=1,active=3, see `schedule`; NULL: all
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    method := NULL,  -- only runs of this method, as in the column `method`; NULL: all runs
    runs := 'typical'  -- typical (only typical runs, see `typical_runs`) or all
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT c.capture_id, c.unit FROM _capture(capture, unit) AS c
),
results AS (
    FROM _runtime_advice(
        (SELECT a.capture_id FROM target AS a),
        (SELECT a.unit FROM target AS a),
        steps, phase, method, runs
    ) AS t
    UNION ALL
    FROM _trace_advice(
        (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a)
    )
)
SELECT
    t.rule,
    t.severity,
    t.finding,
    t.evidence,
    t.time_at_stake,
    t.share_percent,
    t.remedy,
    t.unit
FROM results AS t
ORDER BY
    list_position(['high', 'medium', 'low'], t.severity),
    -- Findings that make numbers doubtful come first.
    t.share_percent DESC NULLS FIRST,
    t.rule,
    t.finding;

-- The rows of `advice` about a capture that a runtime on a device wrote. Callers that
-- know the capture's format use it, because `advice` also plans the rules of traces,
-- which takes longer than to answer.
CREATE MACRO _advice_of_runtime(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    steps := NULL,  -- runs to use, as a schedule: skip_first=1,active=3, see `schedule`; NULL: all
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    method := NULL,  -- only runs of this method, as in the column `method`; NULL: all runs
    runs := 'typical'  -- typical (only typical runs, see `typical_runs`) or all
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT c.capture_id, c.unit FROM _capture(capture, unit) AS c
)
SELECT
    t.rule,
    t.severity,
    t.finding,
    t.evidence,
    t.time_at_stake,
    t.share_percent,
    t.remedy,
    t.unit
FROM _runtime_advice(
    (SELECT a.capture_id FROM target AS a),
    (SELECT a.unit FROM target AS a),
    steps, phase, method, runs
) AS t
ORDER BY
    list_position(['high', 'medium', 'low'], t.severity),
    -- Findings that make numbers doubtful come first.
    t.share_percent DESC NULLS FIRST,
    t.rule,
    t.finding;

-- The rows of `advice` about a PyTorch trace, for callers that know the format.
CREATE MACRO _advice_of_trace(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL  -- as in `advice`
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT c.capture_id, c.unit FROM _capture(capture, unit) AS c
)
SELECT
    t.rule,
    t.severity,
    t.finding,
    t.evidence,
    t.time_at_stake,
    t.share_percent,
    t.remedy,
    t.unit
FROM _trace_advice(
    (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a)
) AS t
ORDER BY
    list_position(['high', 'medium', 'low'], t.severity),
    -- Findings that make numbers doubtful come first.
    t.share_percent DESC NULLS FIRST,
    t.rule,
    t.finding;
