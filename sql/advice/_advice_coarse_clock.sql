-- Rule: a clock's step is too large for the times that it measures, see `_is_coarse`. Severity
-- is high for the runtime's clock, as it makes all times unreliable; for the clock
-- of delegates' events it is medium if a quarter of the events have duration zero,
-- else low.
CREATE MACRO _advice_coarse_clock(
    clocks,  -- rows of `_advice_clocks` as a list
    least_events := 20  -- smallest number of events that is judged
) AS TABLE
WITH
input AS (
    SELECT unnest(clocks, recursive := true)
),
coarse AS (
    SELECT
        g.*,
        100e0 * g.zeros / g.events AS zeros_share
    FROM input AS g
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
        WHEN t.is_delegate THEN 'Events within delegates are timed '
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
        WHEN t.is_delegate THEN 'Use the DELEGATE_CALLs as a whole: these events may '
            || 'account for their unaccounted time, and more runs do not restore the '
            || 'lost precision. Use the backend''s own profiler for more detail.'
        ELSE 'Make the platform''s clock finer (et_pal_current_ticks), or measure '
            || 'several runs as one event.'
    END AS remedy
FROM coarse AS t;
