-- The shapes that an op of a trace was called with, in the profiler steps if the trace has any. A row of the table
-- `op_shapes`.
CREATE MACRO _find_op_shapes(capture_key) AS TABLE
SELECT a.capture_id, s.family AS label, a.shapes, count(*) AS calls
FROM op_arguments AS a
JOIN event_ticks AS e USING (capture_id, run_index, event_index)
JOIN signatures AS s USING (capture_id, signature_index)
JOIN runs AS r ON r.capture_id = a.capture_id AND r.run_index = a.run_index AND NOT _is_outside_steps(r.name)
WHERE a.capture_id = capture_key AND a.shapes IS NOT NULL AND s.activity = 'op'
GROUP BY a.capture_id, s.family, a.shapes
ORDER BY a.capture_id, s.family, a.shapes;
