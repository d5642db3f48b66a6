-- One event of a trace that is in a module, with the names of the modules that contain it.
CREATE MACRO _event_module_paths(capture_key) AS TABLE
WITH RECURSIVE modules AS MATERIALIZED (
    SELECT t.event_index, m.module, t.module_index AS outer_index
    FROM _module_signatures(capture_key) AS m
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t ON t.event_signature = m.signature_index
),
paths AS (
    SELECT m.event_index, [m.module] AS modules FROM modules AS m WHERE m.outer_index IS NULL
    UNION ALL
    SELECT m.event_index, list_concat(p.modules, [m.module])
    FROM paths AS p
    JOIN modules AS m ON m.outer_index = p.event_index
)
SELECT t.event_index, p.modules
FROM (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
LEFT JOIN modules AS m USING (event_index)
JOIN paths AS p ON p.event_index = coalesce(m.event_index, t.module_index);

-- The innermost nn.Module that contains one event of a trace; for the call of a module, the module itself. Only for
-- traces that name modules, see `_module_signatures`.
CREATE MACRO _trace_event_modules(capture_key) AS TABLE
WITH modules AS MATERIALIZED (
    SELECT e.event_index, m.module
    FROM _module_signatures(capture_key) AS m
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS e ON e.event_signature = m.signature_index
)
SELECT t.run_index, t.event_index, m.module
FROM (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
LEFT JOIN modules AS o USING (event_index)
JOIN modules AS m ON m.event_index = coalesce(o.event_index, t.module_index);
