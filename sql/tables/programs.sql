-- One ExecuTorch program (.pte). The same content is the same program, whatever its name.
CREATE TABLE programs (
    program_id INTEGER NOT NULL,  -- key of the program in this warehouse; without gaps, in the order of ingest
    sha256 VARCHAR NOT NULL,  -- SHA-256 of the file's bytes: the identity of a program
    name VARCHAR NOT NULL,  -- unique name; by default the file's stem
    uri VARCHAR NOT NULL,  -- path of the file relative to the folder of the ingest; only its name if it was elsewhere
    size_bytes BIGINT NOT NULL,  -- size of the file in bytes
    ingested_at TIMESTAMP NOT NULL,  -- when it was read, in UTC
    version BIGINT NOT NULL,  -- version of the schema, as written in the file
    flatbuffer_bytes BIGINT NOT NULL,  -- size of the part before the segments, with the header, in bytes
    segment_bytes BIGINT,  -- size of the segments with the gaps between them, from the header; NULL without a header, or if the header lacks the size
    etq_version VARCHAR NOT NULL  -- version of etq that read it
);

-- One method of a program (an ExecutionPlan), which a runtime loads and runs.
CREATE TABLE methods (
    program_id INTEGER NOT NULL,  -- the program
    method_index INTEGER NOT NULL,  -- position in the program
    method VARCHAR NOT NULL,  -- its name, unique in a program
    inputs INTEGER[] NOT NULL,  -- indexes of the values that are its inputs, in order
    outputs INTEGER[] NOT NULL  -- indexes of the values that are its outputs, in order
);
