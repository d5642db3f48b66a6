-- One output of a record's call of a delegate, in the program's order. A call's outputs are the values of its nodes
-- that other nodes take, or the graph returns; the export keeps the order of nodes, which is that of the call's debug
-- handles.
CREATE MACRO _delegate_outputs(record_key, program_key, capture_key) AS TABLE
WITH nodes AS MATERIALIZED (FROM _certain_delegates(record_key, program_key, capture_key)),
produced AS MATERIALIZED (
    SELECT n.method, n.instruction_id, n.graph_id, n.node_index, n.debug_handle, v.output_index, v.value_index,
        v.value_name = p.name AS is_named
    FROM nodes AS n
    JOIN op_nodes AS p ON p.record_id = record_key AND p.graph_id = n.graph_id AND p.node_index = n.node_index
    JOIN node_values AS v ON v.record_id = p.record_id AND v.graph_id = p.graph_id AND v.node_index = p.node_index
    WHERE n.instruction_id IS NOT NULL AND n.is_certain AND NOT starts_with(v.value_name, p.name || '_unused_')
),
-- The nodes of a handle, in the order in which the call lists it. A node with several outputs comes before the nodes
-- that select them.
listed AS MATERIALIZED (
    SELECT p.*,
        row_number() OVER (
            PARTITION BY p.method, p.instruction_id, p.debug_handle
            ORDER BY p.node_index, p.output_index NULLS FIRST
        ) AS number
    FROM (
        FROM produced
        UNION ALL
        SELECT DISTINCT p.method, p.instruction_id, p.graph_id, p.node_index, p.debug_handle, NULL AS output_index,
            NULL AS value_index, true AS is_named
        FROM produced AS p
        WHERE NOT p.is_named
    ) AS p
),
entries AS (
    SELECT h.method, h.instruction_id, h.debug_handle, h.position,
        row_number() OVER (PARTITION BY h.method, h.instruction_id, h.debug_handle ORDER BY h.position) AS number,
        d.outputs
    FROM delegates AS d
    JOIN debug_handles AS h USING (record_id, method, instruction_id)
    WHERE d.record_id = record_key
),
uses AS (
    SELECT p.method, p.instruction_id, p.value_index,
        CASE
            WHEN NOT coalesce(u.is_certain, true) THEN NULL
            ELSE u.instruction_id IS DISTINCT FROM p.instruction_id
        END AS is_outside,
        false AS is_mutated
    FROM produced AS p
    JOIN node_arguments AS a ON a.record_id = record_key AND a.graph_id = p.graph_id AND a.value_index = p.value_index
    LEFT JOIN nodes AS u ON u.graph_id = a.graph_id AND u.node_index = a.node_index
    UNION ALL
    SELECT p.method, p.instruction_id, p.value_index, true, o.kind = 'mutation'
    FROM produced AS p
    JOIN graph_outputs AS o ON o.record_id = record_key AND o.graph_id = p.graph_id AND o.value_index = p.value_index
),
used AS (
    SELECT u.method, u.instruction_id, u.value_index, coalesce(bool_or(u.is_outside), false) AS is_output,
        bool_or(u.is_outside) IS DISTINCT FROM true AND bool_or(u.is_outside IS NULL) AS is_open,
        bool_or(u.is_mutated) AS is_mutated
    FROM uses AS u
    GROUP BY u.method, u.instruction_id, u.value_index
),
-- Each entry of a call's list, with its value; without a value if nodes of its handle may be in other calls.
placed AS (
    SELECT e.method, e.instruction_id, e.position, e.outputs, l.graph_id, l.node_index, l.output_index,
        coalesce(u.is_output, false) AS is_output, coalesce(u.is_open, false) AS is_open,
        coalesce(u.is_mutated, false) AS is_mutated, n.debug_handle IS NOT NULL AND NOT n.is_certain AS is_of_others,
        n.debug_handle IS NULL OR n.is_certain AND l.node_index IS NULL AS is_unknown,
        coalesce(n.is_inferred, false) AS is_inferred
    FROM entries AS e
    LEFT JOIN listed AS l USING (method, instruction_id, debug_handle, number)
    LEFT JOIN used AS u ON u.method = l.method AND u.instruction_id = l.instruction_id AND u.value_index = l.value_index
    LEFT JOIN (
        SELECT n.method, n.debug_handle, bool_and(n.is_certain) AS is_certain, bool_or(n.is_inferred) AS is_inferred
        FROM nodes AS n
        GROUP BY n.method, n.debug_handle
    ) AS n ON n.method = e.method AND n.debug_handle = e.debug_handle
),
counted AS (
    SELECT p.method, p.instruction_id, any_value(p.outputs) AS outputs, count(*) FILTER (WHERE p.is_output) AS found,
        count(*) FILTER (WHERE p.is_of_others) AS of_others, bool_or(p.is_open) AS is_open,
        bool_or(p.is_mutated) AS is_mutated, bool_or(p.is_unknown OR p.is_inferred) AS is_inferred
    FROM placed AS p
    GROUP BY p.method, p.instruction_id
),
decided AS (
    SELECT c.*,
        CASE
            WHEN c.is_open OR c.outputs NOT IN (c.found, c.found + c.of_others)
                AND c.of_others > 0
                THEN 'nodes of one op run in several calls, in an unknown order'
            WHEN c.outputs <> c.found AND c.of_others = 0
                THEN 'the call has ' || c.outputs || ' outputs, its nodes ' || c.found
            WHEN c.is_mutated AND c.outputs > 1 THEN 'the call changes buffers, so the order of its outputs is unknown'
        END AS problem
    FROM counted AS c
)
SELECT p.method, p.instruction_id,
    row_number() OVER (PARTITION BY p.method, p.instruction_id ORDER BY p.position) - 1 AS position, p.graph_id,
    p.node_index, p.output_index, CASE WHEN d.is_inferred THEN 'inferred' ELSE 'exact' END AS mapping, NULL AS problem
FROM decided AS d
JOIN placed AS p
    ON p.method = d.method
    AND p.instruction_id = d.instruction_id
    AND (p.is_output OR p.is_of_others AND d.outputs > d.found)
WHERE d.problem IS NULL
UNION ALL
SELECT d.method, d.instruction_id, NULL, NULL, NULL, NULL, NULL, d.problem
FROM decided AS d
WHERE d.problem IS NOT NULL;
