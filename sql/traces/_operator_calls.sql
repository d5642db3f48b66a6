-- One node of `_operator_tree`, one launch of a node, or one runtime call in it: one
-- macro, so that a view computes the tree once. Device events belong to the op that
-- `_device_owners` finds, or else to the innermost node that contains their call.
-- Runtime calls belong to the innermost node. An op that only calls another op of its
-- name is one node together with it. With categories := 'older', launches are
-- attributed as in torch-tb-profiler: calls and the device events that they launched
-- belong to the first node with the same external id; of an op that calls another op of
-- its name, only those of the inner op count.
-- Columns:
--   event: node, call or launch
--   node_index: the node; of calls and launches the innermost node of their call
--   is_operator: whether the node is an op
--   kind: of nodes as in `_operator_tree`, of launches Kernel, Memcpy or Memset; NULL for calls
--   label: label of the node or of the device event; NULL for calls
--   ticks: duration of the node, the call or the device event in ticks
--   device_index: the device event; NULL unless a launch
--   run_index: run of the node; NULL unless a node
--   thread_index: its thread; NULL unless a node
--   is_data_loader: whether it waits for input data; NULL unless a node
--   start_ticks: clock at its start; NULL unless a node
--   parent_index: its parent; NULL if there is none, and unless a node
--   call_index: the node that it is one call with; NULL unless a node
--   is_innermost: whether it is the innermost node of that call; NULL unless a node
CREATE MACRO _operator_events(
    capture_key,  -- key of a capture
    categories  -- as in `step_breakdown`
) AS TABLE
WITH RECURSIVE
tree AS MATERIALIZED (
    SELECT
        t.*,
        _is_operator(t.kind, t.label, t.is_data_loader) AS is_operator
    FROM _operator_tree(capture_key, categories) AS t
),
calls AS MATERIALIZED (
    SELECT
        s.event_index,
        s.parent_index,
        s.external_id,
        s.end_ticks - s.start_ticks AS ticks
    FROM _trace_slices(capture_key, categories) AS s
    WHERE s.kind = 'Runtime'
),
owners AS MATERIALIZED (
    SELECT o.* FROM _device_owners(capture_key) AS o
),
-- The ancestors of calls, up to a node.
passed AS MATERIALIZED (
    SELECT e.event_index, e.parent_index
    FROM event_ticks AS e
    ANTI JOIN tree AS t ON t.event_index = e.event_index
    WHERE e.capture_id = capture_key AND e.parent_index IS NOT NULL
),
ancestors AS (
    SELECT DISTINCT c.parent_index AS from_index, c.parent_index AS at_index
    FROM calls AS c
    WHERE categories = 'all' AND c.parent_index IS NOT NULL
    UNION ALL
    SELECT g.from_index, b.parent_index
    FROM ancestors AS g
    JOIN passed AS b ON b.event_index = g.at_index
),
identified AS (
    SELECT t.external_id, t.event_index, t.is_innermost
    FROM tree AS t
    WHERE categories = 'older' AND t.kind <> 'Module' AND t.external_id IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY t.external_id
        ORDER BY t.start_ticks, t.end_ticks DESC, t.event_index
    ) = 1
),
placed AS MATERIALIZED (
    SELECT t.event_index AS node_index, c.event_index AS call_index, c.ticks
    FROM calls AS c
    JOIN ancestors AS g ON g.from_index = c.parent_index
    JOIN tree AS t ON t.event_index = g.at_index
    UNION ALL
    SELECT i.event_index, c.event_index, c.ticks
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
    t.end_ticks - t.start_ticks AS ticks,
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
    'call', i.event_index, i.is_operator, NULL, NULL, p.ticks, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM placed AS p
JOIN tree AS t ON t.event_index = p.node_index
JOIN tree AS i ON i.call_index = t.call_index AND i.is_innermost
UNION ALL
SELECT
    'launch', i.event_index, i.is_operator, l.kind, l.label, l.device_ticks,
    l.device_index, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM launched AS l
JOIN tree AS t ON t.event_index = l.node_index
JOIN tree AS i ON i.call_index = t.call_index AND i.is_innermost;

-- One call of an op, module or step of a trace, with its times on the host and on
-- devices as torch-tb-profiler computes them.
-- Columns:
--   run_index: the run
--   event_index: the call
--   innermost_index: the innermost node of the call
--   label: its label
--   kind: as in `_operator_tree`
--   parent_index: the node that contains it; NULL if none does
--   is_operator: whether it is an op, as `_is_operator`
--   start_ticks: clock at the start
--   host_ticks: end less start, in ticks
--   host_self_ticks: host_ticks without child ops, modules and runtime calls
--   device_ticks: device time of what it and its descendants launched, in ticks
--   device_self_ticks: device time of what it launched, in ticks
--   tensor_ticks: device_ticks of kernels that use tensor cores
--   tensor_self_ticks: device_self_ticks of kernels that use tensor cores
--   kernel_self_ticks: device_self_ticks of all kernels
--   kernels: these kernels, as event_index; NULL if it launched none
--   is_eligible: whether tensor cores could run it, or a descendant
--   is_lowest_eligible: whether they could run it, and no descendant
CREATE MACRO _operator_calls(
    capture_key,  -- key of a capture
    categories  -- as in `step_breakdown`
) AS TABLE
WITH
events_of_nodes AS MATERIALIZED (
    SELECT e.* FROM _operator_events(capture_key, categories) AS e
),
tree AS (
    SELECT e.* FROM events_of_nodes AS e WHERE e.event = 'node'
),
launched AS (
    SELECT
        e.node_index,
        sum(e.ticks) AS device_ticks,
        sum(CASE WHEN e.kind = 'Kernel' THEN e.ticks ELSE 0 END) AS kernel_ticks,
        list(e.device_index) FILTER (WHERE e.kind = 'Kernel') AS kernels,
        sum(
            CASE WHEN _uses_tensor_cores(e.label, categories) THEN e.ticks ELSE 0 END
        ) AS tensor_ticks
    FROM events_of_nodes AS e
    WHERE e.event = 'launch'
    GROUP BY e.node_index
),
within AS (
    SELECT t.parent_index, sum(t.ticks) AS ticks
    FROM tree AS t
    WHERE t.parent_index IS NOT NULL
    GROUP BY t.parent_index
),
calling AS (
    SELECT e.node_index, sum(e.ticks) AS ticks
    FROM events_of_nodes AS e
    WHERE e.event = 'call'
    GROUP BY e.node_index
),
self_times AS MATERIALIZED (
    SELECT
        o.*,
        o.node_index AS event_index,
        o.start_ticks + o.ticks AS end_ticks,
        i.node_index AS innermost_index,
        o.ticks - coalesce(w.ticks, 0) - coalesce(c.ticks, 0) AS host_self_ticks,
        coalesce(l.device_ticks, 0) AS device_self_ticks,
        coalesce(l.kernel_ticks, 0) AS kernel_self_ticks,
        coalesce(l.tensor_ticks, 0) AS tensor_self_ticks,
        l.kernels,
        _could_use_tensor_cores(o.label)
            OR o.kind = 'Operator' AND coalesce(l.tensor_ticks, 0) > 0 AS is_named
    FROM tree AS i
    JOIN tree AS o ON o.node_index = i.call_index
    LEFT JOIN within AS w ON w.parent_index = i.node_index
    LEFT JOIN calling AS c ON c.node_index = i.node_index
    LEFT JOIN launched AS l ON l.node_index = i.node_index
    WHERE i.is_innermost
),
-- The sums of what starts between each call's start and its end: its descendants, as
-- trees are in order of their starts. Algorithm: starts add, ends don't; the running
-- sum at the end less that at the start. By default, DuckDB would compare all pairs for
-- an ASOF join where it expects few calls, as it does among other captures.
moments AS (
    SELECT
        o.thread_index,
        o.event_index,
        o.start_ticks AS at_ticks,
        o.end_ticks,
        1 AS place,
        o.device_self_ticks AS device,
        o.tensor_self_ticks AS tensor,
        o.is_named::BIGINT AS named
    FROM self_times AS o
    UNION ALL
    SELECT
        o.thread_index, o.event_index, o.end_ticks, o.end_ticks, 0, 0, 0, 0
    FROM self_times AS o
),
reached AS (
    SELECT
        m.event_index,
        m.place,
        sum(m.device) OVER so_far AS device,
        sum(m.tensor) OVER so_far AS tensor,
        sum(m.named) OVER so_far AS named
    FROM moments AS m
    WINDOW so_far AS (
        PARTITION BY m.thread_index
        ORDER BY m.at_ticks, m.place, m.end_ticks DESC, m.event_index
        ROWS UNBOUNDED PRECEDING
    )
),
differences AS (
    SELECT
        u.event_index,
        sum(CASE WHEN u.place = 0 THEN u.device ELSE -u.device END) AS device,
        sum(CASE WHEN u.place = 0 THEN u.tensor ELSE -u.tensor END) AS tensor,
        sum(CASE WHEN u.place = 0 THEN u.named ELSE -u.named END) AS named
    FROM reached AS u
    GROUP BY u.event_index
),
totalled AS (
    SELECT
        o.*,
        greatest(d.device, 0) AS device_within,
        greatest(d.tensor, 0) AS tensor_within,
        greatest(d.named, 0) AS named_within
    FROM self_times AS o
    JOIN differences AS d ON d.event_index = o.event_index
)
SELECT
    o.run_index,
    o.event_index,
    o.innermost_index,
    o.label,
    o.kind,
    o.parent_index,
    o.is_operator,
    o.start_ticks,
    o.ticks AS host_ticks,
    o.host_self_ticks,
    o.device_self_ticks + o.device_within AS device_ticks,
    o.device_self_ticks,
    o.tensor_self_ticks + o.tensor_within AS tensor_ticks,
    o.tensor_self_ticks,
    o.kernel_self_ticks,
    o.kernels,
    o.is_named OR o.kind = 'Operator' AND o.named_within > 0 AS is_eligible,
    o.is_named AND o.named_within = 0 AS is_lowest_eligible
FROM totalled AS o;
