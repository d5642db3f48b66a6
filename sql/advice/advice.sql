-- One thing to know or to do about a capture that a runtime on a device wrote:
-- a finding, what it rests on, what it is worth and what to do about it, the
-- worst first. Each rule is a macro of its own, `_advice_...`, with its
-- thresholds and their reasons. Shares of ops and modules are of typical
-- runs, see `typical_runs`, unless asked for all; the others have rules themselves. Of a
-- PyTorch trace it is what `trace_recommendations` says. No row: no rule found
-- anything.
-- Engines: duckdb (its sentences round numbers as C's printf does, and Java's format doesn't)
-- Columns:
--   rule: what kind of finding
--   severity: high (from a fifth of the time of the executes, or numbers that mislead), medium (from a twentieth), low; by other measures where the rule says so
--   finding: what was found, a sentence
--   evidence: the ops, instructions, lines, runs or views that it rests on
--   time_at_stake: the time of one run that it is about, on average, the most that mending it may gain; NULL where it is about no such time
--   share_percent: that in percent of the executes; of loading and executes together for loading; NULL where it is about no time
--   remedy: what to do
--   unit: unit of time_at_stake, and of the times in the sentences; NULL for a trace
CREATE MACRO advice(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    skip_first := 0,  -- runs of each name to leave out at the start, as in `schedule`
    wait := 0,  -- as in `schedule`
    warmup := 0,  -- as in `schedule`
    active := 1,  -- as in `schedule`
    repeat := 0,  -- as in `schedule`
    skip_first_wait := 0,  -- as in `schedule`
    phase := NULL,  -- runs of that phase alone: load, prefill, decode, other; NULL: all
    method := NULL,  -- runs of that method alone, as the column `method` has it; NULL: all
    runs := 'typical'  -- typical: only runs that took about as long as most of their event block, see `typical_runs`; all
) AS TABLE
WITH
asked AS MATERIALIZED (
    SELECT c.capture_id, c.unit FROM _advised_capture(capture, unit) AS c
),
-- Each view is asked once; its rows go to the rules as a list. None is called as
-- a table is: what a macro here names would be taken for it.
all_runs AS MATERIALIZED (
    SELECT list(r) AS given
    FROM _advice_runs(
        capture, unit, skip_first, wait, warmup, active, repeat, skip_first_wait, phase,
        method, runs
    ) AS r
),
all_times AS MATERIALIZED (
    SELECT list(t) AS given
    FROM _advice_times(capture, unit, (SELECT r.given FROM all_runs AS r)) AS t
),
all_ops AS MATERIALIZED (
    SELECT list(o) AS given
    FROM _advice_ops((SELECT t.given FROM all_times AS t)) AS o
),
all_clocks AS MATERIALIZED (
    SELECT list(c) AS given FROM _advice_clocks(capture, unit) AS c
),
all_loading AS MATERIALIZED (
    SELECT list(l) AS given FROM load_breakdown(capture, unit) AS l
),
told AS (
    FROM _advice_findings((SELECT a.capture_id FROM asked AS a))
    UNION ALL
    FROM _advice_logged_values((SELECT a.capture_id FROM asked AS a))
    UNION ALL
    FROM _advice_framework_tax((SELECT r.given FROM all_runs AS r))
    UNION ALL
    FROM _advice_nothing_delegated((SELECT o.given FROM all_ops AS o))
    UNION ALL
    FROM _advice_fallback_kernels((SELECT o.given FROM all_ops AS o))
    UNION ALL
    FROM _advice_copies((SELECT o.given FROM all_ops AS o))
    UNION ALL
    FROM _advice_dominating(
        (SELECT o.given FROM all_ops AS o), (SELECT t.given FROM all_times AS t)
    )
    UNION ALL
    FROM _advice_small_delegate_calls(
        (SELECT o.given FROM all_ops AS o), (SELECT c.given FROM all_clocks AS c)
    )
    UNION ALL
    FROM _advice_first_run(
        (SELECT r.given FROM all_runs AS r), (SELECT l.given FROM all_loading AS l)
    )
    UNION ALL
    FROM _advice_slow_runs((SELECT r.given FROM all_runs AS r))
    UNION ALL
    FROM _advice_variance((SELECT r.given FROM all_runs AS r))
    UNION ALL
    FROM _advice_few_runs((SELECT r.given FROM all_runs AS r))
    UNION ALL
    FROM _advice_loading(
        (SELECT r.given FROM all_runs AS r), (SELECT l.given FROM all_loading AS l)
    )
    UNION ALL
    FROM _advice_coarse_clock((SELECT c.given FROM all_clocks AS c))
    UNION ALL
    SELECT r.rule, 'medium', r.finding, r.evidence, NULL, NULL, r.remedy
    FROM trace_recommendations(capture) AS r
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
FROM told AS t
-- A trace's rules are about no time of executes, and have no unit.
LEFT JOIN asked AS a ON true
ORDER BY
    list_position(['high', 'medium', 'low'], t.severity),
    -- What makes numbers doubtful comes before what they say.
    t.share_percent DESC NULLS FIRST,
    t.rule,
    t.finding;
