-- One thread of a trace: a thread of a process, or a stream of a device.
CREATE TABLE threads (
    capture_id INTEGER NOT NULL,  -- the capture
    thread_index INTEGER NOT NULL,  -- key within the capture, from 0
    process VARCHAR NOT NULL,  -- the process as in the file: a number, or a text such as `Spans`
    thread VARCHAR NOT NULL,  -- the thread as in the file: a number, or a text such as `stream 7`
    process_name VARCHAR,  -- name of the process; NULL where the file has none
    thread_name VARCHAR  -- name of the thread; NULL where the file has none
);

-- The columns that only events of a trace have, one row for each event. The row also has times that views of traces
-- need, so that these views read no other table of events.
CREATE TABLE trace_events (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run: a profiler step
    event_index INTEGER NOT NULL,  -- position of the event in the file's list; higher numbers are events from traces of a graph's capture, in which the graph's kernels were recorded
    event_signature INTEGER NOT NULL,  -- its signature
    thread_index INTEGER NOT NULL,  -- the thread, in `threads`
    start_ticks BIGINT NOT NULL,  -- its start
    elapsed_ticks BIGINT NOT NULL,  -- its end minus its start as written
    overlap_ticks BIGINT,  -- as in `event_ticks`
    parent_index INTEGER,  -- the event that contains it; NULL if none does
    covers_own BOOLEAN NOT NULL,  -- whether a later event of its family and thread begins before this event ends; of events that begin together, the longest counts as the first
    external_id BIGINT,  -- id that an op shares with the events that it launched; in these events, it is often the correlation id, 0 or an older op's id instead; NULL if there is none
    correlation_id BIGINT,  -- id that a runtime call shares with the device events that it launched; NULL if there is none
    sequence_number BIGINT,  -- id that an op shares with its backward op; NULL if there is none
    forward_thread BIGINT,  -- profiler's number of the thread that ran the forward op; NULL if there is none
    call_stack VARCHAR,  -- lines of Python that called it, innermost first, separated by semicolons; NULL where none were written
    source VARCHAR,  -- the innermost line of the user's code in its stack (for device work, in the stack of its launch), such as train.py(12): step; it is the line where a Python function begins, or, from call_stack, the line of a call; empty if the stack has no such line, NULL without a stack
    op_index INTEGER,  -- the innermost op that contains it, in its thread; NULL if none does, as for events of devices
    module_index INTEGER,  -- the innermost call of a module that contains it; NULL if none does
    node_index INTEGER,  -- the innermost op, step, module, Python function of an old layout, or annotation of communication that contains it; NULL if none does
    annotation_index INTEGER,  -- the innermost annotation (steps are annotations) that contains it; NULL if none does
    pass VARCHAR,  -- of an op, annotation or module that shows a pass of training, the first of these passes that contains it: backward, optimizer, data_loading or forward, see `passes`; NULL for other events
    backward_index INTEGER,  -- the call of the backward pass that contains it, the outermost one; NULL if none does
    forward_index INTEGER,  -- for such a call, the op of the forward pass that it belongs to: of the ops with its sequence number that begin before it, the last one, as torch links them. Sequence numbers count per thread, and files don't say which thread a number in forward_thread stands for: the numbers are paired with the threads in the order of their ids, unless the threads' ops contradict this; NULL if there is none
    call_index INTEGER,  -- the event that stands for its call in `key_averages`. It is the event that contains it, if that contains nothing else and has the same name, or if this is a helper event of the profiler; if several such events are nested, the outermost; NULL if it is a call itself, or a helper that nothing contains
    operator_index INTEGER,  -- the call of an op, module, step or other node to which it belongs in `operator_table`. For a node, it is usually the node itself (an op that is alone in an op of the same name is one call with that op); for other events, it is the call that contains or launched them; NULL if there is none
    operators_within INTEGER,  -- for an event that is such a call, the number of later calls of its thread that start before it ends; 0 for other events
    operator_ticks BIGINT,  -- for an event that is such a call, its time minus the time of the runtime calls that belong to it and of the calls in it; NULL for other events
    lost_launches INTEGER,  -- number of kernel launches in it, itself included, whose device event is missing, has an unknown time, or may belong to another launch; also set for device events of unknown time; NULL for none. Missing events do not count if the trace has as many kernels without a launch
    captured_launches INTEGER,  -- number of launches of kernels in it, itself included, that were recorded into a graph; such launches are between the calls that begin and end the graph's capture, and nothing runs until the graph is launched; NULL for none
    device_self_ticks BIGINT,  -- time of the kernels, copies and fills that it launched itself, those whose owner_index it is; for such an event of a device without an owner, its own time; NULL for 0
    device_ticks BIGINT,  -- time of the kernels, copies and fills launched within it, by their launch_index, itself included unless it is a call; at most 2**63 - 1; NULL for 0
    device_before_ticks BIGINT  -- time of those launched before it in its thread; NULL if device_ticks is NULL, and if no two events of its family and thread overlap; two events that are one call, see call_index, don't count as such
);

-- What is recorded in a trace. Pruning keeps it.
CREATE TABLE recordings (
    capture_id INTEGER NOT NULL,  -- the capture
    start_ticks BIGINT,  -- start of the first event, without annotations other than steps and communication; NULL if there is none
    end_ticks BIGINT,  -- end of the last such event
    path_start_ticks BIGINT,  -- start of the first op, step, call or work of a device; NULL if there is none. Threads that only poll the runtime, as NCCL's watchdog polls events, don't count
    path_end_ticks BIGINT,  -- end of the last of these
    path_thread INTEGER  -- thread of the last op, step or call to end; of those that end together, the one that starts first; NULL if there is none
);

-- One step of a trace, of the profiler or of a server, or the whole of a trace without steps, see `step_breakdown`. A
-- step that several threads wrote is one row. Pruning keeps these rows.
CREATE TABLE trace_steps (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    step INTEGER,  -- number of the step, from its label, or, for a server's steps, from their order; 0 if the trace has no steps; NULL if the label has no number
    host_start_ticks BIGINT,  -- start of its annotation, or of the trace's first op; NULL for a trace that has neither
    host_end_ticks BIGINT,  -- end of its annotation, or of the trace's last op; NULL for a trace that has neither
    start_ticks BIGINT,  -- start of the step: the start of its annotation, or, if that is later, the end of the step before; NULL for steps that don't count because the recording lacks their work. These are steps at the end of a trace that launched nothing, and steps in which a fifth or more of the kernel launches have no device event, unless that is so in all steps
    end_ticks BIGINT,  -- end of the last device event that the step launched, or, if that is later, of its annotation; NULL if start_ticks is NULL
    kernel_ticks BIGINT,  -- ticks in which kernels ran, without those of communication. Each moment counts for the first category that applies: kernel, communication, memcpy, memset, runtime, data_loader, cpu_exec, other; NULL if start_ticks is NULL
    memcpy_ticks BIGINT,  -- ticks in which copies ran
    memset_ticks BIGINT,  -- ticks in which fills ran
    communication_ticks BIGINT,  -- ticks in which kernels of communication ran; on the host, if the trace has no kernels
    runtime_ticks BIGINT,  -- ticks in which calls of a runtime or driver ran
    data_loader_ticks BIGINT,  -- ticks in which DataLoaders ran
    cpu_exec_ticks BIGINT,  -- ticks in which ops ran, or Python functions of an old layout
    other_ticks BIGINT,  -- ticks in which none of these ran
    end_thread INTEGER  -- thread of the last op, step or call that ends in the step, as `path_thread` of `recordings`; NULL if there is none
);

-- One step of a trace by the annotations of any tool: the profiler's steps, or those of servers and of diffusion models.
-- If there are none, steps are the outermost annotations that have the same name apart from numbers, repeat, and launch
-- at least half of what is launched (or contain at least half of the ops, if nothing is launched). Pruning keeps it.
CREATE TABLE tool_steps (
    capture_id INTEGER NOT NULL,  -- the capture
    pattern VARCHAR,  -- name of the annotations without its numbers; NULL for steps that are runs
    start_ticks BIGINT NOT NULL,  -- its start; of a step that begins before the recording, if the recording's span is known, the start of the recording
    end_ticks BIGINT NOT NULL  -- its end; of a step that ends after the recording, the end of the recording
);

-- The inputs of an op of a trace, as in the file: JSON lists with one entry per argument.
CREATE TABLE op_arguments (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- the op
    shapes VARCHAR,  -- sizes of each tensor, empty for other arguments
    dtypes VARCHAR,  -- type of each argument; NULL where not written
    strides VARCHAR,  -- strides of each tensor; NULL where not written
    inputs VARCHAR  -- value of each argument that is not a tensor; NULL where not written
);

-- The operations and bytes of a call of an op of a trace, see `op_efficiency`. All calls of an op with equal shapes,
-- types, strides and costs share a row. Ops that launched work, and ops for which such work counts, have rows; in a
-- trace without device events, all ops do. Key: capture_id, cost_index.
CREATE TABLE call_costs (
    capture_id INTEGER NOT NULL,  -- the capture
    cost_index INTEGER NOT NULL,  -- key within the capture, from 0
    op VARCHAR NOT NULL,  -- name of the op
    family VARCHAR,  -- what it computes, as in `cost_formulas`; communication for an op that moves data between devices; NULL for another op without a formula
    shapes VARCHAR,  -- sizes of each tensor, as in `op_arguments`; NULL where not written
    dtypes VARCHAR,  -- type of each argument, as in `op_arguments`
    strides VARCHAR,  -- strides of each tensor, as in `op_arguments`
    inputs VARCHAR,  -- types and sizes of its tensors, such as bf16[8,4] bf16[4,2]; NULL without sizes
    type VARCHAR,  -- type of its main tensor, as in the trace; NULL if unknown
    flops BIGINT,  -- its operations; NULL if unknown
    bytes BIGINT,  -- bytes that it reads and writes; NULL if unknown
    most_bytes BIGINT,  -- upper bound of the bytes that it reads and writes, if values of tensors decide; otherwise NULL
    flops_at_most BIGINT,  -- upper bound of its operations if values of tensors decide; otherwise NULL
    flops_at_least BIGINT,  -- lower bound of its operations, of a kernel that Inductor wrote; otherwise NULL
    is_bytes_alone BOOLEAN NOT NULL,  -- whether only its bytes determine its smallest possible time, because its operations are unknown and assumed to take less time
    is_least BOOLEAN NOT NULL,  -- whether its bytes are a lower bound
    assumed VARCHAR,  -- assumed sizes on which its costs depend, such as top_k=4; NULL if there are none
    reason VARCHAR,  -- why a cost is unknown or only a lower bound; NULL if all are known
    compared_as VARCHAR NOT NULL,  -- the op as which it is compared in `compare_efficiency`: for an op of a backend, the op that dispatches to it
    compared_family VARCHAR,  -- family of that op
    compared_inputs INTEGER[]  -- positions of its tensors, from 1, that all ops compared as that op have; NULL if it is compared as itself
);

-- One op of a trace that launched work, or for which such work counts; in a trace without device events, one op.
CREATE TABLE costed_ops (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- the op
    owner_index INTEGER,  -- the call for which the op's work counts. It is the op itself, or, if it has no formula, the nearer of the two ops around it that has a formula and contains no other op with a cost. An op that a scaled_dot_product_attention calls, such as aten::_flash_attention_forward, is treated like an op without a formula; NULL if the op launched nothing
    compared_index INTEGER,  -- the call for which the op's work counts in comparisons of devices; there, everything that is launched within some ops counts for these ops; NULL if equal to owner_index
    cost_index INTEGER,  -- its own cost, in `call_costs`; NULL if no work counts for it
    inner_flops BIGINT,  -- in a trace without device events, operations of ops within it that count for themselves, at most its own; NULL if there are none, and for other traces. An op's operations count as within the nearest op with operations, among the three innermost ops that contain it
    is_recomputed BOOLEAN NOT NULL,  -- whether it computes again, in the backward pass, what the forward pass computed: autograd records it as part of the forward pass within a call of the backward pass that does other work, too
    host_ticks BIGINT  -- its work in a trace without device events: its operator_ticks; NULL for other traces, and if no work of its own counts
);

-- The columns that only device events of a trace have: kernels, copies, fills.
CREATE TABLE device_events (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run in which the call that launched it begins; without a call, the run Outside of steps; in a trace without calls, the run in which it begins
    event_index INTEGER NOT NULL,  -- the event
    event_signature INTEGER NOT NULL,  -- its signature
    start_ticks BIGINT NOT NULL,  -- its start
    elapsed_ticks BIGINT NOT NULL,  -- its end minus its start as written
    device INTEGER,  -- number of the device
    stream BIGINT,  -- stream it ran in
    grid VARCHAR,  -- blocks in each dimension, as a JSON list
    block VARCHAR,  -- threads of a block in each dimension, as a JSON list
    registers_per_thread INTEGER,  -- number of registers that each thread uses
    shared_memory_bytes BIGINT,  -- shared memory per block, in bytes
    blocks_per_sm DOUBLE,  -- blocks per streaming multiprocessor
    warps_per_sm DOUBLE,  -- warps per streaming multiprocessor
    occupancy_percent DOUBLE,  -- estimated share of the warps that can be active, in percent
    bandwidth_gb_per_s DOUBLE,  -- bandwidth of a copy or fill, in 10**9 bytes per second; NULL for kernels
    bytes BIGINT,  -- size of a copy or fill in bytes, if necessary from its call, as for ROCm; NULL for kernels
    collective VARCHAR,  -- name of the collective that it is part of, such as allreduce; NULL for other events
    process_group VARCHAR,  -- name of the process group that communicates; NULL for other events
    group_description VARCHAR,  -- description of the process group, such as default_pg; NULL where not written
    group_size INTEGER,  -- number of processes in the group; NULL for other events
    message_type VARCHAR,  -- type of the elements that are sent, such as Float; NULL for other events
    in_elements BIGINT,  -- number of elements that this process sends; NULL for other events
    out_elements BIGINT,  -- number of elements that this process receives; NULL for other events
    wait_stream BIGINT,  -- for a wait for a CUDA event (cuda_sync), the stream in which that event was recorded; below 0 for none; NULL for other events
    wait_correlation_id BIGINT,  -- correlation id of the call that recorded that CUDA event; below 0 for none; NULL for other events
    call_index INTEGER,  -- the runtime or driver call that launched it. The call has the same correlation id, and is in the same process if calls of the event's process have such ids; of several calls, it is the last that starts no later than the event, or else the first; NULL if the trace has none
    call_signature INTEGER,  -- signature of that call; NULL if there is none
    call_thread INTEGER,  -- thread of that call; NULL if there is none
    call_start_ticks BIGINT,  -- start of that call; NULL if there is none
    call_ticks BIGINT,  -- end minus start of that call as written; NULL if there is none
    launched INTEGER,  -- number of kernels, copies and fills with possible times that the call launched; NULL if there is none
    annotation_signature INTEGER,  -- signature of the innermost annotation (steps are annotations) that contains it; NULL if none does
    correlation_id BIGINT,  -- id that it shares with the call; NULL if there is none
    op_index INTEGER,  -- the op to which its time belongs: the innermost op, in the call's thread, that contains its call; without a call, the first op with the same external id, unless that is the correlation id; for a graph's kernel, the op that recorded it, if a trace of the graph's capture shows it; NULL if there is none
    op_signature INTEGER,  -- signature of that op; NULL if there is none
    pass VARCHAR,  -- the pass of training that launched it, the first of these that contains its call, or, without a call, its owner: backward, optimizer, data_loading or forward, see `passes`; NULL for none
    backward_index INTEGER,  -- the call of the backward pass that launched it, the outermost one; NULL if none did
    owner_index INTEGER,  -- the nearest op or annotation (steps are annotations), found in the same way as op_index; for a graph's kernel, the op or module that recorded it; NULL if there is none
    launch_index INTEGER,  -- the event at which its time is launched: its call; its owner if the trace has no such call, or if the owner, recorded when a graph was captured, lies within the call; NULL if there is none
    wait_kind VARCHAR,  -- reason of the wait before a kernel, copy or fill longer than 0 started: launch_delay (it waited for its launch), stream_delay (for the event before it in its stream), dependency (for an event of another stream) or unknown_wait (for something that the trace doesn't show); synchronization for the record of the host's wait for a CUDA event; NULL if unknown, and for other events
    wait_index INTEGER,  -- the kernel, copy or fill whose end it waited for; NULL if it waited for its launch, and if there is none
    recorded_index INTEGER,  -- the event of another stream for which its stream waited before this event, according to the trace's records (cuda_sync); NULL if there is none
    called_index INTEGER,  -- in traces without such records, the event of another stream for which its stream may have waited because of a call (hipStreamWaitEvent). That event ended at most the device's latency before this event started; NULL if there is none
    is_inferred BOOLEAN,  -- whether the reason of its wait can only be inferred from times; NULL for events that aren't kernels, copies or fills
    latency_ticks BIGINT  -- assumed limit, in nanoseconds, of the time that its device takes to start an event that waits for nothing: twice the measured median, but at least 10000 and at most 100000; NULL for events that aren't kernels, copies or fills
);

-- One collective of gloo, which runs on the host, in a trace without kernels.
CREATE TABLE host_collectives (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- the event
    start_ticks BIGINT NOT NULL,  -- its start
    elapsed_ticks BIGINT NOT NULL,  -- its duration
    collective VARCHAR NOT NULL,  -- name of the collective, such as all_reduce
    group_description VARCHAR,  -- name of the process group, if the process is in a single one; otherwise NULL
    group_size INTEGER,  -- number of processes in that group; NULL where it is unknown
    message_type VARCHAR,  -- type of the elements of the tensor that the process sends, as in `device_events`; NULL where it is unknown
    elements BIGINT,  -- number of elements of that tensor; NULL where it is unknown
    message_bytes BIGINT  -- bytes of the message: of that tensor, or, for an all-gather, of those of all processes; NULL where it is unknown
);

-- One moment at which a thread of the host in a trace could continue because something else had ended: the end of a call
-- that waited for a device, or the start of an op or call that waited for another thread. A call that synchronizes waits
-- for the device event that was the last to end during it, in its stream if the trace names that stream; if it waits for
-- a CUDA event, it waits for the device event in the trace's record of this wait. A copy from or to pageable memory waits
-- for itself. After a time in which a thread ran no op and no call, the next one waited for the last op or call to end in
-- other threads of its process, if one of the two threads is of the backward pass and the other one isn't. Such threads
-- launch work, or are the thread in which the recording ends; a thread is of the backward pass if it is in it for most of
-- its time, or if it runs no ops of the forward pass besides.
CREATE TABLE host_waits (
    capture_id INTEGER NOT NULL,  -- the capture
    event_index INTEGER NOT NULL,  -- the call that waited, or the op or call that starts after a wait for another thread
    thread_index INTEGER NOT NULL,  -- its thread
    at_ticks BIGINT NOT NULL,  -- time at which the wait ended; of nested calls that end together, there is only the inner one
    since_ticks BIGINT NOT NULL,  -- end of what it waited for
    for_event INTEGER,  -- the device event that it waited for; NULL if it waited for another thread
    for_thread INTEGER  -- the thread that it waited for; NULL if it waited for a device
);

-- One gap of a device or stream of a trace: the time from the end of all its earlier events (kernels, copies, fills) to
-- the start of the next, see `device_idle`. Host time is the part until the launch of the next event returned.
CREATE TABLE device_gaps (
    capture_id INTEGER NOT NULL,  -- the capture
    event_index INTEGER NOT NULL,  -- the event that ended the gap
    is_of_stream BOOLEAN,  -- whether it is a gap of the event's stream, not of the device; NULL for a gap of both
    start_ticks BIGINT NOT NULL,  -- its start
    host_ticks BIGINT,  -- its host time; NULL if the trace has no launch of the event
    awaited_index INTEGER,  -- the event of another stream or device that ended in the gap, and for which the next event waited according to the trace's records or calls, or, where this can only be inferred, may have waited; NULL if there is none
    host_cause VARCHAR,  -- the cause of the host time, as in `device_idle`; NULL if the rest of the gap is longer
    host_signature INTEGER,  -- signature of the op or annotation in which the launching thread was, see `device_idle`; NULL if there is none, and if host_cause is NULL
    call_signature INTEGER,  -- signature of the call of the runtime or driver in which most of the host time passed; NULL if host_cause is not the purpose of a call
    is_early BOOLEAN NOT NULL  -- whether a stream of the device may still run work from before the recording
);

-- One part of the host time of a gap of a device: what the launching thread did; if that is unknown, what the other
-- thread of its process with the most launches did. See `idle_parts`. Each part begins where the one before ends.
CREATE TABLE gap_parts (
    capture_id INTEGER NOT NULL,  -- the capture
    event_index INTEGER NOT NULL,  -- the event that ended the gap
    start_ticks BIGINT NOT NULL,  -- its start
    ticks BIGINT NOT NULL,  -- its length
    host_signature INTEGER,  -- signature of the innermost event of the thread; NULL if there is none
    did VARCHAR,  -- what the host did, as `cause` of `idle_parts`; NULL if nothing is recorded
    cause VARCHAR NOT NULL  -- the cause of the time: between_steps for a part between steps; not_recorded if nothing is recorded; otherwise did
);

-- One counter of an event of a trace, which CUPTI counted in the range of a kernel.
CREATE TABLE event_counters (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- the event: a range
    counter VARCHAR NOT NULL,  -- name of the counter, such as smsp__inst_executed.sum
    value DOUBLE NOT NULL  -- its value
);

-- One allocation (bytes above 0) or release (below) that a trace recorded.
CREATE TABLE trace_memory (
    capture_id INTEGER NOT NULL,  -- the capture
    event_index INTEGER NOT NULL,  -- position in the file's list of events
    thread_index INTEGER NOT NULL,  -- the thread that did it, in `threads`
    at_ticks BIGINT NOT NULL,  -- time, on the trace's clock in nanoseconds
    bytes BIGINT,  -- number of bytes; negative for a release
    device_type INTEGER,  -- type of the device: 0 is the CPU, 1 CUDA; as in c10's DeviceType
    device INTEGER,  -- number of the device; -1 for the CPU
    address VARCHAR,  -- address as a decimal number
    total_allocated BIGINT,  -- bytes allocated on the device at that time
    total_reserved BIGINT,  -- bytes reserved on the device at that time
    counts_as VARCHAR,  -- how torch counts it: cpu, or device (CUDA, HIP, XPU and PrivateUse1); NULL if it doesn't
    call_index INTEGER,  -- the innermost call of an op, module or other node of the thread that had begun and not yet ended; steps don't count; NULL if there was none
    is_outside BOOLEAN NOT NULL  -- whether no thread had an event of the host at that time; the profiler's own events don't count
);

-- The memory that all threads allocated minus what they released from the start to the end of one event of the host,
-- both included, as torch counts it. Events without any have no row.
CREATE TABLE event_memory (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- the event
    cpu_bytes BIGINT,  -- on the CPU; NULL, as in the other columns, if it doesn't fit 64 bits
    self_cpu_bytes BIGINT,  -- cpu_bytes minus the cpu_bytes of the events directly within it
    device_bytes BIGINT,  -- on devices
    self_device_bytes BIGINT  -- device_bytes minus the device_bytes of the events directly within it
);

-- One device of the machine on which a trace was recorded, used or not.
CREATE TABLE trace_devices (
    capture_id INTEGER NOT NULL,  -- the capture
    device INTEGER NOT NULL,  -- number of the device
    name VARCHAR,  -- its name
    memory_bytes BIGINT,  -- size of its memory in bytes
    compute_major INTEGER,  -- compute capability, major number
    compute_minor INTEGER,  -- compute capability, minor number
    multiprocessors INTEGER,  -- number of its streaming multiprocessors
    is_used BOOLEAN NOT NULL  -- whether it ran work; if no listed device has the number of a device that ran work, true for all
);
