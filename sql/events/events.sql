-- One timed event of any capture with all its columns: name, place, time, and unit.
-- In raw ticks; `event_times` converts them.
-- Columns:
--   capture_id: the capture
--   run_index: the run
--   event_index: position in the run's list of events of every kind, in the order of the file
--   signature_index: the event's signature, in `signatures`
--   block_index: the event block
--   slot: position in the block's list of distinct events, in the Inspector's order
--   occurrence: number of earlier events of the same slot in its run
--   kind: framework, user, operator_call, kernel, delegate_call, delegate, control
--   name: name in the file; NULL for the events of a delegate
--   category: category of a trace's event: cpu_op, python_function, kernel, ...; NULL for other formats
--   label: display name: the delegate's id if it has one, else the name
--   family: label without serial numbers, dispatch ids and wrappers
--   chain_index: chain of instructions; -1 belongs to no instruction
--   instruction_id: instruction within the chain; NULL where none is named
--   delegate_debug_id: integer id within the delegate; NULL if there is none
--   delegate_debug_str: text id within the delegate; NULL if there is none
--   delegate_metadata: metadata that the delegate logged with it; NULL where there is none
--   parent_index: event_index of the event that contains it; NULL where none does
--   parent_run_index: run of that event
--   execute_index: event_index of the Method::execute (or else Method::step) it belongs to; NULL outside
--   start_ticks: clock at the start
--   end_ticks: clock at the end; NULL if no clock can show it
--   duration_ticks: from start to end, modulo 2**32 for a 32-bit clock; NULL where the times are impossible
--   value_unit: unit of the duration: ticks, us, cycles, bytes, count, unknown
--   clock: host; delegate: the delegate's clock; synthetic: a bare value, start is always 0
--   is_detached: whether it is not counted within the event that contains it, which is shorter or lies elsewhere
CREATE VIEW events AS
SELECT
    t.capture_id,
    t.run_index,
    t.event_index,
    t.signature_index,
    s.block_index,
    s.slot,
    t.occurrence,
    s.kind,
    s.name,
    s.category,
    s.label,
    s.family,
    s.chain_index,
    s.instruction_id,
    s.delegate_debug_id,
    s.delegate_debug_str,
    t.delegate_metadata,
    t.parent_index,
    coalesce(t.parent_run_index, t.run_index) AS parent_run_index,
    t.execute_index,
    t.start_ticks,
    try_cast(t.start_ticks::HUGEINT + t.elapsed_ticks AS BIGINT) AS end_ticks,
    CASE
        WHEN t.elapsed_ticks >= 0 THEN t.elapsed_ticks
        WHEN c.clock_bits = 32
            AND t.elapsed_ticks > -4294967296
            AND t.start_ticks BETWEEN 0 AND 4294967295
            THEN t.elapsed_ticks + 4294967296
    END AS duration_ticks,
    s.value_unit,
    s.clock,
    t.is_detached
FROM event_ticks AS t
JOIN signatures AS s
    ON s.capture_id = t.capture_id AND s.signature_index = t.signature_index
JOIN captures AS c ON c.capture_id = t.capture_id;
