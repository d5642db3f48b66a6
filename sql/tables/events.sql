-- One kind of event within an event block, with the columns that are the same in all runs of the block. Events refer to
-- it, so that names are stored once.
CREATE TABLE signatures (
    capture_id INTEGER NOT NULL,  -- the capture
    signature_index INTEGER NOT NULL,  -- key within the capture, from 0
    block_index INTEGER NOT NULL,  -- the event block
    slot INTEGER NOT NULL,  -- position in the block's list of distinct events, from 0, in the Inspector's order
    kind VARCHAR NOT NULL,  -- framework, user, operator_call, kernel, delegate_call, delegate, control; debug: only values were logged
    name VARCHAR,  -- name in the file; NULL for the events of a delegate
    category VARCHAR,  -- category of a trace's event: cpu_op, python_function, kernel, ...; NULL for other formats
    label VARCHAR NOT NULL,  -- display name: the delegate's id if it has one, else the name
    family VARCHAR NOT NULL,  -- label without serial numbers, dispatch ids and wrappers: native_call_add.out is add
    chain_index BIGINT NOT NULL,  -- chain of instructions; -1 belongs to no instruction
    instruction_id INTEGER,  -- instruction within the chain; NULL where none is named
    delegate_debug_id INTEGER,  -- integer id within the delegate; NULL if there is none
    delegate_debug_str VARCHAR,  -- text id within the delegate; NULL if there is none
    value_unit VARCHAR,  -- unit of durations: ticks (of the capture's time_scale), us, cycles, bytes, count, unknown; NULL for debug
    clock VARCHAR NOT NULL,  -- host; delegate (the delegate's clock); synthetic (a bare value, whose start is always 0)
    kernel_family VARCHAR,  -- what a kernel of a trace computes, by its name, for GEMM and unknown names also by the op that launched it: GEMM, convolution, attention, MoE, normalization, softmax, reduction, elementwise, embedding (and other gathers and scatters), copy (and changes of layout), optimizer, communication, other; NULL for an unknown name whose op does not determine it, and for other events
    uses_matrix_units BOOLEAN,  -- whether a kernel of a trace uses tensor cores, or other vendors' matrix units, by its name; NULL if neither its name nor its op determines it, and for other events
    activity VARCHAR,  -- what a trace's event is, by its category: kernel, copy, fill (work of a device); device_wait, device_annotation, counter_range (about a device); call (of a runtime or driver), op, step, annotation, module, python (code of older layouts), python_function, other; NULL for other formats
    on_device BOOLEAN,  -- whether a trace's event is of a device or about one, and so in no thread of the host; NULL for other formats
    purpose VARCHAR,  -- purpose of a host event of a trace, by its name; of calls: launch, copy (or fill), synchronization, stream_wait (a stream waits for an event), event_record, allocation, free, pinned_memory (allocation, release, registration), module_load (kernels), graph_instantiation (and capture), creation (of streams, events, contexts), query; of others: communication, collective (an op that calls a backend of communication), data_loading, module (Lightning's annotations), library (functions of Python that are not the user's own code); of torch.compile at work: dynamo, aot_autograd, inductor, autotuning, compilation (part unknown); also graph_capture, denoising (annotations of diffusion models around their steps), profiler (its own events); NULL where nothing is known
    waits BOOLEAN,  -- whether a call of a runtime or driver returns only when work of a device has ended; NULL for an unknown call, and for other events
    call_cause VARCHAR  -- why the host waits in a call of a runtime or driver: synchronization for a copy that waits, else its purpose, or call if that is unknown; NULL for calls that belong to launching (launch, copy, stream_wait, event_record, query), and for other events
);

-- One timed event, with the fewest possible columns: the view `events` has all. Rows are sorted by capture_id,
-- run_index and event_index.
CREATE TABLE event_ticks (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- position in the run's list of events of every kind, from 0; events of an ETDump are logged when they end, of a prof_result when they begin
    signature_index INTEGER NOT NULL,  -- the event's signature, in `signatures`
    occurrence INTEGER NOT NULL,  -- number of earlier events of the same slot in its run
    parent_index INTEGER,  -- event_index of the event that contains it; NULL if none does
    parent_run_index INTEGER,  -- run of the event that contains it, if that is another run, as for the callers of a trace's steps; NULL if it is the same run
    execute_index INTEGER,  -- event_index of the Method::execute (or else Method::step) that contains it, or its own if it is one; NULL outside of executes
    start_ticks BIGINT NOT NULL,  -- clock at the start; values of 2**63 and more, which no clock reaches, are negative
    elapsed_ticks BIGINT NOT NULL,  -- end minus start as written: negative if the clock wrapped or the times are impossible
    delegate_metadata BLOB,  -- metadata that the delegate logged with it; NULL if there is none, or an empty text
    is_detached BOOLEAN NOT NULL,  -- whether it does not count as part of the event that contains it. Detached are: a delegate's event that is on another clock, or whose call has no breakdown, because events of the call start before it, end after it or are longer in sum; any other event, if its parent is shorter than the sum of the events in the parent; any event within a detached event
    overlap_ticks BIGINT,  -- in a trace, the time before its end that does not count as its own: the time of later events of its thread that it does not contain, and time after the end of the event that contains it; NULL if there is none
    unwrapped_ticks BIGINT,  -- its duration if a 32-bit clock wrapped before its end; otherwise NULL, and elapsed_ticks is the duration, or negative if the times are impossible
    children INTEGER NOT NULL,  -- number of events directly within it that count, which are in ticks of the host's clock and not detached
    self_ticks BIGINT NOT NULL,  -- self time: its duration minus that of its children and minus the time of other events of its thread; 0 if its times are impossible
    torch_self_ticks BIGINT,  -- self time by torch's formula: its duration minus the sum of its children's durations; NULL if equal to self_ticks
    is_additive BOOLEAN NOT NULL,  -- whether its self time counts in totals: true for executes, and for events in ticks of the host's clock that are not detached
    is_execute BOOLEAN NOT NULL  -- whether an execute begins with it: it is a Method::execute, or the first Method::step of a run that is driven step by step
);
