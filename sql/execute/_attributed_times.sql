-- Why a capture has no modules and lines; NULL if its record has them.
CREATE MACRO _why_no_modules(
    capture_name,
    record_key,  -- key of its record; NULL if there is none
    record_name,
    is_complete  -- whether the record is complete
) AS (
    CASE
        WHEN record_key IS NULL THEN
            capture_name || ' has no record, so its events have no modules or '
            || 'lines; link one: etq link ' || capture_name || ' RECORD, or for a file --etrecord'
        WHEN NOT is_complete THEN
            'the record ' || record_name || ' of ' || capture_name
            || ' is half-written: without its edge graph and maps, events have no modules or lines'
    END
);

-- Key of a capture that has a record with modules and lines.
CREATE MACRO _linked_key(
    capture,  -- the argument
    capture_key, capture_name, record_key, record_name, is_complete
) AS (
    CASE
        WHEN _why_no_modules(capture_name, record_key, record_name, is_complete) IS NULL THEN capture_key
        ELSE _lacking(capture, _why_no_modules(capture_name, record_key, record_name, is_complete))
    END
);

-- The one capture that an argument matches, for questions about modules and lines; for a trace, its key is NULL. For a
-- capture that has no record with modules and lines, see `_lacking`.
CREATE MACRO _linked_capture(capture, unit) AS TABLE
SELECT
    CASE
        WHEN c.format <> 'torch_trace'
            THEN _linked_key(capture, c.capture_id, c.name, r.record_id, r.name, r.is_complete)
    END AS capture_id,
    c.record_id, c.program_id, c.time_scale, c.unit, c.scale
FROM _scaled_capture(capture, unit) AS c
LEFT JOIN records AS r USING (record_id);

-- The same capture, if it has runs of the method.
CREATE MACRO _linked_capture_with_method(capture, unit, method) AS TABLE
SELECT _asked.*
FROM _linked_capture(capture, unit) AS _asked
LEFT JOIN _ran_methods(method) AS _ran USING (capture_id)
WHERE _runs_method(capture, _ran.is_run, _ran.methods, method);

-- All captures that have a record with modules and lines, in their default units.
CREATE MACRO _linked_captures() AS TABLE
SELECT c.capture_id, c.record_id, c.program_id, c.unit, c.scale
FROM _scaled_captures() AS c
JOIN records AS r USING (record_id)
WHERE c.format <> 'torch_trace' AND r.is_complete;

-- The module of events; the name in parentheses of time without a module.
CREATE MACRO _module_of(is_framework, module_path, kind, family) AS (
    CASE
        WHEN is_framework THEN '(framework)'
        WHEN module_path IS NOT NULL THEN module_path
        WHEN kind = 'delegate' AND _delegate_part(family) = 'layout' THEN '(delegate layout)'
        ELSE '(unattributed)'
    END
);

-- The self times of the events of one signature within the executes of captures, and their place in the model. Times
-- without a module have a name in parentheses: the overhead of OPERATOR_CALLs, the layout work of an unmapped delegate,
-- and time that no event covers. `executes` is the number of these events that are executes. `is_unaccounted` is
-- whether the time is the part of a DELEGATE_CALL that no event within the call covers.
CREATE MACRO _placed_times(
    times,  -- a table with rows of `signature_times`, or of `_signature_times` that are additive
    names,  -- a table with their rows of `signatures`
    ops  -- a table with their rows of `signature_ops`
) AS TABLE
WITH classified_times AS (
    SELECT t.capture_id, t.signature_index, t.scope, t.calls, t.own_executes, t.self_ticks, s.kind, s.family,
        s.kind = 'operator_call' AND t.has_children AS is_framework,
        s.kind = 'delegate_call' AND t.has_children AS is_unaccounted
    FROM query_table(times) AS t
    JOIN query_table(names) AS s USING (capture_id, signature_index)
)
SELECT o.capture_id, o.scope AS method, _module_of(o.is_framework, m.module_path, o.kind, o.family) AS module_path,
    m.source_file, m.source_line, coalesce(m.lines, 0) AS lines,
    o.signature_index, m.mapping, o.is_unaccounted, o.calls, o.own_executes AS executes, o.self_ticks
FROM classified_times AS o
LEFT JOIN query_table(ops) AS m
    ON m.capture_id = o.capture_id AND m.signature_index = o.signature_index AND NOT o.is_framework;

-- Rows of `_placed_times` of the selected runs of a capture.
CREATE MACRO _attributed_times(
    target,  -- a table with the capture_id of captures; NULL for no rows
    steps, phase, method, runs
) AS TABLE
WITH placed_sums AS (
    SELECT e.capture_id, r.scope, e.signature_index, e.children > 0 AS has_children, count(*) AS calls,
        count(*) FILTER (e.is_execute) AS own_executes, sum(e.self_ticks) AS self_ticks
    FROM query_table(target) AS k
    JOIN event_ticks AS e USING (capture_id)
    JOIN runs AS r USING (capture_id, run_index)
    WHERE e.execute_index IS NOT NULL
        AND e.is_additive
        AND _is_selected_run(r.iteration, r.phase, r.scope, r.is_typical, steps, phase, method, runs)
    GROUP BY ALL
),
placed_names AS (SELECT s.* FROM query_table(target) AS k JOIN signatures AS s USING (capture_id)),
placed_ops AS (SELECT o.* FROM query_table(target) AS k JOIN signature_ops AS o USING (capture_id))
FROM _placed_times('placed_sums', 'placed_names', 'placed_ops');
