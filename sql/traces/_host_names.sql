-- One name of what a thread of the host runs in a trace. `kind` is what it is a name of: op, step, annotation, module,
-- function or call. `pattern` is the name without its numbers.
CREATE MACRO _host_names(capture_key) AS TABLE
SELECT s.signature_index, s.label, s.family, regexp_replace(s.label, '\d+', '*', 'g') AS pattern,
    CASE
        WHEN s.activity = 'module' OR s.purpose = 'module' THEN 'module'
        WHEN s.activity IN ('python', 'python_function', 'other') THEN 'function'
        ELSE s.activity
    END AS kind,
    s.call_cause,
    s.activity = 'call' AND coalesce(s.waits, false) AS waits
FROM (SELECT capture_key AS capture_id) AS a
JOIN signatures AS s USING (capture_id)
WHERE NOT s.on_device AND (s.purpose IS DISTINCT FROM 'profiler');

-- Whether a call takes a millisecond or more: calls that launch, copy without waiting, or ask for something return
-- within microseconds, so a longer call waits in the runtime or driver for what a trace doesn't show.
CREATE MACRO _is_long_call(ticks) AS (ticks >= 'LONG_CALL');

-- The label of a state, by the label and kind of its event, and its cause.
CREATE MACRO _state_label(label, kind, cause) AS (
    CASE WHEN cause = 'graph_instantiation' AND kind <> 'call' THEN 'graph capture' ELSE label END
);
