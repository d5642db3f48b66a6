-- A comparison: what is decided about its items, by `etq.verdicts`, with what is known
-- of them. The views on comparisons select from it.
-- Columns:
--   comparison: index of the comparison: 0; 1 for times on devices
--   level: total, op or module; common shift; slow total and slow op for those of which the slowest tenth of runs is slower, or of totals faster, and they are not; capture for the state of one, also in the history; none for a capture without times
--   scope: method
--   item: key of what was measured, equal in all captures
--   verdict: verdict on it, as in `compare_ops`; NULL where none is needed
--   change_percent: change in percent; for ops and modules without the common shift
--   low_percent: lower end of its interval, as in `compare_ops`
--   high_percent: upper end of that interval
--   base: time in base, median over captures; NULL if the item is added
--   new: time in new, median over captures; NULL if the item is removed
--   difference: new less base
--   unit: unit of base, new and difference; NULL if one side counts cycles and the other time
--   is_of_total: whether it has the unit of the total
--   share_percent: base in percent of base's total
--   p: probability of a difference this large by chance; NULL for single captures
--   q: p, corrected for the number of items; NULL for single captures
--   base_captures: number of captures of base that have it; disturbed captures are excluded
--   new_captures: number of captures of new that have it; disturbed captures are excluded
--   note: why no verdict is possible, or what is needed for one; what a capture lacks
--   op: as in `compare_ops`
--   module_path: as in `compare_ops`
--   kind: as in `compare_ops`
--   instruction_id: as in `compare_ops`
--   matched: as in `compare_ops`
--   base_kind: the kind in base
--   new_kind: the kind in new
--   base_instruction_id: the instruction in base
--   new_instruction_id: the instruction in new
--   base_place: position among the ops of base
--   new_place: position among the ops of new
--   is_in_base: whether it is part of the total of base
--   is_in_new: whether it is part of the total of new
--   capture_id: the capture; NULL for items
--   step: the step of a trace; 0 for a capture
--   side: base, new or history
--   position: position in time; NULL where unknown
--   is_trace: whether the capture is a PyTorch trace
--   total: time of the capture in all
--   off: deviation from the rest of its side, or of all captures, as a logarithm; NULL where unknown
--   factor: its common shift, as a logarithm; 0 if unknown
--   is_disturbed: whether it is excluded as disturbed
--   has_factor: whether the common shift is known
--   is_scattered: whether it is unknown as it can't be determined which of two groups of ops moved
--   other_shift: how far the other group of ops moved, common shift included, as a logarithm; NULL if no two groups moved apart
CREATE MACRO _comparison(
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
sampled AS MATERIALIZED (
    FROM _comparison_samples(base, new, quantile, phase, history, allow_mismatch)
),
measured AS (
    SELECT
        s.comparison::BIGINT AS comparison, s.capture_id::BIGINT AS capture_id,
        s.step::BIGINT AS step, s.side, s.position::DOUBLE AS position,
        s.level, s.scope, s.item, CASE WHEN s.level <> 'module' THEN s.op END AS op,
        s.ticks::DOUBLE AS ticks, s.slow_ticks::DOUBLE AS slow_ticks,
        s.resolution::DOUBLE AS resolution, s.is_coarse, s.calls
    FROM sampled AS s
    WHERE s.level <> 'none'
),
captures_of AS MATERIALIZED (
    SELECT
        s.comparison,
        s.capture_id,
        s.step,
        s.side,
        any_value(s.position) AS position,
        any_value(s.is_trace) AS is_trace,
        sum(s.ticks) FILTER (WHERE s.level = 'total') AS ticks
    FROM sampled AS s
    GROUP BY s.comparison, s.capture_id, s.step, s.side
),
items AS MATERIALIZED (
    SELECT
        s.level,
        s.item,
        arg_max(s.op, (s.side = 'new', s.capture_id)) AS op,
        arg_max(s.module_path, (s.side = 'new', s.capture_id)) AS module_path,
        arg_max(s.kind, s.capture_id) FILTER (WHERE s.side = 'base') AS base_kind,
        arg_max(s.kind, s.capture_id) FILTER (WHERE s.side = 'new') AS new_kind,
        arg_max(s.instruction_id, s.capture_id) FILTER (WHERE s.side = 'base')
            AS base_instruction_id,
        arg_max(s.instruction_id, s.capture_id) FILTER (WHERE s.side = 'new')
            AS new_instruction_id,
        arg_max(s.place, s.capture_id) FILTER (WHERE s.side = 'base') AS base_place,
        arg_max(s.place, s.capture_id) FILTER (WHERE s.side = 'new') AS new_place,
        bool_or(s.is_additive) FILTER (WHERE s.side = 'base') AS is_in_base,
        bool_or(s.is_additive) FILTER (WHERE s.side = 'new') AS is_in_new,
        any_value(s.matched) AS matched,
        list_sort(list_distinct(list(s.counted))) AS counted
    FROM sampled AS s
    WHERE s.side <> 'history' AND s.level NOT IN ('call', 'none')
    GROUP BY s.level, s.item
),
shapes AS (
    SELECT
        o.label,
        list(o.shapes ORDER BY o.calls DESC, o.shapes) FILTER (WHERE c.side = 'base')
            AS base_shapes,
        list(o.shapes ORDER BY o.calls DESC, o.shapes) FILTER (WHERE c.side = 'new')
            AS new_shapes
    FROM captures_of AS c
    JOIN op_shapes AS o ON o.capture_id = c.capture_id
    WHERE c.is_trace AND c.comparison = 0 AND c.step < 2 AND c.side <> 'history'
    GROUP BY o.label
),
-- Ops of which both sides have shapes, but not the same.
reshaped AS (
    SELECT
        i.item,
        list_filter(
            h.base_shapes, lambda s: NOT list_contains(h.new_shapes, s)
        )[1] AS base_shapes,
        list_filter(
            h.new_shapes, lambda s: NOT list_contains(h.base_shapes, s)
        )[1] AS new_shapes
    FROM shapes AS h
    JOIN items AS i
        ON i.op = h.label
        AND i.level = 'op'
        AND coalesce(i.new_kind, i.base_kind) IN ('op', 'device_op')
    WHERE NOT (
        list_has_all(h.base_shapes, h.new_shapes)
        AND list_has_all(h.new_shapes, h.base_shapes)
    )
),
decided AS (
    SELECT unnest(
        needs_etq_to_compare(
            (SELECT list(m) FROM measured AS m),
            (SELECT list(r) FROM reshaped AS r),
            alpha::DOUBLE,
            min_effect::DOUBLE
        ),
        recursive := true
    )
    WHERE _has_valid_options(alpha, min_effect, phase)
),
shown AS (
    FROM _display_scale(
        (SELECT list_sort(list(DISTINCT t.counted))
         FROM sampled AS t WHERE t.level = 'total'),
        unit
    )
),
conditions AS MATERIALIZED (
    FROM _differing_conditions(
        (SELECT list(DISTINCT c.capture_id) FROM captures_of AS c
         WHERE c.side = 'base'),
        (SELECT list(DISTINCT c.capture_id) FROM captures_of AS c
         WHERE c.side = 'new')
    )
)
SELECT
    d.comparison,
    coalesce(d.level, 'none') AS level,
    d.scope,
    d.item,
    CASE
        WHEN d.verdict IN ('slower', 'faster') AND x.conditions > 0
            THEN 'conditions differ'
        ELSE d.verdict
    END AS verdict,
    100 * d.change AS change_percent,
    100 * d.change_low AS low_percent,
    100 * d.change_high AS high_percent,
    d.base_ticks / _item_divisor(i.counted, u.counted, u.divisor) AS base,
    d.new_ticks / _item_divisor(i.counted, u.counted, u.divisor) AS new,
    (coalesce(d.new_ticks, 0) - coalesce(d.base_ticks, 0))
    / _item_divisor(i.counted, u.counted, u.divisor) AS difference,
    CASE
        WHEN list_has_all(u.counted, i.counted) THEN u.unit
        WHEN i.counted = ['cycles'] THEN 'cycles'
        WHEN i.counted = ['ns'] THEN 'us'
        ELSE u.unit
    END AS unit,
    list_has_all(u.counted, i.counted) AS is_of_total,
    100 * d.share AS share_percent,
    d.p,
    d.q,
    d.base_captures,
    d.new_captures,
    CASE WHEN d.level IS NULL THEN
        'has no ' || CASE WHEN c.is_trace THEN 'step' ELSE 'execute' END
        || coalesce(' of phase ' || phase, '')
    ELSE d.note END AS note,
    i.op,
    i.module_path,
    coalesce(i.new_kind, i.base_kind) AS kind,
    coalesce(i.new_instruction_id, i.base_instruction_id) AS instruction_id,
    i.matched,
    i.base_kind,
    i.new_kind,
    i.base_instruction_id,
    i.new_instruction_id,
    i.base_place,
    i.new_place,
    i.is_in_base,
    i.is_in_new,
    c.capture_id,
    c.step,
    c.side,
    c.position,
    c.is_trace,
    c.ticks / u.divisor AS total,
    d.off,
    d.factor,
    d.is_disturbed,
    d.has_factor,
    d.is_scattered,
    d.other_shift
FROM decided AS d
CROSS JOIN shown AS u
CROSS JOIN (
    SELECT CASE WHEN allow_mismatch THEN 0 ELSE count(*) END AS conditions
    FROM conditions AS n
) AS x
LEFT JOIN items AS i ON i.level = replace(d.level, 'slow ', '') AND i.item = d.item
-- Captures without times have no state.
FULL JOIN captures_of AS c
    ON d.level = 'capture'
    AND c.comparison = d.comparison
    AND c.capture_id = d.capture_id
    AND c.step = d.step;

-- The number by which ticks of an item are divided for its unit.
CREATE MACRO _item_divisor(
    counted,  -- units that the item's ticks count
    of_total,  -- those of the total's
    divisor  -- number for the total
) AS (
    CASE
        WHEN counted IS NULL OR list_has_all(of_total, counted) THEN divisor
        WHEN counted = ['cycles'] THEN 1
        WHEN counted = ['ns'] THEN 1000
    END
);
