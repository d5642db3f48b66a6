-- One node of `_operator_tree`, one launch of a node, or one runtime call in it: one
-- macro, so that a view computes the tree once. Device events belong to the op that
-- `op_index` of `device_events` is, or else to the innermost node that contains their call.
-- Runtime calls belong to the innermost node. An op that only calls another op of its
-- name is one node together with it. With categories := 'older', launches are
-- attributed as in torch-tb-profiler: calls and the device events that they launched
-- belong to the first node with the same external id; of an op that calls another op of
-- its name, only those of the inner op count.
-- Columns:
--   event: node, call or launch
--   node_index: the node; of calls and launches the innermost node of their call
--   is_operator: whether the node is an op
--   kind: of nodes as in `_operator_tree`, of launches kernel, copy or fill; NULL for calls
--   label: label of the node or of the device event; NULL for calls
--   uses_matrix_units: of launches as in `signatures`, or as in the plug-in; NULL for others
--   ticks: duration of the node, the call or the device event in ticks
--   counted_ticks: the part of it that counts within what contains it, in ticks: with categories := 'older' all; NULL for launches
--   device_index: the device event; NULL unless a launch
--   run_index: run of the node; NULL unless a node
--   thread_index: its thread; NULL unless a node
--   is_data_loader: whether it waits for input data; NULL unless a node
--   start_ticks: clock at its start; NULL unless a node
--   parent_index: its parent; NULL if there is none, and unless a node
--   call_index: the node that it is one call with; NULL unless a node
--   is_innermost: whether it is the innermost node of that call; NULL unless a node
CREATE MACRO _operator_events(capture_key, categories) AS TABLE
WITH
tree AS MATERIALIZED (
    SELECT
        t.*,
        _is_operator(t.kind, t.label, t.is_data_loader) AS is_operator
    FROM _operator_tree(capture_key, categories) AS t
),
calls AS MATERIALIZED (
    SELECT
        s.event_index,
        s.node_index,
        s.external_id,
        s.end_ticks - s.start_ticks AS ticks,
        CASE categories
            WHEN 'all' THEN s.counted_ticks ELSE s.end_ticks - s.start_ticks
        END AS counted_ticks
    FROM _trace_slices(capture_key, categories) AS s
    WHERE s.kind = 'call'
),
owners AS MATERIALIZED (
    SELECT o.* FROM _launches(capture_key, 'all') AS o
),
identified AS (
    SELECT t.external_id, t.event_index, t.is_innermost
    FROM tree AS t
    WHERE categories = 'older' AND t.kind <> 'module' AND t.external_id IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY t.external_id
        ORDER BY t.start_ticks, t.end_ticks DESC, t.event_index
    ) = 1
),
placed AS MATERIALIZED (
    SELECT
        t.event_index AS node_index,
        c.event_index AS call_index,
        c.ticks,
        c.counted_ticks
    FROM calls AS c
    JOIN tree AS t ON t.event_index = c.node_index
    WHERE categories = 'all'
    UNION ALL
    SELECT i.event_index, c.event_index, c.ticks, c.counted_ticks
    FROM calls AS c
    JOIN identified AS i ON i.external_id = c.external_id
    WHERE i.is_innermost
),
launched AS (
    SELECT
        CASE
            WHEN categories = 'all'
                THEN coalesce(o.op_index, p.node_index, o.owner_index)
            ELSE p.node_index
        END AS node_index,
        o.event_index AS device_index,
        o.kind,
        o.label,
        CASE
            WHEN categories = 'all' THEN o.uses_matrix_units
            ELSE _is_plugin_tensor_kernel(o.label)
        END AS uses_matrix_units,
        o.device_ticks
    FROM owners AS o
    LEFT JOIN placed AS p ON p.call_index = o.call_index
)
SELECT
    'node' AS event,
    t.event_index AS node_index,
    t.is_operator,
    t.kind,
    t.label,
    NULL::BOOLEAN AS uses_matrix_units,
    t.end_ticks - t.start_ticks AS ticks,
    CASE categories WHEN 'all' THEN t.counted_ticks ELSE t.end_ticks - t.start_ticks END
        AS counted_ticks,
    NULL::INTEGER AS device_index,
    t.run_index,
    t.thread_index,
    t.is_data_loader,
    t.start_ticks,
    t.parent_index,
    t.call_index,
    t.is_innermost
FROM tree AS t
UNION ALL
SELECT
    'call', i.event_index, i.is_operator, NULL, NULL, NULL, p.ticks, p.counted_ticks,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM placed AS p
JOIN tree AS t ON t.event_index = p.node_index
JOIN tree AS i ON i.call_index = t.call_index AND i.is_innermost
UNION ALL
SELECT
    'launch', i.event_index, i.is_operator, l.kind, l.label, l.uses_matrix_units,
    l.device_ticks, NULL, l.device_index, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM launched AS l
JOIN tree AS t ON t.event_index = l.node_index
JOIN tree AS i ON i.call_index = t.call_index AND i.is_innermost;
