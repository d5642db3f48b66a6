-- One finding about a capture, with its evidence, the time at stake and a remedy, the most severe first. For dumps,
-- shares of ops and modules refer to typical runs, see `typical_runs`, unless all runs are requested. The rules for
-- PyTorch traces follow. Incomplete file: the profiler's numbers of ops and Python functions span a thousand or more,
-- and most of those in the file have missing neighbours; then no rule states why devices are idle, or what is on the
-- critical path. Lost kernels: launches have no event of a device; if these are a twentieth or more of all launches, no
-- rule about the time of devices applies. Data loader and compilation: a twentieth of the steps is in DataLoaders, or
-- in `compilation`. Communication: for a tenth of the time of the steps, devices communicate and compute nothing. Late
-- rank, slow link and clock offset: the trace's job has such a finding, and it is about the rank of this trace, too. A
-- rank is late if others wait for it for a twentieth of the time of their steps. They must do so in more steps than
-- chance explains, or most of their waiting must be for this rank. Device idle: a cause in `idle_parts` takes a
-- twentieth or more of the time from a device's first event to the end of its last. Critical path: one op, annotation,
-- call or the like takes a fifth of the path. Gpu utilization: a device is busy for less than half of the time of the
-- steps. Data parallel, communication backend, tensor cores and device memory: the program could use its devices
-- better. Device time: a family in `kernel_families` takes a fifth of the devices' time. Fusable kernels: fusing chains
-- in `fusable_chains` could save a twentieth of that time. Below the roof: ops of a family in `op_efficiency` exceed
-- the time at 80 % of the device's peaks by a twentieth of the devices' time. Unfused attention: products with a
-- softmax between them take a twentieth. Odd sizes: products whose kernels read one or two elements at once take a
-- twentieth. If several rules have findings with one cause, those of the rule with the most time are shown. If no rule
-- applies, there are no rows. The rows are those of `all_advice`; other arguments need etq: etq advice, or the method
-- of a warehouse in Python.
-- Empty: no rule of advice applies to {capture}
-- Shown: severity!, rule!, finding!|, evidence|, time_at_stake! (time), unit, share_percent%, share_of, remedy|
-- Columns:
--   rule: rule that applies
--   severity: high (from a fifth of the time of the executes, or if numbers are misleading), medium (from a twentieth) or low; some rules have other limits
--   finding: the finding in a sentence
--   evidence: the ops, instructions, lines, runs or views that show it
--   time_at_stake: most time that a remedy can save, for dumps as a mean per run, for traces in the whole trace; NULL for findings that are not about time
--   share_percent: time_at_stake in percent of share_of; NULL for findings that are not about time
--   share_of: the whole to which share_percent refers, in words
--   remedy: what to do
--   unit: unit of time_at_stake; NULL if that is NULL
CREATE MACRO advice(capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical') AS TABLE
WITH target AS MATERIALIZED (
    SELECT
        CASE
            WHEN c.unit = _default_unit(c.time_scale)
                AND coalesce(steps, phase, method) IS NULL
                AND runs = 'typical' THEN c.capture_id
            ELSE error(
                'advice(' || c.name || ') with other arguments is computed by etq: etq advice ' || c.name
                || ', or warehouse.advice() in Python'
            )
        END AS capture_id
    FROM _capture(capture, unit) AS c
)
SELECT t.rule, t.severity, t.finding, t.evidence, t.time_at_stake, t.share_percent, t.share_of, t.remedy, t.unit
FROM all_advice AS t
WHERE t.capture_id = (SELECT a.capture_id FROM target AS a)
    AND CASE WHEN t.place = 0 THEN error(t.finding) ELSE true END
ORDER BY t.place;
