-- Rule: a clock counts in steps too large for what it times, as `_is_coarse`
-- says. The clock of the runtime and that of delegates' own events are told
-- apart: the former is of high severity, as no time can be believed; the latter
-- of medium severity where events take no time, else low.
-- Columns:
--   rule: as in `advice`
--   severity: as in `advice`
--   finding: as in `advice`
--   evidence: as in `advice`
--   time_at_stake: as in `advice`
--   share_percent: as in `advice`
--   remedy: as in `advice`
CREATE MACRO _advice_coarse_clock(
    clocks,  -- rows of `_advice_clocks` as a list
    least_events := 20  -- number of events that it takes to tell
) AS TABLE
WITH
given AS (
    SELECT unnest(clocks, recursive := true)
),
told AS (
    SELECT
        g.*,
        100 * g.zeros / g.events AS zeros_share
    FROM given AS g
    WHERE g.events >= least_events
        AND _is_coarse(g.events, g.zeros, g.middle, g.step)
)
SELECT
    'coarse clock' AS rule,
    CASE
        WHEN NOT t.is_delegate THEN 'high'
        WHEN t.zeros_share >= 25 THEN 'medium'
        ELSE 'low'
    END AS severity,
    CASE
        WHEN t.is_delegate THEN 'The events within delegates are timed '
        ELSE 'Events are timed '
    END || CASE
        WHEN t.step IS NULL THEN 'too coarsely'
        ELSE 'in steps of ' || _advice_time(t.step, t.unit)
    END || CASE
        WHEN t.middle > 0 THEN ', and half of them take no more than '
            || _advice_time(t.middle, t.unit)
        ELSE ''
    END || ': ' || _advice_percent(t.zeros_share) || ' take no time at all.' AS finding,
    _advice_count(t.events, 'event') || ' over all runs, '
    || format('{:,}', t.zeros) || ' of them 0' AS evidence,
    NULL::DOUBLE AS time_at_stake,
    NULL::DOUBLE AS share_percent,
    CASE
        WHEN t.is_delegate THEN 'Judge the DELEGATE_CALLs as a whole: what of them is '
            || 'unaccounted may well be these events, and more runs do not mend what '
            || 'is cut off. A profiler of the backend''s own tells more.'
        ELSE 'Have the platform count in finer ticks (et_pal_current_ticks), or '
            || 'measure several runs as one event.'
    END AS remedy
FROM told AS t;
