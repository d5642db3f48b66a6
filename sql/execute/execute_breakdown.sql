-- One part of the time of Method::execute (or Method::step), over the recorded runs. The parts add up to the total
-- exactly. Events on another clock than the host's, and detached ones, are in no part: see `op_totals`. A DELEGATE_CALL
-- without other events is unaccounted as a whole.
-- Needs: dump; else: etq steps
-- Columns:
--   component: kernels; operators without a kernel event; delegate ops, copies, layout and unaccounted; control; user events; operator-call overhead; rest
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   block_index: the event block of a delegate's part; NULL for other parts
--   chain_index: the chain of the DELEGATE_CALL of a delegate's part; NULL for other parts
--   instruction_id: the DELEGATE_CALL of a delegate's part; NULL for other parts
--   calls: number of events in it
--   total: sum of their self times
--   per_execute: total / number of executes of the method
--   share_percent: total in percent of the executes
--   unit: unit of total and per_execute
--   total_ticks: total in ticks, a whole number
--   executes: number of executes of the method
CREATE MACRO execute_breakdown(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL,
    runs := 'typical'
) AS TABLE
WITH
target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
parts AS (
    SELECT
        CASE t.kind
            WHEN 'kernel' THEN 1
            WHEN 'operator_call' THEN CASE WHEN t.children = 0 THEN 2 ELSE 9 END
            WHEN 'delegate' THEN CASE _delegate_part(t.family) WHEN 'ops' THEN 3 WHEN 'copies' THEN 4 ELSE 5 END
            WHEN 'delegate_call' THEN 6
            WHEN 'control' THEN 7
            WHEN 'user' THEN 8
            ELSE 10
        END AS part,
        CASE WHEN part BETWEEN 3 AND 6 THEN t.block_index END AS block_index,
        CASE WHEN part BETWEEN 3 AND 6 THEN t.chain_index END AS chain_index,
        CASE WHEN part BETWEEN 3 AND 6 THEN t.instruction_id END
            AS instruction_id,
        t.scope AS method, t.self_ticks, t.execute_ticks, t.is_execute
    FROM _execute_times((SELECT a.capture_id FROM target AS a), steps, phase, method, runs) AS t
    WHERE t.is_additive
),
executes AS (
    SELECT
        p.method,
        count(*) FILTER (p.is_execute) AS number,
        sum(sum(p.execute_ticks)) OVER ()::DOUBLE AS ticks
    FROM parts AS p
    GROUP BY p.method
),
added AS (
    SELECT
        p.part, p.method, p.block_index, p.chain_index, p.instruction_id, count(*) AS calls,
        try_cast(sum(p.self_ticks) AS BIGINT) AS total_ticks
    FROM parts AS p
    GROUP BY p.part, p.method, p.block_index, p.chain_index, p.instruction_id
)
SELECT
    [
        'kernels',
        'operators without a kernel event',
        'delegate ops', 'delegate copies', 'delegate layout', 'delegate unaccounted', 'control', 'user events',
        'operator-call overhead',
        'rest'
    ][d.part] AS component,
    d.method, d.block_index, d.chain_index, d.instruction_id, d.calls,
    _in_unit(d.total_ticks, a.scale) AS total,
    _in_unit(d.total_ticks / x.number, a.scale) AS per_execute,
    100e0 * d.total_ticks / nullif(x.ticks, 0) AS share_percent,
    a.unit AS unit, d.total_ticks, x.number AS executes
FROM added AS d
JOIN executes AS x USING (method)
CROSS JOIN target AS a
ORDER BY
    d.block_index NULLS FIRST, d.chain_index NULLS FIRST, d.instruction_id NULLS FIRST, d.part,
    d.method;
