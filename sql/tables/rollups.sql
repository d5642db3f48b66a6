-- The time of an op of a capture, summarized over the capture's runs, so that questions across captures read no events.
-- Written when a capture is ingested, and again when it is linked or its runs get phases. The time of an op in a run is
-- the sum of its calls. Times of other events of the delegate within a call don't count. Runs in which the sum exceeds
-- 64 bits are excluded.
CREATE TABLE op_times (
    capture_id INTEGER NOT NULL,  -- the capture
    op_index INTEGER NOT NULL,  -- position among the ops of the capture, from 1; 0 for the executes, which are the capture's total
    phase VARCHAR,  -- only runs of this phase; NULL: all runs
    item VARCHAR NOT NULL,  -- identity of the op in all captures, as text: scope, kind, module, op and order among equal ones; for the total, its scope
    scope VARCHAR NOT NULL,  -- the method that ran; if unknown, the name of its runs
    kind VARCHAR NOT NULL,  -- kernel, delegate, delegate_call, operator_call (without a kernel), user; framework for the total
    label VARCHAR NOT NULL,  -- the event's label
    family VARCHAR NOT NULL,  -- label without serial numbers and wrappers
    chain_index BIGINT NOT NULL,  -- chain of instructions; -1 belongs to no instruction
    instruction_id INTEGER,  -- the instruction; NULL where none is named
    op_type VARCHAR,  -- op type of its nodes, from the linked record; NULL where unknown
    module_path VARCHAR,  -- module that contains it, from the linked record; NULL where unknown
    place_in_module INTEGER NOT NULL,  -- position among the ops of its scope, module and op_type (or else family), from 1
    place_in_kind INTEGER NOT NULL,  -- position among the ops of its scope, kind and family, from 1
    value_unit VARCHAR NOT NULL,  -- unit of the numbers below: ticks of the capture's time_scale, us or cycles
    is_additive BOOLEAN NOT NULL,  -- whether these numbers add up to the total: they are in ticks of the host's clock, and not part of another op's numbers
    runs INTEGER NOT NULL,  -- number of runs that have it
    calls BIGINT NOT NULL,  -- number of its calls in these runs
    total_ticks BIGINT,  -- sum of its times in all runs; NULL if the sum exceeds 64 bits
    p25 DOUBLE NOT NULL,  -- 25th percentile over runs
    p50 DOUBLE NOT NULL,  -- median over runs
    p90 DOUBLE NOT NULL,  -- 90th percentile over runs
    outside_p25 DOUBLE,  -- for a total, 25th percentile over runs of the time outside of additive ops; NULL for ops
    outside_p50 DOUBLE,  -- median over runs of that time
    outside_p90 DOUBLE,  -- 90th percentile over runs of that time
    resolution DOUBLE NOT NULL  -- step of its clock in this unit, as in `clock_steps`; 1 if no step is seen
);

-- The time of a module of a linked capture with its submodules, summarized over its runs; written with `op_times`.
CREATE TABLE module_times (
    capture_id INTEGER NOT NULL,  -- the capture
    phase VARCHAR,  -- only runs of this phase; NULL: all runs
    scope VARCHAR NOT NULL,  -- the method that ran; if unknown, the name of its runs
    module_path VARCHAR NOT NULL,  -- the module; empty for the model itself
    runs INTEGER NOT NULL,  -- number of runs that have it
    total_ticks BIGINT,  -- sum of its times in all runs; NULL if the sum exceeds 64 bits
    p25 DOUBLE NOT NULL,  -- 25th percentile over runs, in ticks
    p50 DOUBLE NOT NULL,  -- median over runs, in ticks
    p90 DOUBLE NOT NULL,  -- 90th percentile over runs, in ticks
    resolution DOUBLE NOT NULL  -- longest step of the clocks of its ops, in ticks, as in `op_times`
);

-- A clock of a capture, and the times that it measured. Written with `op_times`. Key: capture_id, clock.
CREATE TABLE capture_clocks (
    capture_id INTEGER NOT NULL,  -- the capture
    clock VARCHAR NOT NULL,  -- host; delegate: the clock of delegates' events; device: the clock of a trace's devices
    events BIGINT NOT NULL,  -- number of events that it timed, without detached ones (see `events`)
    zeros BIGINT NOT NULL,  -- number of these events with a time of 0
    median_ticks BIGINT NOT NULL,  -- half of the events take at most this time
    step_ticks DOUBLE  -- time from one of its values to the next, estimated from these times; NULL if no step is seen
);

-- The identity of the ops of a capture, by which captures with the same ops are found. Each capture with `op_times` has
-- one row. It is written together with these.
CREATE TABLE capture_ops (
    capture_id INTEGER NOT NULL,  -- the capture
    scope VARCHAR,  -- scope of all its ops; NULL if they have several
    is_method BOOLEAN NOT NULL,  -- whether any scope is a method of a record, and not only a name of runs
    ops_hash VARCHAR NOT NULL  -- MD5 of the kinds, labels and instructions of its ops in order, and of the scopes, if there are several
);

-- The time of an op, annotation, module or kernel of a PyTorch trace in one step, from which its `op_times` and
-- `module_times` are computed. The steps are its profiler steps; without these, the steps of a server; without these,
-- the whole trace is one step.
CREATE TABLE step_times (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the step, in `runs`
    scope VARCHAR NOT NULL,  -- kind of steps: ProfilerStep, ServingStep or Trace; for times on devices, followed by ` on devices`
    kind VARCHAR NOT NULL,  -- framework (the step), op, runtime, annotation, module; on devices device_total, device_kernel, device_copy, device_fill, device_op, device_annotation, device_module
    label VARCHAR NOT NULL,  -- name of the op, annotation, module or kernel
    calls INTEGER NOT NULL,  -- number of calls; for device_op, device_annotation and device_module, number of calls that launched something
    ticks BIGINT NOT NULL,  -- time of these calls in ticks, without children for ops and runtime calls
    is_sample BOOLEAN NOT NULL  -- whether the step is among the samples of a comparison of single traces: at most 30 steps, evenly spaced
);

-- The shapes of the inputs that an op of a PyTorch trace was called with, in the profiler steps if the trace has
-- any; no rows if the trace has no shapes.
CREATE TABLE op_shapes (
    capture_id INTEGER NOT NULL,  -- the capture
    label VARCHAR NOT NULL,  -- name of the op
    shapes VARCHAR NOT NULL,  -- sizes of each input, as a JSON list
    calls BIGINT NOT NULL  -- number of calls with these shapes
);

-- The rows of `op_totals` of all captures, with its default arguments: the time of one op within the executes of a
-- capture, over typical runs. Ops are families, so they have no instruction. The tables whose names begin with `all_`
-- answer questions about many captures without reading events, also for programs that read only tables. They are
-- written when a capture is ingested, and again when it is linked, its runs get phases or its time scale changes.
-- Traces have no rows. Key: capture_id, place.
-- Share: of the executes
CREATE TABLE all_op_totals (
    capture_id INTEGER NOT NULL,  -- the capture
    place INTEGER NOT NULL,  -- position of the row in the view, from 1
    op VARCHAR NOT NULL,  -- family of the events; (framework), (delegate unaccounted) and (unattributed) have the time of no op
    kind VARCHAR NOT NULL,  -- kernel, delegate, delegate_call, operator_call (without a kernel), control, user, framework
    method VARCHAR NOT NULL,  -- the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
    calls BIGINT NOT NULL,  -- number of events
    total DOUBLE,  -- sum of their self times; NULL, like the columns per_call to max, if all times are impossible
    per_call DOUBLE,  -- total / calls
    min DOUBLE,  -- smallest self time
    max DOUBLE,  -- largest self time
    share_percent DOUBLE,  -- total in percent of the executes; NULL for values on another clock, values that are not times, and detached events
    unit VARCHAR,  -- unit of times: us, or cycles if the capture counts cycles; values that are not times keep theirs
    total_ticks BIGINT,  -- total in ticks, a whole number
    executes BIGINT,  -- number of executes of the method
    per_execute DOUBLE  -- total / executes
);

-- The rows of `execute_breakdown` of all captures, with its default arguments: one part of the time of the executes of a
-- capture, over typical runs. Written with `all_op_totals`. Key: capture_id, place.
-- Share: of the executes
CREATE TABLE all_execute_breakdown (
    capture_id INTEGER NOT NULL,  -- the capture
    place INTEGER NOT NULL,  -- position of the row in the view, from 1
    component VARCHAR NOT NULL,  -- the part, as in `execute_breakdown`
    method VARCHAR NOT NULL,  -- the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
    block_index INTEGER,  -- the event block of a delegate's part; NULL for other parts
    chain_index BIGINT,  -- the chain of the DELEGATE_CALL of a delegate's part; NULL for other parts
    instruction_id INTEGER,  -- the DELEGATE_CALL of a delegate's part; NULL for other parts
    calls BIGINT NOT NULL,  -- number of events in it
    total DOUBLE,  -- sum of their self times
    per_execute DOUBLE,  -- total / number of executes of the method
    share_percent DOUBLE,  -- total in percent of the executes
    unit VARCHAR,  -- unit of total and per_execute: us, or cycles if the capture counts cycles
    total_ticks BIGINT,  -- total in ticks, a whole number
    executes BIGINT  -- number of executes of the method
);

-- The rows of `framework_tax` of all captures, without a baseline and of all runs: the framework tax of one run. Written
-- with `all_op_totals`. Key: capture_id, place.
CREATE TABLE all_framework_tax (
    capture_id INTEGER NOT NULL,  -- the capture
    place INTEGER NOT NULL,  -- position of the row in the view, from 1
    run_index INTEGER NOT NULL,  -- the run
    method VARCHAR NOT NULL,  -- the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
    execute DOUBLE,  -- time of its Method::execute (or Method::step) events; NULL, like all times of the row, if one of these is impossible
    kernels DOUBLE,  -- self time of the kernels in it
    delegates DOUBLE,  -- self time of the DELEGATE_CALLs and delegates' events in it
    operators DOUBLE,  -- self time of the OPERATOR_CALLs in it without a kernel event
    tracing DOUBLE,  -- always NULL, because there is no baseline
    tax DOUBLE,  -- execute minus the work; NULL if unknown
    tax_percent DOUBLE,  -- tax in percent of execute
    note VARCHAR,  -- includes tracing; no operators traced
    unit VARCHAR  -- unit of execute to tax: us, or cycles if the capture counts cycles
);

-- The rows of `headline` of all captures, with its default arguments: one key figure of a capture. Written with
-- `all_op_totals`. Key: capture_id, place.
CREATE TABLE all_headline (
    capture_id INTEGER NOT NULL,  -- the capture
    place INTEGER NOT NULL,  -- position of the row in the view, from 1
    number VARCHAR NOT NULL,  -- name of the figure: execute; load; first run excess; framework tax; delegated time
    part VARCHAR NOT NULL,  -- the method, or the name of the runs if it is unknown
    value DOUBLE NOT NULL,  -- value of the figure: the median over runs
    mean DOUBLE,  -- mean over runs, which the times of ops add up to; NULL for a single value
    low DOUBLE,  -- 10th percentile over runs; NULL for a single value
    high DOUBLE,  -- 90th percentile over runs; NULL for a single value
    runs BIGINT NOT NULL,  -- number of runs it is computed from
    unit VARCHAR,  -- unit of value, mean, low and high: us, or cycles if the capture counts cycles; percent
    note VARCHAR  -- remark about the value; NULL if there is none
);

-- The rows of `memory_totals` of all captures: the allocations of all allocators with one name, over all runs. Written
-- with `all_op_totals`. Key: capture_id, place.
CREATE TABLE all_memory_totals (
    capture_id INTEGER NOT NULL,  -- the capture
    place INTEGER NOT NULL,  -- position of the row in the view, from 1
    allocator VARCHAR,  -- name of the allocator; NULL if the allocator has none, or if an allocation refers to an allocator that its run lacks
    runs BIGINT NOT NULL,  -- number of runs with such an allocator
    allocations BIGINT NOT NULL,  -- number of allocations
    total_bytes BIGINT,  -- sum of their sizes in bytes; NULL if it exceeds 64 bits
    largest_bytes BIGINT,  -- largest allocation in bytes; NULL if there are none
    largest_run_bytes BIGINT  -- largest sum of one run in bytes; NULL if there are none
);

-- The self times of the events of one signature within the executes of a capture, over typical runs.
-- `all_module_totals`, `all_delegate_coverage` and `all_source_totals` are computed from these facts. Events on a clock
-- other than the host's, and detached events, are left out. Written with `all_op_totals`. Key: capture_id,
-- signature_index, scope, has_children.
CREATE TABLE signature_times (
    capture_id INTEGER NOT NULL,  -- the capture
    signature_index INTEGER NOT NULL,  -- the events, in `signatures`
    scope VARCHAR NOT NULL,  -- the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
    has_children BOOLEAN NOT NULL,  -- whether they contain other events that count
    calls BIGINT NOT NULL,  -- number of events
    own_executes BIGINT NOT NULL,  -- number of these events that are executes
    self_ticks DECIMAL(38,0) NOT NULL  -- sum of their self times in ticks, exact beyond 64 bits
);

-- The rows of `advice` of all captures, with its default arguments: one finding about a capture. Written with
-- `all_op_totals`, also of traces. Key: capture_id, place.
CREATE TABLE all_advice (
    capture_id INTEGER NOT NULL,  -- the capture
    place INTEGER NOT NULL,  -- position of the row in the view, from 1; 0 for a placeholder: in memory, advice is computed when etq first reads it
    rule VARCHAR NOT NULL,  -- rule that applies
    severity VARCHAR NOT NULL,  -- high, medium or low
    finding VARCHAR NOT NULL,  -- the finding in a sentence
    evidence VARCHAR NOT NULL,  -- the ops, instructions, lines, runs or views that show it
    time_at_stake DOUBLE,  -- most time that a remedy can save, for dumps as a mean per run, for traces in the whole trace; NULL for findings that are not about time
    share_percent DOUBLE,  -- time_at_stake in percent of share_of; NULL for findings that are not about time
    share_of VARCHAR,  -- the whole to which share_percent refers, in words
    remedy VARCHAR NOT NULL,  -- what to do
    unit VARCHAR  -- unit of time_at_stake: us, or cycles if the capture counts cycles; NULL if time_at_stake is NULL
);

-- The rows of `step_efficiency` of all captures, with its default arguments: one step of a trace with its operations and
-- its share of the peak of its devices, for questions across captures. Written with `all_advice`. A trace has no rows
-- if it has no sizes of inputs, has no device events, or is of devices with unknown peaks. Key: capture_id, place.
CREATE TABLE all_step_efficiency (
    capture_id INTEGER NOT NULL,  -- the capture
    place INTEGER NOT NULL,  -- position of the row in the view, from 1
    run_index INTEGER NOT NULL,  -- the run
    step INTEGER,  -- number of the step in the trace; 0 if the trace has no steps; NULL if its label has none
    total DOUBLE,  -- duration of the step
    mfu_percent DOUBLE,  -- time that model_flops take at the peaks of their types, in percent of the step's time on all devices; NULL where unknown
    hfu_percent DOUBLE,  -- the same percentage with recomputed_flops added
    is_least BOOLEAN,  -- whether mfu_percent and hfu_percent are lower bounds; NULL if mfu_percent is NULL
    known_percent DOUBLE,  -- time of ops whose operations are known, of kernels that Inductor wrote and of batched tables of embeddings whose bytes are known, and of copies, fills and communication, in percent of device_time; NULL if nothing ran
    model_flops BIGINT,  -- operations of the step's ops, as far as known, without recomputed_flops; NULL where none are known
    recomputed_flops BIGINT,  -- operations of ops of the forward pass that run again in the backward pass; NULL where none are known
    flops_per_second DOUBLE,  -- model_flops and recomputed_flops per second of the step
    device_time DOUBLE,  -- sum of the times of the kernels, copies and fills that the step launched; NULL if there are none
    devices BIGINT NOT NULL,  -- number of devices that the trace used
    device VARCHAR,  -- the device whose peaks apply; NULL if unknown
    reason VARCHAR,  -- why mfu_percent is NULL or a lower bound; NULL if all is known
    unit VARCHAR,  -- unit of times: us
    assumed VARCHAR  -- assumed sizes on which costs of some ops of the trace depend, such as top_k=4; NULL if there are none
);
