-- The rows of `inspector_events` of all captures, with its default arguments, without the values of single runs: one
-- event of an event block with statistics over the block's runs. It reads events, so its time grows with their number:
-- select the captures that you need by their keys. Captures whose events were pruned have no rows. Key: capture_id,
-- block_index, slot, occurrence.
-- Shown: capture_id!#, event_block_name, event_name!, instruction_id#, occurrence#, p10~, p50!~, p90!~, avg!~, min~,
--   max~, unit, delegate_debug_identifier, method
-- Columns:
--   capture_id: the capture
--   block_index: the event block
--   event_block_name: its name
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   slot: position in the block's list of distinct events
--   occurrence: index of the event's occurrence in a run, from 0
--   event_name: the event's label
--   p10: 10th percentile, linearly interpolated; NULL, like the columns below, for events that were not timed
--   p50: 50th percentile, linearly interpolated
--   p90: 90th percentile, linearly interpolated
--   avg: arithmetic mean
--   min: smallest
--   max: largest
--   unit: unit of p10 to max: us, or cycles if the capture counts cycles; values that are not times keep theirs
--   kind: framework, user, operator_call, kernel, delegate_call, delegate, control, debug
--   instruction_id: the instruction; NULL where none is named
--   delegate_debug_identifier: the delegate's id as text; NULL if no delegate ran it
--   is_delegated_op: whether a delegate ran it
CREATE VIEW all_inspector_events AS
SELECT c.capture_id, e.block_index, e.event_block_name, e.method, e.slot, e.occurrence, e.event_name, e.p10, e.p50,
    e.p90, e.avg, e.min, e.max, e.unit, e.kind, e.instruction_id, e.delegate_debug_identifier, e.is_delegated_op
FROM captures AS c, LATERAL (FROM inspector_events(c.capture_id)) AS e;
