-- Rows of `execute_breakdown` of each capture, with columns to order them by.
CREATE MACRO _execute_breakdown(
    times,  -- a table with rows of `_signature_times`
    names  -- a table with their rows of `signatures`, time_scale and unit
) AS TABLE
WITH parts AS (
    SELECT t.capture_id, s.time_scale, s.unit,
        CASE s.kind
            WHEN 'kernel' THEN 1
            WHEN 'operator_call' THEN CASE WHEN t.has_children THEN 9 ELSE 2 END
            WHEN 'delegate' THEN CASE _delegate_part(s.family) WHEN 'ops' THEN 3 WHEN 'copies' THEN 4 ELSE 5 END
            WHEN 'delegate_call' THEN 6
            WHEN 'control' THEN 7
            WHEN 'user' THEN 8
            ELSE 10
        END AS part,
        s.block_index, s.chain_index, s.instruction_id, t.scope AS method, t.calls, t.own_executes, t.execute_ticks,
        t.self_ticks
    FROM query_table(times) AS t
    JOIN query_table(names) AS s USING (capture_id, signature_index)
    WHERE t.is_additive
),
-- Parts of a delegate are distinguished by their call.
placed AS (
    SELECT p.* REPLACE (
            CASE WHEN p.part BETWEEN 3 AND 6 THEN p.block_index END AS block_index,
            CASE WHEN p.part BETWEEN 3 AND 6 THEN p.chain_index END AS chain_index,
            CASE WHEN p.part BETWEEN 3 AND 6 THEN p.instruction_id END AS instruction_id
        )
    FROM parts AS p
),
added AS (
    SELECT p.capture_id, p.time_scale, p.unit, p.part, p.method, p.block_index, p.chain_index, p.instruction_id,
        sum(p.calls)::BIGINT AS calls, sum(p.own_executes) AS own_executes, sum(p.execute_ticks) AS execute_ticks,
        try_cast(sum(p.self_ticks) AS BIGINT) AS total_ticks
    FROM placed AS p
    GROUP BY ALL
),
scaled AS (
    SELECT d.*, sum(d.own_executes) OVER (PARTITION BY d.capture_id, d.method)::BIGINT AS executes,
        sum(d.execute_ticks) OVER (PARTITION BY d.capture_id)::DOUBLE AS all_execute_ticks,
        _multiplier(d.time_scale, d.unit) AS multiplier, _divisor(d.time_scale, d.unit) AS divisor
    FROM added AS d
)
SELECT d.capture_id,
    row_number() OVER (
        PARTITION BY d.capture_id
        ORDER BY d.block_index NULLS FIRST, d.chain_index NULLS FIRST, d.instruction_id NULLS FIRST, d.part, d.method
    )::INTEGER AS place,
    [
        'kernels', 'operators without a kernel event', 'delegate ops', 'delegate copies', 'delegate layout',
        'delegate unaccounted', 'control', 'user events', 'operator-call overhead', 'rest'
    ][d.part] AS component,
    d.method, d.block_index, d.chain_index, d.instruction_id, d.calls,
    d.total_ticks * d.multiplier / d.divisor AS total,
    d.total_ticks / d.executes * d.multiplier / d.divisor AS per_execute,
    100e0 * d.total_ticks / nullif(d.all_execute_ticks, 0) AS share_percent, d.unit, d.total_ticks, d.executes
FROM scaled AS d;

-- One part of the time of Method::execute (or Method::step), over the recorded runs. The parts add up to the total
-- exactly. Events on a clock other than the host's, and detached events, are in no part; see `op_totals`. A
-- DELEGATE_CALL without other events is unaccounted as a whole.
-- Needs: dump; else: step_breakdown
-- Shown: component!, method, block_index#, instruction_id#, per_execute!~, share_percent!%, calls!#, total+~,
--   executes+#, unit
-- Share: of the executes
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
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.capture_id, c.unit, c.time_scale FROM _capture_with_method(capture, unit, method) AS c
),
execute_times AS (
    FROM _run_events('target', steps, phase, method, runs) AS t
    WHERE t.execute_index IS NOT NULL
),
times_of_parts AS (FROM _signature_times('execute_times')),
names_of_parts AS (FROM target AS a JOIN signatures AS s USING (capture_id))
SELECT b.component, b.method, b.block_index, b.chain_index, b.instruction_id, b.calls, b.total, b.per_execute,
    b.share_percent, b.unit, b.total_ticks, b.executes
FROM _execute_breakdown('times_of_parts', 'names_of_parts') AS b
ORDER BY b.place;
