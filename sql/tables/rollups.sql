-- What an op of a capture took, run by run, in a few numbers: what questions
-- across captures need, so that they read no events. Written when a capture is
-- ingested, and again when it is linked or its runs get phases. What an op took in
-- a run is all of its calls there; runs where that is beyond 64 bits are left out.
CREATE TABLE op_times (
    capture_id INTEGER NOT NULL,  -- the capture
    op_index INTEGER NOT NULL,  -- position among the ops of the capture, from 1; 0 for the executes, the capture's total
    phase VARCHAR,  -- only runs of this phase; NULL: all runs
    item VARCHAR NOT NULL,  -- what is the same op in other captures, as text: scope, kind, module, op and order among those alike; of the total its scope
    scope VARCHAR NOT NULL,  -- the method that ran; if unknown, the name of its runs
    kind VARCHAR NOT NULL,  -- kernel, delegate, delegate_call, operator_call (without a kernel), user; framework for the total
    label VARCHAR NOT NULL,  -- the event's label
    family VARCHAR NOT NULL,  -- that without serial numbers and wrappers
    chain_index BIGINT NOT NULL,  -- chain of instructions; -1 belongs to no instruction
    instruction_id INTEGER,  -- the instruction; NULL where none is named
    op_type VARCHAR,  -- what its nodes call, by the linked record; NULL where that isn't told
    module_path VARCHAR,  -- the module it stands in, by the linked record; NULL where that isn't told
    place_in_module INTEGER NOT NULL,  -- place among the ops of its scope, module and op_type (or else family), from 1
    place_in_kind INTEGER NOT NULL,  -- place among the ops of its scope, kind and family, from 1
    value_unit VARCHAR NOT NULL,  -- what the numbers below count: ticks of the capture's time_scale, us or cycles
    is_additive BOOLEAN NOT NULL,  -- whether they are in ticks of the host's clock, and within no other op's: they add up to the total
    runs INTEGER NOT NULL,  -- number of runs that have it
    calls BIGINT NOT NULL,  -- number of its calls in them
    total_ticks BIGINT,  -- all of them together; NULL where that is beyond 64 bits
    p25 DOUBLE NOT NULL,  -- 25th percentile over runs
    p50 DOUBLE NOT NULL,  -- median over runs
    p90 DOUBLE NOT NULL,  -- 90th percentile over runs
    resolution BIGINT NOT NULL  -- what at least half of its times are multiples of: 1, 1000 or 1000000
);

-- What a module of a linked capture took with the modules within it, run by
-- run, in a few numbers; written when `op_times` is.
CREATE TABLE module_times (
    capture_id INTEGER NOT NULL,  -- the capture
    phase VARCHAR,  -- only runs of this phase; NULL: all runs
    scope VARCHAR NOT NULL,  -- the method that ran; if unknown, the name of its runs
    module_path VARCHAR NOT NULL,  -- the module; empty for the model itself
    runs INTEGER NOT NULL,  -- number of runs that have it
    total_ticks BIGINT,  -- all of its time together; NULL where that is beyond 64 bits
    p25 DOUBLE NOT NULL,  -- 25th percentile over runs
    p50 DOUBLE NOT NULL,  -- median over runs
    p90 DOUBLE NOT NULL  -- 90th percentile over runs
);

-- What tells whether captures have the same ops, a row for each that has
-- `op_times`; written when these are.
CREATE TABLE capture_ops (
    capture_id INTEGER NOT NULL,  -- the capture
    scope VARCHAR,  -- the scope of all its ops; NULL where these are of several
    is_method BOOLEAN NOT NULL,  -- whether any scope is a method that a record tells, not only the name of runs
    ops_hash VARCHAR NOT NULL  -- MD5 of the kinds, labels and instructions of its ops in their order, and of the scopes, where they are of several
);
