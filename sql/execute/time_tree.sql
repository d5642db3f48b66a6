-- One node of a tree of times, for a flame chart or an icicle. Each node's total is its self time plus the totals of
-- its children, exactly, in whole ticks; the first node is the total. For an ETDump, the total is the time of its
-- executes. With by := 'module', the nodes are nested modules and their ops, from the linked record; if several methods
-- ran, these are within methods. With by := 'event', the nodes are the methods (or runs), within these the kernels and
-- delegate calls, and within delegate calls the delegates' events. Rows in parentheses have the time of no op: the
-- overhead of OPERATOR_CALLs, (framework), time that no event covers, (unattributed), and the layout work of an
-- unmapped delegate. For a trace, the total is the time of its events on the host, in all threads together. Each node
-- stands for the events of one name within the events of its parent. Values that are on another clock or aren't times
-- are excluded; see `op_totals`.
-- Shown: repeat('  ', depth) || name AS name!, kind, per_execute!~, share_percent!%, self_per_execute!~, calls!#,
--   module_path AS module, total+~, self_time+~, executes+#, unit
-- Share: of the executes, or of a trace's steps; for a trace without steps, total in percent of the total of the first
--   node
-- Columns:
--   node_index: key of the node; 0 is the total. Each node is followed by its descendants: the largest child first, names in parentheses last
--   parent_index: the node's parent; NULL for the total
--   depth: number of nodes that contain it
--   path: names of the nodes that contain it, without the total, and its name
--   name: module (its path relative to its parent), method, run, op or event; (model): the model itself
--   kind: total; module; method, or run if its method is unknown; rest for rows in parentheses; kernel, delegate, delegate_call, operator_call (without a kernel), control, user, slice (of a trace) for events
--   module_path: path of a module, or of the module of an op; NULL for other nodes
--   calls: number of events at the node, without those of its descendants
--   self_time: time of these events without their children
--   total: self_time plus the total of all children
--   share_percent: time in percent of the executes, or of a trace's steps; for a trace without steps, total in percent of the total of the first node
--   unit: unit of times
--   self_ticks: self_time in ticks, a whole number
--   total_ticks: total in ticks, a whole number
--   executes: number of executes of the node's method, or of a trace's steps; NULL for a trace without steps, and for the total of several methods
--   self_per_execute: self_time / executes; for a trace, the self time of events that begin in steps, per step
--   per_execute: total / executes; for a trace, sum of self_per_execute over the node and all descendants
CREATE MACRO time_tree(
    capture,
    "by" := NULL,  -- module, event; NULL: module where a record is linked, else event
    unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH RECURSIVE
tree AS MATERIALIZED (SELECT t.* FROM _numbered_tree(capture, "by", unit, steps, phase, method, runs) AS t),
-- From the total to the leaves.
paths AS (
    SELECT t.node_index, []::VARCHAR[] AS path, t.depth FROM tree AS t WHERE t.depth = 0
    UNION ALL
    SELECT t.node_index, o.path || [t.name], t.depth
    FROM paths AS o
    JOIN tree AS t ON t.depth = o.depth + 1 AND t.parent_index = o.node_index
)
SELECT t.node_index, t.parent_index, t.depth, p.path, t.name, t.kind, t.module_path, t.calls, t.self_time, t.total,
    t.share_percent, t.unit, t.self_ticks, t.total_ticks, t.executes, t.self_per_execute, t.per_execute
FROM tree AS t
JOIN paths AS p USING (node_index)
ORDER BY t.node_index;
