-- The rows of `advice`, without their order, of a capture by its key that a runtime
-- on a device wrote; none of others.
CREATE MACRO _runtime_advice(capture_key, unit, steps, phase, method, runs) AS TABLE
WITH
advised AS MATERIALIZED (
    SELECT c.capture_id, c.unit
    FROM _advice_capture(capture_key, unit) AS c
),
-- Each view is evaluated once; its rows are passed to the rules as a list. No CTE
-- has the name of a table: the body of a macro would take it for the CTE.
all_runs AS MATERIALIZED (
    SELECT list(r) AS rows
    FROM _advice_runs(capture_key, unit, steps, phase, method, runs) AS r
),
all_times AS MATERIALIZED (
    SELECT list(t) AS rows
    FROM _advice_times(capture_key, unit, (SELECT r.rows FROM all_runs AS r)) AS t
),
all_ops AS MATERIALIZED (
    SELECT list(o) AS rows
    FROM _advice_ops((SELECT t.rows FROM all_times AS t)) AS o
),
all_clocks AS MATERIALIZED (
    SELECT list(c) AS rows
    FROM _advice_clocks(capture_key, unit) AS c
),
all_loading AS MATERIALIZED (
    SELECT list(l ORDER BY l.run_index, l.part) AS rows
    FROM _load_breakdown(capture_key, unit) AS l
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
CROSS JOIN advised AS a;
