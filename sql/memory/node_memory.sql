-- One node of the edge graphs of the methods that a capture ran, with the planned memory of the tensors that it
-- computes: those whose lifetime in `planned_memory` begins at its instruction. Nodes without an instruction have no
-- row, nor have nodes that share an instruction with others, which most nodes in a delegate do. Needs a linked record;
-- the result is empty without a linked program.
-- Needs: dump; else: peak_memory
-- Shown: name!, op_type!, size_bytes! (bytes), peak_size_bytes! (bytes), tensors#, instruction#, module_path AS module,
--   method
-- Columns:
--   graph_id: the graph
--   node_index: the node, in `op_nodes`
--   method: the graph's method
--   name: its name
--   op_type: op type of the node
--   module_path: path of its module; NULL where none was kept
--   instruction: its instruction, as numbered in `planned_memory`
--   tensors: number of tensors
--   size_bytes: sum of their sizes in bytes; NULL if one is unknown
--   peak_size_bytes: size of the tensors that live at the method's peak; 0 if none does
CREATE MACRO node_memory(capture) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.capture_id, c.record_id, c.program_id
    FROM _linked_capture(capture, NULL) AS c
    -- A capture without a record is an error even if it has no program.
    WHERE CASE WHEN c.capture_id IS NOT NULL THEN c.program_id IS NOT NULL END
),
methods_of_plan AS MATERIALIZED (
    SELECT m.program_id, m.method, greatest(count(i.method) - 1, 0) AS last_step
    FROM target AS a
    JOIN methods AS m USING (program_id)
    LEFT JOIN instructions AS i ON i.program_id = m.program_id AND i.method = m.method
    GROUP BY m.program_id, m.method
),
run_by AS (
    SELECT DISTINCT n.graph_id, n.nodes[1] AS node_index, s.chain_index, s.instruction_id
    FROM target AS a
    JOIN signature_costs AS n ON n.capture_id = a.capture_id AND len(n.nodes) = 1 AND NOT n.is_one_of
    JOIN signatures AS s
        ON s.capture_id = a.capture_id
        AND s.signature_index = n.signature_index
        AND s.kind IN ('kernel', 'operator_call', 'delegate_call')
),
made AS (
    SELECT m.method, m.first_step, count(*) AS tensors,
        CASE WHEN count(*) = count(m.size_bytes) THEN try_cast(sum(m.size_bytes) AS BIGINT) END AS size_bytes,
        try_cast(coalesce(sum(m.size_bytes) FILTER (WHERE m.is_live_at_peak), 0) AS BIGINT) AS peak_size_bytes
    FROM _planned_tensors('methods_of_plan') AS m
    -- Tensors that outlive a run, or exist before it, are not computed by it.
    WHERE NOT m.is_input AND NOT m.is_kept
    GROUP BY m.method, m.first_step
)
SELECT r.graph_id, r.node_index, g.method, p.name, p.op_type, p.module_path, s.step AS instruction,
    coalesce(m.tensors, 0) AS tensors, CASE WHEN m.method IS NULL THEN 0 ELSE m.size_bytes END AS size_bytes,
    CASE WHEN m.method IS NULL THEN 0 ELSE m.peak_size_bytes END AS peak_size_bytes
FROM target AS a CROSS JOIN run_by AS r
JOIN graphs AS g USING (record_id, graph_id)
JOIN op_nodes AS p USING (record_id, graph_id, node_index)
JOIN _numbered_instructions('methods_of_plan') AS s USING (method, chain_index, instruction_id)
LEFT JOIN made AS m ON m.method = g.method AND m.first_step = s.step
ORDER BY r.graph_id, r.node_index, s.step;
