-- The versions of this file, in one row, which is written when the warehouse is created.
CREATE TABLE warehouse (
    schema_version INTEGER NOT NULL,  -- version of the base tables; a version of etq reads only its own
    etq_version VARCHAR NOT NULL,  -- version of etq that made the file, with its copy of the views and macros
    created_at TIMESTAMP NOT NULL  -- when the warehouse was created, in UTC
);

-- One profiling file. The same content is the same capture, whatever its name.
CREATE TABLE captures (
    capture_id INTEGER NOT NULL,  -- key of the capture in this warehouse; ascending in the order of ingest, without gaps except for removed captures; merging warehouses renumbers
    sha256 VARCHAR NOT NULL,  -- SHA-256 of the file's bytes: the identity of a capture
    name VARCHAR NOT NULL,  -- unique name; by default the file's stem
    format VARCHAR NOT NULL,  -- format of the file: etdump, torch_trace (of PyTorch's profiler), prof_result (of ExecuTorch's profiler before ETDump), or reference (no file: values computed by `etq ingest --reference`)
    uri VARCHAR NOT NULL,  -- path of the file relative to the folder of the ingest; only its name if it was elsewhere
    size_bytes BIGINT NOT NULL,  -- size of the file in bytes
    captured_at TIMESTAMP,  -- when it was measured, in UTC: as given by the user, or else, for a PyTorch trace, when its recording began; NULL where unknown
    ingested_at TIMESTAMP NOT NULL,  -- when it was read, in UTC; if the clock went back, just after the previous capture
    time_scale VARCHAR NOT NULL,  -- unit of one tick: ns, us, ms, s or cycles; ns unless given
    clock_bits INTEGER,  -- width of the clock's counter: 32 if given or evident from a wraparound, else 64
    record_id INTEGER,  -- the ETRecord of its program, in `records`; NULL if none is linked
    program_id INTEGER,  -- the program that ran, in `programs`; NULL if none is linked
    assumed VARCHAR,  -- for a trace, sizes that its file lacks and that its costs depend on, such as top_k=4,experts=128; NULL if none are given
    profiling_level VARCHAR,  -- all, method_only (no events per operator), debug (values logged); NULL if nothing was executed
    etq_version VARCHAR NOT NULL  -- version of etq that read it
);

-- One label of a capture: a key and value, such as model, device or build.
CREATE TABLE labels (
    capture_id INTEGER NOT NULL,  -- the capture
    key VARCHAR NOT NULL,  -- key of the label; unique within a capture
    value VARCHAR NOT NULL  -- value of the label, as text
);

-- One metric of a capture or run: a result (tokens per second, milliseconds to load) or a condition (temperature,
-- clock).
CREATE TABLE metrics (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER,  -- the run it is about, in `runs`; NULL for the capture as a whole
    name VARCHAR NOT NULL,  -- name of the metric, as in `known_metrics` if it is known
    value DOUBLE NOT NULL,  -- the value, in unit
    unit VARCHAR,  -- unit, as text: ms, tokens/s, degC; NULL where unknown
    better VARCHAR,  -- better direction: lower, higher; NULL for conditions and where unknown
    sample INTEGER NOT NULL,  -- position among the values of that name and run from the same source, from 0
    source VARCHAR  -- SHA-256 of the file it was read from; NULL if attached by hand
);

-- One finding about a file: several dumps in one file, bytes outside of dumps, a clock that wrapped, impossible times,
-- iterations that differ.
CREATE TABLE findings (
    capture_id INTEGER NOT NULL,  -- the capture
    rule VARCHAR NOT NULL,  -- kind of the finding
    detail VARCHAR NOT NULL  -- what was found, where and how often
);
