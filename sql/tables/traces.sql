-- One thread of a trace: of a process, or a stream of a device.
CREATE TABLE threads (
    capture_id INTEGER NOT NULL,  -- the capture
    thread_index INTEGER NOT NULL,  -- key within the capture, from 0
    process VARCHAR NOT NULL,  -- the process as the file says it: a number, or a text as `Spans`
    thread VARCHAR NOT NULL,  -- the thread as the file says it: a number, or a text as `stream 7`
    process_name VARCHAR,  -- name of the process; NULL where the file has none
    thread_name VARCHAR  -- name of the thread; NULL where the file has none
);

-- What only a trace's events have: one row for each.
CREATE TABLE trace_events (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run: a profiler step
    event_index INTEGER NOT NULL,  -- the event: its position in the file's list
    thread_index INTEGER NOT NULL,  -- the thread, in `threads`
    external_id BIGINT,  -- id of an op, and of what it launched; of the latter often the correlation id, 0 or an older op's; NULL where it has none
    correlation_id BIGINT,  -- id that a runtime's call shares with what it launched; NULL where it has none
    sequence_number BIGINT,  -- id that an op shares with its backward op; NULL where it has none
    forward_thread BIGINT,  -- profiler's number of the thread that ran the forward op; NULL where it has none
    call_stack VARCHAR  -- lines of Python that called it, innermost first, parted by semicolons; NULL where none were written
);

-- The inputs of an op of a trace, as the file has them: JSON lists of one entry
-- an argument.
CREATE TABLE op_arguments (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- the op
    shapes VARCHAR,  -- sizes of each tensor, empty for what is none
    dtypes VARCHAR,  -- type of each; NULL where not written
    strides VARCHAR,  -- strides of each tensor; NULL where not written
    inputs VARCHAR  -- value of each that is no tensor; NULL where not written
);

-- What a trace tells of an event that a device ran: a kernel, a copy, a fill.
CREATE TABLE device_events (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run that launched it
    event_index INTEGER NOT NULL,  -- the event
    device INTEGER,  -- number of the device
    stream BIGINT,  -- stream it ran in
    grid VARCHAR,  -- blocks in each dimension, as a JSON list
    block VARCHAR,  -- threads of a block in each dimension, as a JSON list
    registers_per_thread INTEGER,  -- registers that each thread took
    shared_memory_bytes BIGINT,  -- shared memory that each block took
    blocks_per_sm DOUBLE,  -- blocks by streaming multiprocessor
    warps_per_sm DOUBLE,  -- warps by streaming multiprocessor
    occupancy_percent DOUBLE,  -- estimated share of the warps that could be active
    bandwidth_gb_per_s DOUBLE,  -- of a copy or fill, in 10**9 bytes a second
    bytes BIGINT  -- of a copy or fill
);

-- One allocation (bytes above 0) or release (below) that a trace recorded.
CREATE TABLE trace_memory (
    capture_id INTEGER NOT NULL,  -- the capture
    event_index INTEGER NOT NULL,  -- position in the file's list of events
    thread_index INTEGER NOT NULL,  -- the thread it was done by, in `threads`
    at_ticks BIGINT NOT NULL,  -- when, on the trace's clock in nanoseconds
    bytes BIGINT,  -- number of bytes; negative for a release
    device_type INTEGER,  -- what kind of device: 0 is the CPU, 1 CUDA; as c10's DeviceType
    device INTEGER,  -- number of the device; -1 for the CPU
    address VARCHAR,  -- where, as a decimal number
    total_allocated BIGINT,  -- bytes allocated on the device then
    total_reserved BIGINT  -- bytes reserved on the device then
);

-- A device of the machine that a trace was recorded on, used or not.
CREATE TABLE trace_devices (
    capture_id INTEGER NOT NULL,  -- the capture
    device INTEGER NOT NULL,  -- number of the device
    name VARCHAR,  -- its name
    memory_bytes BIGINT,  -- its memory
    compute_major INTEGER,  -- compute capability, before the point
    compute_minor INTEGER,  -- compute capability, behind the point
    multiprocessors INTEGER  -- number of its streaming multiprocessors
);
