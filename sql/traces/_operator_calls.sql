-- What each node of `_operator_tree` launched: calls of the runtime that share
-- its external id, the first to have it, and what these ran on a device. An op
-- that only calls another of its name has that one's alone, as torch counts it.
-- Columns:
--   node_index: the node
--   is_operator: whether it is an op
--   call_index: the runtime's call
--   call_ticks: ticks of the call
--   device_index: an event that the call launched; NULL where it launched none
--   kind: Kernel, Memcpy, Memset; NULL where it launched none
--   label: the event's label; NULL where it launched none
--   device_ticks: ticks of the event; 0 where it launched none
CREATE MACRO _operator_launches(
    capture,  -- as everywhere
    categories  -- as in `step_breakdown`
) AS TABLE
WITH
owners AS (
    SELECT
        t.external_id,
        t.event_index,
        t.is_innermost,
        _is_operator(t.kind, t.label, t.is_data_loader) AS is_operator
    FROM _operator_tree(capture, categories) AS t
    WHERE t.kind <> 'Module' AND t.external_id IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY t.external_id
        ORDER BY t.start_ticks, t.end_ticks DESC, t.event_index
    ) = 1
)
SELECT
    o.event_index AS node_index,
    o.is_operator,
    r.event_index AS call_index,
    r.end_ticks - r.start_ticks AS call_ticks,
    l.event_index AS device_index,
    l.kind,
    l.label,
    coalesce(l.end_ticks - l.start_ticks, 0) AS device_ticks
FROM owners AS o
JOIN _trace_slices(capture, categories) AS r
    ON r.kind = 'Runtime' AND r.external_id = o.external_id
LEFT JOIN _launches(capture, categories) AS l ON l.call_index = r.event_index
WHERE o.is_innermost;

-- The calls of ops, modules and steps of a trace, with their times on the host
-- and on devices as torch-tb-profiler counts them.
-- Columns:
--   run_index: the run
--   event_index: the call
--   innermost_index: the innermost node of the call
--   label: its label
--   kind: as in `_operator_tree`
--   parent_index: the node that it stands in; NULL where in none
--   is_operator: whether it is an op, as `_is_operator`
--   start_ticks: clock at the start
--   host_ticks: from start to end
--   host_self_ticks: the same without ops, modules and runtime's calls within it
--   device_ticks: of what it and those within it launched
--   device_self_ticks: of what it launched
--   tensor_ticks: of kernels among them that use tensor cores
--   tensor_self_ticks: of such kernels that it launched
--   kernel_self_ticks: of all kernels that it launched
--   is_eligible: whether tensor cores could do it, or one within it
--   is_lowest_eligible: whether they could do it, and none within it
CREATE MACRO _operator_calls(
    capture,  -- as everywhere
    categories  -- as in `step_breakdown`
) AS TABLE
WITH
tree AS MATERIALIZED (
    SELECT t.* FROM _operator_tree(capture, categories) AS t
),
launches AS MATERIALIZED (
    SELECT l.* FROM _operator_launches(capture, categories) AS l
),
launched AS (
    SELECT
        l.node_index,
        sum(l.device_ticks) AS device_ticks,
        sum(CASE WHEN l.kind = 'Kernel' THEN l.device_ticks ELSE 0 END)
            AS kernel_ticks,
        sum(CASE WHEN _uses_tensor_cores(l.label) THEN l.device_ticks ELSE 0 END)
            AS tensor_ticks
    FROM launches AS l
    GROUP BY l.node_index
),
within AS (
    SELECT t.parent_index, sum(t.end_ticks - t.start_ticks) AS ticks
    FROM tree AS t
    WHERE t.parent_index IS NOT NULL
    GROUP BY t.parent_index
),
calling AS (
    SELECT c.node_index, sum(c.call_ticks) AS ticks
    FROM (
        SELECT DISTINCT l.node_index, l.call_index, l.call_ticks
        FROM launches AS l
    ) AS c
    GROUP BY c.node_index
),
own AS MATERIALIZED (
    SELECT
        o.*,
        i.event_index AS innermost_index,
        o.end_ticks - o.start_ticks - coalesce(w.ticks, 0) - coalesce(c.ticks, 0)
            AS host_self_ticks,
        coalesce(l.device_ticks, 0) AS device_self_ticks,
        coalesce(l.kernel_ticks, 0) AS kernel_self_ticks,
        coalesce(l.tensor_ticks, 0) AS tensor_self_ticks,
        _could_use_tensor_cores(o.label)
            OR o.kind = 'Operator' AND coalesce(l.tensor_ticks, 0) > 0 AS is_named
    FROM tree AS i
    JOIN tree AS o ON o.event_index = i.call_index
    LEFT JOIN within AS w ON w.parent_index = i.event_index
    LEFT JOIN calling AS c ON c.node_index = i.event_index
    LEFT JOIN launched AS l ON l.node_index = i.event_index
    WHERE i.is_innermost
),
-- In the order of the trees: what is within a call stands directly behind it.
ordered AS MATERIALIZED (
    SELECT
        o.*,
        sum(o.device_self_ticks) OVER so_far AS device_so_far,
        sum(o.tensor_self_ticks) OVER so_far AS tensor_so_far,
        sum(o.is_named::BIGINT) OVER so_far AS named_so_far
    FROM own AS o
    WINDOW so_far AS (
        PARTITION BY o.thread_index
        ORDER BY o.start_ticks, o.end_ticks DESC, o.event_index
        ROWS UNBOUNDED PRECEDING
    )
),
reached AS (
    SELECT
        o.thread_index,
        o.start_ticks,
        max(o.device_so_far) AS device,
        max(o.tensor_so_far) AS tensor,
        max(o.named_so_far) AS named
    FROM ordered AS o
    GROUP BY o.thread_index, o.start_ticks
),
totalled AS (
    SELECT
        o.*,
        greatest(u.device - o.device_so_far, 0) AS device_within,
        greatest(u.tensor - o.tensor_so_far, 0) AS tensor_within,
        greatest(u.named - o.named_so_far, 0) AS named_within
    FROM ordered AS o
    ASOF LEFT JOIN reached AS u
        ON u.thread_index = o.thread_index AND o.end_ticks > u.start_ticks
)
SELECT
    o.run_index,
    o.event_index,
    o.innermost_index,
    o.label,
    o.kind,
    o.parent_index,
    _is_operator(o.kind, o.label, o.is_data_loader) AS is_operator,
    o.start_ticks,
    o.end_ticks - o.start_ticks AS host_ticks,
    o.host_self_ticks,
    o.device_self_ticks + o.device_within AS device_ticks,
    o.device_self_ticks,
    o.tensor_self_ticks + o.tensor_within AS tensor_ticks,
    o.tensor_self_ticks,
    o.kernel_self_ticks,
    o.is_named OR o.kind = 'Operator' AND o.named_within > 0 AS is_eligible,
    o.is_named AND o.named_within = 0 AS is_lowest_eligible
FROM totalled AS o;
