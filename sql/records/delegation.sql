-- One op type of a record's edge graphs: how many of its nodes were given to a
-- delegate, and how many were not. A node is a delegate's if its debug handle
-- is one of an instruction that calls a delegate.
-- Columns:
--   method: the method
--   op_type: what the nodes call
--   delegated: number of nodes that a delegate runs
--   not_delegated: number of nodes that kernels run
--   backends: names of the backends that run some, as text; NULL where none does
CREATE MACRO delegation(
    record  -- name or hash prefix of a record
) AS TABLE
WITH
asked AS (
    SELECT _record_id(record) AS record_id
),
delegated AS (
    SELECT d.method, h.debug_handle, min(d.backend) AS backend
    FROM asked AS a
    JOIN delegates AS d ON d.record_id = a.record_id
    JOIN debug_handles AS h
        ON h.record_id = a.record_id
        AND h.method = d.method
        AND h.instruction_id = d.instruction_id
    GROUP BY d.method, h.debug_handle
),
nodes AS (
    SELECT g.method, p.op_type, min(d.backend) AS backend
    FROM asked AS a
    JOIN graphs AS g
        ON g.record_id = a.record_id AND g.stage = 'edge_dialect_exported_program'
    JOIN op_nodes AS p
        ON p.record_id = g.record_id AND p.graph_id = g.graph_id
    LEFT JOIN node_debug_handles AS n
        ON n.record_id = p.record_id
        AND n.graph_id = p.graph_id
        AND n.node_index = p.node_index
    LEFT JOIN delegated AS d
        ON d.method = g.method AND d.debug_handle = n.debug_handle
    GROUP BY g.method, g.graph_id, p.node_index, p.op_type
)
SELECT
    n.method,
    n.op_type,
    count(n.backend) AS delegated,
    count(*) - count(n.backend) AS not_delegated,
    string_agg(DISTINCT n.backend, ', ' ORDER BY n.backend) AS backends
FROM nodes AS n
GROUP BY n.method, n.op_type
ORDER BY n.method, count(*) - count(n.backend) DESC, n.op_type;
