-- The clock at an event's end; NULL beyond 64 bits.
CREATE MACRO _end_ticks(
    start_ticks,
    elapsed_ticks  -- end minus start, as recorded
) AS (try_cast(start_ticks::HUGEINT + elapsed_ticks AS BIGINT));

-- The ticks from an event's start to its end; NULL if its times are impossible. They are also NULL if the end is 0, as
-- for interrupted events.
CREATE MACRO _duration_ticks(
    elapsed_ticks,  -- end minus start, as recorded
    unwrapped_ticks  -- the duration if a 32-bit clock wrapped
) AS (CASE WHEN elapsed_ticks >= 0 THEN elapsed_ticks ELSE unwrapped_ticks END);

-- One timed event of any capture with all its columns: name, place, time, and unit. In raw ticks; `event_times`
-- converts them.
-- Shown: label AS event!, duration_ticks!#, value_unit!, capture_id#, run_index!#, event_index#, kind, instruction_id#,
--   category, start_ticks#, end_ticks#, clock
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
--   is_detached: whether it does not count as part of the event that contains it, because it is on another clock, or because the latter is detached or shorter than its events
--   children: number of events directly within it that count
--   self_ticks: its duration minus that of its children, without the time that other events of a trace's thread have
--   is_additive: whether self_ticks counts in totals
CREATE VIEW events AS
SELECT t.capture_id, t.run_index, t.event_index, t.signature_index, s.block_index, s.slot, t.occurrence, s.kind, s.name,
    s.category, s.label, s.family, s.chain_index, s.instruction_id, s.delegate_debug_id, s.delegate_debug_str,
    t.delegate_metadata, t.parent_index, coalesce(t.parent_run_index, t.run_index) AS parent_run_index, t.execute_index,
    t.start_ticks, _end_ticks(t.start_ticks, t.elapsed_ticks) AS end_ticks,
    _duration_ticks(t.elapsed_ticks, t.unwrapped_ticks) AS duration_ticks, s.value_unit, s.clock, t.is_detached,
    t.children, t.self_ticks, t.is_additive
FROM event_ticks AS t
JOIN signatures AS s USING (capture_id, signature_index);

-- One event of a capture, with columns of `events` and of the capture, and whether its value is in ticks of the host's
-- clock. Each table is filtered before it is joined, so that no rows of other captures are read. This is needed in a
-- lake, whose files don't state numbers of distinct values.
CREATE MACRO _capture_events(capture_key) AS TABLE
WITH of_key AS MATERIALIZED (SELECT capture_key AS capture_id)
SELECT c.capture_id, c.time_scale, c.profiling_level, e.run_index, e.event_index, e.signature_index, s.block_index,
    s.slot, e.occurrence, s.kind, s.name, s.category, s.label, s.family, s.chain_index, s.instruction_id,
    e.parent_index, coalesce(e.parent_run_index, e.run_index) AS parent_run_index, e.execute_index, e.start_ticks,
    _end_ticks(e.start_ticks, e.elapsed_ticks) AS end_ticks,
    _duration_ticks(e.elapsed_ticks, e.unwrapped_ticks) AS duration_ticks, s.value_unit, s.clock,
    s.clock = 'host' AND s.value_unit = 'ticks' AS is_host_ticks, e.is_detached, e.overlap_ticks, e.children,
    e.self_ticks, e.torch_self_ticks, e.is_additive, e.is_execute
FROM of_key AS k
JOIN captures AS c USING (capture_id)
JOIN event_ticks AS e USING (capture_id)
JOIN (SELECT s.* FROM of_key AS k JOIN signatures AS s USING (capture_id)) AS s USING (signature_index);
