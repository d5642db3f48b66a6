-- A number as text for a sentence, with two or three significant digits.
CREATE MACRO _advice_number(value) AS (
    format(
        CASE
            WHEN abs(value) >= 100 THEN '{:,.0f}'
            WHEN abs(value) >= 10 THEN '{:.1f}'
            WHEN abs(value) >= 0.1 THEN '{:.2f}'
            ELSE '{:.2g}'
        END, value::DOUBLE
    )
);

-- A time as text for a sentence, in the unit that suits it: 12.3 us. It is computed once: DuckDB plans each use of a
-- macro's argument.
CREATE MACRO _advice_time(value, unit) AS (
    list_transform(
        [{'value': value::DOUBLE, 'unit': unit}],
        lambda time: CASE
            WHEN time.unit = 'us' AND time.value >= 1e7 THEN _advice_number(time.value / 1e6) || ' s'
            WHEN time.unit = 'us' AND time.value >= 1e4 THEN _advice_number(time.value / 1e3) || ' ms'
            ELSE _advice_number(time.value) || ' ' || time.unit
        END
    )[1]
);

-- A share as text for a sentence: 12 %, 3.4 %; 100 % only if it is all.
CREATE MACRO _advice_percent(share_percent) AS (
    CASE
        WHEN share_percent >= 99.5 AND share_percent < 100 THEN 'over 99 %'
        WHEN share_percent >= 9.95 THEN format('{:.0f} %', share_percent::DOUBLE)
        ELSE format('{:.1f} %', share_percent::DOUBLE)
    END
);

-- A count as text, which may be an average, with a noun: 1 run, 2 runs, 2.50 runs.
CREATE MACRO _advice_count(number, word) AS (
    CASE
        WHEN number = round(number) THEN format('{:,.0f}', number::DOUBLE)
        ELSE _advice_number(number)
    END || ' ' || word || CASE WHEN number = 1 THEN '' ELSE 's' END
);

-- A text of at most `length` characters: a longer one ends in `…`.
CREATE MACRO _shortened(words, length) AS (
    CASE WHEN length(words) > length THEN substr(words, 1, length) || '…' ELSE words END
);

-- The severity of a finding by its share of the executes: high from a fifth, which justifies a change of the model or
-- its lowering; medium from a twentieth, which a comparison of two builds detects with five captures per side.
CREATE MACRO _advice_severity(share_percent) AS (
    CASE WHEN share_percent >= 20 THEN 'high' WHEN share_percent >= 5 THEN 'medium' ELSE 'low' END
);

-- The place of a finding in `advice`: findings that make numbers doubtful come first.
CREATE MACRO _advice_place(severity, share_percent, rule, finding) AS (
    (list_position(['high', 'medium', 'low'], severity), coalesce(-share_percent, '-inf'::DOUBLE), rule, finding)
);

-- One finding about a capture that a runtime on a device wrote, with its evidence, the time at stake and a remedy, the
-- most severe first. Each rule has its thresholds and their reasons in `_runtime_advice`. Shares of ops and modules are
-- of typical runs, see `typical_runs`, unless all are requested; other runs have their own rules. For a PyTorch trace,
-- the findings are those of `trace_recommendations`; lost kernels: launches without an event of a device, and if these
-- are a twentieth or more, no rule about the time of devices; device idle: a cause of idle time, as in
-- `device_idle_causes`, that takes a twentieth of a device's time or more, from its first event to the end of its last;
-- critical path: an op that has a fifth or more of the critical path, as in `critical_ops`; device time: a family of
-- kernels that takes a fifth or more of the time of devices, as in `kernel_families`; fusable kernels: chains of
-- kernels whose fusion could save a twentieth of the devices' time, as in `fusable_chains`; and below the roof: ops of
-- a family that take a twentieth of the devices' time more than 80 % of the device's peaks allow, as in
-- `op_efficiency`; unfused attention: products with a softmax between them that take a twentieth of the devices' time;
-- odd sizes: products that do, whose kernels read one or two elements at once. Of findings of a trace with one cause,
-- that with most time is shown. No rows: no rule applies.
-- Empty: no rule of advice applies to {capture}
-- Planned as: _advice_of_trace (torch_trace), _advice_of_runtime
-- Shown: severity!, rule!, finding!|, evidence|, time_at_stake!, unit, share_percent, remedy|
-- Columns:
--   rule: rule that applies
--   severity: high (from a fifth of the time of the executes, or if numbers are misleading), medium (from a twentieth) or low; some rules have other limits
--   finding: what was found, as a sentence
--   evidence: ops, instructions, lines, runs or views that the finding is based on
--   time_at_stake: mean time per run that the finding is about, which limits what a remedy can save; for PyTorch traces, time in the whole trace; NULL for findings that are not about time
--   share_percent: time_at_stake in percent of the executes; for loading, of loading and executes together; for device idle, of the device's time; for critical path, of the path; for device time, of the time of kernels, copies and fills; for fusable kernels and below the roof, of the devices' time; NULL for findings that are not about time
--   remedy: what to do
--   unit: unit of time_at_stake and of the times in the texts; NULL for the findings of `trace_recommendations`
CREATE MACRO advice(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL,
    runs := 'typical'
) AS TABLE
WITH
target AS MATERIALIZED (FROM _capture(capture, unit)),
results AS (
    FROM _runtime_advice(
        (SELECT a.capture_id FROM target AS a),
        (SELECT a.unit FROM target AS a),
        steps, phase, method, runs
    ) AS t
    UNION ALL
    FROM _trace_advice((SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a))
)
SELECT
    t.rule, t.severity, t.finding, t.evidence, t.time_at_stake, t.share_percent,
    t.remedy, t.unit
FROM results AS t
ORDER BY _advice_place(t.severity, t.share_percent, t.rule, t.finding);

-- The rows of `advice` about a capture that a runtime on a device wrote. Callers that know the capture's format use it,
-- because `advice` also plans the rules of traces, which takes longer than to answer.
CREATE MACRO _advice_of_runtime(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL,
    runs := 'typical'
) AS TABLE
WITH
target AS MATERIALIZED (FROM _capture(capture, unit))
SELECT t.*
FROM _runtime_advice(
    (SELECT a.capture_id FROM target AS a),
    (SELECT a.unit FROM target AS a),
    steps, phase, method, runs
) AS t
ORDER BY _advice_place(t.severity, t.share_percent, t.rule, t.finding);

-- The rows of `advice` about a PyTorch trace, for callers that know the format.
CREATE MACRO _advice_of_trace(capture, unit := NULL) AS TABLE
WITH
target AS MATERIALIZED (FROM _capture(capture, unit))
SELECT t.*
FROM _trace_advice((SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a)) AS t
ORDER BY _advice_place(t.severity, t.share_percent, t.rule, t.finding);
