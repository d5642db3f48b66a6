-- The rows of `source_totals` of all captures, with its default arguments: the time of one line of the user's model
-- within the executes of a capture, over typical runs. Like `all_module_totals`, it reads stored facts. Key:
-- capture_id, place.
-- Shown: capture_id!#, source!, method, per_execute!~, share_percent!%, calls!#, total+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   capture_id: the capture
--   place: position of the row in the view of the capture, from 1
--   source: file and line; (several lines), for example for a delegate's call; (framework), (delegate layout) or (unattributed)
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   source_file: the file; NULL for events of no line
--   source_line: the line; NULL for events of no line
--   calls: number of events
--   total: sum of their self times
--   share_percent: total in percent of the executes
--   unit: unit of times
--   total_ticks: total in ticks, a whole number
--   executes: number of executes of the method
--   per_execute: total / executes
CREATE VIEW all_source_totals AS
WITH all_linked AS (FROM _linked_captures()),
all_placed AS (FROM _placed_times('signature_times', 'signatures', 'signature_ops'))
SELECT s.capture_id, s.place, s.source, s.method, s.source_file, s.source_line, s.calls, s.total, s.share_percent,
    s.unit, s.total_ticks, s.executes, s.per_execute
FROM _source_totals('all_linked', 'all_placed') AS s;
