-- A comparison: what `etq.verdicts` decides about its items, with what is known of them, in the unit of the answer. The
-- views on comparisons select from it. Rows of level total, op and module are items; slow total and slow op those of
-- which the slowest tenth of runs is slower, or of totals faster, and they are not. Common shift is the change that all
-- ops have in common; capture the state of one capture or step, also of the history; finding what affects how far the
-- verdicts can be trusted. Comparison 1 is of times on devices.
CREATE MACRO _comparison(
    base, new, unit := NULL, quantile := 0.25, phase := NULL, history := NULL,
    alpha := 0.05, min_effect := NULL, allow_mismatch := false
) AS TABLE
WITH
sampled AS MATERIALIZED (FROM _comparison_samples(base, new, quantile, phase, history, allow_mismatch)),
items AS MATERIALIZED (
    SELECT
        s.level AS of_level, s.item AS of_item,
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
    WHERE s.side <> 'history' AND s.level <> 'none'
    GROUP BY s.level, s.item
),
shapes AS (
    SELECT
        o.label,
        list(o.shapes ORDER BY o.calls DESC, o.shapes) FILTER (WHERE c.side = 'base')
            AS base_shapes,
        list(o.shapes ORDER BY o.calls DESC, o.shapes) FILTER (WHERE c.side = 'new')
            AS new_shapes
    FROM (SELECT DISTINCT s.capture_id, s.side FROM sampled AS s WHERE s.is_trace AND s.side <> 'history') AS c
    JOIN op_shapes AS o USING (capture_id)
    GROUP BY o.label
),
-- Ops of which both sides have shapes, but not the same.
reshaped AS (
    SELECT
        i.of_item AS item,
        list_filter(h.base_shapes, lambda s: NOT list_contains(h.new_shapes, s))[1] AS base_shapes,
        list_filter(h.new_shapes, lambda s: NOT list_contains(h.base_shapes, s))[1] AS new_shapes
    FROM shapes AS h
    JOIN items AS i ON i.op = h.label AND i.of_level = 'op' AND coalesce(i.new_kind, i.base_kind) IN ('op', 'device_op')
    WHERE NOT (list_has_all(h.base_shapes, h.new_shapes) AND list_has_all(h.new_shapes, h.base_shapes))
),
conditions AS (
    FROM _differing_conditions(
        (SELECT list(DISTINCT b.capture_id) FROM sampled AS b WHERE b.side = 'base'),
        (SELECT list(DISTINCT n.capture_id) FROM sampled AS n WHERE n.side = 'new')
    )
),
shown AS MATERIALIZED (
    FROM _display_scale((SELECT list_sort(list(DISTINCT t.counted)) FROM sampled AS t WHERE t.level = 'total'), unit)
),
decided AS (
    SELECT unnest(
        needs_etq_to_compare(
            a.samples, r.shapes, n.conditions,
            u.unit IS NOT NULL,
            alpha::DOUBLE, min_effect::DOUBLE, phase::VARCHAR, allow_mismatch
        ),
        recursive := true
    )
    FROM (
        SELECT list({
            'comparison': s.comparison, 'capture_id': s.capture_id, 'step': s.step,
            'side': s.side, 'position': s.position, 'level': s.level,
            'scope': s.scope, 'item': s.item, 'op': s.op, 'ticks': s.ticks,
            'slow_ticks': s.slow_ticks, 'resolution': s.resolution,
            'is_coarse': s.is_coarse, 'calls': s.calls, 'matched': s.matched,
            'is_trace': s.is_trace
        }) AS samples
        FROM sampled AS s
    ) AS a
    CROSS JOIN (SELECT list(e) AS shapes FROM reshaped AS e) AS r
    CROSS JOIN (SELECT list(c) AS conditions FROM conditions AS c) AS n
    CROSS JOIN shown AS u
    WHERE _has_valid_options(alpha, min_effect, phase)
)
SELECT
    d.*,
    100 * d.change AS change_percent,
    100 * d.change_low AS low_percent,
    100 * d.change_high AS high_percent,
    d.base_ticks / d.divisor AS base,
    d.new_ticks / d.divisor AS new,
    (coalesce(d.new_ticks, 0) - coalesce(d.base_ticks, 0)) / d.divisor AS difference,
    100 * d.share AS share_percent,
    coalesce(d.new_kind, d.base_kind) AS kind,
    coalesce(d.new_instruction_id, d.base_instruction_id) AS instruction_id
FROM (
    SELECT
        c.*, i.*,
        list_has_all(u.counted, i.counted) AS is_of_total,
        CASE
            WHEN i.counted IS NULL OR is_of_total THEN u.unit
            WHEN i.counted = ['cycles'] THEN 'cycles'
            WHEN i.counted = ['ns'] THEN 'us'
            ELSE u.unit
        END AS unit,
        CASE
            WHEN i.counted IS NULL OR is_of_total THEN u.divisor
            WHEN i.counted = ['cycles'] THEN 1
            WHEN i.counted = ['ns'] THEN 1000
        END AS divisor
    FROM decided AS c
    CROSS JOIN shown AS u
    LEFT JOIN items AS i ON i.of_level = replace(c.level, 'slow ', '') AND i.of_item = c.item
) AS d;
