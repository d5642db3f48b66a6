-- One step that a trace has, as the host has it.
CREATE VIEW _written_steps AS
SELECT
    s.capture_id,
    s.run_index,
    s.step,
    s.host_start_ticks AS start_ticks,
    s.host_end_ticks AS end_ticks
FROM trace_steps AS s
JOIN runs AS r ON r.capture_id = s.capture_id AND r.run_index = s.run_index
WHERE r.name = 'ProfilerStep';
