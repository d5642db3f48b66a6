-- The times of captures' events. Together with names, they are the source of the rollups, and of the stored answers to
-- default arguments. Names are left out here, because they may be long, and many events have the same name.
CREATE MACRO _answered_times(first_key, last_key) AS TABLE
SELECT e.capture_id, e.run_index, e.event_index, coalesce(e.parent_run_index, e.run_index) AS parent_run_index,
    e.parent_index, e.execute_index, e.signature_index, e.children,
    coalesce(_duration_ticks(e.elapsed_ticks, e.unwrapped_ticks), 0) AS duration_ticks, e.self_ticks,
    _duration_ticks(e.elapsed_ticks, e.unwrapped_ticks) IS NULL AS is_impossible,
    CASE WHEN e.event_index = e.execute_index THEN duration_ticks END AS execute_ticks,
    e.is_execute, e.is_additive, e.is_detached
FROM event_ticks AS e
JOIN captures AS c USING (capture_id)
WHERE e.capture_id BETWEEN first_key AND last_key AND c.format <> 'torch_trace';

-- These times as rows of `_timed_events`.
CREATE MACRO _answered_events(
    times  -- a table with rows of `_answered_times`
) AS TABLE
SELECT t.*, c.time_scale, coalesce(c.profiling_level = 'method_only', false) AS is_untraced,
    _default_unit(c.time_scale) AS unit, r.scope, r.method, r.is_typical, s.block_index, s.kind, s.name, s.label,
    s.family, s.chain_index, s.instruction_id, s.value_unit
FROM query_table(times) AS t
JOIN captures AS c USING (capture_id)
JOIN signatures AS s USING (capture_id, signature_index)
JOIN runs AS r USING (capture_id, run_index);

-- Signatures of dumps for `_op_totals`, without the columns that come from records.
CREATE MACRO _answered_names() AS TABLE
SELECT s.*, NULL::VARCHAR AS op_type, NULL::VARCHAR AS output_shape, c.time_scale, _default_unit(c.time_scale) AS unit
FROM signatures AS s
JOIN captures AS c USING (capture_id);

-- The executes of typical runs, as rows of `_signature_times`.
CREATE MACRO _answered_parts(
    times  -- a table with rows of `_timed_events`
) AS TABLE
WITH typical_times AS (FROM query_table(times) AS t WHERE t.is_typical AND t.execute_index IS NOT NULL)
FROM _signature_times('typical_times');

-- The rows of the table `signature_times`.
CREATE MACRO _find_signature_times(
    times  -- a table with rows of `_signature_times`
) AS TABLE
SELECT t.capture_id, t.signature_index, t.scope, t.has_children, t.calls, t.own_executes, t.self_ticks
FROM query_table(times) AS t
WHERE t.is_additive
ORDER BY ALL;

-- The rows of the table `all_op_totals`.
CREATE MACRO _find_all_op_totals(
    times  -- a table with rows of `_signature_times`
) AS TABLE
WITH names_of_ops AS (FROM _answered_names())
SELECT o.* EXCLUDE (instruction_id)
FROM _op_totals(times, 'names_of_ops', 'family') AS o
ORDER BY o.capture_id, o.place;

-- The rows of the table `all_execute_breakdown`.
CREATE MACRO _find_all_execute_breakdown(
    times  -- a table with rows of `_signature_times`
) AS TABLE
WITH names_of_parts AS (FROM _answered_names())
FROM _execute_breakdown(times, 'names_of_parts') AS b
ORDER BY b.capture_id, b.place;

-- The rows of the table `all_framework_tax`.
CREATE MACRO _find_all_framework_tax(
    taxes  -- a table with rows of `_run_taxes`
) AS TABLE
SELECT x.capture_id, row_number() OVER (PARTITION BY x.capture_id ORDER BY x.run_index)::INTEGER AS place, x.run_index,
    x.method, x.execute, x.kernels, x.delegates, x.operators, x.tracing, x.tax, x.tax_percent, x.note, x.unit
FROM _framework_taxes(taxes) AS x
ORDER BY x.capture_id, x.run_index;

-- The rows of the table `all_headline`.
CREATE MACRO _find_all_headline(
    loads,  -- a table with rows of `_load_parts`
    taxes  -- a table with rows of `_run_taxes`
) AS TABLE
FROM _headline(loads, taxes, NULL, 'typical') AS h ORDER BY h.capture_id, h.place;

-- The rows of the table `all_memory_totals`.
CREATE MACRO _find_all_memory_totals(first_key, last_key) AS TABLE
WITH of_memory AS (SELECT c.capture_id FROM captures AS c WHERE c.capture_id BETWEEN first_key AND last_key)
FROM _memory_totals('of_memory') AS m ORDER BY m.capture_id, m.place;
