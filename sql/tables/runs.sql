-- One run: what a runtime logged as one block (a RunData of an ETDump, a block
-- of a prof_result), be it the loading of a method or one inference.
CREATE TABLE runs (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- position in the file, from 0, counted through all of its dumps
    dump_index INTEGER NOT NULL,  -- which of the file's dumps, from 0
    name VARCHAR NOT NULL,  -- the block's name: Default (loading), Execute, Step, or what the user called it
    method VARCHAR,  -- the method that ran, inferred from the linked record or program; NULL where that can't be told
    method_score DOUBLE,  -- share of the run's distinct operators that fit the method; NULL without a record or program, or without operators
    bundled_input_index INTEGER,  -- which bundled input was run; NULL where none is named
    block_index INTEGER NOT NULL,  -- the event block: runs of one name that logged the same events in the same order
    block_run INTEGER NOT NULL,  -- position among the runs of its block, from 0
    iteration INTEGER NOT NULL,  -- position among the runs of its name, from 0: the step that schedules count
    phase VARCHAR,  -- what the run was for: load, prefill, decode, other; NULL where nobody said, as files don't
    scope VARCHAR,  -- what its ops are told apart by: the method; where that is not known, the name of the run, numbered where runs of one name ran several programs; written when the capture is ingested or linked
    is_typical BOOLEAN DEFAULT true  -- whether its executes took about as long as those of most runs of its block, see `typical_runs`; true where too few runs tell, and without an execute
);
