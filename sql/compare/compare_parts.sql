-- What the totals of base and new are made of, part by part: a picture of where
-- they differ. The own times of all parts of a method add up to its total, base as
-- new, as `compare_captures` has them. What delegates say of their calls is told
-- apart where it fits in these; what no op explains is (beside ops).
-- Columns:
--   method: the method that ran, or else the name of its runs
--   module_path: its module, where a record is linked
--   op: as in `compare_ops`; (beside ops)
--   kind: as in `compare_ops`; rest for (beside ops)
--   instruction_id: the instruction, in new or else in base
--   verdict: as in `compare_ops`; NULL for (beside ops)
--   change_percent: as in `compare_ops`
--   low_percent: as in `compare_ops`
--   high_percent: as in `compare_ops`
--   base: its time in base; NULL where it is not part of base
--   new: its time in new; NULL where it is not part of new
--   base_own: base without what is told apart of it; less than 0 where medians do not add up
--   new_own: new without what is told apart of it, likewise
--   unit: unit of these four; NULL where one side counts cycles and the other time
CREATE MACRO compare_parts(
    base,  -- name, hash prefix, @latest, or a selector, which may mean many
    new,  -- likewise
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- as in `compare_ops`
    phase := NULL,  -- as in `compare_ops`
    history := NULL,  -- as in `compare_ops`
    alpha := 0.05,  -- as in `compare_ops`
    min_effect := NULL,  -- as in `compare_ops`
    forced := false  -- as in `compare_ops`
) AS TABLE
WITH
chosen AS MATERIALIZED (
    FROM _sides(base, new, history)
),
sampled AS MATERIALIZED (
    FROM _samples((SELECT list(k) FROM chosen AS k), quantile, phase, forced)
),
compared AS MATERIALIZED (
    FROM _compared((SELECT list(s) FROM sampled AS s), alpha, min_effect)
),
shown AS (
    FROM _shown_scale(
        (SELECT list(DISTINCT s.counted) FROM sampled AS s WHERE s.level = 'total'),
        unit
    )
),
-- Each op on each side that has it. What is in other units than the totals is none
-- of their parts.
sided AS MATERIALIZED (
    SELECT
        s.item,
        s.side,
        c.scope,
        arg_max(s.op, s.capture_id) AS op,
        arg_max(s.module_path, s.capture_id) AS module_path,
        arg_max(s.kind, s.capture_id) AS kind,
        arg_max(s.instruction_id, s.capture_id) AS instruction_id,
        bool_or(s.is_added) AS is_added,
        any_value(CASE s.side WHEN 'base' THEN c.base_ticks ELSE c.new_ticks END)
            AS ticks
    FROM sampled AS s
    JOIN compared AS c ON c.level = 'op' AND c.item = s.item
    WHERE s.level = 'op'
        AND s.side <> 'history'
        AND s.counted IN (SELECT t.counted FROM sampled AS t WHERE t.level = 'total')
    GROUP BY s.item, s.side, c.scope
),
-- What delegates say of each call, where that is not more than the call.
explained AS (
    SELECT d.side, d.scope, d.instruction_id, fsum(d.ticks) AS ticks
    FROM sided AS d
    WHERE d.kind = 'delegate' AND NOT d.is_added AND d.ticks IS NOT NULL
    GROUP BY d.side, d.scope, d.instruction_id
),
opened AS (
    SELECT w.side, w.scope, w.instruction_id, c.item, w.ticks
    FROM explained AS w
    JOIN sided AS c
        ON c.side = w.side
        AND c.scope = w.scope
        AND c.instruction_id = w.instruction_id
        AND c.kind = 'delegate_call'
    WHERE c.is_added
    -- Of two calls of one instruction it can't be told in which of them it was.
    QUALIFY count(*) OVER (PARTITION BY w.side, w.scope, w.instruction_id) = 1
        AND w.ticks <= c.ticks
),
parts AS (
    SELECT
        d.*,
        d.ticks - coalesce(o.ticks, 0) AS own_ticks
    FROM sided AS d
    LEFT JOIN opened AS o ON o.side = d.side AND o.item = d.item
    WHERE d.is_added
    UNION ALL
    SELECT d.*, d.ticks AS own_ticks
    FROM sided AS d
    JOIN opened AS o
        ON o.side = d.side
        AND o.scope = d.scope
        AND o.instruction_id = d.instruction_id
    WHERE d.kind = 'delegate' AND NOT d.is_added
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
        sum(p.own_ticks) FILTER (WHERE p.side = 'base') AS base_own,
        sum(p.own_ticks) FILTER (WHERE p.side = 'new') AS new_own
    FROM parts AS p
    WHERE p.ticks IS NOT NULL
    GROUP BY p.scope, p.item
    UNION ALL
    SELECT
        t.scope,
        NULL AS item,
        NULL AS module_path,
        '(beside ops)' AS op,
        'rest' AS kind,
        NULL AS instruction_id,
        any_value(t.base_ticks)
        - coalesce(fsum(p.own_ticks) FILTER (WHERE p.side = 'base'), 0) AS base_ticks,
        any_value(t.new_ticks)
        - coalesce(fsum(p.own_ticks) FILTER (WHERE p.side = 'new'), 0) AS new_ticks,
        any_value(t.base_ticks)
        - coalesce(fsum(p.own_ticks) FILTER (WHERE p.side = 'base'), 0) AS base_own,
        any_value(t.new_ticks)
        - coalesce(fsum(p.own_ticks) FILTER (WHERE p.side = 'new'), 0) AS new_own
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
    CASE WHEN c.verdict IS NOT NULL THEN _told(c.verdict, d.conditions) END
        AS verdict,
    100 * c.change AS change_percent,
    100 * c.change_low AS low_percent,
    100 * c.change_high AS high_percent,
    b.base_ticks / u.divisor AS base,
    b.new_ticks / u.divisor AS new,
    b.base_own / u.divisor AS base_own,
    b.new_own / u.divisor AS new_own,
    u.unit
FROM paired AS b
LEFT JOIN compared AS c ON c.level = 'op' AND c.item = b.item
CROSS JOIN shown AS u
CROSS JOIN (
    SELECT CASE WHEN forced THEN 0 ELSE count(*) END AS conditions
    FROM _differing_conditions((SELECT list(k) FROM chosen AS k)) AS x
) AS d
ORDER BY
    b.scope,
    b.kind = 'rest',
    greatest(coalesce(b.base_own, 0), coalesce(b.new_own, 0)) DESC,
    b.op,
    b.item;
