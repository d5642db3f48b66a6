-- The verdicts of a comparison, with what is special to traces; those on other
-- captures as they are. An op that each sample of one side calls more often than each
-- of the other is judged by the time per call: it is slower or faster if its calls
-- are, and has more or fewer calls otherwise. An op with inputs of shapes that the
-- other side doesn't have is not slower or faster, as it computes something else.
-- Steps of one trace share the state of the machine: between single traces, a
-- difference of their steps is at most possible, if it is 10 % and 0.1 % of the total.
-- Columns:
--   comparison: index of the comparison
--   level: total, op, module or common shift, not call
--   scope: method
--   item: key of what was measured
--   verdict: slower, faster, ~ (no difference that counts), not decided, possibly slower, possibly faster, unstable, too few, can't judge, added, removed, more calls, fewer calls, other shapes
--   change: ratio of new to base, less 1; for ops and modules without the common shift
--   change_low: lower end of its interval, as in `_difference_tests`; NULL if there are too few captures
--   change_high: upper end of that interval
--   base_ticks: median time in captures of base, in ticks
--   new_ticks: median time in captures of new, in ticks
--   share: share of base's total, between 0 and 1
--   p: probability of a difference this large by chance; NULL for single captures
--   q: p, corrected for the number of ops; NULL for single captures
--   score: for single captures, the difference in standard deviations; NULL otherwise
--   base_captures: number of captures of base that have it; disturbed captures are excluded
--   new_captures: number of captures of new that have it; disturbed captures are excluded
--   note: why no verdict is possible, or what is needed for one; NULL if there is nothing to note
CREATE MACRO _trace_verdicts(
    chosen,  -- rows of `_comparison_captures` as a list
    samples,  -- rows of `_comparison_samples` as a list
    verdicts,  -- rows of `_verdicts` as a list
    min_effect  -- as in `compare_ops`
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(verdicts, recursive := true)
),
of_traces AS MATERIALIZED (
    SELECT s.capture_id, s.side, s.level, s.item, s.op, s.kind, s.calls
    FROM (SELECT unnest(samples, recursive := true)) AS s
    WHERE s.calls IS NOT NULL
),
steps AS (
    SELECT count(*) > 0 AS is_by_step FROM of_traces AS s WHERE s.capture_id < 0
),
items AS (
    SELECT
        s.item,
        any_value(s.op) FILTER (WHERE s.kind IN ('op', 'device_op')) AS label,
        median(s.calls) FILTER (WHERE s.side = 'base' AND s.level = 'call')
            AS base_calls,
        median(s.calls) FILTER (WHERE s.side = 'new' AND s.level = 'call')
            AS new_calls
    FROM of_traces AS s
    GROUP BY s.item
),
shapes AS (
    SELECT
        o.label,
        list(o.shapes ORDER BY o.calls DESC, o.shapes) FILTER (WHERE c.side = 'base')
            AS base_shapes,
        list(o.shapes ORDER BY o.calls DESC, o.shapes) FILTER (WHERE c.side = 'new')
            AS new_shapes
    FROM (SELECT unnest(chosen, recursive := true)) AS c
    JOIN op_shapes AS o ON o.capture_id = c.capture_id
    WHERE c.is_trace AND c.side <> 'history'
    GROUP BY o.label
),
-- Ops of which both sides have shapes, but not the same.
reshaped AS (
    SELECT
        h.label,
        list_filter(
            h.base_shapes, lambda s: NOT list_contains(h.new_shapes, s)
        )[1] AS base_shapes,
        list_filter(
            h.new_shapes, lambda s: NOT list_contains(h.base_shapes, s)
        )[1] AS new_shapes
    FROM shapes AS h
    WHERE NOT (
        list_has_all(h.base_shapes, h.new_shapes)
        AND list_has_all(h.new_shapes, h.base_shapes)
    )
),
explained AS (
    SELECT
        i.*,
        t.is_by_step,
        o.label IS NOT NULL AS has_other_shapes,
        c.item IS NOT NULL AS has_other_calls,
        p.new_calls > p.base_calls AS is_called_more,
        CASE WHEN c.item IS NULL THEN i.verdict ELSE c.verdict END AS tested,
        CASE WHEN c.item IS NULL THEN i.change ELSE c.change END AS tested_change,
        CASE WHEN c.item IS NOT NULL THEN
            'calls per step ' || printf('%.4g', p.base_calls) || ' to '
            || printf('%.4g', p.new_calls) || ', each ' || _call_length(c.base_ticks)
            || ' to ' || _call_length(c.new_ticks)
        END AS calls_note,
        CASE WHEN o.label IS NOT NULL THEN 'shapes ' || concat_ws(
            ', ', _shortened(o.base_shapes) || ' only in base',
            _shortened(o.new_shapes) || ' only in new'
        ) END AS shapes_note
    FROM input AS i
    CROSS JOIN steps AS t
    LEFT JOIN items AS p ON p.item = i.item
    LEFT JOIN input AS c
        ON c.item = i.item
        AND c.comparison = i.comparison
        AND c.level = 'call'
        AND i.level = 'op'
    LEFT JOIN reshaped AS o ON o.label = p.label AND i.level = 'op'
    WHERE i.level <> 'call'
),
judged AS (
    SELECT
        e.*,
        CASE
            WHEN NOT e.is_by_step
                OR e.tested IS NULL
                OR e.tested NOT IN ('slower', 'faster', 'unstable')
                THEN e.tested
            WHEN abs(e.tested_change) >= coalesce(min_effect, 0.1)
                AND abs(e.tested_change) * coalesce(e.share, 1) >= 0.001
                THEN 'possibly '
                || CASE WHEN e.tested_change > 0 THEN 'slower' ELSE 'faster' END
            ELSE 'not decided'
        END AS possible
    FROM explained AS e
)
SELECT
    j.comparison,
    j.level,
    j.scope,
    j.item,
    CASE
        WHEN j.possible NOT LIKE '%slower' AND j.possible NOT LIKE '%faster'
            AND j.has_other_calls
            OR j.has_other_shapes AND j.has_other_calls
            THEN CASE WHEN j.is_called_more THEN 'more calls' ELSE 'fewer calls' END
        WHEN j.has_other_shapes
            AND (j.possible LIKE '%slower' OR j.possible LIKE '%faster')
            THEN 'other shapes'
        ELSE j.possible
    END AS verdict,
    j.change,
    j.change_low,
    j.change_high,
    j.base_ticks,
    j.new_ticks,
    j.share,
    j.p,
    j.q,
    j.score,
    j.base_captures,
    j.new_captures,
    CASE
        WHEN j.has_other_calls OR j.has_other_shapes
            THEN concat_ws('; ', j.calls_note, j.shapes_note)
        WHEN NOT j.is_by_step THEN j.note
        WHEN j.verdict = 'too few' THEN
            'fewer than 3 steps have it: measure 3 traces per side'
        WHEN j.possible LIKE 'possibly %' THEN
            'by their steps alone: measure 3 traces per side'
        WHEN j.verdict IN ('slower', 'faster', 'unstable') THEN
            'the steps differ, but so may single traces: measure 3 per side'
        -- Not of how many captures would show it.
        WHEN j.verdict IN ('~', 'not decided') THEN NULL
        ELSE j.note
    END AS note
FROM judged AS j;

-- The time of a call as text, for notes.
CREATE MACRO _call_length(
    ticks  -- nanoseconds
) AS (
    CASE
        WHEN ticks >= 1000000 THEN printf('%.2f ms', ticks / 1000000)
        ELSE printf('%.2f us', ticks / 1000)
    END
);

-- A text of at most 60 characters for a note.
CREATE MACRO _shortened(
    text  -- the text
) AS (
    CASE WHEN length(text) > 60 THEN substr(text, 1, 57) || '...' ELSE text END
);
