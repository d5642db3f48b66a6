-- One delegate of a method: a part of the model that a backend runs.
CREATE TABLE program_delegates (
    program_id INTEGER NOT NULL,  -- the program
    method VARCHAR NOT NULL,  -- the method
    delegate_index INTEGER NOT NULL,  -- position in the method, which instructions name
    backend VARCHAR NOT NULL,  -- name of the backend
    location VARCHAR NOT NULL,  -- where its blob is: inline (in the FlatBuffers part) or segment
    data_index BIGINT NOT NULL,  -- which of the inline blobs, or of the segments
    byte_offset BIGINT NOT NULL,  -- first byte of the blob in the file; delegates may share one
    blob_bytes BIGINT NOT NULL  -- size of the blob
);

-- The data of one constant, which tensors of all methods may share.
CREATE TABLE constant_buffers (
    program_id INTEGER NOT NULL,  -- the program
    constant_index INTEGER NOT NULL,  -- the constant_index of its values; 0 is reserved
    location VARCHAR NOT NULL,  -- inline (in the FlatBuffers part) or segment
    byte_offset BIGINT,  -- its first byte in the file; NULL where it has none
    size_bytes BIGINT NOT NULL  -- its size; in a segment with the gap behind it
);

-- One segment: data behind the FlatBuffers part.
CREATE TABLE segments (
    program_id INTEGER NOT NULL,  -- the program
    segment_index INTEGER NOT NULL,  -- position in the file
    content VARCHAR NOT NULL,  -- constants, mutable (first values of tensors that change), delegate, named (data under a key) or other
    byte_offset BIGINT NOT NULL,  -- its first byte in the file
    size_bytes BIGINT NOT NULL  -- its size
);

-- One key of data in a segment, by which a backend finds it.
CREATE TABLE named_data (
    program_id INTEGER NOT NULL,  -- the program
    key VARCHAR NOT NULL,  -- the key
    segment_index INTEGER NOT NULL  -- the segment that it stands for
);
