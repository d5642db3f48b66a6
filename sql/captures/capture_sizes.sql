-- One table and its size in the file, computed from the table's blocks.
-- Columns:
--   table_name: the table
--   bytes: size in bytes
CREATE VIEW _table_bytes AS
WITH segments AS (
    SELECT 'all_advice' AS table_name, s.* FROM pragma_storage_info('all_advice') AS s
    UNION ALL
    SELECT 'all_execute_breakdown' AS table_name, s.* FROM pragma_storage_info('all_execute_breakdown') AS s
    UNION ALL
    SELECT 'all_framework_tax' AS table_name, s.* FROM pragma_storage_info('all_framework_tax') AS s
    UNION ALL
    SELECT 'all_headline' AS table_name, s.* FROM pragma_storage_info('all_headline') AS s
    UNION ALL
    SELECT 'all_memory_totals' AS table_name, s.* FROM pragma_storage_info('all_memory_totals') AS s
    UNION ALL
    SELECT 'all_op_totals' AS table_name, s.* FROM pragma_storage_info('all_op_totals') AS s
    UNION ALL
    SELECT 'all_step_efficiency' AS table_name, s.* FROM pragma_storage_info('all_step_efficiency') AS s
    UNION ALL
    SELECT 'allocations' AS table_name, s.* FROM pragma_storage_info('allocations') AS s
    UNION ALL
    SELECT 'allocators' AS table_name, s.* FROM pragma_storage_info('allocators') AS s
    UNION ALL
    SELECT 'captures' AS table_name, s.* FROM pragma_storage_info('captures') AS s
    UNION ALL
    SELECT 'capture_clocks' AS table_name, s.* FROM pragma_storage_info('capture_clocks') AS s
    UNION ALL
    SELECT 'capture_ops' AS table_name, s.* FROM pragma_storage_info('capture_ops') AS s
    UNION ALL
    SELECT 'debug_values' AS table_name, s.* FROM pragma_storage_info('debug_values') AS s
    UNION ALL
    SELECT 'device_events' AS table_name, s.* FROM pragma_storage_info('device_events') AS s
    UNION ALL
    SELECT 'device_gaps' AS table_name, s.* FROM pragma_storage_info('device_gaps') AS s
    UNION ALL
    SELECT 'event_counters' AS table_name, s.* FROM pragma_storage_info('event_counters') AS s
    UNION ALL
    SELECT 'event_memory' AS table_name, s.* FROM pragma_storage_info('event_memory') AS s
    UNION ALL
    SELECT 'event_ticks' AS table_name, s.* FROM pragma_storage_info('event_ticks') AS s
    UNION ALL
    SELECT 'findings' AS table_name, s.* FROM pragma_storage_info('findings') AS s
    UNION ALL
    SELECT 'gap_parts' AS table_name, s.* FROM pragma_storage_info('gap_parts') AS s
    UNION ALL
    SELECT 'host_collectives' AS table_name, s.* FROM pragma_storage_info('host_collectives') AS s
    UNION ALL
    SELECT 'host_waits' AS table_name, s.* FROM pragma_storage_info('host_waits') AS s
    UNION ALL
    SELECT 'labels' AS table_name, s.* FROM pragma_storage_info('labels') AS s
    UNION ALL
    SELECT 'linked_methods' AS table_name, s.* FROM pragma_storage_info('linked_methods') AS s
    UNION ALL
    SELECT 'metrics' AS table_name, s.* FROM pragma_storage_info('metrics') AS s
    UNION ALL
    SELECT 'module_times' AS table_name, s.* FROM pragma_storage_info('module_times') AS s
    UNION ALL
    SELECT 'call_costs' AS table_name, s.* FROM pragma_storage_info('call_costs') AS s
    UNION ALL
    SELECT 'costed_ops' AS table_name, s.* FROM pragma_storage_info('costed_ops') AS s
    UNION ALL
    SELECT 'op_arguments' AS table_name, s.* FROM pragma_storage_info('op_arguments') AS s
    UNION ALL
    SELECT 'op_shapes' AS table_name, s.* FROM pragma_storage_info('op_shapes') AS s
    UNION ALL
    SELECT 'op_times' AS table_name, s.* FROM pragma_storage_info('op_times') AS s
    UNION ALL
    SELECT 'op_values' AS table_name, s.* FROM pragma_storage_info('op_values') AS s
    UNION ALL
    SELECT 'step_times' AS table_name, s.* FROM pragma_storage_info('step_times') AS s
    UNION ALL
    SELECT 'placed_nodes' AS table_name, s.* FROM pragma_storage_info('placed_nodes') AS s
    UNION ALL
    SELECT 'recordings' AS table_name, s.* FROM pragma_storage_info('recordings') AS s
    UNION ALL
    SELECT 'runs' AS table_name, s.* FROM pragma_storage_info('runs') AS s
    UNION ALL
    SELECT 'signature_costs' AS table_name, s.* FROM pragma_storage_info('signature_costs') AS s
    UNION ALL
    SELECT 'signature_delegate_ops' AS table_name, s.* FROM pragma_storage_info('signature_delegate_ops') AS s
    UNION ALL
    SELECT 'signature_nodes' AS table_name, s.* FROM pragma_storage_info('signature_nodes') AS s
    UNION ALL
    SELECT 'signature_ops' AS table_name, s.* FROM pragma_storage_info('signature_ops') AS s
    UNION ALL
    SELECT 'signature_outputs' AS table_name, s.* FROM pragma_storage_info('signature_outputs') AS s
    UNION ALL
    SELECT 'signature_times' AS table_name, s.* FROM pragma_storage_info('signature_times') AS s
    UNION ALL
    SELECT 'signatures' AS table_name, s.* FROM pragma_storage_info('signatures') AS s
    UNION ALL
    SELECT 'threads' AS table_name, s.* FROM pragma_storage_info('threads') AS s
    UNION ALL
    SELECT 'tool_steps' AS table_name, s.* FROM pragma_storage_info('tool_steps') AS s
    UNION ALL
    SELECT 'trace_devices' AS table_name, s.* FROM pragma_storage_info('trace_devices') AS s
    UNION ALL
    SELECT 'trace_events' AS table_name, s.* FROM pragma_storage_info('trace_events') AS s
    UNION ALL
    SELECT 'trace_memory' AS table_name, s.* FROM pragma_storage_info('trace_memory') AS s
    UNION ALL
    SELECT 'trace_steps' AS table_name, s.* FROM pragma_storage_info('trace_steps') AS s
),
blocks AS (
    SELECT b.block_size
    FROM pragma_database_size() AS b
    WHERE b.database_name = (
        SELECT any_value(t.database_name) FROM duckdb_tables() AS t WHERE t.table_name = 'warehouse' AND NOT t.temporary
    )
),
-- Small segments share a block, one after the other.
placed AS (
    SELECT p.table_name,
        -- There are only two arguments, because DuckDB 1.5 can't read the form in which DuckDB 2 stores a third one.
        coalesce(lead(p.block_offset) OVER (
            PARTITION BY p.block_id ORDER BY p.block_offset
        ), b.block_size) - p.block_offset + p.more * b.block_size AS bytes
    FROM (
        SELECT s.table_name, s.block_id, s.block_offset, any_value(len(coalesce(s.additional_block_ids, []))) AS more
        FROM segments AS s
        WHERE s.block_id >= 0
        GROUP BY s.table_name, s.block_id, s.block_offset
    ) AS p
    CROSS JOIN blocks AS b
)
SELECT p.table_name, sum(p.bytes) AS bytes FROM placed AS p GROUP BY p.table_name;

-- One capture with an estimate of its size in the file: its share of each table's rows times the table's size. The
-- sizes of tables are counted in the file's blocks; free space, records and programs belong to no capture, and data
-- written since the last checkpoint isn't counted.
-- Shown: name!, stored_bytes! (bytes)
-- Columns:
--   capture_id: the capture
--   name: its name
--   stored_bytes: estimated size in the file in bytes; 0 for a warehouse in memory
CREATE VIEW capture_sizes AS
WITH capture_rows AS (
    SELECT r.table_name, r.capture_id, count(*) AS number
    FROM (
        SELECT 'all_advice' AS table_name, t.capture_id FROM all_advice AS t
        UNION ALL
        SELECT 'all_execute_breakdown' AS table_name, t.capture_id FROM all_execute_breakdown AS t
        UNION ALL
        SELECT 'all_framework_tax' AS table_name, t.capture_id FROM all_framework_tax AS t
        UNION ALL
        SELECT 'all_headline' AS table_name, t.capture_id FROM all_headline AS t
        UNION ALL
        SELECT 'all_memory_totals' AS table_name, t.capture_id FROM all_memory_totals AS t
        UNION ALL
        SELECT 'all_op_totals' AS table_name, t.capture_id FROM all_op_totals AS t
        UNION ALL
        SELECT 'all_step_efficiency' AS table_name, t.capture_id FROM all_step_efficiency AS t
        UNION ALL
        SELECT 'allocations' AS table_name, t.capture_id FROM allocations AS t
        UNION ALL
        SELECT 'allocators' AS table_name, t.capture_id FROM allocators AS t
        UNION ALL
        SELECT 'captures' AS table_name, t.capture_id FROM captures AS t
        UNION ALL
        SELECT 'capture_clocks' AS table_name, t.capture_id FROM capture_clocks AS t
        UNION ALL
        SELECT 'capture_ops' AS table_name, t.capture_id FROM capture_ops AS t
        UNION ALL
        SELECT 'debug_values' AS table_name, t.capture_id FROM debug_values AS t
        UNION ALL
        SELECT 'device_events' AS table_name, t.capture_id FROM device_events AS t
        UNION ALL
        SELECT 'device_gaps' AS table_name, t.capture_id FROM device_gaps AS t
        UNION ALL
        SELECT 'event_counters' AS table_name, t.capture_id FROM event_counters AS t
        UNION ALL
        SELECT 'event_memory' AS table_name, t.capture_id FROM event_memory AS t
        UNION ALL
        SELECT 'event_ticks' AS table_name, t.capture_id FROM event_ticks AS t
        UNION ALL
        SELECT 'findings' AS table_name, t.capture_id FROM findings AS t
        UNION ALL
        SELECT 'gap_parts' AS table_name, t.capture_id FROM gap_parts AS t
        UNION ALL
        SELECT 'host_collectives' AS table_name, t.capture_id FROM host_collectives AS t
        UNION ALL
        SELECT 'host_waits' AS table_name, t.capture_id FROM host_waits AS t
        UNION ALL
        SELECT 'labels' AS table_name, t.capture_id FROM labels AS t
        UNION ALL
        SELECT 'linked_methods' AS table_name, t.capture_id FROM linked_methods AS t
        UNION ALL
        SELECT 'metrics' AS table_name, t.capture_id FROM metrics AS t
        UNION ALL
        SELECT 'module_times' AS table_name, t.capture_id FROM module_times AS t
        UNION ALL
        SELECT 'call_costs' AS table_name, t.capture_id FROM call_costs AS t
        UNION ALL
        SELECT 'costed_ops' AS table_name, t.capture_id FROM costed_ops AS t
        UNION ALL
        SELECT 'op_arguments' AS table_name, t.capture_id FROM op_arguments AS t
        UNION ALL
        SELECT 'op_shapes' AS table_name, t.capture_id FROM op_shapes AS t
        UNION ALL
        SELECT 'op_times' AS table_name, t.capture_id FROM op_times AS t
        UNION ALL
        SELECT 'op_values' AS table_name, t.capture_id FROM op_values AS t
        UNION ALL
        SELECT 'placed_nodes' AS table_name, t.capture_id FROM placed_nodes AS t
        UNION ALL
        SELECT 'recordings' AS table_name, t.capture_id FROM recordings AS t
        UNION ALL
        SELECT 'runs' AS table_name, t.capture_id FROM runs AS t
        UNION ALL
        SELECT 'signature_costs' AS table_name, t.capture_id FROM signature_costs AS t
        UNION ALL
        SELECT 'signature_delegate_ops' AS table_name, t.capture_id FROM signature_delegate_ops AS t
        UNION ALL
        SELECT 'signature_nodes' AS table_name, t.capture_id FROM signature_nodes AS t
        UNION ALL
        SELECT 'signature_ops' AS table_name, t.capture_id FROM signature_ops AS t
        UNION ALL
        SELECT 'signature_outputs' AS table_name, t.capture_id FROM signature_outputs AS t
        UNION ALL
        SELECT 'signature_times' AS table_name, t.capture_id FROM signature_times AS t
        UNION ALL
        SELECT 'signatures' AS table_name, t.capture_id FROM signatures AS t
        UNION ALL
        SELECT 'step_times' AS table_name, t.capture_id FROM step_times AS t
        UNION ALL
        SELECT 'threads' AS table_name, t.capture_id FROM threads AS t
        UNION ALL
        SELECT 'tool_steps' AS table_name, t.capture_id FROM tool_steps AS t
        UNION ALL
        SELECT 'trace_devices' AS table_name, t.capture_id FROM trace_devices AS t
        UNION ALL
        SELECT 'trace_events' AS table_name, t.capture_id FROM trace_events AS t
        UNION ALL
        SELECT 'trace_memory' AS table_name, t.capture_id FROM trace_memory AS t
        UNION ALL
        SELECT 'trace_steps' AS table_name, t.capture_id FROM trace_steps AS t
    ) AS r
    GROUP BY r.table_name, r.capture_id
),
shares AS (
    SELECT n.capture_id, t.bytes * n.number / sum(n.number) OVER (PARTITION BY n.table_name) AS bytes
    FROM capture_rows AS n
    JOIN _table_bytes AS t USING (table_name)
)
SELECT c.capture_id, c.name,
    coalesce((SELECT round(sum(h.bytes)) FROM shares AS h WHERE h.capture_id = c.capture_id), 0)::BIGINT AS stored_bytes
FROM captures AS c
ORDER BY c.capture_id;
