-- Rule: what a run takes beside its work is a large part of it. A traced run's
-- tax includes tracing. Logging one event took 0.29 us on the machine of the
-- captures in tests/ (transformer: 114 events, 223 us traced, 190 us not), so
-- that a tax of that order for each event is tracing's rather than the
-- framework's; it is then never of high severity.
-- Columns:
--   rule: as in `advice`
--   severity: as in `advice`
--   finding: as in `advice`
--   evidence: as in `advice`
--   time_at_stake: as in `advice`
--   share_percent: as in `advice`
--   remedy: as in `advice`
CREATE MACRO _advice_framework_tax(
    runs,  -- rows of `_advice_runs` as a list
    tax_percent := 10,  -- share of a run in percent from which the tax is told: half of it is then worth a comparison
    logging_ns := 1000  -- nanoseconds for each event up to which tracing is a likely reason: three times what logging took
) AS TABLE
WITH
given AS (
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
    FROM given AS g
    WHERE g.is_steady AND g.tax IS NOT NULL
),
told AS (
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
    'Beside its kernels and delegates, the median run takes '
    || _advice_time(t.tax, t.unit) || ' of ' || _advice_time(t.execute, t.unit)
    || ' (' || _advice_percent(t.share_percent) || '), the cost of tracing included: '
    || _advice_time(t.each_event, t.unit) || ' for each of the '
    || _advice_count(t.events, 'event') || ' that it logs, '
    || CASE
        WHEN t.is_tracing THEN 'of the order of what logging one costs: tracing is '
            || 'the likely reason.'
        WHEN t.is_tracing IS NULL THEN 'of which this clock does not tell what is '
            || 'tracing.'
        ELSE 'more than logging one costs, so that tracing alone does not explain it.'
    END AS finding,
    'medians over ' || _advice_count(t.runs, 'run') || ' of framework_tax; '
    || 'operator-call overhead and rest in execute_breakdown' AS evidence,
    t.tax AS time_at_stake,
    t.share_percent,
    'Capture the program at level method_only, too, and ask etq tax with it as '
    || '--baseline: what is left is the framework''s own. Fewer and larger ops '
    || '(delegating, fusing) lower both.' AS remedy
FROM told AS t;
