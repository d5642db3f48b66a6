-- One op of a method with its mean self time in a typical run and in a slow run. If all ratios are similar, the device
-- was slower; if one op has most of the excess, that op was slower. Rows in parentheses have the time of no op, as in
-- `op_totals`, so that the excesses of all rows add up to that of the executes. If no run is slow, there are no rows.
-- Empty: no run of {capture} took longer than typical runs
-- Shown: op!, kind, method, instruction_id!#, typical!~, slow!~, excess!~, excess_percent!%, ratio#, unit,
--   typical_runs#, slow_runs#
-- Columns:
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   block_index: the event block
--   phase: phase of the runs; NULL if they have none
--   op: label of the events
--   kind: as in `op_totals`
--   instruction_id: the instruction; NULL where none is named
--   typical: mean self time in a typical run
--   slow: mean self time in a slow run
--   excess: slow minus typical
--   excess_percent: excess in percent of the excess of the executes of the block and phase; negative for ops that are faster in slow runs
--   ratio: slow as a multiple of typical; NULL if typical is 0
--   typical_runs: number of typical runs
--   slow_runs: number of slow runs
--   unit: unit of typical, slow and excess
CREATE MACRO slow_runs(capture, unit := NULL, steps := NULL, phase := NULL, method := NULL) AS TABLE
WITH target AS MATERIALIZED (
    FROM _scaled_capture_with_method(capture, unit, method)
),
executes_of_runs AS (FROM _executes((SELECT a.capture_id FROM target AS a), steps, phase, method, 'all') AS x),
-- Times are compared within an event block and phase, because other runs have other events or inputs.
chosen AS (
    SELECT x.scope, x.block_index, x.phase, x.run_index, x.is_typical,
        count(CASE WHEN x.is_slower THEN 1 END) OVER (PARTITION BY x.block_index, x.phase) AS slow_runs,
        count(CASE WHEN x.is_typical THEN 1 END) OVER (PARTITION BY x.block_index, x.phase) AS typical_runs
    FROM _compared_executes('executes_of_runs') AS x
    WHERE x.is_typical OR x.is_slower
),
classified_times AS (
    SELECT c.scope, c.block_index, c.phase, c.is_typical,
        CASE
            WHEN t.kind = 'operator_call' AND t.children > 0 THEN '(framework)'
            WHEN t.kind = 'framework' THEN '(unattributed)'
            WHEN t.kind = 'delegate_call' AND t.children > 0 THEN '(delegate unaccounted)'
            ELSE t.label
        END AS op,
        CASE WHEN t.kind = 'operator_call' AND t.children > 0 THEN 'framework' ELSE t.kind END AS kind,
        CASE
            WHEN t.kind <> 'framework' AND t.chain_index <> -1
                AND NOT (t.kind = 'operator_call' AND t.children > 0)
                THEN t.instruction_id
        END AS instruction_id,
        t.self_ticks, c.slow_runs, c.typical_runs
    FROM _timed_events((SELECT a.capture_id FROM target AS a), NULL, steps, phase, method, 'all') AS t
    JOIN chosen AS c USING (run_index)
    WHERE t.execute_index IS NOT NULL AND t.is_additive AND c.slow_runs > 0 AND c.typical_runs > 0
),
summed AS (
    SELECT o.scope, o.block_index, o.phase, o.op, o.kind, o.instruction_id,
        coalesce(sum(o.self_ticks) FILTER (WHERE o.is_typical), 0)::DOUBLE / any_value(o.typical_runs) AS typical,
        coalesce(sum(o.self_ticks) FILTER (WHERE NOT o.is_typical), 0)::DOUBLE / any_value(o.slow_runs) AS slow,
        any_value(o.typical_runs) AS typical_runs, any_value(o.slow_runs) AS slow_runs
    FROM classified_times AS o
    GROUP BY o.scope, o.block_index, o.phase, o.op, o.kind, o.instruction_id
)
SELECT
    m.scope AS method, m.block_index, m.phase, m.op, m.kind, m.instruction_id, _in_unit(m.typical, a.scale) AS typical,
    _in_unit(m.slow, a.scale) AS slow, _in_unit(m.slow - m.typical, a.scale) AS excess,
    100 * (m.slow - m.typical)
    / nullif(sum(m.slow - m.typical) OVER (PARTITION BY m.block_index, m.phase), 0) AS excess_percent,
    m.slow / nullif(m.typical, 0) AS ratio, m.typical_runs, m.slow_runs, a.unit AS unit
FROM summed AS m CROSS JOIN target AS a
ORDER BY m.slow - m.typical DESC, m.block_index, m.phase, m.op, m.kind, m.instruction_id;
