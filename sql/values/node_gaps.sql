-- One node of the edge graphs of the record of the new capture of a pair, with the difference between its value and that
-- of the other capture, as in `node_gaps`.
CREATE MACRO _node_gaps(
    compared,  -- as in `_numeric_gaps`
    metric
) AS TABLE
WITH last_nodes AS (
    SELECT c.pair, g.method, h.debug_handle, g.record_id, g.graph_id, h.node_index
    FROM query_table(compared) AS c
    JOIN captures AS k ON k.capture_id = c.new_key
    JOIN graphs AS g ON g.record_id = k.record_id AND g.stage = 'edge_dialect_exported_program'
    JOIN node_debug_handles AS h ON h.record_id = g.record_id AND h.graph_id = g.graph_id
    QUALIFY row_number() OVER (PARTITION BY c.pair, g.method, h.debug_handle ORDER BY h.node_index DESC) = 1
),
worst AS (
    SELECT n.record_id, n.graph_id, n.node_index, d.*
    FROM _numeric_gaps(compared, metric) AS d
    JOIN last_nodes AS n USING (pair, method, debug_handle)
    -- NaN is the worst gap: it counts as greater than all numbers, even with a minus sign.
    QUALIFY row_number() OVER (
        PARTITION BY d.pair, n.graph_id, n.node_index
        ORDER BY
            CASE WHEN d.metric IN ('snr', 'cosine') THEN -d.gap ELSE d.gap END
            DESC NULLS LAST, d.debug_handle DESC, d.output_index
    ) = 1
),
judged AS (
    SELECT w.*,
        CASE w.metric WHEN 'snr' THEN pow(10, -w.gap / 10) WHEN 'cosine' THEN 1 - w.gap ELSE w.gap END AS badness,
        max(badness) OVER (PARTITION BY w.pair, w.graph_id) AS worst
    FROM worst AS w
)
SELECT w.pair, w.graph_id, w.node_index, w.method, p.name, p.op_type, p.module_path, w.debug_handle, w.output_index,
    w.metric, w.mapping, w.gap, w.problem, w.elements,
    CASE
        WHEN w.gap IS NOT NULL THEN w.badness > 0
            AND w.node_index
            = min(CASE WHEN w.badness >= w.worst / 10 THEN w.node_index END) OVER (PARTITION BY w.pair, w.graph_id)
    END AS grows
FROM judged AS w
JOIN op_nodes AS p USING (record_id, graph_id, node_index);

-- One node of the edge graphs of a capture's record, with the difference between its value and that of another capture,
-- as in `numeric_gap`. The value of a debug handle is that of the last node that has it. A node with several values has
-- the worst gap. Nodes without values have no row.
-- Shown: name!, op_type!, gap!#, grows, problem!, metric!, module_path AS module, method, debug_handle#, output_index#,
--   mapping, elements#
-- Columns:
--   graph_id: the graph
--   node_index: the node, in `op_nodes`
--   method: the graph's method
--   name: its name
--   op_type: op type of the node
--   module_path: path of its module; NULL where none was kept
--   debug_handle: the handle of the value
--   output_index: index of the op's output, from 0
--   metric: the requested metric
--   mapping: exact if each side has only one logged value that can be the op's; inferred if a side has several, of which the likeliest is taken; NULL if gap is NULL
--   gap: value of the metric; NULL if it can't be computed, NaN if elements are NaN on one side only
--   problem: why gap is NULL, or what is wrong with it; NULL without a problem
--   elements: number of elements compared
--   grows: whether the gap grows from this node on, which is the first node of its graph whose gap is within a factor of 10, or 10 dB, of the worst gap; NULL if gap is NULL
CREATE MACRO node_gaps(
    base,  -- the capture assumed to be right: name, hash prefix, @latest or selector
    new,  -- the capture to be judged, whose nodes these are: name, hash prefix, @latest or selector
    metric := 'mse'  -- mse, l1 (sum), snr (dB), cosine, max_abs, max_rel (share of base's element)
) AS TABLE
WITH one_pair AS MATERIALIZED (FROM _two_with_handles(base, new))
SELECT g.graph_id, g.node_index, g.method, g.name, g.op_type, g.module_path, g.debug_handle, g.output_index, g.metric,
    g.mapping, g.gap, g.problem, g.elements, g.grows
FROM _node_gaps('one_pair', metric) AS g
ORDER BY g.graph_id, g.node_index;
