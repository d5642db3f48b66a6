-- The name of a module: for an nn.Module without `nn.Module: `, for a module of Lightning the path of its attribute.
CREATE MACRO _module_name(label) AS (
    CASE
        WHEN starts_with(label, '[pl][module]') THEN substr(label, length(split_part(label, ': ', 1)) + 3)
        ELSE substr(label, 12)
    END
);

-- Names of the calls of modules in a trace.
CREATE MACRO _module_signatures(capture_key) AS TABLE
SELECT s.signature_index, _module_name(s.label) AS module
FROM (SELECT capture_key AS capture_id) AS a
JOIN signatures AS s USING (capture_id)
WHERE s.activity = 'module' OR s.purpose = 'module';

-- One op, step, annotation, module or call of a trace, or work of a device, with all columns that views of traces use:
-- DuckDB reads only the columns that a query uses.
CREATE MACRO _trace_slices(capture_key) AS TABLE
WITH
-- Few rows, materialized without the capture: with a condition on the capture between the tables, DuckDB may join all
-- signatures to all of `trace_events` first.
classified AS MATERIALIZED (
    SELECT s.signature_index, s.label, s.kernel_family, s.uses_matrix_units,
        CASE s.purpose WHEN 'module' THEN 'module' ELSE s.activity END AS kind, s.purpose, s.waits,
        coalesce(s.purpose = 'data_loading', false) AS is_data_loader,
        coalesce(s.purpose = 'communication', false) AS is_communication
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
    -- Written without NOT IN, for which DuckDB would join these words to the signatures of all captures.
    WHERE s.activity <> 'device_wait'
        AND s.activity <> 'device_annotation'
        AND s.activity <> 'counter_range'
        AND s.activity <> 'python_function'
        AND s.activity <> 'other'
)
SELECT t.run_index, t.event_index, k.signature_index, k.label, k.kernel_family, k.uses_matrix_units, k.kind, k.purpose,
    k.waits, k.is_data_loader, k.is_communication, t.thread_index, t.correlation_id, t.sequence_number,
    t.forward_thread, t.parent_index, t.node_index, t.operator_index, t.operators_within, t.operator_ticks,
    t.covers_own, t.start_ticks, t.start_ticks + t.elapsed_ticks AS end_ticks,
    t.elapsed_ticks - coalesce(t.overlap_ticks, 0) AS counted_ticks
FROM classified AS k
JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t ON t.event_signature = k.signature_index
WHERE t.elapsed_ticks >= 0;

-- Start and end of the recording of a trace, see `recordings`; NULL for other captures.
CREATE MACRO _recording(capture_key) AS TABLE
SELECT min(r.start_ticks) AS start_ticks, max(r.end_ticks) AS end_ticks
FROM recordings AS r
WHERE r.capture_id = capture_key;
