-- One run: one block that a runtime logged (a RunData of an ETDump, a block of a prof_result), such as the loading of a
-- method or one inference.
CREATE TABLE runs (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- position in the file, from 0, counted through all of its dumps
    dump_index INTEGER NOT NULL,  -- index of the dump in the file, from 0
    name VARCHAR NOT NULL,  -- name of the block: Default (loading), Execute, Step, or a name given by the user; of traces ProfilerStep, ServingStep, Incomplete step (one that doesn't count, see `trace_steps`), Outside of steps or Trace
    method VARCHAR,  -- the method that ran, inferred from the linked record or program; NULL where unknown
    method_score DOUBLE,  -- share of the run's distinct operators that fit the method; NULL without a record or program, or without operators
    bundled_input_index INTEGER,  -- index of the bundled input; NULL where none is named
    block_index INTEGER,  -- the event block: runs of one name that logged the same events in the same order; NULL for a run without a list of events
    block_run INTEGER,  -- position among the runs of its block, from 0; NULL without one
    iteration INTEGER NOT NULL,  -- position among the runs of its name, from 0: the number by which schedules select it
    phase VARCHAR,  -- purpose of the run: load, prefill, decode, mixed, other; for steps of vLLM and SGLang, from their annotations; for other runs, as given by the user, NULL if not given
    scope VARCHAR,  -- scope of its ops: the method; if unknown, the name of the run, numbered if runs of one name ran several programs; written whenever the capture is ingested or linked
    is_typical BOOLEAN DEFAULT true,  -- whether its execute time is within the outer fences of its block, see `typical_runs`; true without an execute, and if there are too few runs
    executes INTEGER,  -- number of executes; NULL if it has no Method::execute (or Method::step), as in traces
    execute_ticks BIGINT,  -- time of its Method::execute (or Method::step) events; NULL, like the times below, if there is no such event or one of these times is impossible
    kernel_ticks BIGINT,  -- self time of the kernels in these events; NULL, like the times below, also if the times of ops or of delegates' calls are impossible, or don't fit into the execute
    delegate_ticks BIGINT,  -- self time of the DELEGATE_CALLs and delegates' events in these events
    operator_ticks BIGINT  -- self time of the OPERATOR_CALLs, in these events, that have no kernel event
);
