-- One node of the graphs of a record, with the cost of one call by its shapes: operations and bytes that go through
-- memory, before any run. The edge graph is the one before delegates take parts of it.
-- Shown: name!, op_type, flops!#, bytes_read! (bytes), bytes_written! (bytes), intensity#, module_path AS module,
--   input_shapes, output_shape, stage, method, reason
-- Columns:
--   graph_id: the graph
--   stage: the graph's stage: exported_program, edge_dialect_exported_program, ...
--   method: its method
--   node_index: the node, in `op_nodes`
--   name: its name
--   op_type: op type of the node: aten.addmm.default
--   module_path: path of its module; NULL where none was kept
--   input_shapes: sizes of the values that it takes, as text; NULL if there are none
--   output_shape: sizes of its first output, as text; NULL if there is none
--   flops: operations of one call, a multiply-add counts as two; NULL where unknown
--   bytes_read: bytes of its arguments, each value once; NULL where unknown
--   bytes_written: bytes of its outputs; NULL where unknown
--   intensity: operations per byte; NULL where unknown, or if no bytes are moved
--   formula: how its operations are counted; NULL if `cost_formulas` lacks the op
--   reason: why a cost is unknown; NULL if all are known
CREATE MACRO node_costs(
    record  -- name or hash prefix of a record
) AS TABLE
WITH target AS MATERIALIZED (SELECT _key_of('record', record) AS record_id)
SELECT p.graph_id, g.stage, g.method, p.node_index, p.name, p.op_type, p.module_path, c.input_shapes, c.output_shape,
    c.flops, c.bytes_read, c.bytes_written, c.flops / nullif(c.bytes_read + c.bytes_written, 0) AS intensity, c.formula,
    c.reason
FROM target AS a
JOIN op_nodes AS p ON p.record_id = a.record_id
JOIN graphs AS g ON g.record_id = a.record_id AND g.graph_id = p.graph_id
JOIN costed_nodes AS c ON c.record_id = p.record_id AND c.graph_id = p.graph_id AND c.node_index = p.node_index
ORDER BY p.graph_id, p.node_index;

-- One op type of the graphs of a record, with the total cost of its nodes, each called once. The edge graph is the one
-- before delegates take parts of it.
-- Shown: op_type!, nodes#, flops!#, flops_percent%, bytes_read! (bytes), bytes_written! (bytes), intensity#, unknown#,
--   stage, method, reason
-- Columns:
--   stage: the graph's stage: exported_program, edge_dialect_exported_program, ...
--   method: its method
--   op_type: op type of the nodes
--   nodes: number of nodes
--   unknown: number of nodes whose operations or bytes are unknown
--   flops: operations of all nodes; NULL if they are unknown for any node
--   bytes_read: bytes that they read; NULL if unknown for any node
--   bytes_written: bytes that they write; NULL if unknown for any node
--   intensity: operations per byte; NULL where unknown, or if no bytes are moved
--   flops_percent: flops in percent of the known operations of the graph
--   formula: how operations are counted; NULL if `cost_formulas` lacks the op
--   reason: why a cost is unknown, for the first such node; NULL if all are known
CREATE MACRO op_costs(
    record  -- name or hash prefix of a record
) AS TABLE
WITH target AS MATERIALIZED (SELECT _key_of('record', record) AS record_id),
added AS (
    SELECT g.graph_id, g.stage, g.method, p.op_type, count(*) AS nodes, count(c.reason) AS unknown,
        sum(c.flops) AS known_flops, count(c.flops) AS with_flops,
        CASE WHEN count(*) = count(c.bytes_read) THEN sum(c.bytes_read) END AS bytes_read,
        CASE WHEN count(*) = count(c.bytes_written) THEN sum(c.bytes_written) END AS bytes_written,
        any_value(c.formula) AS formula, min_by(c.reason, p.node_index) AS reason
    FROM target AS a
    JOIN op_nodes AS p ON p.record_id = a.record_id
    JOIN graphs AS g ON g.record_id = a.record_id AND g.graph_id = p.graph_id
    JOIN costed_nodes AS c
        ON c.record_id = p.record_id AND c.graph_id = p.graph_id AND c.node_index = p.node_index
    GROUP BY g.graph_id, g.stage, g.method, p.op_type
)
SELECT d.stage, d.method, d.op_type, d.nodes, d.unknown,
    CASE WHEN d.nodes = d.with_flops THEN try_cast(d.known_flops AS BIGINT) END AS flops,
    try_cast(d.bytes_read AS BIGINT) AS bytes_read, try_cast(d.bytes_written AS BIGINT) AS bytes_written,
    CASE WHEN d.nodes = d.with_flops THEN d.known_flops / nullif(d.bytes_read + d.bytes_written, 0) END AS intensity,
    CASE
        WHEN d.nodes = d.with_flops THEN 100 * d.known_flops::DOUBLE / nullif(
            sum(d.known_flops) OVER (PARTITION BY d.graph_id), 0
        )
    END AS flops_percent,
    d.formula, d.reason
FROM added AS d
ORDER BY d.graph_id, d.known_flops DESC NULLS LAST, d.op_type;
