-- One node of a program's graph, at a stage of its lowering, with the self time of the events that ran it, as in
-- `node_totals`. A node of the exported program has the time of all nodes of the edge graph that were made from it,
-- according to their debug handles. If several nodes of the exported program share a handle, the last one has the time.
-- Nodes of nested graphs have no row, nor do nodes that no event is known to have run.
CREATE MACRO _graph_times(
    capture,
    graph,  -- exported_program or edge_dialect_exported_program
    unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'all'
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.capture_id, c.record_id, c.unit, c.scale,
        CASE
            WHEN graph IN ('exported_program', 'edge_dialect_exported_program') THEN graph
            ELSE error(
                'unknown graph ' || coalesce(graph, 'NULL') || '; known are '
                || 'exported_program, edge_dialect_exported_program'
            )
        END AS stage
    FROM _linked_capture_with_method(capture, unit, method) AS c
),
executes AS (
    SELECT t.method, count(*) AS number
    FROM _run_events('target', steps, phase, method, runs) AS t
    WHERE t.is_execute
    GROUP BY t.method
),
edge_nodes AS (
    SELECT n.record_id, n.graph_id, n.node_index, g.method, n.self_time / e.number AS self_time, n.unit
    FROM _node_times('target', steps, phase, method, runs) AS n
    JOIN graphs AS g USING (record_id, graph_id)
    JOIN executes AS e ON e.method = g.method
    WHERE n.calls > 0
),
handles AS (
    SELECT h.record_id, g.stage, g.method, h.debug_handle,
        -- The first handle of an edge node.
        min(h.debug_handle) OVER (PARTITION BY h.record_id, h.graph_id, h.node_index) AS first_handle,
        h.graph_id, h.node_index
    FROM node_debug_handles AS h
    JOIN graphs AS g USING (record_id, graph_id)
    WHERE h.record_id IN (SELECT e.record_id FROM edge_nodes AS e)
),
origins AS (
    FROM handles AS h
    WHERE h.stage = 'exported_program'
    QUALIFY row_number() OVER (PARTITION BY h.record_id, h.method, h.debug_handle ORDER BY h.node_index DESC) = 1
),
placed AS (
    SELECT e.record_id, e.graph_id, e.node_index, e.method, e.self_time, e.unit
    FROM edge_nodes AS e CROSS JOIN target AS a
    WHERE a.stage = 'edge_dialect_exported_program'
    UNION ALL
    SELECT o.record_id, o.graph_id, o.node_index, e.method, e.self_time, e.unit
    FROM edge_nodes AS e CROSS JOIN target AS a
    JOIN handles AS h
        ON h.record_id = e.record_id
        AND h.graph_id = e.graph_id
        AND h.node_index = e.node_index
        AND h.debug_handle = h.first_handle
    JOIN origins AS o ON o.record_id = h.record_id AND o.method = h.method AND o.debug_handle = h.debug_handle
    WHERE a.stage = 'exported_program'
)
SELECT p.method, coalesce(any_value(n.name), any_value(v.value_name)) AS node_name, fsum(p.self_time) AS self_time,
    any_value(p.unit) AS unit
FROM placed AS p
JOIN op_nodes AS n USING (record_id, graph_id, node_index)
LEFT JOIN node_values AS v
    ON v.record_id = p.record_id AND v.graph_id = p.graph_id AND v.node_index = p.node_index AND v.output_index = 0
WHERE n.subgraph = ''
GROUP BY p.method, p.graph_id, p.node_index
ORDER BY p.method, p.graph_id, p.node_index;
