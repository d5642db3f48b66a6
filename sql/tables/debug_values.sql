-- One value that a runtime logged: an operator's output, an argument of a delegate call, an output of the program. A
-- list of tensors has a row for each tensor.
CREATE TABLE debug_values (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- position in the run's list of events of every kind, from 0
    value_index INTEGER NOT NULL,  -- position in the list that was logged; 0 for values outside of lists
    chain_index BIGINT NOT NULL,  -- chain of instructions; -1 belongs to no instruction
    instruction_id INTEGER,  -- instruction that produced it; NULL where none is named
    delegate_debug_id INTEGER,  -- integer id within the delegate; NULL if there is none
    delegate_debug_str VARCHAR,  -- text id within the delegate; NULL if there is none
    name VARCHAR,  -- name in the file; NULL if there is none, as with runtime 1.4.1
    is_output BOOLEAN NOT NULL,  -- whether the runtime marked it as an output of the program (tensors only)
    kind VARCHAR NOT NULL,  -- null, int, bool, float, double, tensor, tensor_list, string
    scalar_type VARCHAR,  -- element type of a tensor, by torch's name; NULL for other kinds
    sizes BIGINT[],  -- sizes of a tensor by dimension, in elements; NULL for other kinds
    strides BIGINT[],  -- strides of a tensor by dimension, in elements; NULL for other kinds
    byte_offset BIGINT,  -- offset of its first byte in the debug buffer; NULL for other kinds
    number DOUBLE,  -- value of an int, bool, float or double; NULL for other kinds
    min DOUBLE,  -- smallest finite element of a tensor; NULL, like the columns below, if the tensor's bytes are unknown, and for other kinds
    max DOUBLE,  -- largest finite element
    mean DOUBLE,  -- arithmetic mean of the finite elements
    nan_count BIGINT,  -- number of elements that are NaN
    inf_count BIGINT,  -- number of elements that are infinite
    sha256 VARCHAR,  -- SHA-256 of the tensor's bytes in row-major order, bfloat16 and float8 as float32
    elements DOUBLE[]  -- the elements in row-major order, complex ones as two; NULL unless keeping them was requested
);

-- The value of an output of an op of a capture that is linked to its record, as `numeric_gap` compares it. The nodes of an
-- op share a debug handle. Computed when a capture that logged values is linked to its record, or when a reference is
-- stored.
CREATE TABLE op_values (
    capture_id INTEGER NOT NULL,  -- the capture
    method VARCHAR,  -- the method that the run ran
    debug_handle INTEGER NOT NULL,  -- debug handle of the op
    output_index INTEGER NOT NULL,  -- index of the op's output, from 0
    debug_handles INTEGER[],  -- debug handles of the event that produced it
    op_name VARCHAR,  -- label of that event, or the value's name in the file
    run_index INTEGER NOT NULL,  -- the run, with which event_index and value_index name a row of `debug_values`
    event_index INTEGER NOT NULL,  -- position in the run's list
    value_index INTEGER NOT NULL,  -- position in the list that was logged
    sizes BIGINT[],  -- sizes of the op's output, or, where these are unknown, of the logged tensor
    module_path VARCHAR,  -- module that contains the op; NULL where unknown
    source_file VARCHAR,  -- file of the op's line; NULL where unknown
    source_line INTEGER,  -- line in that file; NULL where unknown
    mapping VARCHAR,  -- as in `signature_outputs`; NULL with a problem
    problem VARCHAR  -- why the op's value is unknown; NULL if it is known
);
