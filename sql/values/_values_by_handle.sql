-- One op of some captures with its value, from `op_values`.
CREATE MACRO _values_by_handle(
    captures_of  -- the name of a table with a column capture_id
) AS TABLE
SELECT o.capture_id, o.method, o.debug_handle, o.debug_handles, o.output_index, o.op_name, v.scalar_type, o.sizes,
    CASE
        WHEN o.problem IS NOT NULL THEN NULL
        WHEN v.number IS NULL THEN v.elements
        ELSE [v.number]
    END AS elements,
    v.sha256 IS NOT NULL OR v.number IS NOT NULL AS is_known, o.mapping, o.problem, o.module_path, o.source_file,
    o.source_line
FROM (SELECT DISTINCT k.capture_id FROM query_table(captures_of) AS k) AS a
JOIN op_values AS o USING (capture_id)
JOIN debug_values AS v USING (capture_id, run_index, event_index, value_index);

-- A list of sizes without sizes of 1.
CREATE MACRO _without_ones(sizes) AS (list_filter(sizes, lambda x: x IS DISTINCT FROM 1));

-- Two captures whose values are compared by debug handle, in one row. It is an error if one has no linked record. Table
-- aliases begin with an underscore, as in _capture.sql.
CREATE MACRO _two_with_handles(base, new) AS TABLE
SELECT 1 AS pair, any_value(_handled.capture_id) FILTER (WHERE _side.side = 'base') AS base_key,
    any_value(_handled.capture_id) FILTER (WHERE _side.side = 'new') AS new_key
FROM _asked_sides(base, new) AS _side, LATERAL (
    SELECT CASE
        WHEN _found.format = 'torch_trace'
            THEN error(_found.name || ' is a PyTorch trace, which has no values; name captures of ETDumps')
        WHEN _found.record_id IS NULL THEN error(
            _found.name || ' is not linked to an ETRecord, whose debug handles '
            || 'identify values: link it (etq link, or etq ingest --etrecord)'
        )
        ELSE _found.capture_id
    END AS capture_id
    FROM _capture(_side.meant, NULL) AS _found
) AS _handled;
