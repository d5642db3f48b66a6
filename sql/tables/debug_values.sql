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
