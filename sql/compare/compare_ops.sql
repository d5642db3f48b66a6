-- What became of each op from base to new, what explains most of the difference
-- first. Each side is one capture or, better, several: the sample is a capture,
-- never a run. A change is what an op's own is beside what all have in common (a
-- clock, the load of the machine): `compare_captures` has that. One capture a side is
-- judged by other captures of the same program, or not at all.
-- Columns:
--   op: op type where ops are matched by module, else family
--   module_path: its module, where a record is linked
--   kind: kernel, delegate (within a delegate_call), delegate_call, operator_call (without a kernel), user
--   instruction_id: the instruction, in new or else in base; NULL where none is named
--   verdict: slower, faster, ~ (no difference that counts), too few, can't judge, conditions differ, added, removed
--   change_percent: what became more of its time, typically, in percent, without what all ops have in common
--   low_percent: lower end of an interval of 95 % for it; NULL with fewer than 4 captures a side
--   high_percent: upper end of that interval
--   base: its time in base: the median over captures; NULL where it is added
--   new: its time in new; NULL where it is removed
--   difference: new less base, what all ops have in common included
--   unit: unit of these three; cycles for what a backend counts so; NULL where one side counts cycles and the other time
--   share_percent: base in percent of the total of base, or new of new's where it is added; NULL for what is in other units than that
--   q: the share of false ones among those of this q or less; NULL where captures are compared one by one
--   note: why it can't be judged, what would be needed, or what a removed one may have become
--   matched: how ops of both sides were matched: event (the same program), module, or name
--   base_captures: captures of base that it rests on
--   new_captures: captures of new that it rests on
CREATE MACRO compare_ops(
    base,  -- name, hash prefix, @latest, or a selector, which may mean many
    new,  -- likewise
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25,  -- of the runs of a capture: 0.25, which noise moves least; 0.9 for slow tails; 0.5
    phase := NULL,  -- load, prefill, decode, other: only runs of that phase
    history := NULL,  -- captures to judge one a side by; NULL: others of the same events, and of all labels that both sides share
    alpha := 0.05,  -- how many false ones of those that are told slower or faster are put up with
    min_effect := NULL,  -- smallest change that counts, as a fraction; NULL: 0.02, one by one 0.1
    forced := false  -- whether to compare captures of different profiling levels, and to call slower what was measured under other conditions
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
    FROM _shown_scale(
        (
            SELECT list_distinct(list(s.counted))
            FROM sampled AS s
            WHERE s.level = 'total'
        ),
        unit
    )
),
-- What a backend counts in another unit than the total is in has its own. An op
-- that came stands between the same two that stayed as one that went.
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
    -- Of more, the place tells nothing.
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
    _told(c.verdict, d.conditions) AS verdict,
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
    SELECT CASE WHEN forced THEN 0 ELSE count(*) END AS conditions
    FROM _differing_conditions((SELECT list(k) FROM chosen AS k)) AS x
) AS d
LEFT JOIN totals AS t ON t.scope = c.scope
LEFT JOIN candidates AS n ON n.item = c.item
WHERE c.level = 'op'
ORDER BY
    abs(coalesce(c.new_ticks, 0) - coalesce(c.base_ticks, 0)) DESC,
    g.op,
    c.item;
