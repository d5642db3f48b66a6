-- Needs etq: in DuckDB alone, it is an error.
-- The change of one op from base to new; the op that explains most of the difference is first. Each side is one capture
-- or, better, several: the sample is a capture, never a run. A change excludes the common shift of all ops (from the
-- clock, or the load of the machine), see `compare_captures`. Single captures are judged by other captures of the same
-- program, or not at all. Times of PyTorch traces are per step, and ops on devices have their own common shift; of a
-- single trace per side, the samples are steps, and verdicts are possible ones at most.
-- Shown: op!, module_path AS module, instruction_id!#, kind, verdict! (verdict), change_percent AS own_change_percent!
--   (change), low_percent (interval), high_percent%, base! (time), new! (time), difference! (time), unit,
--   share_percent%, note
-- Share: of base's total; for an added op, new in percent of new's total; for a delegate_call, the share of its self
--   time, without the events within it
-- Columns:
--   op: op type if ops are matched by module, else family; of traces the name
--   module_path: its module; NULL if no record is linked
--   kind: kernel, delegate (within a delegate_call), delegate_call, operator_call (without a kernel), user; of traces as in `step_times`
--   instruction_id: the instruction in new, or else in base; NULL where none is named
--   verdict: slower, faster, ~ (no difference that counts: the interval has none), not decided, possibly slower, possibly faster, too few, can't judge, conditions differ, added, removed; of traces also more calls, fewer calls (per step; the time per call does not differ), other shapes (of inputs)
--   change_percent: change of its time in percent, without the common shift
--   low_percent: lower end of its 95 % interval, which covers changes of the machine between the sides only if they were measured in turns; NULL with fewer than 3 captures in all, and where noise may change times by a factor of 10
--   high_percent: upper end of that interval
--   base: time in base, median over captures; NULL if the item is added
--   new: time in new, median over captures; NULL if the item is removed
--   difference: new minus base, common shift included
--   common_percent: common shift of all ops in percent, included in difference and removed from change_percent; NULL if unknown
--   unit: unit of base, new and difference; cycles for times that a backend counts in cycles; NULL if one side counts cycles and the other time
--   share_percent: base in percent of base's total; for an added op, new in percent of new's total; for a delegate_call, the share of its self time, without the events within it; NULL for values in other units than the total
--   q: p, corrected for the number of ops: probability of a false positive among the ops with this q or less; NULL for single captures
--   note: why no verdict is possible, what is needed for one, how often an op was called if that differs, or what a removed op may have become
--   matched: how ops of both sides were matched: event (the same program), module, or name
--   base_captures: number of captures of base used, or of steps; disturbed ones are excluded
--   new_captures: number of captures of new used, or of steps
CREATE MACRO compare_ops(
    base, new,
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25, phase := NULL, history := NULL, alpha := 0.05, min_effect := NULL, allow_mismatch := false
) AS TABLE
WITH comparison AS MATERIALIZED (FROM _comparison(
    base, new, unit, quantile, phase, history, alpha, min_effect, allow_mismatch
)),
-- An added op replaces a removed one if both are between the same two ops that stayed.
placed AS MATERIALIZED (
    SELECT c.*,
        CASE
            WHEN c.base_place IS NULL THEN count(c.base_place) OVER (
                ORDER BY c.new_place NULLS LAST
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
            WHEN c.new_place IS NULL THEN count(c.new_place) OVER (
                ORDER BY c.base_place NULLS LAST
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
        END AS gap
    FROM comparison AS c
    WHERE c.level = 'op'
),
candidates AS (
    SELECT g.item, list_sort(list_distinct(list(o.op))) AS ops
    FROM placed AS g
    JOIN placed AS o ON o.gap = g.gap AND (o.base_place IS NULL) <> (g.base_place IS NULL)
    GROUP BY g.item
    -- With more than one, the place is ambiguous.
    HAVING len(ops) <= 3
),
shared AS (
    SELECT p.*,
        CASE WHEN p.is_of_total THEN coalesce(p.share_percent, 100 * p.base / t.base, 100 * p.new / t.new) END AS part
    FROM placed AS p
    LEFT JOIN comparison AS t ON t.level = 'total' AND t.scope = p.scope
)
SELECT p.op, p.module_path, p.kind, p.instruction_id, p.verdict, p.change_percent, p.low_percent, p.high_percent,
    p.base, p.new, p.difference, s.change_percent AS common_percent, p.unit,
    CASE p.kind
        WHEN 'delegate_call' THEN greatest(0, p.part - coalesce(
            sum(p.part) FILTER (p.kind = 'delegate') OVER of_call
            / count(CASE WHEN p.kind = 'delegate_call' THEN 1 END) OVER of_call,
            0
        ))
        ELSE p.part
    END AS share_percent,
    p.q, coalesce(p.note, p.may_be || ' ' || array_to_string(n.ops, ', ')) AS note,
    p.matched, p.base_captures, p.new_captures
FROM shared AS p
LEFT JOIN comparison AS s ON s.level = 'common shift' AND s.comparison = p.comparison
LEFT JOIN candidates AS n ON n.item = p.item
WINDOW of_call AS (PARTITION BY p.scope, p.instruction_id)
ORDER BY abs(p.difference) DESC, p.op, p.item;
