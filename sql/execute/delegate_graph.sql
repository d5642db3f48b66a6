-- Why a capture without a program has no graphs of delegates.
CREATE MACRO _why_no_program(capture_name) AS (
    capture_name || ': link its program (.pte), which has the delegates'' graphs: etq link ' || capture_name
    || ' PROGRAM, or for a file --pte'
);

-- One op of the graphs in delegates' blobs, for the methods that a capture ran, with the time of the delegate's event
-- that runs it. A backend makes these ops of the nodes that it runs, and adds changes of layout. Needs a linked
-- program; the nodes are from a linked record. XNNPACK's and Vulkan's blobs are read. XNNPACK's events have the names
-- of ops, not of nodes. So they are aligned with ops by kind and order, if only one alignment is possible. Ops of
-- Vulkan have neither nodes nor events. It is an error if a program has more than 10,000,000 such ops, counted for each
-- call.
-- Needs: dump; else: kernel_table
-- Empty: {capture} ran no delegate whose graphs etq reads: those of XNNPACK and Vulkan
-- Shown: method, instruction_id#, op_index#, op!, node_name!, per_execute!~, share_percent!%, outputs, event_name,
--   calls!#, self_time+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   method: the method
--   instruction_id: the instruction that calls the delegate
--   backend: name of the backend
--   op_index: position in the delegate's graph
--   op: the backend's name of the op
--   inputs: element types and sizes of the values that it takes, as text, weights marked by *
--   outputs: element types and sizes of the values that it produces, as text
--   parameters: its other fields, as a JSON object
--   debug_handle: debug handle of the edge nodes from which it was made; NULL if there is none
--   graph_id: graph of its node: the node with that handle that the delegate runs; if there are several, the node of the op's kind, or else the first; NULL if there is none
--   node_index: that node; other nodes, such as an activation, may be fused into the op
--   node_name: its name
--   event_name: the event or events that run it; NULL if none does, or if it is uncertain which one does
--   calls: number of these events; NULL without one
--   self_time: sum of their self times; NULL without events
--   share_percent: self_time in percent of the executes
--   unit: unit of times
--   score: share of the call's events that have an op; NULL without an event
--   executes: number of executes of the method
--   per_execute: self_time / executes; NULL without events
CREATE MACRO delegate_graph(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT
        CASE
            WHEN c.format = 'torch_trace' THEN NULL
            WHEN c.program_id IS NULL THEN _lacking(capture, _why_no_program(c.name))
            ELSE c.capture_id
        END AS capture_id,
        c.program_id, c.record_id, c.unit, c.scale
    FROM _scaled_capture_with_method(capture, unit, method) AS c
),
times AS MATERIALIZED (
    SELECT t.method, t.signature_index, t.calls, t.executes, t.self_ticks
    FROM _attributed_times('target', steps, phase, method, runs) AS t
),
executes AS (SELECT t.method, nullif(sum(t.executes), 0)::BIGINT AS number FROM times AS t GROUP BY t.method),
events AS (
    SELECT m.method, s.instruction_id, e.op_index, string_agg(DISTINCT s.label, ', ' ORDER BY s.label) AS event_name,
        sum(t.calls)::BIGINT AS calls, try_cast(sum(t.self_ticks) AS BIGINT) AS ticks, min(e.score) AS score
    FROM target AS a
    JOIN signature_delegate_ops AS e USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    JOIN linked_methods AS m USING (capture_id, block_index)
    JOIN times AS t USING (signature_index)
    GROUP BY m.method, s.instruction_id, e.op_index
),
nodes AS MATERIALIZED (
    SELECT g.method, n.instruction_id, n.debug_handle, n.graph_id, n.node_index, p.name,
        _delegate_op_class(string_split(p.op, '.')[1]) AS class,
        row_number() OVER (
            PARTITION BY g.method, n.instruction_id, n.debug_handle, class
            ORDER BY n.graph_id, n.node_index
        ) AS place,
        row_number() OVER (
            PARTITION BY g.method, n.instruction_id, n.debug_handle
            ORDER BY n.graph_id, n.node_index
        ) AS place_in_handle
    FROM target AS a
    JOIN placed_nodes AS n ON n.capture_id = a.capture_id AND n.instruction_id IS NOT NULL
    JOIN graphs AS g USING (record_id, graph_id)
    JOIN op_nodes AS p USING (record_id, graph_id, node_index)
),
blobs AS MATERIALIZED (
    SELECT o.*,
        row_number() OVER (PARTITION BY o.blob_offset, o.debug_handle, o.class ORDER BY o.op_index) AS place_in_handle
    FROM _classified_delegate_ops((SELECT t.capture_id FROM target AS t)) AS o
),
calls AS MATERIALIZED (
    SELECT d.method, d.instruction_id, d.backend, d.blob_offset
    FROM _delegate_calls((SELECT t.capture_id FROM target AS t)) AS d
    WHERE d.method = coalesce(method, d.method)
),
checked AS (
    SELECT CASE
        WHEN sum(b.ops) > 10000000
            THEN error(
                'the calls of the program''s delegates have '
                || sum(b.ops) || ' ops; delegate_graph is for at most 10000000: query the table delegate_ops'
            )
        ELSE true
    END AS is_fit
    FROM calls AS c
    JOIN (
        SELECT o.blob_offset, count(*) AS ops FROM blobs AS o GROUP BY o.blob_offset
    ) AS b ON b.blob_offset = c.blob_offset
),
described AS (
    SELECT v.blob_offset, v.value_id,
        CASE WHEN v.is_constant THEN '*' ELSE '' END || v.dtype
        || '[' || array_to_string(v.sizes, ', ') || ']' AS description
    FROM target AS a
    JOIN delegate_values AS v USING (program_id)
),
-- The inputs of ops, and their outputs.
used AS (
    SELECT o.blob_offset, o.op_index, false AS is_output, unnest(o.inputs) AS value_id,
        generate_subscripts(o.inputs, 1) AS place
    FROM target AS a
    JOIN delegate_ops AS o USING (program_id)
    UNION ALL
    SELECT o.blob_offset, o.op_index, true, unnest(o.outputs), generate_subscripts(o.outputs, 1)
    FROM target AS a
    JOIN delegate_ops AS o USING (program_id)
),
texts AS (
    SELECT u.blob_offset, u.op_index,
        string_agg(d.description, ', ' ORDER BY u.place) FILTER (WHERE NOT u.is_output) AS inputs,
        string_agg(d.description, ', ' ORDER BY u.place) FILTER (WHERE u.is_output) AS outputs
    FROM used AS u
    JOIN described AS d USING (blob_offset, value_id)
    GROUP BY u.blob_offset, u.op_index
)
SELECT c.method, c.instruction_id, c.backend, o.op_index, o.op, coalesce(u.inputs, '') AS inputs,
    coalesce(u.outputs, '') AS outputs, b.parameters, o.debug_handle, coalesce(n.graph_id, f.graph_id) AS graph_id,
    coalesce(n.node_index, f.node_index) AS node_index, coalesce(n.name, f.name) AS node_name, e.event_name,
    e.calls AS calls, _in_unit(e.ticks, a.scale) AS self_time,
    100e0 * e.ticks / nullif((SELECT sum(t.self_ticks)::DOUBLE FROM times AS t), 0) AS share_percent, a.unit AS unit,
    e.score, x.number AS executes, self_time / x.number AS per_execute
FROM target AS a
JOIN checked AS k ON k.is_fit
JOIN calls AS c ON true
JOIN blobs AS o USING (blob_offset)
JOIN delegate_ops AS b USING (program_id, blob_offset, op_index)
LEFT JOIN texts AS u USING (blob_offset, op_index)
LEFT JOIN nodes AS n
    ON n.method = c.method
    AND n.instruction_id = c.instruction_id
    AND n.debug_handle = o.debug_handle
    AND n.class = o.class
    AND n.place = o.place_in_handle
LEFT JOIN nodes AS f
    ON f.method = c.method
    AND f.instruction_id = c.instruction_id
    AND f.debug_handle = o.debug_handle
    AND f.place_in_handle = 1
LEFT JOIN executes AS x ON x.method = c.method
LEFT JOIN events AS e ON e.method = c.method AND e.instruction_id = c.instruction_id AND e.op_index = o.op_index
ORDER BY c.method, c.instruction_id, o.op_index;
