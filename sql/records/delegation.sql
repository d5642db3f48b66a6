-- The least certain of the bases of nodes, as in `delegation`.
CREATE MACRO _least_certain(basis) AS (
    min_by(basis, list_position(['handles', 'kernels', 'graph', 'record', 'program'], basis))
);

-- One op type of a record's edge graphs, as in `delegation`, for arguments that are keys.
CREATE MACRO _delegation(record_key, program_key) AS TABLE
SELECT g.method, p.op_type, count(d.backend) AS delegated, count(*) - count(d.backend) AS not_delegated,
    string_agg(DISTINCT d.backend, ', ' ORDER BY d.backend) AS backends,
    _least_certain(coalesce(d.basis, 'record')) AS basis
FROM graphs AS g
JOIN op_nodes AS p USING (record_id, graph_id)
LEFT JOIN _node_delegates(record_key, program_key, NULL) AS d USING (graph_id, node_index)
WHERE g.record_id = record_key AND g.stage = 'edge_dialect_exported_program'
GROUP BY g.method, p.op_type;

-- One op type of a program, as in `delegation`, for a record without an edge graph: the kernels that instructions call,
-- and the ops of the graphs in delegates' blobs.
CREATE MACRO _program_delegation(program_key) AS TABLE
WITH kernels AS (
    SELECT i.method,
        concat_ws(
            '.', CASE WHEN starts_with(i.op, 'executorch_prim::') THEN i.op ELSE string_split(i.op, '::')[2] END,
            nullif(regexp_replace(i.overload, '_?out$', ''), '')
        ) AS op_type
    FROM instructions AS i
    WHERE i.program_id = program_key AND i.kind = 'kernel'
),
delegated AS (
    SELECT i.method, d.backend, coalesce(o.op, d.backend) AS op_type, count(o.op) AS ops
    FROM instructions AS i
    JOIN program_delegates AS d USING (program_id, method, delegate_index)
    LEFT JOIN delegate_ops AS o ON o.program_id = d.program_id AND o.blob_offset = d.byte_offset
    WHERE i.program_id = program_key AND i.kind = 'delegate'
    GROUP BY ALL
)
SELECT k.method, k.op_type, 0 AS delegated, count(*) AS not_delegated, NULL AS backends, 'program' AS basis
FROM kernels AS k
GROUP BY k.method, k.op_type
UNION ALL
SELECT d.method, d.op_type, CASE WHEN min(d.ops) > 0 THEN sum(d.ops)::BIGINT END, 0,
    string_agg(DISTINCT d.backend, ', ' ORDER BY d.backend), 'program'
FROM delegated AS d
GROUP BY d.method, d.op_type;

-- How well a program fits a record: the share of their instructions, calls of kernels and delegates, that both have.
-- For a kernel, the instruction must have a node of the kernel's op in the record; for a delegate, it must call one
-- there, too. NULL without such instructions, or if the record is incomplete.
CREATE MACRO _program_fit(record_key, program_key) AS (
    SELECT
        count(*) FILTER (WHERE CASE i.kind WHEN 'delegate' THEN d.record_id ELSE n.record_id END IS NOT NULL)
        / nullif(greatest(count(*), any_value(e.instructions)), 0)
    FROM instructions AS i
    JOIN records AS r ON r.record_id = record_key AND r.is_complete
    CROSS JOIN (
        SELECT count(DISTINCT (h.method, h.instruction_id)) AS instructions
        FROM debug_handles AS h
        WHERE h.record_id = record_key
    ) AS e
    LEFT JOIN (
        SELECT DISTINCT h.record_id, h.method, h.instruction_id, string_split(o.op, '.')[1] AS op
        FROM debug_handles AS h
        JOIN _handled_nodes AS o USING (record_id, method, debug_handle)
        WHERE h.record_id = record_key
    ) AS n ON n.method = i.method AND n.instruction_id = i.instruction_id AND n.op = string_split(i.op, '::')[2]
    LEFT JOIN (
        SELECT DISTINCT g.record_id, g.method, g.instruction_id FROM delegates AS g WHERE g.record_id = record_key
    ) AS d ON d.method = i.method AND d.instruction_id = i.instruction_id
    WHERE i.program_id = program_key AND i.kind IN ('kernel', 'delegate') AND i.chain_index = 0
);

-- One op type of a record's edge graphs, with the number of its nodes that delegates run, and the number of its other
-- nodes, which kernels run or which are views and need no kernel. Nodes of one decomposed op share a debug handle. If a
-- delegate took only some of them, the kernels of the program, or of captures that are linked to the record, show which
-- ones.
-- Shown: op_type!, delegated!#, not_delegated!#, backends!, basis, method
-- Columns:
--   method: the method
--   op_type: op type of the nodes
--   delegated: number of nodes that a delegate runs; NULL if the graph of a program's delegate can't be read
--   not_delegated: number of nodes that no delegate runs
--   backends: names of the backends that run some, as text; NULL if none does
--   basis: source of the numbers. program: the record has no edge graph, so kernels of the program and ops of its delegates are counted, by their own names; graph: the record has the lowered graph; record: the handles of the record's instructions allow only one answer; kernels: the ops of kernels allow only one answer; handles: a guess by handles alone, so link a capture or program
CREATE MACRO delegation(
    record,  -- name or hash prefix of a record
    program := NULL  -- name or hash prefix of its program; NULL: the program to which its captures are linked
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT r.record_id,
        CASE
            WHEN program IS NOT NULL THEN _key_of('program', program)
            ELSE (SELECT max(k.program_id) FROM captures AS k WHERE k.record_id = r.record_id)
        END AS program_id,
        r.is_complete
    FROM records AS r
    WHERE r.record_id = _key_of('record', record)
)
SELECT c.method, c.op_type, c.delegated, c.not_delegated, c.backends, c.basis
FROM (
    SELECT d.* FROM target AS a, LATERAL (FROM _delegation(a.record_id, a.program_id)) AS d
    UNION ALL
    SELECT d.* FROM target AS a, LATERAL (FROM _program_delegation(a.program_id)) AS d WHERE NOT a.is_complete
) AS c
ORDER BY c.method, c.not_delegated DESC, c.op_type;
