-- One delegate of a method: a part of the model that a backend runs.
CREATE TABLE program_delegates (
    program_id INTEGER NOT NULL,  -- the program
    method VARCHAR NOT NULL,  -- the method
    delegate_index INTEGER NOT NULL,  -- position in the method, to which instructions refer
    backend VARCHAR NOT NULL,  -- name of the backend
    location VARCHAR NOT NULL,  -- location of its blob: inline (in the FlatBuffers part) or segment
    data_index BIGINT NOT NULL,  -- index of the inline blob, or of the segment
    byte_offset BIGINT NOT NULL,  -- offset of the blob's first byte in the file; delegates may share a blob
    blob_bytes BIGINT NOT NULL  -- size of the blob in bytes
);

-- The data of one constant, which tensors of all methods may share.
CREATE TABLE constant_buffers (
    program_id INTEGER NOT NULL,  -- the program
    constant_index INTEGER NOT NULL,  -- the constant_index of its values; 0 is reserved
    location VARCHAR NOT NULL,  -- inline (in the FlatBuffers part) or segment
    byte_offset BIGINT,  -- offset of its first byte in the file; NULL if there is none
    size_bytes BIGINT NOT NULL  -- its size in bytes; in a segment, this includes the gap after it
);

-- One segment: data after the FlatBuffers part.
CREATE TABLE segments (
    program_id INTEGER NOT NULL,  -- the program
    segment_index INTEGER NOT NULL,  -- position in the file
    content VARCHAR NOT NULL,  -- constants, mutable (initial values of tensors that change), delegate, named (data under a key) or other
    byte_offset BIGINT NOT NULL,  -- offset of its first byte in the file
    size_bytes BIGINT NOT NULL  -- its size in bytes
);

-- One key of data in a segment, by which a backend finds it.
CREATE TABLE named_data (
    program_id INTEGER NOT NULL,  -- the program
    key VARCHAR NOT NULL,  -- the key
    segment_index INTEGER NOT NULL  -- the segment with the data
);

-- One op of the graph in a delegate's blob. XNNPACK's and Vulkan's blobs are read.
CREATE TABLE delegate_ops (
    program_id INTEGER NOT NULL,  -- the program
    blob_offset BIGINT NOT NULL,  -- the blob, by its byte_offset in `program_delegates`
    op_index INTEGER NOT NULL,  -- position in the graph
    op VARCHAR NOT NULL,  -- the backend's name of the op, like Conv2d or aten.linear.default
    debug_handle INTEGER,  -- debug handle of the edge nodes from which it was made; NULL for ops that were made from none, such as changes of layout, and for Vulkan, whose handles are not those of edge nodes
    inputs BIGINT[] NOT NULL,  -- ids of the values that it takes: data, then weights and bias if it has any
    outputs BIGINT[] NOT NULL,  -- ids of the values that it produces
    parameters VARCHAR NOT NULL  -- its other fields as a JSON object; keys of Vulkan's are positions among the arguments, from 0; infinities and NaN are texts
);

-- One value of the graph in a delegate's blob.
CREATE TABLE delegate_values (
    program_id INTEGER NOT NULL,  -- the program
    blob_offset BIGINT NOT NULL,  -- the blob, by its byte_offset in `program_delegates`
    value_id BIGINT NOT NULL,  -- id of the value, unique in the graph
    dtype VARCHAR NOT NULL,  -- the backend's name of the element type, like fp32, qcint8 or float32
    sizes BIGINT[] NOT NULL,  -- sizes by dimension, in elements, in the layout of the delegate
    is_constant BOOLEAN NOT NULL,  -- whether it is a weight or another constant
    is_input BOOLEAN NOT NULL,  -- whether it is an input of the delegate
    is_output BOOLEAN NOT NULL  -- whether it is an output of the delegate
);
