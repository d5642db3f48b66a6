-- Whether a node is an op: not a DataLoader, an optimizer's step or a wrapper of
-- data parallelism.
CREATE MACRO _is_operator(
    kind,  -- as in `_operator_tree`
    label,  -- its label
    is_data_loader  -- whether it waits for input data
) AS (
    kind = 'op'
    AND NOT is_data_loader
    AND NOT starts_with(label, 'Optimizer.')
    AND label NOT IN ('DataParallel.forward', 'DistributedDataParallel.forward')
);

-- One op, module or step of a trace, in a tree per thread, without the Python
-- functions, annotations and runtime calls between them.
CREATE MACRO _operator_tree(capture_key) AS TABLE
WITH RECURSIVE
nodes AS MATERIALIZED (
    SELECT s.*
    FROM _trace_slices(capture_key) AS s
    WHERE s.kind IN ('op', 'python', 'step', 'module')
        OR s.kind = 'annotation' AND s.is_communication
),
with_parents AS MATERIALIZED (
    SELECT
        n.* EXCLUDE (parent_index),
        p.event_index AS parent_index,
        p.label = n.label AND p.kind = 'op' AND n.kind = 'op' AS is_same_op
    FROM nodes AS n
    LEFT JOIN nodes AS p ON p.event_index = n.node_index
),
inner_nodes AS MATERIALIZED (
    SELECT max(h.event_index) AS event_index, h.parent_index
    FROM with_parents AS h
    WHERE h.parent_index IS NOT NULL
    GROUP BY h.parent_index
    HAVING count(*) = 1 AND bool_and(h.is_same_op)
),
-- From the outermost node of each call inwards, so that it ends with any rows.
merged_calls AS (
    SELECT i.event_index, i.parent_index AS call_index
    FROM inner_nodes AS i
    ANTI JOIN inner_nodes AS o ON o.event_index = i.parent_index
    UNION ALL
    SELECT i.event_index, m.call_index
    FROM merged_calls AS m
    JOIN inner_nodes AS i ON i.parent_index = m.event_index
)
SELECT
    h.run_index,
    h.event_index,
    h.label,
    h.kind,
    h.is_data_loader,
    h.thread_index,
    h.start_ticks,
    h.end_ticks,
    h.counted_ticks,
    h.parent_index,
    coalesce(j.call_index, h.event_index) AS call_index,
    i.event_index IS NULL AS is_innermost
FROM with_parents AS h
LEFT JOIN merged_calls AS j ON j.event_index = h.event_index
LEFT JOIN inner_nodes AS i ON i.parent_index = h.event_index;
