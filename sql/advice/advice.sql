-- How a number is written in a sentence: with two or three significant digits.
CREATE MACRO _advice_format(value) AS (
    CASE
        WHEN abs(value) >= 100 THEN '{0:,.0f}'
        WHEN abs(value) >= 10 THEN '{0:.1f}'
        WHEN abs(value) >= 0.1 THEN '{0:.2f}'
        ELSE '{0:.2g}'
    END
);

-- A number as text for a sentence.
CREATE MACRO _advice_number(value) AS (format(_advice_format(value), value::DOUBLE));

-- A time as text for a sentence, in the unit that suits it: 12.3 us. One call with a chosen format is planned in half
-- the time of a call for each format.
CREATE MACRO _advice_time(value, unit) AS (
    format(
        CASE
            WHEN unit = 'us' AND value >= 1e7 THEN CASE WHEN value >= 1e8 THEN '{2:,.0f} s' ELSE '{2:.1f} s' END
            WHEN unit = 'us' AND value >= 1e4 THEN CASE WHEN value >= 1e5 THEN '{1:,.0f} ms' ELSE '{1:.1f} ms' END
            ELSE _advice_format(value) || ' {3}'
        END, value::DOUBLE, value / 1e3, value / 1e6, unit
    )
);

-- A share as text for a sentence: 12 %, 3.4 %; 100 % only if it is all.
CREATE MACRO _advice_percent(share_percent) AS (
    format(
        CASE
            WHEN share_percent >= 99.5 AND share_percent < 100 THEN 'over 99 %'
            WHEN share_percent >= 9.95 THEN '{:.0f} %'
            ELSE '{:.1f} %'
        END, share_percent::DOUBLE
    )
);

-- A count, or a mean of counts, as text with a noun: 1 run, 2 runs, 2.50 runs.
CREATE MACRO _advice_count(number, word) AS (
    format(
        CASE
            WHEN number = 1 THEN '{0:.0f} {1}'
            WHEN number = round(number) THEN '{0:,.0f} {1}s'
            ELSE _advice_format(number) || ' {1}s'
        END, number::DOUBLE, word
    )
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

-- The place of a finding in `advice`.
CREATE MACRO _advice_place(severity, share_percent, rule, finding) AS (
    (list_position(['high', 'medium', 'low'], severity), coalesce(-share_percent, '-inf'::DOUBLE), rule, finding)
);

-- One finding about a capture, with its evidence, the time at stake and a remedy, the most severe first. For captures
-- that a runtime on a device wrote, `_runtime_advice` has the rules, their thresholds and reasons; shares of ops and
-- modules are of typical runs, see `typical_runs`, unless all are requested. For PyTorch traces, the rules are those of
-- `trace_recommendations` and these. Lost kernels: launches without an event of a device; if a twentieth or more, no
-- rule about the time of devices applies. Device idle: a cause in `device_idle_causes` takes a twentieth or more of the
-- time from a device's first event to the end of its last. Critical path: an op in `critical_ops` takes a fifth of the
-- path. Device time: a family in `kernel_families` takes a fifth of the devices' time. Fusable kernels: fusing chains
-- in `fusable_chains` could save a twentieth of it. Below the roof: ops of a family in `op_efficiency` exceed the time
-- at 80 % of the device's peaks by a twentieth of the devices' time. Unfused attention: products with a softmax between
-- them take a twentieth. Odd sizes: products whose kernels read one or two elements at once take a twentieth. Of
-- findings with one cause, the one with the most time is shown. No rows: no rule applies.
-- Empty: no rule of advice applies to {capture}
-- Planned as: _advice_of_trace (torch_trace), _advice_of_runtime
-- Shown: severity!, rule!, finding!|, evidence|, time_at_stake! (time), unit, share_percent%, remedy|
-- Columns:
--   rule: rule that applies
--   severity: high (from a fifth of the time of the executes, or if numbers are misleading), medium (from a twentieth) or low; some rules have other limits
--   finding: the finding in a sentence
--   evidence: the ops, instructions, lines, runs or views that show it
--   time_at_stake: time per run that a remedy can save at most, a mean; for PyTorch traces, in the whole trace; NULL for findings that are not about time
--   share_percent: time_at_stake in percent of the executes; for loading, of loading and executes; for device idle, of the device's time; for critical path, of the path; for fusable kernels, of the devices' time from first to last event; for device time and below the roof, of the time of kernels, copies and fills; NULL for findings that are not about time
--   remedy: what to do
--   unit: unit of time_at_stake; NULL where that is
CREATE MACRO advice(capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical') AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, unit)),
results AS (
    FROM _runtime_advice(
        (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a), steps, phase, method, runs
    ) AS t
    UNION ALL
    FROM _trace_advice((SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a))
)
SELECT t.rule, t.severity, t.finding, t.evidence, t.time_at_stake, t.share_percent, t.remedy, t.unit
FROM results AS t
ORDER BY _advice_place(t.severity, t.share_percent, t.rule, t.finding);

-- The rows of `advice` about a capture that a runtime on a device wrote, for callers that know the format: `advice`
-- also plans the rules of traces, which takes longer than to answer.
CREATE MACRO _advice_of_runtime(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, unit))
SELECT t.*
FROM _runtime_advice(
    (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a), steps, phase, method, runs
) AS t
ORDER BY _advice_place(t.severity, t.share_percent, t.rule, t.finding);

-- The rows of `advice` about a PyTorch trace, for callers that know the format.
CREATE MACRO _advice_of_trace(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, unit))
SELECT t.*
FROM _trace_advice((SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a)) AS t
ORDER BY _advice_place(t.severity, t.share_percent, t.rule, t.finding);
