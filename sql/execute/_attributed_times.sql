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

-- The one capture that an argument matches, for questions about modules and lines; without a key for a trace. One that
-- has no record with these is `_lacking` it.
CREATE MACRO _linked_capture(capture, unit) AS TABLE
SELECT
    CASE
        WHEN c.format <> 'torch_trace'
            THEN _linked_key(capture, c.capture_id, c.name, r.record_id, r.name, r.is_complete)
    END AS capture_id,
    c.record_id, c.program_id, c.unit, c.scale
FROM _scaled_capture(capture, unit) AS c
LEFT JOIN records AS r USING (record_id);

-- The same, if it has runs of the method.
CREATE MACRO _linked_capture_with_method(capture, unit, method) AS TABLE
SELECT _asked.*
FROM _linked_capture(capture, unit) AS _asked
WHERE _runs_method(capture, _asked.capture_id, method);

-- The self time of one event within the executes of a capture, and its place in the model. Times without a module have
-- a name in parentheses: the overhead of OPERATOR_CALLs, the layout work of an unmapped delegate, and time that no
-- event covers. `executes` is how many of the events are executes;
-- `is_unaccounted` whether it is what the events within a DELEGATE_CALL leave of it.
CREATE MACRO _attributed_times(capture_key, steps, phase, method, runs) AS TABLE
WITH modules AS (SELECT m.* FROM (SELECT capture_key AS capture_id) AS a JOIN signature_ops AS m USING (capture_id)),
classified_times AS (
    SELECT t.scope AS method, t.signature_index, t.kind, t.family,
        t.kind = 'operator_call' AND t.children > 0 AS is_framework,
        t.kind = 'delegate_call' AND t.children > 0 AS is_unaccounted, count(*) AS calls,
        count(*) FILTER (t.is_execute) AS executes,
        -- Exact beyond 64 bits, so that shares of the total are right.
        sum(t.self_ticks) AS self_ticks
    FROM _execute_times(capture_key, NULL, steps, phase, method, runs) AS t
    WHERE t.is_additive
    GROUP BY t.scope, t.signature_index, t.kind, t.family, is_framework, is_unaccounted
)
SELECT o.method,
    CASE
        WHEN o.is_framework THEN '(framework)'
        WHEN m.module_path IS NOT NULL THEN m.module_path
        WHEN o.kind = 'delegate' AND _delegate_part(o.family) = 'layout' THEN '(delegate layout)'
        ELSE '(unattributed)'
    END AS module_path,
    m.source_file, m.source_line, coalesce(m.lines, 0) AS lines,
    o.signature_index, m.mapping, o.is_unaccounted, o.calls, o.executes, o.self_ticks
FROM classified_times AS o
LEFT JOIN modules AS m ON m.signature_index = o.signature_index AND NOT o.is_framework;
