-- One call of an op, module or step of a trace, with its times on the host and on
-- devices.
CREATE MACRO _operator_calls(capture_key) AS TABLE
WITH
tree AS MATERIALIZED (
    SELECT t.* FROM _operator_tree(capture_key) AS t
),
innermost AS MATERIALIZED (
    SELECT t.event_index AS node_index, i.event_index
    FROM tree AS t
    JOIN tree AS i ON i.call_index = t.call_index AND i.is_innermost
),
-- Runtime calls belong to the innermost node that contains them.
placed AS MATERIALIZED (
    SELECT i.event_index, s.event_index AS call_index, s.counted_ticks
    FROM _trace_slices(capture_key) AS s
    JOIN innermost AS i ON i.node_index = s.node_index
    WHERE s.kind = 'call'
),
-- Events of devices belong to their op, or else to the node of their call.
owned AS (
    SELECT
        l.*,
        coalesce(i.event_index, p.event_index, n.event_index) AS node_index
    FROM _launches(capture_key) AS l
    LEFT JOIN placed AS p ON p.call_index = l.call_index
    LEFT JOIN innermost AS i ON i.node_index = l.op_index
    LEFT JOIN innermost AS n ON n.node_index = l.owner_index
),
launched AS (
    SELECT
        o.node_index,
        sum(o.device_ticks) AS device_ticks,
        sum(CASE WHEN o.kind = 'kernel' THEN o.device_ticks ELSE 0 END) AS kernel_ticks,
        list(o.event_index) FILTER (WHERE o.kind = 'kernel') AS kernels,
        sum(CASE WHEN o.uses_matrix_units THEN o.device_ticks ELSE 0 END)
            AS tensor_ticks,
        sum(
            CASE
                WHEN o.kind = 'kernel' AND o.uses_matrix_units IS NULL
                    THEN o.device_ticks
                ELSE 0
            END
        ) AS unknown_ticks
    FROM owned AS o
    WHERE o.node_index IS NOT NULL
    GROUP BY o.node_index
),
within AS (
    SELECT t.parent_index, sum(t.counted_ticks) AS ticks
    FROM tree AS t
    WHERE t.parent_index IS NOT NULL
    GROUP BY t.parent_index
),
calling AS (
    SELECT p.event_index, sum(p.counted_ticks) AS ticks
    FROM placed AS p
    GROUP BY p.event_index
),
self_times AS MATERIALIZED (
    SELECT
        o.run_index,
        o.event_index,
        i.event_index AS innermost_index,
        o.label,
        o.kind,
        o.parent_index,
        _is_operator(o.kind, o.label, o.is_data_loader) AS is_operator,
        o.thread_index,
        o.start_ticks,
        o.end_ticks,
        o.counted_ticks - coalesce(w.ticks, 0) - coalesce(c.ticks, 0)
            AS host_self_ticks,
        coalesce(l.device_ticks, 0) AS device_self_ticks,
        coalesce(l.kernel_ticks, 0) AS kernel_self_ticks,
        coalesce(l.tensor_ticks, 0) AS tensor_self_ticks,
        coalesce(l.unknown_ticks, 0) AS unknown_self_ticks,
        l.kernels,
        _could_use_tensor_cores(o.label)
            OR o.kind = 'op' AND coalesce(l.tensor_ticks, 0) > 0 AS is_named
    FROM tree AS i
    JOIN tree AS o ON o.event_index = i.call_index
    LEFT JOIN within AS w ON w.parent_index = i.event_index
    LEFT JOIN calling AS c ON c.event_index = i.event_index
    LEFT JOIN launched AS l ON l.node_index = i.event_index
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
        o.unknown_self_ticks AS unknown,
        o.is_named::BIGINT AS named
    FROM self_times AS o
    UNION ALL
    SELECT
        o.thread_index, o.event_index, o.end_ticks, o.end_ticks, 0, 0, 0, 0, 0
    FROM self_times AS o
),
reached AS (
    SELECT
        m.event_index,
        m.place,
        sum(m.device) OVER so_far AS device,
        sum(m.tensor) OVER so_far AS tensor,
        sum(m.unknown) OVER so_far AS unknown,
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
        sum(CASE WHEN u.place = 0 THEN u.unknown ELSE -u.unknown END) AS unknown,
        sum(CASE WHEN u.place = 0 THEN u.named ELSE -u.named END) AS named,
        sum(CASE WHEN u.place = 1 THEN u.device ELSE 0 END) AS device_until,
        sum(CASE WHEN u.place = 1 THEN u.tensor ELSE 0 END) AS tensor_until,
        sum(CASE WHEN u.place = 1 THEN u.unknown ELSE 0 END) AS unknown_until
    FROM reached AS u
    GROUP BY u.event_index
),
totalled AS (
    SELECT
        o.*,
        greatest(d.device, 0) AS device_within,
        greatest(d.tensor, 0) AS tensor_within,
        greatest(d.unknown, 0) AS unknown_within,
        greatest(d.named, 0) AS named_within,
        d.device_until - o.device_self_ticks AS device_before_ticks,
        d.tensor_until - o.tensor_self_ticks AS tensor_before_ticks,
        d.unknown_until - o.unknown_self_ticks AS unknown_before_ticks
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
    o.thread_index,
    o.start_ticks,
    o.end_ticks - o.start_ticks AS host_ticks,
    o.host_self_ticks,
    o.device_before_ticks,
    o.device_self_ticks + o.device_within AS device_ticks,
    o.device_self_ticks,
    o.tensor_before_ticks,
    o.tensor_self_ticks + o.tensor_within AS tensor_ticks,
    o.tensor_self_ticks,
    o.unknown_before_ticks,
    o.unknown_self_ticks + o.unknown_within AS unknown_ticks,
    o.unknown_self_ticks,
    o.kernel_self_ticks,
    o.kernels,
    o.is_named OR o.kind = 'op' AND o.named_within > 0 AS is_eligible,
    o.is_named AND o.named_within = 0 AS is_lowest_eligible
FROM totalled AS o;
