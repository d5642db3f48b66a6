-- The value of an output of an op of some captures. A row of the table `op_values`, from `debug_values` and
-- `signature_outputs`, which names the event whose output is the value. The value is from the first run that has one, and
-- from the event's last occurrence in that run. In a reference, it is the node's value.
CREATE MACRO _find_op_values(
    captures_of  -- the name of a table with a column capture_id
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT k.capture_id, k.record_id, k.format
    FROM (SELECT DISTINCT a.capture_id FROM query_table(captures_of) AS a) AS a
    JOIN captures AS k USING (capture_id)
),
handled AS (
    SELECT k.capture_id, k.record_id, p.method, p.debug_handles, o.debug_handle, o.result_index AS output_index,
        p.op_name, p.run_index, p.event_index, p.value_index, p.owner_kind = 'delegate' AS is_within, o.sizes,
        o.result_sizes, o.mapping, o.problem
    FROM target AS k
    JOIN signature_outputs AS o USING (capture_id)
    JOIN _values_with_events('target') AS p
        ON p.capture_id = k.capture_id AND p.signature_index = o.signature_index
        AND p.position = coalesce(o.position, p.position)
    WHERE p.role = 'output'
    UNION ALL
    SELECT k.capture_id, k.record_id, r.method, [o.debug_handle], o.debug_handle, o.result_index, v.name, v.run_index,
        v.event_index, v.value_index, false, NULL, NULL, o.mapping, o.problem
    FROM target AS k
    JOIN signature_outputs AS o USING (capture_id)
    JOIN debug_values AS v
        ON v.capture_id = o.capture_id AND v.event_index = o.signature_index AND v.value_index = o.position
    JOIN runs AS r ON r.capture_id = v.capture_id AND r.run_index = v.run_index
    WHERE k.format = 'reference'
),
latest AS (
    SELECT h.* REPLACE (coalesce(h.output_index, 0) AS output_index)
    FROM handled AS h
    QUALIFY row_number() OVER (
        PARTITION BY h.capture_id, h.method, h.debug_handle, coalesce(h.output_index, 0)
        ORDER BY h.problem IS NOT NULL, h.run_index, h.is_within DESC, h.event_index DESC, h.value_index
    ) = 1
),
valued AS (
    SELECT l.*, v.sizes AS logged_sizes,
        CASE
            WHEN l.problem IS NOT NULL THEN l.problem
            WHEN NOT _can_be_sizes(v.sizes, l.sizes)
                THEN 'its sizes ' || v.sizes::VARCHAR || ' are not those of its node, ' || l.sizes::VARCHAR
        END AS reason
    FROM latest AS l
    JOIN debug_values AS v USING (capture_id, run_index, event_index, value_index)
),
nodes AS (
    SELECT g.stage, g.method, h.debug_handle, n.*
    FROM (SELECT DISTINCT k.record_id FROM target AS k) AS k
    JOIN graphs AS g USING (record_id)
    JOIN op_nodes AS n USING (record_id, graph_id)
    JOIN node_debug_handles AS h USING (record_id, graph_id, node_index)
),
places AS (
    SELECT n.record_id, n.method, n.debug_handle, n.module_path, n.source_file, n.source_line
    FROM nodes AS n
    QUALIFY row_number() OVER (
        PARTITION BY n.record_id, n.method, n.debug_handle
        ORDER BY n.stage = 'edge_dialect_exported_program' DESC, n.stage, n.node_index DESC
    ) = 1
)
SELECT v.capture_id, v.method, v.debug_handle, v.output_index, v.debug_handles, v.op_name, v.run_index, v.event_index,
    v.value_index,
    CASE
        WHEN v.reason IS NULL
            AND list_product(v.result_sizes) = list_product(v.logged_sizes)
            AND len(list_filter(v.result_sizes, lambda x: x IS NULL)) = 0
            THEN v.result_sizes
        ELSE v.logged_sizes
    END AS sizes,
    s.module_path, s.source_file, s.source_line, CASE WHEN v.reason IS NULL THEN v.mapping END AS mapping,
    v.reason AS problem
FROM valued AS v
LEFT JOIN places AS s USING (record_id, method, debug_handle)
ORDER BY v.capture_id, v.method, v.debug_handle, v.output_index;

-- Whether a logged tensor can be the value of a node, by its sizes: dimensions of 1 may be left out or added, symbolic
-- sizes can be any, also 1.
CREATE MACRO _can_be_sizes(
    logged,  -- sizes of the tensor; NULL for a number
    sizes  -- sizes of the node's value, with NULL for a symbolic size; NULL where unknown
) AS (
    sizes IS NULL
    OR regexp_full_match(
        coalesce(array_to_string(list_transform(_without_ones(logged), lambda x: x || ','), ''), ''),
        array_to_string(list_transform(_without_ones(sizes), lambda x: coalesce(x || ',', '(\d+,)?')), '')
    )
);
