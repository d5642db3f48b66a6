-- One step of a trace as the host has it; a trace without steps has one, from its first op to its last. A step that
-- several threads wrote is one.
CREATE MACRO _host_steps(capture_key) AS TABLE
SELECT s.run_index, s.step, s.host_start_ticks AS start_ticks, s.host_end_ticks AS end_ticks
FROM trace_steps AS s
WHERE s.capture_id = capture_key AND s.host_start_ticks IS NOT NULL;
