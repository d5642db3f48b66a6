-- One node of the edge graphs of the methods that captures ran, with times as in `node_totals`.
CREATE MACRO _node_times(
    targets,  -- a table with the captures: capture_id, record_id, unit, scale
    steps, phase, method, runs
) AS TABLE
WITH times AS MATERIALIZED (FROM _attributed_times(targets, steps, phase, method, runs) AS t),
executes AS (
    SELECT t.capture_id, t.method, nullif(sum(t.executes), 0)::BIGINT AS number
    FROM times AS t
    GROUP BY t.capture_id, t.method
),
totals AS (SELECT t.capture_id, sum(t.self_ticks)::DOUBLE AS ticks FROM times AS t GROUP BY t.capture_id),
own_nodes AS (
    SELECT n.capture_id, n.signature_index, n.graph_id, n.node_index, s.kind,
        -- Whether the event's time is that of the node.
        s.kind <> 'operator_call'
        AND row_number() OVER (PARTITION BY n.capture_id, n.signature_index ORDER BY n.position) = 1
        AND (s.kind = 'kernel' OR count(*) OVER (PARTITION BY n.capture_id, n.signature_index) = 1) AS is_timed
    FROM query_table(targets) AS a
    JOIN signature_nodes AS n USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE n.is_own
),
-- The nodes of the events in these runs.
ran AS (
    SELECT n.capture_id, n.graph_id, n.node_index,
        coalesce(
            sum(t.calls) FILTER (n.is_timed AND n.kind <> 'delegate_call'), sum(t.calls) FILTER (n.is_timed)
        )::BIGINT AS calls,
        sum(t.self_ticks) FILTER (n.is_timed) AS ticks
    FROM own_nodes AS n
    JOIN times AS t USING (capture_id, signature_index)
    GROUP BY n.capture_id, n.graph_id, n.node_index
),
nodes AS (
    SELECT a.capture_id, a.unit, a.scale, g.method, p.*
    FROM query_table(targets) AS a
    JOIN (SELECT DISTINCT r.capture_id, r.method FROM query_table(targets) AS a JOIN runs AS r USING (capture_id)) AS m
        USING (capture_id)
    JOIN graphs AS g
        ON g.record_id = a.record_id
        AND g.stage = 'edge_dialect_exported_program'
        AND g.method = m.method
        AND g.method = coalesce(method, g.method)
    JOIN op_nodes AS p ON p.record_id = g.record_id AND p.graph_id = g.graph_id
)
SELECT p.capture_id, p.record_id, p.graph_id, p.method, p.node_index, p.name, p.op_type, p.module_path, p.source_file,
    p.source_line,
    -- Nodes that no event ran took no time.
    CASE WHEN r.graph_id IS NULL THEN 0 ELSE r.calls END AS calls,
    _in_unit(CASE WHEN r.graph_id IS NULL THEN 0 ELSE try_cast(r.ticks AS BIGINT) END, p.scale) AS self_time,
    100e0 * CASE WHEN r.graph_id IS NULL THEN 0 ELSE r.ticks END / nullif(o.ticks, 0) AS share_percent, p.unit AS unit,
    x.number AS executes, self_time / x.number AS per_execute
FROM nodes AS p
LEFT JOIN totals AS o USING (capture_id)
LEFT JOIN executes AS x USING (capture_id, method)
LEFT JOIN ran AS r USING (capture_id, graph_id, node_index);

-- One node of the edge graphs of the methods that a capture ran, with the self time of the kernels that run it and of
-- the delegates' events that run only it. Framework time, time of no node, and time of delegate calls with several
-- nodes are excluded; see `module_totals`. The time of a node is unknown if each of its events, for example such a
-- call, runs several nodes. Needs a linked record.
-- Needs: dump; else: key_averages
-- Shown: name!, op_type!, method, per_execute!~, share_percent!%, calls!#, backend, module_path AS module, source_file,
--   source_line#, self_time+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   record_id: the linked record
--   graph_id: the graph
--   method: the graph's method
--   node_index: the node
--   name: its name
--   op_type: op type of the node
--   module_path: path of its module; NULL where none was kept
--   source_file: file of the user's line; NULL where none was kept
--   source_line: line in that file; NULL where none was kept
--   backend: the delegate that runs it; NULL if none does
--   calls: number of its events; a delegate call doesn't count if the delegate logged events of the node; NULL if unknown
--   self_time: sum of their self times; NULL if unknown
--   share_percent: self_time in percent of the executes; NULL if unknown
--   unit: unit of times
--   executes: number of executes of the method; NULL if it has none
--   per_execute: self_time / executes; NULL if unknown
CREATE MACRO node_totals(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH target AS MATERIALIZED (FROM _linked_capture_with_method(capture, unit, method))
SELECT n.record_id, n.graph_id, n.method, n.node_index, n.name, n.op_type, n.module_path, n.source_file, n.source_line,
    d.backend, n.calls, n.self_time, n.share_percent, n.unit, n.executes, n.per_execute
FROM _node_times('target', steps, phase, method, runs) AS n
LEFT JOIN (FROM target AS a JOIN placed_nodes AS p USING (capture_id)) AS d USING (graph_id, node_index)
ORDER BY n.graph_id, n.node_index;
