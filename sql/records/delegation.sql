-- One op type of a record's edge graphs, as in `delegation`, by keys alone.
-- Columns:
--   method: as in `delegation`
--   op_type: as there
--   delegated: as there
--   not_delegated: as there
--   backends: as there
--   basis: as there
CREATE MACRO _delegation(
    record_key,  -- key of a record
    program_key,  -- as in `_kernel_ops`
    capture_key  -- as in `_kernel_ops`
) AS TABLE
SELECT
    g.method,
    p.op_type,
    count(d.backend) AS delegated,
    count(*) - count(d.backend) AS not_delegated,
    string_agg(DISTINCT d.backend, ', ' ORDER BY d.backend) AS backends,
    CASE
        WHEN bool_or(d.basis = 'handles') THEN 'handles'
        WHEN bool_or(d.basis = 'kernels') THEN 'kernels'
        WHEN bool_or(d.basis = 'graph') THEN 'graph'
        ELSE 'record'
    END AS basis
FROM graphs AS g
JOIN op_nodes AS p ON p.record_id = g.record_id AND p.graph_id = g.graph_id
LEFT JOIN _node_delegates(record_key, program_key, capture_key) AS d
    ON d.graph_id = p.graph_id AND d.node_index = p.node_index
WHERE g.record_id = record_key AND g.stage = 'edge_dialect_exported_program'
GROUP BY g.method, p.op_type;

-- One op type of a record's edge graphs: how many of its nodes were given to a
-- delegate, and how many were not: those that kernels run, and views that need
-- none. Nodes of one decomposed op share a debug handle. Where a delegate took
-- some of them, the kernels of the program, or of captures that are linked to
-- the record, tell which.
-- Columns:
--   method: the method
--   op_type: what the nodes call
--   delegated: number of nodes that a delegate runs
--   not_delegated: number of nodes that no delegate runs
--   backends: names of the backends that run some, as text; NULL where none does
--   basis: what that is known by: graph (the record has the lowered graph), record (the handles of its instructions leave one answer), kernels (which ops kernels run leaves one), handles (a guess by handles alone: link a capture or program)
CREATE MACRO delegation(
    record,  -- name or hash prefix of a record
    program := NULL  -- name or hash prefix of its program; NULL: the one that its captures are linked to
) AS TABLE
WITH
asked AS MATERIALIZED (
    SELECT
        r.record_id,
        CASE
            WHEN program IS NOT NULL THEN _program_id(program)
            ELSE (
                SELECT max(k.program_id)
                FROM captures AS k
                WHERE k.record_id = r.record_id
            )
        END AS program_id
    FROM (SELECT _record_id(record) AS record_id) AS r
)
SELECT
    c.method,
    c.op_type,
    c.delegated,
    c.not_delegated,
    c.backends,
    c.basis
FROM _delegation(
    (SELECT a.record_id FROM asked AS a), (SELECT a.program_id FROM asked AS a), NULL
) AS c
ORDER BY c.method, c.not_delegated DESC, c.op_type;
