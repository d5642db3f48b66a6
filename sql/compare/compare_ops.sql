-- The change of one op from base to new; the op that explains most of the
-- difference is first. Each side is one capture or, better, several: the sample is
-- a capture, never a run. A change is without the common shift of all ops (from the
-- clock, or the load of the machine), see `compare_captures`. Single captures are
-- judged by other captures of the same program, or not at all. Ops of PyTorch traces
-- have their time per step, and those on devices another common shift; of a single
-- trace per side, steps are the samples, and verdicts at most possible.
-- Columns:
--   op: op type if ops are matched by module, else family; of traces the name
--   module_path: its module; NULL if no record is linked
--   kind: kernel, delegate (within a delegate_call), delegate_call, operator_call (without a kernel), user; of traces as in `step_times`
--   instruction_id: the instruction in new, or else in base; NULL where none is named
--   verdict: slower, faster, ~ (no difference that counts: the interval has none), not decided, possibly slower, possibly faster, too few, can't judge, conditions differ, added, removed; of traces also more calls, fewer calls (per step; the time per call does not differ), other shapes (of inputs)
--   change_percent: change of its time in percent, without the common shift
--   low_percent: lower end of its interval: of 95 % if the sides were measured in turns; else of the spread of the captures, without what the machine changed from side to side; NULL with fewer than 4 captures per side
--   high_percent: upper end of that interval
--   base: time in base, median over captures; NULL if the item is added
--   new: time in new, median over captures; NULL if the item is removed
--   difference: new less base, common shift included
--   unit: unit of base, new and difference; cycles for what a backend counts in cycles; NULL if one side counts cycles and the other time
--   share_percent: base in percent of base's total, or new of new's if it is added; NULL for values in other units than the total
--   q: p, corrected for the number of ops: probability of a false positive among the ops with this q or less; NULL for single captures
--   note: why no verdict is possible, what is needed for one, or what a removed op may have become
--   matched: how ops of both sides were matched: event (the same program), module, or name
--   base_captures: number of captures of base used, or of steps; disturbed ones are excluded
--   new_captures: number of captures of new used, or of steps
CREATE MACRO compare_ops(
    base,  -- name, hash prefix, @latest, or a selector of one or several captures
    new,  -- as `base`
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- quantile of a capture's runs that is compared: 0.25 (least affected by noise), 0.5, or 0.9 (slow tails)
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    history := NULL,  -- captures that show the usual variation if each side is one capture; NULL: others with the same events and all labels that both sides share
    alpha := 0.05,  -- accepted probability of a false verdict slower or faster
    min_effect := NULL,  -- smallest change that counts, as a fraction; NULL: 0.02, or 0.1 for single captures
    allow_mismatch := false  -- whether to compare captures of different profiling levels or models, and to give verdicts although conditions differ
) AS TABLE
WITH
comparison AS MATERIALIZED (
    FROM _comparison(
        base, new, quantile := quantile, phase := phase, history := history,
        alpha := alpha, min_effect := min_effect, allow_mismatch := allow_mismatch
    )
)
FROM _compared_ops(
    (SELECT c.chosen FROM comparison AS c),
    (SELECT c.samples FROM comparison AS c),
    (SELECT c.verdicts FROM comparison AS c),
    unit := unit,
    allow_mismatch := allow_mismatch
);

-- The rows of `compare_ops` about captures that a runtime on a device wrote, see
-- `_comparison_of_runtime`.
-- Columns: as in `compare_ops`
CREATE MACRO _compare_ops_of_runtime(
    base,  -- as in `compare_ops`
    new,  -- as in `compare_ops`
    unit := NULL,  -- as in `compare_ops`
    quantile := 0.25,  -- as in `compare_ops`
    phase := NULL,  -- as in `compare_ops`
    history := NULL,  -- as in `compare_ops`
    alpha := 0.05,  -- as in `compare_ops`
    min_effect := NULL,  -- as in `compare_ops`
    allow_mismatch := false  -- as in `compare_ops`
) AS TABLE
WITH
comparison AS MATERIALIZED (
    FROM _comparison_of_runtime(
        base, new, quantile := quantile, phase := phase, history := history,
        alpha := alpha, min_effect := min_effect, allow_mismatch := allow_mismatch
    )
)
FROM _compared_ops(
    (SELECT c.chosen FROM comparison AS c),
    (SELECT c.samples FROM comparison AS c),
    (SELECT c.verdicts FROM comparison AS c),
    unit := unit,
    allow_mismatch := allow_mismatch
);

-- The ops of a comparison that is computed already.
-- Columns: as in `compare_ops`
CREATE MACRO _compared_ops(
    chosen,  -- as in `_comparison`
    samples,  -- as in `_comparison`
    verdicts,  -- as in `_comparison`
    unit := NULL,  -- as in `compare_ops`
    allow_mismatch := false  -- as in `compare_ops`
) AS TABLE
WITH
sampled AS MATERIALIZED (
    SELECT unnest(samples, recursive := true)
),
compared AS MATERIALIZED (
    SELECT unnest(verdicts, recursive := true)
),
described AS (
    SELECT
        s.item,
        arg_max(s.op, (s.side = 'new', s.capture_id)) AS op,
        arg_max(s.module_path, (s.side = 'new', s.capture_id)) AS module_path,
        arg_max(s.kind, (s.side = 'new', s.capture_id)) AS kind,
        arg_max(s.instruction_id, (s.side = 'new', s.capture_id))
            AS instruction_id,
        any_value(s.matched) AS matched,
        list_distinct(list(s.counted)) AS counted,
        arg_max(s.place, s.capture_id) FILTER (WHERE s.side = 'base') AS base_place,
        arg_max(s.place, s.capture_id) FILTER (WHERE s.side = 'new') AS new_place
    FROM sampled AS s
    WHERE s.level = 'op' AND s.side <> 'history'
    GROUP BY s.item
),
shown AS (
    FROM _display_scale(
        (
            SELECT list_distinct(list(s.counted))
            FROM sampled AS s
            WHERE s.level = 'total'
        ),
        unit
    )
),
-- Values in another unit than the total have no part in it. A new op belongs to a
-- removed one if both are between the same two ops that stayed.
placed AS MATERIALIZED (
    SELECT
        d.*,
        NOT list_has_all(w.counted, d.counted) AS is_other,
        CASE
            WHEN list_has_all(w.counted, d.counted) THEN w.unit
            WHEN d.counted = ['cycles'] THEN 'cycles'
            WHEN d.counted = ['ns'] THEN 'us'
        END AS unit,
        CASE
            WHEN list_has_all(w.counted, d.counted) THEN w.divisor
            WHEN d.counted = ['cycles'] THEN 1
            WHEN d.counted = ['ns'] THEN 1000
        END AS divisor,
        CASE
            WHEN d.base_place IS NULL THEN count(d.base_place) OVER (
                ORDER BY d.new_place NULLS LAST
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
            WHEN d.new_place IS NULL THEN count(d.new_place) OVER (
                ORDER BY d.base_place NULLS LAST
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
        END AS gap
    FROM described AS d
    CROSS JOIN shown AS w
),
candidates AS (
    SELECT
        g.item,
        list_sort(list_distinct(list(o.op))) AS ops
    FROM placed AS g
    JOIN placed AS o
        ON o.gap = g.gap AND (o.base_place IS NULL) <> (g.base_place IS NULL)
    GROUP BY g.item
    -- Of more, the place determines nothing.
    HAVING len(ops) <= 3
),
totals AS (
    SELECT c.scope, c.base_ticks, c.new_ticks
    FROM compared AS c
    WHERE c.level = 'total'
)
SELECT
    g.op,
    g.module_path,
    g.kind,
    g.instruction_id,
    _verdict_label(c.verdict, d.conditions) AS verdict,
    100 * c.change AS change_percent,
    100 * c.change_low AS low_percent,
    100 * c.change_high AS high_percent,
    c.base_ticks / g.divisor AS base,
    c.new_ticks / g.divisor AS new,
    (coalesce(c.new_ticks, 0) - coalesce(c.base_ticks, 0)) / g.divisor
        AS difference,
    g.unit,
    CASE
        WHEN NOT g.is_other THEN 100 * coalesce(
            c.share, c.base_ticks / t.base_ticks, c.new_ticks / t.new_ticks
        )
    END AS share_percent,
    c.q,
    coalesce(c.note, CASE c.verdict
        WHEN 'removed' THEN 'may have become ' || array_to_string(n.ops, ', ')
        WHEN 'added' THEN 'may have been ' || array_to_string(n.ops, ', ')
    END) AS note,
    g.matched,
    c.base_captures,
    c.new_captures
FROM compared AS c
JOIN placed AS g ON g.item = c.item
CROSS JOIN (
    SELECT CASE WHEN allow_mismatch THEN 0 ELSE count(*) END AS conditions
    FROM _differing_conditions(chosen) AS x
) AS d
LEFT JOIN totals AS t ON t.scope = c.scope
LEFT JOIN candidates AS n ON n.item = c.item
WHERE c.level = 'op'
ORDER BY
    abs(coalesce(c.new_ticks, 0) - coalesce(c.base_ticks, 0)) DESC,
    g.op,
    c.item;
