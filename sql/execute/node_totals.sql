-- One node of the edge graphs of the methods that a capture ran, with times as in `node_totals`.
CREATE MACRO _node_times(capture_key, unit, steps, phase, method, runs) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_key(capture_key, unit)),
times AS MATERIALIZED (FROM _attributed_times((SELECT a.capture_id FROM target AS a), steps, phase, method, runs) AS t),
executes AS (SELECT t.method, nullif(sum(t.executes), 0)::BIGINT AS number FROM times AS t GROUP BY t.method),
-- The nodes of the events in these runs.
ran AS MATERIALIZED (
    SELECT DISTINCT n.graph_id, n.node_index
    FROM signature_nodes AS n
    JOIN target AS a USING (capture_id)
    WHERE n.is_own AND n.signature_index IN (SELECT t.signature_index FROM times AS t)
),
firsts AS (
    SELECT n.signature_index, n.graph_id, n.node_index, s.kind
    FROM signature_nodes AS n
    JOIN target AS a USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE n.is_own AND s.kind <> 'operator_call'
    QUALIFY row_number() OVER (PARTITION BY n.signature_index ORDER BY n.position) = 1
        AND (s.kind = 'kernel' OR count(*) OVER (PARTITION BY n.signature_index) = 1)
),
node_times AS (
    SELECT f.graph_id, f.node_index,
        coalesce(sum(t.calls) FILTER (WHERE f.kind <> 'delegate_call'), sum(t.calls))::BIGINT AS calls,
        sum(t.self_ticks) AS ticks
    FROM times AS t
    JOIN firsts AS f USING (signature_index)
    GROUP BY f.graph_id, f.node_index
)
SELECT p.record_id, p.graph_id, g.method, p.node_index, p.name, p.op_type, p.module_path, p.source_file, p.source_line,
    coalesce(o.calls, z.nothing) AS calls,
    _in_unit(try_cast(coalesce(o.ticks, z.nothing) AS BIGINT), a.scale) AS self_time,
    100e0 * coalesce(o.ticks, z.nothing) / nullif(
        (SELECT sum(t.self_ticks)::DOUBLE FROM times AS t), 0
    ) AS share_percent, a.unit AS unit, x.number AS executes, self_time / x.number AS per_execute
FROM target AS a
JOIN graphs AS g
    ON g.record_id = a.record_id
    AND g.stage = 'edge_dialect_exported_program'
    AND g.method IN (SELECT r.method FROM runs AS r WHERE r.capture_id = a.capture_id)
    AND g.method = coalesce(method, g.method)
JOIN op_nodes AS p ON p.record_id = g.record_id AND p.graph_id = g.graph_id
LEFT JOIN executes AS x USING (method)
LEFT JOIN node_times AS o ON o.graph_id = p.graph_id AND o.node_index = p.node_index
LEFT JOIN ran AS r ON r.graph_id = p.graph_id AND r.node_index = p.node_index
-- Nodes that no event ran took no time.
LEFT JOIN (SELECT 0 AS nothing) AS z ON r.node_index IS NULL;

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
FROM _node_times(
    (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a), steps, phase, method, runs
) AS n
LEFT JOIN (FROM target AS a JOIN placed_nodes AS p USING (capture_id)) AS d USING (graph_id, node_index)
ORDER BY n.graph_id, n.node_index;
