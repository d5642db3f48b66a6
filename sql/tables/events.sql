-- One kind of event within an event block: what its occurrences in all runs of
-- the block have in common. Events refer to it, so that names stand once.
CREATE TABLE signatures (
    capture_id INTEGER NOT NULL,  -- the capture
    signature_index INTEGER NOT NULL,  -- key within the capture, from 0
    block_index INTEGER NOT NULL,  -- the event block
    slot INTEGER NOT NULL,  -- position in the block's list of distinct events, from 0, in the Inspector's order
    kind VARCHAR NOT NULL,  -- framework, user, operator_call, kernel, delegate_call, delegate, control; debug: only values were logged
    name VARCHAR,  -- name in the file; NULL for the events of a delegate
    category VARCHAR,  -- category of a trace's event: cpu_op, python_function, kernel, ...; NULL for other formats
    label VARCHAR NOT NULL,  -- what to call it: the delegate's id where it has one, else the name
    family VARCHAR NOT NULL,  -- label without serial numbers, dispatch ids and wrappers: native_call_add.out is add
    chain_index BIGINT NOT NULL,  -- chain of instructions; -1 belongs to no instruction
    instruction_id INTEGER,  -- instruction within the chain; NULL where none is named
    delegate_debug_id INTEGER,  -- integer id within the delegate; NULL where it has none
    delegate_debug_str VARCHAR,  -- text id within the delegate; NULL where it has none
    value_unit VARCHAR,  -- what durations count: ticks (of the capture's time_scale), us, cycles, bytes, count, unknown; NULL for debug
    clock VARCHAR NOT NULL  -- host; delegate: a clock of the delegate's own; synthetic: a bare value, start is always 0
);

-- One timed event, as narrow as can be: the view `events` has it whole. Rows
-- lie sorted by capture_id, run_index and event_index.
CREATE TABLE event_ticks (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- position in the run's list of events of every kind, from 0; events of an ETDump are logged when they end, of a prof_result when they begin
    signature_index INTEGER NOT NULL,  -- what event it is: see `signatures`
    occurrence INTEGER NOT NULL,  -- how many of the same slot came before it in its run
    parent_index INTEGER,  -- event_index of the event that contains it; NULL where none does
    parent_run_index INTEGER,  -- that event's run where it is another one, as of what called a trace's steps; NULL where it is the same
    execute_index INTEGER,  -- event_index of the Method::execute (or else Method::step) it belongs to, itself included; NULL outside
    start_ticks BIGINT NOT NULL,  -- clock at the start; 2**63 and more, which no clock reaches, as negative
    elapsed_ticks BIGINT NOT NULL,  -- end - start as written: negative where the clock wrapped or the times are impossible
    delegate_metadata BLOB,  -- what the delegate logged beside it; NULL where nothing or nothing but an empty text
    is_detached BOOLEAN NOT NULL  -- whether it is not counted within the event that contains it: of a delegate's, those of its call start before the call, end after it or together take longer; of others, that event takes less time than all it contains, or is itself within a detached one
);
