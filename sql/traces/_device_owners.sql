-- The op that the device time of one device event of a trace belongs to, see `op_index`
-- of `device_events`. All views of device time use this.
-- Columns:
--   run_index: run of the device's event
--   event_index: the device's event
--   kind: kernel, copy, fill
--   label: its label
--   kernel_family: as in `signatures`
--   uses_matrix_units: as in `signatures`
--   device_ticks: end less start, in ticks
--   launch_ticks: clock at the start of the call that launched it, or at its own if the trace has no such call
--   call_index: the call that launched it; NULL if the trace has none
--   op_index: the op; NULL if none contains the launch
--   owner_index: the op or annotation (steps are annotations) that is nearest; NULL if there is neither
CREATE MACRO _device_owners(
    capture_key  -- key of a capture
) AS TABLE
SELECT
    l.run_index,
    l.event_index,
    l.kind,
    l.label,
    l.kernel_family,
    l.uses_matrix_units,
    l.end_ticks - l.start_ticks AS device_ticks,
    coalesce(l.call_start_ticks, l.start_ticks) AS launch_ticks,
    l.call_index,
    l.op_index,
    l.owner_index
FROM _launches(capture_key, 'all') AS l;
