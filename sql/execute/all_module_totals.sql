-- The rows of `module_totals` of all captures, with its default arguments: the time of one module of a method's model
-- within the executes of a capture, over typical runs. It reads stored facts and no events, so captures whose events
-- were pruned have rows, too. Captures without a complete record have no rows, and traces none. Key: capture_id, place.
-- Shown: capture_id!#, method, CASE module_path WHEN '' THEN '(model)' ELSE module_path END AS module!, per_execute!~,
--   share_percent!%, self_per_execute~, module_class, calls!#, mapping, total+~, self_time+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   capture_id: the capture
--   place: position of the row in the view of the capture, from 1
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   module_path: path within the model, empty for the model itself; (framework), (delegate layout), (unattributed)
--   module_class: the module's class; NULL for rows in parentheses
--   depth: level, from 0 for the model itself; NULL for rows in parentheses
--   calls: number of its events, without those of submodules; NULL if their time is unknown
--   self_time: time of these events; NULL if unknown
--   total: sum of the known self times of the module and all submodules; NULL if none is known
--   share_percent: total in percent of the executes; NULL if unknown
--   mapping: exact; aligned, if any of its events was matched with a node by order; call, if all are delegates' events with the module of their call; NULL if it has no events
--   unit: unit of times
--   self_ticks: self_time in ticks, a whole number; NULL if unknown
--   executes: number of executes of the method
--   self_per_execute: self_time / executes; NULL if unknown
--   per_execute: total / executes; NULL if unknown
CREATE VIEW all_module_totals AS
WITH all_linked AS (FROM _linked_captures()),
all_placed AS (FROM _placed_times('signature_times', 'signatures', 'signature_ops'))
SELECT m.capture_id, m.place, m.method, m.module_path, m.module_class, m.depth, m.calls, m.self_time, m.total,
    m.share_percent, m.mapping, m.unit, m.self_ticks, m.executes, m.self_per_execute, m.per_execute
FROM _module_totals('all_linked', 'all_placed') AS m;
