-- Rule: a run spends much of its time outside of kernels and delegates. A traced
-- run's tax includes tracing. Logging one event took 0.29 us on the machine of the
-- captures in tests/ (transformer: 114 events, 223 us traced, 190 us not), so a tax
-- of this order per event comes from tracing rather than from the framework;
-- severity is then never high.
CREATE MACRO _advice_framework_tax(
    runs,  -- rows of `_advice_runs` as a list
    tax_percent := 10,  -- share of a run in percent from which the tax is reported: half of it is then worth a comparison
    logging_ns := 1000  -- nanoseconds per event up to which tracing is a likely reason: about three times what logging took
) AS TABLE
WITH
input AS (
    SELECT unnest(runs, recursive := true)
),
typical AS (
    SELECT
        median(g.execute) AS execute,
        median(g.tax) AS tax,
        median(g.tax_percent) AS share_percent,
        median(g.events) AS events,
        count(*) AS runs,
        any_value(g.unit) AS unit
    FROM input AS g
    WHERE g.is_steady AND g.tax IS NOT NULL
),
taxes AS (
    SELECT
        t.*,
        t.tax / nullif(t.events, 0) AS each_event,
        each_event * _nanoseconds(t.unit) <= logging_ns AS is_tracing
    FROM typical AS t
    WHERE t.share_percent >= tax_percent
)
SELECT
    'framework tax' AS rule,
    CASE
        WHEN t.is_tracing AND t.share_percent >= 20 THEN 'medium'
        ELSE _advice_severity(t.share_percent)
    END AS severity,
    'Outside of kernels and delegates, the median run takes '
    || _advice_time(t.tax, t.unit) || ' of ' || _advice_time(t.execute, t.unit)
    || ' (' || _advice_percent(t.share_percent) || '), tracing included'
    || CASE
        WHEN t.each_event IS NULL THEN '.'
        ELSE ': ' || _advice_time(t.each_event, t.unit) || ' for each of its '
            || _advice_count(t.events, 'event') || ', '
    END
    || CASE
        WHEN t.each_event IS NULL THEN ''
        WHEN t.is_tracing THEN 'about what logging one event costs: tracing is the '
            || 'likely reason.'
        WHEN t.is_tracing IS NULL THEN 'and this clock does not show how much of it is '
            || 'tracing.'
        ELSE 'more than logging one event costs: tracing alone does not explain it.'
    END AS finding,
    'medians over ' || _advice_count(t.runs, 'run') || ' of framework_tax; '
    || 'operator-call overhead and rest in execute_breakdown' AS evidence,
    t.tax AS time_at_stake,
    t.share_percent,
    'Capture the program at level method_only too, and give it to etq tax as '
    || '--baseline: the rest is the framework itself. Fewer and larger ops '
    || '(delegating, fusing) lower both.' AS remedy
FROM taxes AS t;
