-- One part of the totals of base and new. The self times of all parts of a method
-- add up to its total in `compare_captures`, for base as for new. Events within
-- delegate calls are separate parts if they fit into their calls; the time that no
-- op explains is (outside ops).
-- Columns:
--   method: the method that ran; if unknown, the name of its runs
--   module_path: its module; NULL if no record is linked
--   op: as in `compare_ops`; (outside ops)
--   kind: kind as in `compare_ops`; rest for (outside ops)
--   instruction_id: the instruction, in new or else in base
--   verdict: as in `compare_ops`; NULL for (outside ops)
--   change_percent: as in `compare_ops`
--   low_percent: as in `compare_ops`
--   high_percent: as in `compare_ops`
--   base: time in base; NULL if it is not part of base
--   new: time in new; NULL if it is not part of new
--   base_self: base without its own parts; below 0 if medians do not add up
--   new_self: new without its own parts; below 0 if medians do not add up
--   unit: unit of base, new, base_self and new_self; NULL if one side counts cycles and the other time
CREATE MACRO compare_parts(
    base,  -- name, hash prefix, @latest, or a selector of one or several captures
    new,  -- as `base`
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- as in `compare_ops`
    phase := NULL,  -- as in `compare_ops`
    history := NULL,  -- as in `compare_ops`
    alpha := 0.05,  -- as in `compare_ops`
    min_effect := NULL,  -- as in `compare_ops`
    allow_mismatch := false  -- as in `compare_ops`
) AS TABLE
WITH
comparison AS MATERIALIZED (
    FROM _comparison(
        base, new, quantile := quantile, phase := phase, history := history,
        alpha := alpha, min_effect := min_effect, allow_mismatch := allow_mismatch
    )
)
FROM _compared_parts(
    (SELECT c.chosen FROM comparison AS c),
    (SELECT c.samples FROM comparison AS c),
    (SELECT c.verdicts FROM comparison AS c),
    unit := unit,
    allow_mismatch := allow_mismatch
);

-- The parts of a comparison that is computed already.
-- Columns: as in `compare_parts`
CREATE MACRO _compared_parts(
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
shown AS (
    FROM _display_scale(
        (SELECT list(DISTINCT s.counted) FROM sampled AS s WHERE s.level = 'total'),
        unit
    )
),
-- Each op on each side that has it. Values in other units than the totals are not
-- parts of them.
sided AS MATERIALIZED (
    SELECT
        s.item,
        s.side,
        c.scope,
        arg_max(s.op, s.capture_id) AS op,
        arg_max(s.module_path, s.capture_id) AS module_path,
        arg_max(s.kind, s.capture_id) AS kind,
        arg_max(s.instruction_id, s.capture_id) AS instruction_id,
        bool_or(s.is_additive) AS is_additive,
        any_value(CASE s.side WHEN 'base' THEN c.base_ticks ELSE c.new_ticks END)
            AS ticks
    FROM sampled AS s
    JOIN compared AS c ON c.level = 'op' AND c.item = s.item
    WHERE s.level = 'op'
        AND s.side <> 'history'
        AND s.counted IN (SELECT t.counted FROM sampled AS t WHERE t.level = 'total')
    GROUP BY s.item, s.side, c.scope
),
-- Times of the events within each delegate call, if they are not more than the call.
explained AS (
    SELECT d.side, d.scope, d.instruction_id, fsum(d.ticks) AS ticks
    FROM sided AS d
    WHERE d.kind = 'delegate' AND NOT d.is_additive AND d.ticks IS NOT NULL
    GROUP BY d.side, d.scope, d.instruction_id
),
explained_calls AS (
    SELECT w.side, w.scope, w.instruction_id, c.item, w.ticks
    FROM explained AS w
    JOIN sided AS c
        ON c.side = w.side
        AND c.scope = w.scope
        AND c.instruction_id = w.instruction_id
        AND c.kind = 'delegate_call'
    WHERE c.is_additive
    -- Of two calls of one instruction, it is unknown to which of them it belongs.
    QUALIFY count(*) OVER (PARTITION BY w.side, w.scope, w.instruction_id) = 1
        AND w.ticks <= c.ticks
),
parts AS (
    SELECT
        d.*,
        d.ticks - coalesce(o.ticks, 0) AS self_ticks
    FROM sided AS d
    LEFT JOIN explained_calls AS o ON o.side = d.side AND o.item = d.item
    WHERE d.is_additive
    UNION ALL
    SELECT d.*, d.ticks AS self_ticks
    FROM sided AS d
    JOIN explained_calls AS o
        ON o.side = d.side
        AND o.scope = d.scope
        AND o.instruction_id = d.instruction_id
    WHERE d.kind = 'delegate' AND NOT d.is_additive
),
paired AS (
    SELECT
        p.scope,
        p.item,
        arg_max(p.module_path, p.side) AS module_path,
        arg_max(p.op, p.side) AS op,
        arg_max(p.kind, p.side) AS kind,
        arg_max(p.instruction_id, p.side) AS instruction_id,
        sum(p.ticks) FILTER (WHERE p.side = 'base') AS base_ticks,
        sum(p.ticks) FILTER (WHERE p.side = 'new') AS new_ticks,
        sum(p.self_ticks) FILTER (WHERE p.side = 'base') AS base_self,
        sum(p.self_ticks) FILTER (WHERE p.side = 'new') AS new_self
    FROM parts AS p
    WHERE p.ticks IS NOT NULL
    GROUP BY p.scope, p.item
    UNION ALL
    SELECT
        t.scope,
        NULL AS item,
        NULL AS module_path,
        '(outside ops)' AS op,
        'rest' AS kind,
        NULL AS instruction_id,
        any_value(t.base_ticks)
        - coalesce(fsum(p.self_ticks) FILTER (WHERE p.side = 'base'), 0) AS base_ticks,
        any_value(t.new_ticks)
        - coalesce(fsum(p.self_ticks) FILTER (WHERE p.side = 'new'), 0) AS new_ticks,
        any_value(t.base_ticks)
        - coalesce(fsum(p.self_ticks) FILTER (WHERE p.side = 'base'), 0) AS base_self,
        any_value(t.new_ticks)
        - coalesce(fsum(p.self_ticks) FILTER (WHERE p.side = 'new'), 0) AS new_self
    FROM compared AS t
    LEFT JOIN parts AS p ON p.scope = t.scope
    WHERE t.level = 'total'
    GROUP BY t.scope
)
SELECT
    b.scope AS method,
    b.module_path,
    b.op,
    b.kind,
    b.instruction_id,
    CASE WHEN c.verdict IS NOT NULL THEN _verdict_label(c.verdict, d.conditions) END
        AS verdict,
    100 * c.change AS change_percent,
    100 * c.change_low AS low_percent,
    100 * c.change_high AS high_percent,
    b.base_ticks / u.divisor AS base,
    b.new_ticks / u.divisor AS new,
    b.base_self / u.divisor AS base_self,
    b.new_self / u.divisor AS new_self,
    u.unit
FROM paired AS b
LEFT JOIN compared AS c ON c.level = 'op' AND c.item = b.item
CROSS JOIN shown AS u
CROSS JOIN (
    SELECT CASE WHEN allow_mismatch THEN 0 ELSE count(*) END AS conditions
    FROM _differing_conditions(chosen) AS x
) AS d
ORDER BY
    b.scope,
    b.kind = 'rest',
    greatest(coalesce(b.base_self, 0), coalesce(b.new_self, 0)) DESC,
    b.op,
    b.item;
