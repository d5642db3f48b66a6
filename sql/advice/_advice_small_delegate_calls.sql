-- Rule: a run calls delegates often, and each call is short compared with its
-- overhead: copies and layout, and time that the delegate's events leave
-- unaccounted. If the clock of these events is too coarse, and for calls without
-- events or with detached ones, unaccounted time is not counted as overhead; such
-- calls are reported if they are short.
CREATE MACRO _advice_small_delegate_calls(
    ops,  -- rows of `_advice_ops` as a list
    clocks,  -- rows of `_advice_clocks` as a list
    calls_a_run := 5,  -- number of calls per run that is many: a graph in one piece has one
    overhead_percent := 25,  -- share of the calls' time in percent from which overhead is too large
    short_us := 50  -- mean duration in microseconds below which calls of unknown overhead are short: a call's fixed cost is some microseconds
) AS TABLE
WITH
input AS (
    SELECT unnest(ops, recursive := true)
),
timed AS (
    SELECT unnest(clocks, recursive := true)
),
coarse AS (
    SELECT coalesce(bool_or(_is_coarse(c.events, c.zeros, c.middle, c.step)), false)
        AS is_coarse
    FROM timed AS c
    WHERE c.is_delegate
),
added AS (
    SELECT
        sum(g.calls) FILTER (WHERE g.kind = 'delegate_call') AS calls,
        fsum(g.per_run) AS total,
        fsum(g.share_percent) AS share_percent,
        coalesce(
            fsum(g.per_run) FILTER (WHERE g.kind = 'delegate' AND g.is_copy), 0
        ) AS copies,
        sum(g.opened) FILTER (WHERE g.kind = 'delegate_call') AS unaccounted,
        bool_or(g.kind = 'delegate') AND NOT any_value(c.is_coarse) AS is_explained,
        string_agg(g.words, ', ' ORDER BY g.per_run DESC)
            FILTER (WHERE g.kind = 'delegate_call' OR g.is_copy) AS words,
        any_value(g.unit) AS unit
    FROM input AS g
    CROSS JOIN coarse AS c
    WHERE g.kind IN ('delegate', 'delegate_call')
),
overheads AS (
    SELECT
        a.*,
        a.copies + CASE WHEN a.is_explained THEN a.unaccounted ELSE 0 END AS costs,
        100e0 * costs >= overhead_percent * a.total AS is_costly,
        NOT a.is_explained
        AND a.total / a.calls * _nanoseconds(a.unit) < 1000 * short_us AS is_short
    FROM added AS a
    WHERE a.calls >= calls_a_run
)
SELECT
    'small delegate calls' AS rule,
    CASE
        WHEN t.is_costly THEN _advice_severity(t.share_percent * t.costs / t.total)
        ELSE 'low'
    END AS severity,
    'The average run calls delegates ' || _advice_count(t.calls, 'time') || ', '
    || _advice_time(t.total / t.calls, t.unit) || ' each, '
    || CASE
        WHEN t.is_costly THEN _advice_percent(100e0 * t.costs / t.total)
            || ' of it copies, layout and time that the delegates'' events leave '
            || 'unaccounted.'
        ELSE 'and the delegates'' events do not show how much of it is overhead.'
    END AS finding,
    t.words AS evidence,
    CASE WHEN t.is_costly THEN t.costs END AS time_at_stake,
    CASE WHEN t.is_costly THEN t.share_percent * t.costs / t.total END
        AS share_percent,
    'Join the parts: etq coverage lists the ops between them that were not '
    || 'delegated. Have the partitioner take these, or leave out parts that are '
    || 'too small to save time.' AS remedy
FROM overheads AS t
WHERE t.is_costly OR t.is_short;
