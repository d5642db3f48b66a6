-- The events of one signature within executes, grouped by whether they contain other events. They are grouped by
-- integers, because names may be long, and many events have the same name.
CREATE MACRO _signature_times(
    times  -- a table with rows of `_run_events` within executes
) AS TABLE
WITH possible_times AS (
    SELECT t.capture_id, t.signature_index, t.scope, t.children > 0 AS has_children, t.is_additive, t.is_execute,
        t.execute_ticks, t.self_ticks, CASE WHEN NOT t.is_impossible THEN t.self_ticks END AS possible_ticks
    FROM query_table(times) AS t
)
SELECT t.capture_id, t.signature_index, t.scope, t.has_children, t.is_additive, count(*) AS calls,
    count(*) FILTER (t.is_execute) AS own_executes, sum(t.execute_ticks) AS execute_ticks,
    sum(t.self_ticks) AS self_ticks, sum(t.possible_ticks) AS total_ticks, min(t.possible_ticks) AS min_ticks,
    max(t.possible_ticks) AS max_ticks
FROM possible_times AS t
GROUP BY t.capture_id, t.signature_index, t.scope, t.has_children, t.is_additive;

-- Rows of `op_totals` of each capture, with columns to order them by.
CREATE MACRO _op_totals(
    times,  -- a table with rows of `_signature_times`
    names,  -- a table with their rows of `signatures`, and with op_type, output_shape, time_scale and unit
    "by"  -- as in `op_totals`
) AS TABLE
WITH classified_times AS (
    SELECT t.capture_id,
        CASE
            WHEN s.kind = 'operator_call' AND t.has_children THEN '(framework)'
            WHEN s.kind = 'framework' THEN '(unattributed)'
            WHEN s.kind = 'delegate_call' AND t.has_children THEN '(delegate unaccounted)'
            WHEN "by" = 'family' THEN s.family
            WHEN "by" IN ('label', 'instance') THEN s.label
            WHEN "by" = 'op_type' THEN coalesce(s.op_type, s.family)
            WHEN "by" = 'shape' THEN coalesce(s.op_type || coalesce(' ' || s.output_shape, ''), s.family)
            ELSE error(
                'by must be ''family'', ''label'', ''instance'', ''op_type'' or '
                || '''shape'', not ' || coalesce("by", 'NULL') || '; for modules there is module_totals'
            )
        END AS op,
        CASE WHEN s.kind = 'operator_call' AND t.has_children THEN 'framework' ELSE s.kind END AS kind,
        t.scope AS method,
        CASE WHEN "by" = 'instance' AND s.chain_index <> -1 THEN s.instruction_id END AS instruction_id,
        t.is_additive, s.unit, _stored_unit(s.value_unit, s.time_scale) AS written,
        t.calls, t.own_executes, t.execute_ticks, t.total_ticks, t.min_ticks, t.max_ticks
    FROM query_table(times) AS t
    JOIN query_table(names) AS s USING (capture_id, signature_index)
),
added AS (
    SELECT o.capture_id, o.op, o.kind, o.method, o.instruction_id, o.is_additive, o.unit, o.written,
        sum(o.calls)::BIGINT AS calls, sum(o.own_executes) AS own_executes, sum(o.execute_ticks) AS execute_ticks,
        try_cast(sum(o.total_ticks) AS BIGINT) AS total_ticks, min(o.min_ticks) AS min_ticks,
        max(o.max_ticks) AS max_ticks
    FROM classified_times AS o
    GROUP BY ALL
),
-- The factors are written only once, because planning an expression takes longer than computing its rows.
scaled AS (
    SELECT d.*, sum(d.own_executes) OVER (PARTITION BY d.capture_id, d.method)::BIGINT AS executes,
        sum(d.execute_ticks) OVER (PARTITION BY d.capture_id)::DOUBLE AS all_execute_ticks,
        _multiplier(d.written, d.unit) AS multiplier, _divisor(d.written, d.unit) AS divisor
    FROM added AS d
)
SELECT d.capture_id,
    row_number() OVER (
        PARTITION BY d.capture_id
        ORDER BY d.is_additive DESC, d.total_ticks DESC, d.op, d.kind, d.method, d.instruction_id
    )::INTEGER AS place,
    d.op, d.kind, d.method, d.instruction_id, d.calls, d.total_ticks * d.multiplier / d.divisor AS total,
    d.total_ticks / d.calls * d.multiplier / d.divisor AS per_call, d.min_ticks * d.multiplier / d.divisor AS min,
    d.max_ticks * d.multiplier / d.divisor AS max,
    CASE WHEN d.is_additive THEN 100e0 * d.total_ticks / nullif(d.all_execute_ticks, 0) END AS share_percent,
    _display_unit(d.written, d.unit) AS unit, d.total_ticks, d.executes,
    d.total_ticks / nullif(d.executes, 0) * d.multiplier / d.divisor AS per_execute
FROM scaled AS d;

-- The time of one op within Method::execute (or Method::step), over the recorded runs. Times in ticks of the host's
-- clock add up to the total of the executes exactly, because each event counts with its self time, and rows in
-- parentheses have the time of no op. These rows are (framework), the overhead of OPERATOR_CALLs; (delegate
-- unaccounted), time of DELEGATE_CALLs that no event within them covers; and (unattributed), time that no event covers.
-- Needs: dump; else: key_averages
-- Empty: {capture} has no executes
-- Shown: op!, kind, method, instruction_id#, per_execute!~, per_call~, share_percent!%, calls!#, min~, max~, total+~,
--   executes+#, unit
-- Share: of the executes
-- Columns:
--   op: family or label of the events
--   kind: kernel, delegate, delegate_call, operator_call (without a kernel), control, user, framework
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   instruction_id: the instruction, with by := 'instance'; else NULL
--   calls: number of events
--   total: sum of their self times; NULL, like the columns per_call to max, if all times are impossible
--   per_call: total / calls
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
WITH target AS MATERIALIZED (
    SELECT c.capture_id, c.unit, c.time_scale FROM _capture_with_method(capture, unit, method) AS c
),
execute_times AS (
    FROM _run_events('target', steps, phase, method, runs) AS t
    WHERE t.execute_index IS NOT NULL
),
times_of_ops AS (FROM _signature_times('execute_times')),
names_of_ops AS (
    SELECT s.*, o.op_type, o.output_shape
    FROM (FROM target AS a JOIN signatures AS s USING (capture_id)) AS s
    LEFT JOIN (FROM target AS a JOIN signature_ops AS o USING (capture_id)) AS o USING (signature_index)
)
SELECT o.op, o.kind, o.method, o.instruction_id, o.calls, o.total, o.per_call, o.min, o.max, o.share_percent, o.unit,
    o.total_ticks, o.executes, o.per_execute
FROM _op_totals('times_of_ops', 'names_of_ops', "by") AS o
ORDER BY o.place;
