-- The rows of `delegate_coverage` of all captures, with its default arguments: one op type of a method that a capture
-- ran, with its nodes that delegates run and the cost of the nodes that fell back to kernels. Like `all_module_totals`,
-- it reads stored facts. Captures with neither a complete record nor a program have no rows. Key: capture_id, place.
-- Shown: capture_id!#, op_type!, method, delegated#, not_delegated!#, per_execute!~, share_percent!%, worst_source!,
--   calls#, worst_module, basis, total+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   capture_id: the capture
--   place: position of the row in the view of the capture, from 1
--   op_type: op type of the nodes; for kernels of an unknown method, or that run no node of the graphs, the kernels' name
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   delegated: number of nodes that a delegate runs; NULL if the row has no nodes
--   not_delegated: number of nodes that no delegate runs; NULL if the row has no nodes
--   calls: number of kernel calls for it
--   total: self time of these kernels; NULL without any
--   share_percent: total in percent of the executes; NULL without kernels
--   unit: unit of times
--   worst_source: file and line with most of that time; NULL where unknown
--   worst_module: module with most of that time; NULL where unknown
--   basis: source of the numbers of nodes, as in `delegation`; NULL if the row has no nodes
--   executes: number of executes of the method
--   per_execute: total / executes; NULL without kernels
CREATE VIEW all_delegate_coverage AS
WITH all_covered AS (FROM _covered_captures()),
all_placed AS (FROM _placed_times('signature_times', 'signatures', 'signature_ops'))
SELECT d.capture_id, d.place, d.op_type, d.method, d.delegated, d.not_delegated, d.calls, d.total, d.share_percent,
    d.unit, d.worst_source, d.worst_module, d.basis, d.executes, d.per_execute
FROM _delegate_coverage('all_covered', 'all_placed') AS d;
