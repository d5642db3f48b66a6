-- One call of an op, module or step of a trace, with its times on the host and on devices.
CREATE MACRO _operator_calls(capture_key) AS TABLE
WITH slices AS MATERIALIZED (
    FROM _trace_slices(capture_key) AS s
    WHERE s.event_index = s.operator_index OR s.operator_index IS NOT NULL AND s.kind IN ('kernel', 'copy', 'fill')
),
summed AS (
    SELECT s.operator_index, sum(s.end_ticks - s.start_ticks) AS device_ticks,
        coalesce(sum(s.end_ticks - s.start_ticks) FILTER (s.kind = 'kernel'), 0) AS kernel_ticks,
        coalesce(sum(s.end_ticks - s.start_ticks) FILTER (s.uses_matrix_units), 0) AS tensor_ticks,
        coalesce(
            sum(s.end_ticks - s.start_ticks) FILTER (s.kind = 'kernel' AND s.uses_matrix_units IS NULL), 0
        ) AS unknown_ticks,
        list(s.event_index) FILTER (s.kind = 'kernel') AS kernels
    FROM slices AS s
    WHERE s.event_index <> s.operator_index
    GROUP BY s.operator_index
),
self_times AS MATERIALIZED (
    SELECT o.run_index, o.event_index, o.operators_within, o.label, o.kind, o.node_index AS parent_index,
        o.thread_index, o.start_ticks, o.end_ticks, o.is_data_loader, o.covers_own,
        o.operator_ticks AS host_self_ticks,
        coalesce(s.device_ticks, 0) AS device_self_ticks, coalesce(s.kernel_ticks, 0) AS kernel_self_ticks,
        coalesce(s.tensor_ticks, 0) AS tensor_self_ticks, coalesce(s.unknown_ticks, 0) AS unknown_self_ticks,
        s.kernels,
        _could_use_tensor_cores(o.label) OR o.kind = 'op' AND coalesce(s.tensor_ticks > 0, false) AS is_named
    FROM slices AS o
    LEFT JOIN summed AS s ON s.operator_index = o.event_index
    WHERE o.event_index = o.operator_index
),
-- The descendants of a call, which start within it, follow it in this order.
reached AS MATERIALIZED (
    SELECT o.event_index, o.thread_index, row_number() OVER so_far AS place,
        sum(o.device_self_ticks) OVER so_far AS device, sum(o.tensor_self_ticks) OVER so_far AS tensor,
        sum(o.unknown_self_ticks) OVER so_far AS unknown, sum(o.is_named::BIGINT) OVER so_far AS named
    FROM self_times AS o
    WINDOW so_far AS (
        PARTITION BY o.thread_index
        ORDER BY o.start_ticks, o.end_ticks DESC, o.event_index
        ROWS UNBOUNDED PRECEDING
    )
)
SELECT o.run_index, o.event_index, o.label, o.kind, o.parent_index,
    _is_operator(o.kind, o.label, o.is_data_loader) AS is_operator, o.thread_index, o.start_ticks,
    o.end_ticks - o.start_ticks AS host_ticks, o.host_self_ticks, f.device - o.device_self_ticks AS device_before_ticks,
    o.device_self_ticks + u.device - f.device AS device_ticks, o.device_self_ticks,
    f.tensor - o.tensor_self_ticks AS tensor_before_ticks, o.tensor_self_ticks + u.tensor - f.tensor AS tensor_ticks,
    o.tensor_self_ticks, f.unknown - o.unknown_self_ticks AS unknown_before_ticks,
    o.unknown_self_ticks + u.unknown - f.unknown AS unknown_ticks, o.unknown_self_ticks, o.kernel_self_ticks, o.kernels,
    o.is_named OR o.kind = 'op' AND u.named > f.named AS is_eligible,
    o.is_named AND u.named = f.named AS is_lowest_eligible, o.covers_own
FROM self_times AS o
JOIN reached AS f USING (event_index)
JOIN reached AS u ON u.thread_index = o.thread_index AND u.place = f.place + o.operators_within;
