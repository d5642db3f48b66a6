-- Whether a node is an op: not a DataLoader, an optimizer's step or a wrapper of data parallelism.
CREATE MACRO _is_operator(
    kind, label,
    is_data_loader  -- whether it waits for input data
) AS (
    kind = 'op'
    AND NOT is_data_loader
    AND NOT starts_with(label, 'Optimizer.')
    AND label NOT IN ('DataParallel.forward', 'DistributedDataParallel.forward')
);

-- One op, module or step of a trace, in a tree per thread, without the Python functions, annotations and runtime calls
-- between them; with the call that it belongs to, and the call that contains this call.
CREATE MACRO _operator_tree(capture_key) AS TABLE
WITH nodes AS MATERIALIZED (
    FROM _trace_slices(capture_key) AS s
    WHERE s.kind IN ('op', 'python', 'step', 'module') OR s.kind = 'annotation' AND s.is_communication
)
SELECT n.run_index, n.event_index, n.label, n.kind, n.is_data_loader, n.thread_index, n.start_ticks, n.end_ticks,
    n.operator_index AS call_index, p.operator_index AS above_index
FROM nodes AS n
LEFT JOIN nodes AS p ON p.event_index = n.node_index;
