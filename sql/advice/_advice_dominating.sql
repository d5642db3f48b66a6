-- Rule: one op or one module takes most of the time. This is the place to optimize
-- rather than a fault, so severity is at most medium. Copies are reported by
-- `_advice_copies`; a model of one or two ops is not reported.
CREATE MACRO _advice_dominating(
    ops,  -- rows of `_advice_ops` as a list
    times,  -- rows of `_advice_times` as a list
    dominating_percent := 50,  -- share of the executes in percent from which an op or module dominates: more than all others together
    least_others := 2  -- smallest number of other ops or modules
) AS TABLE
WITH
input AS (
    SELECT unnest(ops, recursive := true)
),
placed AS (
    SELECT unnest(times, recursive := true)
),
modules AS (
    SELECT
        p.module_path AS name,
        sum(p.per_run) AS per_run,
        sum(p.share_percent) AS share_percent,
        string_agg(DISTINCT p.op, ', ' ORDER BY p.op) AS words,
        any_value(p.unit) AS unit
    FROM placed AS p
    WHERE p.module_path IS NOT NULL
    GROUP BY p.module_path
),
named AS (
    SELECT
        'op' AS what,
        g.op AS name,
        g.per_run,
        g.share_percent,
        g.words,
        g.unit,
        count(*) OVER () - 1 AS others
    FROM input AS g
    WHERE g.kind IN ('kernel', 'delegate') AND NOT g.is_copy
    UNION ALL
    SELECT
        'module',
        m.name,
        m.per_run,
        m.share_percent,
        'events: ' || m.words,
        m.unit,
        count(*) OVER () - 1
    FROM modules AS m
)
SELECT
    'dominating ' || n.what AS rule,
    'medium' AS severity,
    CASE n.what
        WHEN 'op' THEN 'The op '
        ELSE 'The module '
    END || n.name || ' takes ' || _advice_time(n.per_run, n.unit)
    || ' of the average run (' || _advice_percent(n.share_percent)
    || '): making all else faster gains at most '
    || _advice_percent(100 - n.share_percent) || '.' AS finding,
    n.words AS evidence,
    n.per_run AS time_at_stake,
    n.share_percent,
    'Optimize this first: etq ops --by instance lists its instructions'
    || CASE n.what WHEN 'module' THEN ', etq modules its parts' ELSE '' END
    || '; a smaller shape or type, a backend, or a faster kernel saves most here.'
        AS remedy
FROM named AS n
WHERE n.share_percent >= dominating_percent
    AND n.others >= least_others
    AND n.name <> '';
