-- One row: the arguments of `needs_etq_to_compare` in their order, then the units that the totals count. `shapes` has
-- the ops whose inputs have other shapes on one side than on the other.
CREATE MACRO _comparison_input(
    base, new, quantile := 0.25, phase := NULL, history := NULL,
    alpha := 0.05, min_effect := NULL, allow_mismatch := false
) AS TABLE
WITH compared_sides AS MATERIALIZED (FROM _compared_sides(base, new, history := history)),
with_history AS (FROM _comparison_captures('compared_sides', history)),
measured_times AS (FROM _compared_times(quantile, phase) UNION ALL FROM _compared_steps('compared_sides', phase)),
sampled AS MATERIALIZED (FROM _comparison_samples('with_history', 'measured_times', phase, allow_mismatch)),
sides AS MATERIALIZED (
    SELECT c.side = 'new' AS is_new, c.capture_id, c.format = 'torch_trace' AS is_trace
    FROM compared_sides AS c
    WHERE c.side <> 'history'
),
reshaped AS (
    SELECT h.label AS op, list_filter(h.base_shapes, lambda s: NOT list_contains(h.new_shapes, s))[1] AS base_shapes,
        list_filter(h.new_shapes, lambda s: NOT list_contains(h.base_shapes, s))[1] AS new_shapes
    FROM (
        SELECT o.label, list(o.shapes ORDER BY o.calls DESC, o.shapes) FILTER (WHERE NOT c.is_new) AS base_shapes,
            list(o.shapes ORDER BY o.calls DESC, o.shapes) FILTER (WHERE c.is_new) AS new_shapes
        FROM sides AS c
        JOIN op_shapes AS o USING (capture_id)
        WHERE c.is_trace
        GROUP BY o.label
    ) AS h
    WHERE NOT (list_has_all(h.base_shapes, h.new_shapes) AND list_has_all(h.new_shapes, h.base_shapes))
)
SELECT a.samples, a.ops,
    (SELECT list(e) FROM reshaped AS e) AS shapes,
    (SELECT list(c) FROM _conditions('sides') AS c) AS conditions,
    (SELECT list(l) FROM _differing_labels(base, new, 'sides') AS l) AS labels,
    a.counted[2] IS NULL AS is_one_clock, alpha::DOUBLE AS alpha, min_effect::DOUBLE AS min_effect,
    phase::VARCHAR AS phase, allow_mismatch::BOOLEAN AS allow_mismatch, a.counted
FROM (
    SELECT list(s) FILTER (WHERE s.level <> 'to align') AS samples,
        list({
            'capture_id': s.capture_id, 'op_index': s.place::BIGINT, 'program': s.op, 'name': s.item,
            'is_by_module': s.matched = 'module', 'ticks': s.ticks
        } ORDER BY s.capture_id, s.place) FILTER (WHERE s.level = 'to align') AS ops,
        list_sort(list_distinct(list(s.counted) FILTER (WHERE s.level = 'total'))) AS counted
    FROM sampled AS s
) AS a
WHERE _has_valid_options(alpha, min_effect, phase);

-- The result of `etq.verdicts` for a comparison, in the unit that is shown.
CREATE MACRO _comparison_answer(
    answer,  -- the name of a table with one row: decided (a list of what a function returns), counted (as in its input)
    unit
) AS TABLE
SELECT d.*, 100 * d.change AS change_percent, 100 * d.change_low AS low_percent, 100 * d.change_high AS high_percent,
    d.base_ticks / d.divisor AS base, d.new_ticks / d.divisor AS new,
    (coalesce(d.new_ticks, 0) - coalesce(d.base_ticks, 0)) / d.divisor AS difference,
    100 * d.share AS share_percent, coalesce(d.new_kind, d.base_kind) AS kind,
    coalesce(d.new_instruction_id, d.base_instruction_id)::INTEGER AS instruction_id
FROM (
    SELECT c.* EXCLUDE (units, shown), list_has_all(c.units, string_split(c.counted, ' ')) AS is_of_total,
        CASE
            WHEN c.counted IS NULL OR is_of_total THEN c.shown
            WHEN c.counted = 'cycles' THEN 'cycles'
            WHEN c.counted = 'ns' THEN 'us'
            ELSE c.shown
        END AS unit,
        CASE
            WHEN c.counted IS NULL OR is_of_total THEN CASE
                WHEN c.shown IS NOT NULL THEN _divisor(c.units[1], c.shown)
            END
            WHEN c.counted = 'cycles' THEN 1
            WHEN c.counted = 'ns' THEN 1000
        END AS divisor
    FROM (
        SELECT unnest(a.decided, recursive := true), a.counted AS units, _shown_unit(a.counted, unit) AS shown
        FROM query_table(answer) AS a
    ) AS c
) AS d;

-- A comparison: the verdicts of `etq.verdicts` on its items, with a description of each. The views on comparisons
-- select from it. Rows of level total, op and module are items; slow total and slow op are items that are not slower,
-- but whose slowest tenth of runs is (for totals, also those whose slowest tenth is faster). A row of level common
-- shift is the change that all ops have in common; one of level capture is the state of one capture or step, also of
-- the history; one of level finding is a reason to trust the verdicts less. Comparison 1 is about times on devices.
-- `etq.analysis.comparison` computes the same in Python, once for several views.
CREATE MACRO _comparison(
    base, new, unit := NULL, quantile := 0.25, phase := NULL, history := NULL,
    alpha := 0.05, min_effect := NULL, allow_mismatch := false
) AS TABLE
WITH answer AS (
    SELECT needs_etq_to_compare(
            i.samples, i.ops, i.shapes, i.conditions, i.labels, i.is_one_clock, i.alpha, i.min_effect, i.phase,
            i.allow_mismatch
        ) AS decided, i.counted
    FROM _comparison_input(base, new, quantile, phase, history, alpha, min_effect, allow_mismatch) AS i
)
FROM _comparison_answer('answer', unit);
