-- Needs etq: in DuckDB alone, it is an error.
-- One part of the totals of base and new. For each side, the self times of all parts of a method add up to its total in
-- `compare_captures`. Events within delegate calls are separate parts if they fit into their calls; time that belongs
-- to no op is (outside ops).
-- Shown: op!, module_path AS module, method, instruction_id#, verdict! (verdict), change_percent AS own_change_percent!
--   (change), base! (time), new! (time), base_self (time), new_self (time), unit, kind
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
--   base_self: base without its own parts, times the share of base's captures that have it; below 0 if medians do not add up
--   new_self: new without its own parts, times the share of new's captures that have it; below 0 if medians do not add up
--   unit: unit of base, new, base_self and new_self; NULL if one side counts cycles and the other time
CREATE MACRO compare_parts(
    base, new,
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25, phase := NULL, history := NULL, alpha := 0.05, min_effect := NULL, allow_mismatch := false
) AS TABLE
WITH comparison AS MATERIALIZED (FROM _comparison(
    base, new, unit, quantile, phase, history, alpha, min_effect, allow_mismatch
)),
-- Each op on each side that has it. Values in other units than the totals are not parts of them.
sided AS MATERIALIZED (
    SELECT c.item, 'base' AS side, c.scope, c.base_kind AS kind, c.base_instruction_id AS instruction_id,
        c.is_in_base AS is_additive, c.base AS ticks, c.base * c.base_part AS part_ticks
    FROM comparison AS c
    WHERE c.level = 'op' AND c.is_of_total AND c.is_in_base IS NOT NULL
    UNION ALL
    SELECT c.item, 'new', c.scope, c.new_kind, c.new_instruction_id, c.is_in_new, c.new, c.new * c.new_part
    FROM comparison AS c
    WHERE c.level = 'op' AND c.is_of_total AND c.is_in_new IS NOT NULL
),
-- Times of the events within each delegate call, if they are not more than the call.
explained AS (
    SELECT d.side, d.scope, d.instruction_id, fsum(d.part_ticks) AS ticks
    FROM sided AS d
    WHERE d.kind = 'delegate' AND NOT d.is_additive AND d.ticks IS NOT NULL
    GROUP BY d.side, d.scope, d.instruction_id
),
explained_calls AS (
    SELECT w.side, w.scope, w.instruction_id, c.item, w.ticks
    FROM explained AS w
    JOIN sided AS c
        ON c.side = w.side AND c.scope = w.scope AND c.instruction_id = w.instruction_id AND c.kind = 'delegate_call'
    WHERE c.is_additive
    -- If an instruction has two calls, it is unknown to which of them an event belongs.
    QUALIFY count(*) OVER (PARTITION BY w.side, w.scope, w.instruction_id) = 1 AND w.ticks <= c.part_ticks
),
parts AS (
    SELECT d.*, d.part_ticks - coalesce(o.ticks, 0) AS self_ticks
    FROM sided AS d
    LEFT JOIN explained_calls AS o USING (side, item)
    WHERE d.is_additive
    UNION ALL
    SELECT d.*, d.part_ticks AS self_ticks
    FROM sided AS d
    JOIN explained_calls AS o USING (side, scope, instruction_id)
    WHERE d.kind = 'delegate' AND NOT d.is_additive
),
paired AS (
    SELECT p.scope, p.item, sum(p.ticks) FILTER (WHERE p.side = 'base') AS base,
        sum(p.ticks) FILTER (WHERE p.side = 'new') AS new,
        sum(p.self_ticks) FILTER (WHERE p.side = 'base') AS base_self,
        sum(p.self_ticks) FILTER (WHERE p.side = 'new') AS new_self
    FROM parts AS p
    WHERE p.ticks IS NOT NULL
    GROUP BY p.scope, p.item
),
rests AS (
    SELECT t.scope, any_value(t.base) - coalesce(fsum(p.base_self), 0) AS base,
        any_value(t.new) - coalesce(fsum(p.new_self), 0) AS new
    FROM comparison AS t
    LEFT JOIN paired AS p USING (scope)
    WHERE t.level = 'total'
    GROUP BY t.scope
),
lines AS (
    SELECT p.scope, p.item, p.base, p.new, p.base_self, p.new_self FROM paired AS p
    UNION ALL
    SELECT r.scope, NULL, r.base, r.new, r.base, r.new FROM rests AS r
)
SELECT b.scope AS method, c.module_path, CASE WHEN b.item IS NULL THEN '(outside ops)' ELSE c.op END AS op,
    CASE WHEN b.item IS NULL THEN 'rest' ELSE c.kind END AS kind, c.instruction_id, c.verdict, c.change_percent,
    c.low_percent, c.high_percent, b.base, b.new, b.base_self, b.new_self, u.unit
FROM lines AS b CROSS JOIN (SELECT any_value(t.unit) AS unit FROM comparison AS t WHERE t.level = 'total') AS u
LEFT JOIN comparison AS c ON c.level = 'op' AND c.item = b.item
ORDER BY b.scope, b.item IS NULL, greatest(coalesce(b.base_self, 0), coalesce(b.new_self, 0)) DESC, c.op, b.item;
