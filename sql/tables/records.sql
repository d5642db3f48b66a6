-- One ETRecord: the file that the export step wrote for a program. Any number of captures may belong to it.
CREATE TABLE records (
    record_id INTEGER NOT NULL,  -- key of the record in this warehouse; without gaps, in the order of ingest
    sha256 VARCHAR NOT NULL,  -- SHA-256 of the file's bytes: the identity of a record
    name VARCHAR NOT NULL,  -- unique name; by default the file's stem
    uri VARCHAR NOT NULL,  -- path of the file relative to the folder of the ingest; only its name if it was elsewhere
    size_bytes BIGINT NOT NULL,  -- size of the file in bytes
    ingested_at TIMESTAMP NOT NULL,  -- when it was read, in UTC
    export_graph_id VARCHAR,  -- id of the exported graph, to which the edge nodes' origins refer; NULL if the record has none
    is_complete BOOLEAN NOT NULL,  -- whether it has an edge graph and the maps from instructions to debug handles
    etq_version VARCHAR NOT NULL  -- version of etq that read it
);

-- One member of an ETRecord's zip. Weights and pickles are listed, but not read.
CREATE TABLE record_members (
    record_id INTEGER NOT NULL,  -- the record
    member_index INTEGER NOT NULL,  -- position in the zip, from 0
    name VARCHAR NOT NULL,  -- the member's name
    kind VARCHAR NOT NULL,  -- identifier, graph, map, weights (torch's own zips), pickle, other
    size_bytes BIGINT NOT NULL  -- its size in bytes
);

-- One finding about an ETRecord, for example that parts are missing, or that no node has a debug handle.
CREATE TABLE record_findings (
    record_id INTEGER NOT NULL,  -- the record
    rule VARCHAR NOT NULL,  -- kind of the finding
    detail VARCHAR NOT NULL  -- what was found, where and how often
);

-- One program in an ETRecord: a method at a stage of its lowering.
CREATE TABLE graphs (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- key within the record, from 0, in the order of the zip
    stage VARCHAR NOT NULL,  -- exported_program (ATen ops), edge_dialect_exported_program, or a name given by the user
    method VARCHAR NOT NULL,  -- the method's name
    member VARCHAR NOT NULL,  -- member of the zip that contains it
    dialect VARCHAR  -- ATEN or EDGE, as in the program; NULL if there is none
);

-- One node of a graph: the call of an op. Nodes of nested graphs (of cond, map) follow the node that calls them.
CREATE TABLE op_nodes (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- the graph
    node_index INTEGER NOT NULL,  -- position in the graph, from 0, nested graphs included
    subgraph VARCHAR NOT NULL,  -- names of the nested graphs that contain it, joined by /; empty at the top
    name VARCHAR,  -- name of the node; if none is stored, derived from the name of its result or op
    target VARCHAR NOT NULL,  -- what it calls, as written
    op_type VARCHAR NOT NULL,  -- the target without its Python module: aten.addmm.default
    op VARCHAR NOT NULL,  -- the op without namespace and overload, as kernels are named: addmm
    stack_trace VARCHAR,  -- the Python frames that made it, innermost last; NULL where none were kept
    source_file VARCHAR,  -- file of the innermost frame outside of installed packages; NULL without frames
    source_line INTEGER,  -- line of that frame; NULL without frames
    module_path VARCHAR  -- path of the innermost module that contains it; NULL where none was kept
);

-- The operations and bytes of one call of a node, by the sizes, types and literals of its arguments, see `node_costs`.
CREATE TABLE costed_nodes (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- the graph
    node_index INTEGER NOT NULL,  -- the node
    moves VARCHAR,  -- which of its values go through memory, as in `cost_formulas`; NULL if the op is not in `cost_formulas`
    flops BIGINT,  -- its operations; NULL where unknown
    bytes_read BIGINT,  -- bytes of its arguments, each value once; NULL where unknown
    bytes_written BIGINT,  -- bytes of its outputs; NULL where unknown
    formula VARCHAR,  -- how its operations are counted; NULL if the op is not in `cost_formulas`
    reason VARCHAR,  -- why a cost is unknown; NULL if all are known
    input_shapes VARCHAR,  -- sizes of the values that it takes, as text; NULL if there are none
    output_shape VARCHAR  -- sizes of its first output, as text; NULL if there is none
);

-- One value of a graph: an input, or an output of a node.
CREATE TABLE node_values (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- the graph
    node_index INTEGER,  -- the node that produces it; NULL for the graph's inputs
    output_index INTEGER NOT NULL,  -- index of the node's output, or of the graph's input, from 0
    value_name VARCHAR NOT NULL,  -- the value's name; unique in its graph or nested graph
    kind VARCHAR NOT NULL,  -- result, input, parameter, buffer, constant
    dtype VARCHAR,  -- element type by torch's name; NULL if the value is not a tensor
    sizes BIGINT[],  -- sizes by dimension, in elements, with NULL for a symbolic size; NULL if the value is not a tensor
    strides BIGINT[],  -- strides by dimension, in elements, with NULL for a symbolic stride; NULL if the value is not a tensor
    value_index INTEGER NOT NULL,  -- key within the graph, from 0, values of nested graphs included
    bytes BIGINT  -- its bytes in memory; 0 if it is not a tensor; NULL if a size or the type is unknown
);

-- One value that a graph, or a graph nested in it, returns.
CREATE TABLE graph_outputs (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- the graph
    position INTEGER NOT NULL,  -- position among the values that it returns, from 0
    value_index INTEGER NOT NULL,  -- the value, in `node_values`
    kind VARCHAR NOT NULL  -- output, or mutation (the new content of a buffer or an input)
);

-- One value that a node takes as an argument or as part of one; or one argument that is a number, a list of integers, a
-- truth value or a text. Other arguments (dtypes, symbolic numbers, None, nested graphs) have no row, nor do defaults.
CREATE TABLE node_arguments (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- the graph
    node_index INTEGER NOT NULL,  -- the node
    position INTEGER NOT NULL,  -- index of the node's argument, from 0; the values of a list have the same index, and are in the list's order
    argument VARCHAR NOT NULL,  -- name of the argument in the op's signature; empty if it has none
    value_index INTEGER,  -- the value, in `node_values`; NULL for literals
    literal VARCHAR  -- the number, list, truth value or text as JSON, infinities and NaN as texts; NULL for values
);

-- One use of a node's result by another node.
CREATE TABLE op_edges (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- the graph
    from_node INTEGER NOT NULL,  -- node_index of the node that produces the value
    to_node INTEGER NOT NULL,  -- node_index of the node that takes it
    position INTEGER NOT NULL  -- index among the values that it takes, from 0
);

-- One level of the module hierarchy that contains a node, outermost first.
CREATE TABLE node_modules (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- the graph
    node_index INTEGER NOT NULL,  -- the node
    depth INTEGER NOT NULL,  -- level, from 0 for the model itself
    module_key VARCHAR NOT NULL,  -- key as torch.export writes it: L__self__act@1
    module_path VARCHAR NOT NULL,  -- path within the model; empty for the model itself
    module_class VARCHAR NOT NULL,  -- class of the module, with the name of its Python module
    call_number INTEGER NOT NULL  -- index of the call of the module, from 0
);

-- One debug handle of a node, by which instructions of the program refer to it. Exported (ATen) nodes have the handles
-- of the edge nodes that were made from them.
CREATE TABLE node_debug_handles (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- the graph
    node_index INTEGER NOT NULL,  -- the node
    debug_handle INTEGER NOT NULL  -- the handle
);

-- One debug handle of an instruction.
CREATE TABLE debug_handles (
    record_id INTEGER NOT NULL,  -- the record
    method VARCHAR NOT NULL,  -- the method
    instruction_id INTEGER NOT NULL,  -- the instruction
    position INTEGER NOT NULL,  -- position in the instruction's list, from 0
    debug_handle INTEGER NOT NULL  -- the handle; may occur more than once
);

-- One call of a delegate by a program.
CREATE TABLE delegates (
    record_id INTEGER NOT NULL,  -- the record
    method VARCHAR NOT NULL,  -- the method
    instruction_id INTEGER NOT NULL,  -- the instruction that calls it
    backend VARCHAR NOT NULL,  -- the backend's name
    outputs INTEGER,  -- number of its outputs, which are its last arguments; NULL if the record lacks the number
    is_mapped BOOLEAN NOT NULL  -- whether the backend wrote a map from its events to ops
);

-- One debug handle of an event within a delegate.
CREATE TABLE delegate_debug_handles (
    record_id INTEGER NOT NULL,  -- the record
    method VARCHAR NOT NULL,  -- the method
    instruction_id INTEGER NOT NULL,  -- the instruction that calls the delegate
    delegate_debug_id VARCHAR NOT NULL,  -- the event's id as text; the backend may write a number or a text
    id_index INTEGER NOT NULL,  -- position of the id among the ids of the instruction, from 0
    position INTEGER NOT NULL,  -- position in the id's list, from 0
    debug_handle INTEGER NOT NULL  -- the handle
);

-- One node that has a debug handle of a delegate's call, and the call that runs it: by the record alone. Nodes of one
-- decomposed op share a handle, and a delegate may have taken only some of them. Computed when the record is stored.
CREATE TABLE delegated_nodes (
    record_id INTEGER NOT NULL,  -- the record
    graph_id INTEGER NOT NULL,  -- the graph, of the edge program
    node_index INTEGER NOT NULL,  -- the node
    debug_handle INTEGER NOT NULL,  -- the handle
    instruction_id INTEGER,  -- the instruction that calls the delegate that runs it; NULL if a kernel or nothing runs it
    backend VARCHAR,  -- backend of that delegate; NULL if a kernel or nothing runs it
    basis VARCHAR NOT NULL  -- by what this is known, as in `delegation`
);

-- The method that an event block of a linked capture ran, as in `block_methods`, computed when the capture is linked to
-- its record or program.
CREATE TABLE linked_methods (
    capture_id INTEGER NOT NULL,  -- the capture
    block_index INTEGER NOT NULL,  -- the event block
    method VARCHAR,  -- the method; NULL if less than half of the operators fit, or two methods fit equally well
    score DOUBLE NOT NULL,  -- share of the block's distinct kernels and delegate calls that fit the best method
    candidates VARCHAR NOT NULL  -- the methods that fit equally well, as text
);

-- One node that an event of a linked capture belongs to, as in `event_nodes`, computed when the capture is linked to
-- its record.
CREATE TABLE signature_nodes (
    capture_id INTEGER NOT NULL,  -- the capture
    signature_index INTEGER NOT NULL,  -- the event, in `signatures`
    position INTEGER NOT NULL,  -- position of the node among the event's nodes, from 0
    debug_handle INTEGER NOT NULL,  -- debug handle by which the event refers to the node
    graph_id INTEGER NOT NULL,  -- the graph of the capture's record
    node_index INTEGER NOT NULL,  -- the node in it
    is_own BOOLEAN NOT NULL,  -- whether the event's kernel, or the call of the event's delegate, runs the node; true for all nodes of an event if the event runs none of them
    mapping VARCHAR NOT NULL,  -- exact, by the record's maps; aligned, by order and class within a delegate
    score DOUBLE NOT NULL  -- for an aligned event, the share of its call's events that have a node, without changes of layout and type; 1 for exact
);

-- The same node, by the record, and by the kernels that a linked capture and its program ran. Computed when the capture
-- is linked to its record or program.
CREATE TABLE placed_nodes (
    capture_id INTEGER NOT NULL,  -- the capture
    graph_id INTEGER NOT NULL,  -- the graph of the capture's record
    node_index INTEGER NOT NULL,  -- the node
    debug_handle INTEGER NOT NULL,  -- the handle
    instruction_id INTEGER,  -- the instruction that calls the delegate that runs it; NULL if a kernel or nothing runs it
    backend VARCHAR,  -- backend of that delegate; NULL if a kernel or nothing runs it
    basis VARCHAR NOT NULL  -- by what this is known, as in `delegation`
);

-- The op of a delegate's own graph that an event of a linked capture runs, as in `delegate_graph`, computed when the
-- capture is linked to its program. Events and ops are aligned by kind and order. An event only has a row if every way
-- to align its call gives it the same op.
CREATE TABLE signature_delegate_ops (
    capture_id INTEGER NOT NULL,  -- the capture
    signature_index INTEGER NOT NULL,  -- the event, in `signatures`
    op_index INTEGER NOT NULL,  -- the op, in `delegate_ops`, of the blob of the event's call
    score DOUBLE NOT NULL  -- share of the call's events that have an op
);

-- The ops, module and line of an event that belongs to an instruction, for a linked capture, as in `event_ops`.
-- Computed when the capture is linked.
CREATE TABLE signature_ops (
    capture_id INTEGER NOT NULL,  -- the capture
    signature_index INTEGER NOT NULL,  -- the event, in `signatures`
    method VARCHAR NOT NULL,  -- the method that its block ran
    debug_handles INTEGER[],  -- its debug handles, in order, with repeats; NULL if there is none
    op_types VARCHAR[] NOT NULL,  -- op types of the nodes of these handles, in the order of the handles; empty if no handle has a node
    op_type VARCHAR,  -- op type of the nodes that it runs itself; NULL if it runs none, or nodes of several op types
    first_op_type VARCHAR,  -- op type of the first node that it runs itself; NULL if it runs none
    output_shape VARCHAR,  -- sizes of that node's first output, as text; NULL if unknown
    module_path VARCHAR,  -- deepest module that contains all nodes that the event runs itself; for a delegate's event without nodes, that contains all nodes of its call; NULL where unknown
    source_file VARCHAR,  -- file of the user's line; NULL if the event comes from several lines or none
    source_line INTEGER,  -- line in that file; NULL if the event comes from several lines or none
    lines INTEGER NOT NULL,  -- number of lines of the nodes that it runs itself; if it runs none, of the nodes of its call
    mapping VARCHAR,  -- exact; aligned (within a delegate); call, if module and line are those of its delegate's call; NULL for other events without nodes
    backend VARCHAR  -- backend of its delegate; NULL if no delegate ran it
);

-- The nodes whose costs an event of a linked capture has, and their costs as a set: for a kernel, the one node of its op;
-- for a delegate's call and its events, all nodes that they run. If several kernels of one op share a debug handle that
-- has as many nodes of this op, the nodes are assigned to the kernels in order. Computed when the capture is linked.
CREATE TABLE signature_costs (
    capture_id INTEGER NOT NULL,  -- the capture
    signature_index INTEGER NOT NULL,  -- the event, in `signatures`
    graph_id INTEGER NOT NULL,  -- the graph of the capture's record
    nodes INTEGER[] NOT NULL,  -- the nodes in it
    is_one_of BOOLEAN NOT NULL,  -- whether the event runs an unknown one of the nodes
    flops BIGINT,  -- operations of all nodes; NULL where unknown
    bytes BIGINT,  -- bytes that come from outside of the set, and that are used outside or not at all; NULL where unknown
    unknown INTEGER,  -- number of nodes with an unknown cost
    reason VARCHAR,  -- why the cost of the first such node is unknown; NULL if all are known
    op_types VARCHAR,  -- op types of the nodes, separated by spaces
    module_path VARCHAR  -- module of the nodes; NULL if there are several, or where none was kept
);

-- The match between an output of an event, in a linked capture, and a result of an op. If the match is unknown, the row
-- only has the op, and `problem` says why. Computed when a capture that logged values is linked to its record, or when
-- a reference is stored.
CREATE TABLE signature_outputs (
    capture_id INTEGER NOT NULL,  -- the capture
    signature_index INTEGER NOT NULL,  -- the event, in `signatures`; of a reference, its event_index in `debug_values`
    position INTEGER,  -- position among the outputs of the event, from 0; NULL with a problem, except for a reference
    debug_handle INTEGER NOT NULL,  -- debug handle of the op
    result_index INTEGER,  -- index of the op's output, from 0; NULL with a problem
    sizes BIGINT[],  -- sizes of the node's value that is the output, with NULL for a symbolic size; NULL where unknown
    result_sizes BIGINT[],  -- sizes of the op's output, which has the same elements in the same order; NULL where unknown
    mapping VARCHAR,  -- exact, by the record's maps and graph; inferred, if maps and graph allow several answers; NULL with a problem
    problem VARCHAR  -- why it is unknown which output is the op's; NULL if it is known
);
