-- One finding about a capture, with its evidence, the time at stake and a remedy, the most severe first. For captures
-- that a runtime on a device wrote, shares of ops and modules are of typical runs, see `typical_runs`, unless all are
-- requested. The rules for PyTorch traces follow. Incomplete file: the profiler's numbers of ops and Python functions
-- span a thousand or more, and next to most of those in the file, numbers are missing; then no rule states why devices
-- are idle or what the critical path is. Lost kernels: launches have no event of a device; if these are a twentieth or
-- more of all launches, no rule about the time of devices applies. Data loader and compilation: a twentieth of the
-- steps is in DataLoaders, or in `compilation`. Communication: for a tenth of the time of the steps, devices
-- communicate and compute nothing. Late rank, slow link and clock offset: a finding about the trace's job is also about
-- this rank. A rank is late if others wait for it for a twentieth of the time of their steps, and do so in too many
-- steps for chance, or if most of what they wait is for it. Device idle: a cause in `idle_parts` takes a twentieth or
-- more of the time from a device's first event to the end of its last. Critical path: a thing takes a fifth of the
-- path. Gpu utilization: a device runs something for less than half of the steps. Data parallel, communication backend,
-- tensor cores and device memory: how the program uses its devices. Device time: a family in `kernel_families` takes a
-- fifth of the devices' time. Fusable kernels: fusing chains in `fusable_chains` could save a twentieth of it. Below
-- the roof: ops of a family in `op_efficiency` exceed the time at 80 % of the device's peaks by a twentieth of the
-- devices' time. Unfused attention: products with a softmax between them take a twentieth. Odd sizes: products whose
-- kernels read one or two elements at once take a twentieth. Of findings with one cause, the one with the most time is
-- shown. No rows: no rule applies. The rows are those of `all_advice`; other arguments need etq: etq advice, or the
-- method of a warehouse in Python.
-- Empty: no rule of advice applies to {capture}
-- Shown: severity!, rule!, finding!|, evidence|, time_at_stake! (time), unit, share_percent%, share_of, remedy|
-- Columns:
--   rule: rule that applies
--   severity: high (from a fifth of the time of the executes, or if numbers are misleading), medium (from a twentieth) or low; some rules have other limits
--   finding: the finding in a sentence
--   evidence: the ops, instructions, lines, runs or views that show it
--   time_at_stake: most time that a remedy can save: for dumps per run, a mean, for traces in the whole trace; NULL for findings that are not about time
--   share_percent: its percentage of share_of; NULL for findings that are not about time
--   share_of: what share_percent is a share of, in words
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
