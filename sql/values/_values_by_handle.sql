-- The value of one debug handle of a capture, from the first run that has a value:
-- the one that the handle's last instruction produced. If an op has several
-- handles, its value belongs to the last one; the outputs of a delegate's call
-- belong to its last handles, in order. In a reference, a value has the handle of
-- its node.
-- Columns:
--   method: the method
--   debug_handle: the handle
--   debug_handles: all handles of the event
--   output_index: index of the op's output, from 0
--   op_name: label of the event, or name of the node, that produced it
--   scalar_type: element type of a tensor; NULL for a number
--   sizes: sizes of a tensor; NULL for a number
--   elements: the elements in row-major order, or the number; NULL if they are unknown or weren't kept
--   is_known: whether the debug buffer contains them
--   module_path: module of the node of that handle; NULL where unknown
--   source_file: file of the user's line; NULL where unknown
--   source_line: line in that file; NULL where unknown
CREATE MACRO _values_by_handle(
    capture_key  -- key of a capture
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT k.capture_id, k.record_id, k.format
    FROM captures AS k
    WHERE k.capture_id = capture_key
),
nodes AS (
    SELECT g.stage, g.method, h.debug_handle, n.*
    FROM target AS k
    JOIN graphs AS g ON g.record_id = k.record_id
    JOIN op_nodes AS n ON n.record_id = g.record_id AND n.graph_id = g.graph_id
    JOIN node_debug_handles AS h
        ON h.record_id = n.record_id
        AND h.graph_id = n.graph_id
        AND h.node_index = n.node_index
),
handled AS (
    SELECT
        p.method,
        p.debug_handles,
        p.debug_handles[len(p.debug_handles) - CASE
            WHEN p.owner_kind = 'delegate_call' THEN p.outputs - 1 - p.position
            ELSE 0
        END] AS debug_handle,
        CASE
            WHEN p.owner_kind = 'delegate_call' THEN 0 ELSE p.position
        END AS output_index,
        p.op_name,
        p.run_index,
        p.event_index,
        p.value_index,
        p.instruction_id,
        p.owner_kind = 'delegate' AS is_within
    FROM _values_with_events(capture_key) AS p
    WHERE p.role = 'output' AND p.debug_handles IS NOT NULL
    UNION ALL
    SELECT
        r.method,
        [n.debug_handle],
        n.debug_handle,
        v.value_index,
        v.name,
        v.run_index,
        v.event_index,
        v.value_index,
        NULL,
        false
    FROM target AS k
    JOIN runs AS r ON r.capture_id = k.capture_id
    JOIN debug_values AS v
        ON v.capture_id = r.capture_id AND v.run_index = r.run_index
    JOIN nodes AS n
        ON n.stage = r.name AND n.method = r.method AND n.name = v.name
    WHERE k.format = 'reference'
),
latest AS (
    SELECT h.*
    FROM handled AS h
    WHERE h.debug_handle IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY h.method, h.debug_handle, h.output_index
        ORDER BY
            h.run_index,
            h.instruction_id DESC NULLS LAST,
            h.is_within DESC,
            h.event_index DESC
    ) = 1
),
places AS (
    SELECT n.method, n.debug_handle, n.module_path, n.source_file, n.source_line
    FROM nodes AS n
    QUALIFY row_number() OVER (
        PARTITION BY n.method, n.debug_handle
        ORDER BY
            n.stage = 'edge_dialect_exported_program' DESC, n.stage, n.node_index DESC
    ) = 1
)
SELECT
    l.method,
    l.debug_handle,
    l.debug_handles,
    l.output_index,
    l.op_name,
    v.scalar_type,
    v.sizes,
    CASE WHEN v.number IS NULL THEN v.elements ELSE [v.number] END AS elements,
    v.sha256 IS NOT NULL OR v.number IS NOT NULL AS is_known,
    s.module_path,
    s.source_file,
    s.source_line
FROM latest AS l
CROSS JOIN target AS k
JOIN debug_values AS v
    ON v.capture_id = k.capture_id
    AND v.run_index = l.run_index
    AND v.event_index = l.event_index
    AND v.value_index = l.value_index
LEFT JOIN places AS s
    ON s.method = l.method AND s.debug_handle = l.debug_handle;

-- Key of a capture whose values can be compared by debug handle. It is an error if
-- the capture has no linked record.
CREATE MACRO _capture_with_handles(
    capture  -- name, hash prefix, @latest or selector
) AS (
    SELECT CASE
        WHEN _handled.record_id IS NULL THEN error(
            _handled.name || ' is not linked to an ETRecord, whose debug handles '
            || 'identify values: link it (etq link, or etq ingest --etrecord)'
        )
        ELSE _handled.capture_id
    END
    FROM captures AS _handled
    WHERE _handled.capture_id = _capture_id(capture)
);
