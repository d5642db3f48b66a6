-- Versions of this file: one row, written when the warehouse is created and
-- when its definitions are replaced.
CREATE TABLE warehouse (
    schema_version INTEGER NOT NULL,  -- version of the base tables; etq refuses other versions
    sql_sha256 VARCHAR NOT NULL,  -- hash of the view and macro definitions that the file holds
    etq_version VARCHAR NOT NULL,  -- version of etq that wrote the two before
    created_at TIMESTAMP NOT NULL  -- when the warehouse was made, in UTC
);

-- One profiling file. The same content is the same capture, whatever its name.
CREATE TABLE captures (
    capture_id INTEGER NOT NULL,  -- key of the capture in this warehouse; ascending in the order of ingest, without gaps but where captures were removed; merging warehouses renumbers
    sha256 VARCHAR NOT NULL,  -- SHA-256 of the file's bytes: the identity of a capture
    name VARCHAR NOT NULL,  -- unique name to ask by; the file's stem unless given
    format VARCHAR NOT NULL,  -- what kind of file: etdump, torch_trace (of PyTorch's profiler), prof_result (of ExecuTorch's profiler before ETDump), or reference (no file: what `etq reference` ran)
    uri VARCHAR NOT NULL,  -- where the file was when it was read
    byte_size BIGINT NOT NULL,  -- size of the file in bytes
    captured_at TIMESTAMP,  -- when it was measured, in UTC, as the user said; NULL where unknown (files don't say)
    ingested_at TIMESTAMP NOT NULL,  -- when it was read, in UTC; where the clock went back, just behind the last one before
    time_scale VARCHAR NOT NULL,  -- what one tick is: ns, us, ms, s or cycles; ns unless given
    clock_bits INTEGER,  -- width of the clock's counter: 32 where given or evident from a wraparound, else 64
    record_id INTEGER,  -- the ETRecord of its program, in `records`; NULL where none is linked
    program_id INTEGER,  -- the program that ran, in `programs`; NULL where none is linked
    profiling_level VARCHAR,  -- all, method_only (no events per operator), debug (values logged); NULL where nothing was executed
    etq_version VARCHAR NOT NULL  -- version of etq that read it
);

-- One key=value that tells captures apart: model, device, build, ...
CREATE TABLE labels (
    capture_id INTEGER NOT NULL,  -- the capture
    key VARCHAR NOT NULL,  -- what the label is about; unique within a capture
    value VARCHAR NOT NULL  -- its value, as text
);

-- One number beside a capture's events: what it was measured to do (tokens a
-- second, milliseconds to load) or under what conditions (temperature, clock).
CREATE TABLE metrics (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER,  -- the run it is about, in `runs`; NULL for the capture as a whole
    name VARCHAR NOT NULL,  -- what was measured, as in `known_metrics` where it is known
    value DOUBLE NOT NULL,  -- the number, in its unit
    unit VARCHAR,  -- what it counts, as text: ms, tokens/s, degC; NULL where unknown
    better VARCHAR,  -- which way is better: lower, higher; NULL for conditions and where unknown
    sample INTEGER NOT NULL,  -- position among the values of that name and run from the same source, from 0
    source VARCHAR  -- SHA-256 of the file it was read from; NULL where it was said by hand
);

-- One thing about a file that its reader should know: several dumps in one
-- file, bytes that belong to none, a clock that wrapped, impossible times,
-- iterations that differ.
CREATE TABLE findings (
    capture_id INTEGER NOT NULL,  -- the capture
    rule VARCHAR NOT NULL,  -- what kind of finding
    detail VARCHAR NOT NULL  -- what was found, where and how often
);
