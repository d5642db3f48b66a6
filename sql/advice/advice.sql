-- One finding about a capture that a runtime on a device wrote, with its evidence,
-- the time at stake and a remedy, the most severe first. Each rule is a macro
-- `_advice_...` with its thresholds and their reasons. Shares of ops and modules
-- are of typical runs, see `typical_runs`, unless all are requested; other runs
-- have their own rules. For a PyTorch trace, the findings are those of
-- `trace_recommendations`. No rows: no rule applies.
-- Engines: duckdb (its sentences round numbers as C's printf does, and Java's format doesn't)
-- Columns:
--   rule: rule that applies
--   severity: high (from a fifth of the time of the executes, or if numbers are misleading), medium (from a twentieth) or low; some rules have other limits
--   finding: what was found, as a sentence
--   evidence: ops, instructions, lines, runs or views that the finding is based on
--   time_at_stake: mean time per run that the finding is about, which limits what a remedy can save; NULL for findings that are not about time
--   share_percent: time_at_stake in percent of the executes; for loading, of loading and executes together; NULL for findings that are not about time
--   remedy: what to do
--   unit: unit of time_at_stake and of the times in the texts; NULL for a trace
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
advised AS MATERIALIZED (
    SELECT c.capture_id, c.unit
    FROM _advice_capture(
        (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a)
    ) AS c
),
-- Each view is evaluated once; its rows are passed to the rules as a list. No CTE
-- has the name of a table: the body of a macro would take it for the CTE.
all_runs AS MATERIALIZED (
    SELECT list(r) AS rows
    FROM _advice_runs(
        (SELECT a.capture_id FROM target AS a),
        (SELECT a.unit FROM target AS a),
        steps, phase, method, runs
    ) AS r
),
all_times AS MATERIALIZED (
    SELECT list(t) AS rows
    FROM _advice_times(
        (SELECT a.capture_id FROM target AS a),
        (SELECT a.unit FROM target AS a),
        (SELECT r.rows FROM all_runs AS r)
    ) AS t
),
all_ops AS MATERIALIZED (
    SELECT list(o) AS rows
    FROM _advice_ops((SELECT t.rows FROM all_times AS t)) AS o
),
all_clocks AS MATERIALIZED (
    SELECT list(c) AS rows
    FROM _advice_clocks(
        (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a)
    ) AS c
),
all_loading AS MATERIALIZED (
    SELECT list(l ORDER BY l.run_index, l.part) AS rows
    FROM _load_breakdown(
        (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a)
    ) AS l
),
results AS (
    FROM _advice_findings((SELECT a.capture_id FROM advised AS a))
    UNION ALL
    FROM _advice_logged_values((SELECT a.capture_id FROM advised AS a))
    UNION ALL
    FROM _advice_framework_tax((SELECT r.rows FROM all_runs AS r))
    UNION ALL
    FROM _advice_nothing_delegated((SELECT o.rows FROM all_ops AS o))
    UNION ALL
    FROM _advice_fallback_kernels((SELECT o.rows FROM all_ops AS o))
    UNION ALL
    FROM _advice_copies((SELECT o.rows FROM all_ops AS o))
    UNION ALL
    FROM _advice_dominating(
        (SELECT o.rows FROM all_ops AS o), (SELECT t.rows FROM all_times AS t)
    )
    UNION ALL
    FROM _advice_small_delegate_calls(
        (SELECT o.rows FROM all_ops AS o), (SELECT c.rows FROM all_clocks AS c)
    )
    UNION ALL
    FROM _advice_first_run(
        (SELECT r.rows FROM all_runs AS r), (SELECT l.rows FROM all_loading AS l)
    )
    UNION ALL
    FROM _advice_slow_runs((SELECT r.rows FROM all_runs AS r))
    UNION ALL
    FROM _advice_variance((SELECT r.rows FROM all_runs AS r))
    UNION ALL
    FROM _advice_few_runs((SELECT r.rows FROM all_runs AS r))
    UNION ALL
    FROM _advice_loading(
        (SELECT r.rows FROM all_runs AS r), (SELECT l.rows FROM all_loading AS l)
    )
    UNION ALL
    FROM _advice_coarse_clock((SELECT c.rows FROM all_clocks AS c))
    UNION ALL
    SELECT r.rule, 'medium', r.finding, r.evidence, NULL, NULL, r.remedy
    FROM _trace_recommendations((SELECT a.capture_id FROM target AS a), 'all') AS r
)
SELECT
    t.rule,
    t.severity,
    t.finding,
    t.evidence,
    t.time_at_stake,
    t.share_percent,
    t.remedy,
    a.unit
FROM results AS t
-- Rules of traces are not about executes, and have no unit.
LEFT JOIN advised AS a ON true
ORDER BY
    list_position(['high', 'medium', 'low'], t.severity),
    -- Findings that make numbers doubtful come first.
    t.share_percent DESC NULLS FIRST,
    t.rule,
    t.finding;
