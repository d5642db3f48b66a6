-- The time of one op within Method::execute (or Method::step), over the recorded runs. Times in ticks of the host's
-- clock add up to the total of the executes exactly: each event counts with its self time, and rows in parentheses have
-- the time of no op: (framework), the overhead of OPERATOR_CALLs; (unattributed), time that no event covers.
-- Empty: {capture} has no executes
-- Columns:
--   op: family or label of the events
--   kind: kernel, delegate, delegate_call (its self time), operator_call (without a kernel), control, user, framework
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   instruction_id: the instruction, with by := 'instance'; else NULL
--   calls: number of events
--   total: sum of their self times; NULL, as avg to max, if the times of all are impossible
--   avg: total / calls
--   min: smallest self time
--   max: largest self time
--   share_percent: total in percent of the executes; NULL for values on another clock, values that are not times, and detached events (see `events`)
--   unit: unit of times: the requested one; values that are not times keep theirs
--   total_ticks: total in ticks, a whole number
--   executes: number of executes of the method
--   per_execute: total / executes
CREATE MACRO op_totals(
    capture,
    "by" := 'family',  -- family; label; instance: label and instruction; op_type, or shape: op type and shape of its first output, by the linked record
    unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH
target AS MATERIALIZED (FROM _capture(capture, unit)),
op_types AS (
    SELECT m.signature_index, m.op_type, m.output_shape
    FROM target AS a
    JOIN signature_ops AS m USING (capture_id)
),
classified_times AS (
    SELECT
        CASE
            WHEN t.kind = 'operator_call' AND t.children > 0 THEN '(framework)'
            WHEN t.kind = 'framework' THEN '(unattributed)'
            WHEN "by" = 'family' THEN t.family
            WHEN "by" IN ('label', 'instance') THEN t.label
            WHEN "by" = 'op_type' THEN coalesce(o.op_type, t.family)
            WHEN "by" = 'shape' THEN
                coalesce(o.op_type || coalesce(' ' || o.output_shape, ''), t.family)
            ELSE error(
                'by must be ''family'', ''label'', ''instance'', ''op_type'' or '
                || '''shape'', not ' || coalesce("by", 'NULL')
            )
        END AS op,
        CASE WHEN t.kind = 'operator_call' AND t.children > 0 THEN 'framework' ELSE t.kind END AS kind,
        t.scope AS method,
        CASE WHEN "by" = 'instance' AND t.chain_index <> -1 THEN t.instruction_id END AS instruction_id,
        CASE WHEN NOT t.is_impossible THEN t.self_ticks END AS self_ticks,
        t.is_additive, t.execute_ticks, t.is_execute, a.unit,
        _stored_unit(t.value_unit, a.time_scale) AS written
    FROM _execute_times((SELECT a.capture_id FROM target AS a), steps, phase, method, runs) AS t
    CROSS JOIN target AS a
    LEFT JOIN op_types AS o USING (signature_index)
),
added AS (
    SELECT
        o.op, o.kind, o.method, o.instruction_id, o.is_additive, o.unit, o.written, count(*) AS calls,
        count(*) FILTER (o.is_execute) AS own_executes,
        try_cast(sum(o.self_ticks) AS BIGINT) AS total_ticks,
        min(o.self_ticks) AS min_ticks, max(o.self_ticks) AS max_ticks
    FROM classified_times AS o
    GROUP BY ALL
),
scaled AS (
    SELECT
        d.*,
        sum(d.own_executes) OVER (PARTITION BY d.method)::BIGINT AS executes,
        _scale(d.written, d.unit) AS scale
    FROM added AS d
)
SELECT
    d.op, d.kind, d.method, d.instruction_id, d.calls,
    _in_unit(d.total_ticks, d.scale) AS total,
    _in_unit(d.total_ticks / d.calls, d.scale) AS avg,
    _in_unit(d.min_ticks, d.scale) AS min,
    _in_unit(d.max_ticks, d.scale) AS max,
    CASE
        WHEN d.is_additive THEN 100e0 * d.total_ticks / nullif(
            (SELECT sum(o.execute_ticks)::DOUBLE FROM classified_times AS o), 0
        )
    END AS share_percent,
    _display_unit(d.written, d.unit) AS unit,
    d.total_ticks, d.executes,
    _in_unit(d.total_ticks / nullif(d.executes, 0), d.scale) AS per_execute
FROM scaled AS d
ORDER BY
    d.is_additive DESC, d.total_ticks DESC, d.op, d.kind, d.method, d.instruction_id;
