-- Rule: loading took longer than all runs of the capture together. A capture is not
-- a user's session, so severity is low; medium if loading takes longer than a
-- hundred runs.
CREATE MACRO _advice_loading(
    runs,  -- rows of `_advice_runs` as a list
    loading,  -- rows of `load_breakdown` as a list
    loading_percent := 50  -- share of loading in the time of loading and runs together, in percent, from which it is reported
) AS TABLE
WITH
input AS (
    SELECT unnest(runs, recursive := true)
),
parts AS (
    SELECT unnest(loading, recursive := true)
),
executed AS (
    SELECT
        count(*) AS runs,
        fsum(g.execute) AS execute,
        median(g.execute) AS middle
    FROM input AS g
),
loaded AS (
    SELECT
        sum(p.total) FILTER (WHERE p.component = 'Program::load_method')
            AS load,
        coalesce(
            sum(p.total) FILTER (WHERE p.component = 'Method::init'), 0
        ) AS init,
        coalesce(
            sum(p.total) FILTER (WHERE p.component = 'delegate init'), 0
        ) AS delegate_init,
        any_value(p.unit) AS unit,
        count(*) FILTER (WHERE p.component = 'Program::load_method') AS loads
    FROM parts AS p
),
load_shares AS (
    SELECT l.*, x.*, 100e0 * l.load / (l.load + x.execute) AS share_percent
    FROM loaded AS l
    CROSS JOIN executed AS x
    WHERE x.runs > 0
)
SELECT
    'loading' AS rule,
    CASE WHEN t.load > 100e0 * t.middle THEN 'medium' ELSE 'low' END AS severity,
    'Loading took ' || _advice_time(t.load, t.unit) || ', as long as '
    || _advice_number(t.load / t.middle) || ' median runs and '
    || _advice_percent(t.share_percent) || ' of the time in this capture.' AS finding,
    _advice_count(t.loads, 'Program::load_method') || ', of it Method::init '
    || _advice_time(t.init, t.unit) || CASE
        WHEN t.delegate_init > 0
            THEN ', in it delegates ' || _advice_time(t.delegate_init, t.unit)
        ELSE ''
    END AS evidence,
    NULL::DOUBLE AS time_at_stake,
    t.share_percent,
    'Where sessions are short, load a method once and keep it for all runs; the '
    || 'delegates'' work at init, such as packing weights, can often be cached or '
    || 'done ahead.' AS remedy
FROM load_shares AS t
WHERE t.share_percent >= loading_percent;
