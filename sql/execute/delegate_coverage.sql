-- Rows of `delegate_coverage` of captures, with their place.
CREATE MACRO _delegate_coverage(
    targets,  -- a table with rows of `_covered_captures`
    times  -- a table with rows of `_placed_times` of these
) AS TABLE
WITH kernels AS (
    SELECT t.capture_id, t.method, t.executes, t.self_ticks,
        CASE
            WHEN s.kind <> 'kernel' THEN NULL
            -- A kernel's handles only count if one of their nodes calls the kernel's op.
            WHEN string_split(m.first_op_type, '.')[2] = string_split(s.family, '.')[1] THEN m.first_op_type
            WHEN m.first_op_type = 'aten.view_copy.default'
                AND string_split(s.family, '.')[1] = 'et_view' THEN m.first_op_type
            ELSE s.family
        END AS op_type,
        t.calls, t.source_file || coalesce(':' || t.source_line, '') AS source,
        CASE WHEN a.answering_program IS NULL THEN t.module_path END AS module_path
    FROM query_table(targets) AS a
    JOIN query_table(times) AS t USING (capture_id)
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.signature_index = t.signature_index
    LEFT JOIN signature_ops AS m ON m.capture_id = a.capture_id AND m.signature_index = t.signature_index
),
parts AS (
    SELECT k.capture_id, k.method, k.op_type, k.executes, k.self_ticks, k.calls, k.source, k.module_path
    FROM kernels AS k
    -- The nodes of the captures' records, or of their programs if there is no record or it is half-written.
    UNION ALL BY NAME
    SELECT a.capture_id, g.method, p.op_type, (d.backend IS NOT NULL)::INTEGER AS delegated,
        (d.backend IS NULL)::INTEGER AS not_delegated, coalesce(d.basis, 'record') AS basis
    FROM query_table(targets) AS a
    JOIN graphs AS g ON g.record_id = a.record_id AND g.stage = 'edge_dialect_exported_program'
    JOIN op_nodes AS p ON p.record_id = g.record_id AND p.graph_id = g.graph_id
    LEFT JOIN placed_nodes AS d
        ON d.capture_id = a.capture_id AND d.graph_id = p.graph_id AND d.node_index = p.node_index
    UNION ALL BY NAME
    SELECT a.capture_id, d.method, d.op_type, d.delegated, d.not_delegated, d.basis
    FROM query_table(targets) AS a, LATERAL (FROM _program_delegation(a.answering_program)) AS d
),
-- Events other than kernels form a row without an op type, which is only used for the number of executes.
added AS (
    SELECT p.capture_id, p.method, p.op_type, sum(p.delegated)::BIGINT AS delegated,
        sum(p.not_delegated)::BIGINT AS not_delegated, _least_certain(p.basis) AS basis,
        coalesce(sum(p.calls), 0)::BIGINT AS calls, sum(p.self_ticks) AS ticks,
        max_by(p.source, (p.self_ticks, p.source)) AS worst_source,
        max_by(p.module_path, (p.self_ticks, p.module_path)) AS worst_module,
        sum(sum(p.executes)) OVER (PARTITION BY p.capture_id, p.method) AS executes,
        sum(sum(p.self_ticks)) OVER (PARTITION BY p.capture_id)::DOUBLE AS all_ticks
    FROM parts AS p
    GROUP BY p.capture_id, p.method, p.op_type
)
SELECT d.capture_id,
    row_number() OVER (
        PARTITION BY d.capture_id ORDER BY coalesce(d.ticks, 0) DESC, d.op_type, d.method
    )::INTEGER AS place,
    d.op_type, d.method, d.delegated, d.not_delegated, d.calls,
    _in_unit(try_cast(d.ticks AS BIGINT), a.scale) AS total, 100e0 * d.ticks / nullif(d.all_ticks, 0) AS share_percent,
    a.unit AS unit, d.worst_source, d.worst_module, d.basis, nullif(d.executes, 0)::BIGINT AS executes,
    total / nullif(d.executes, 0)::BIGINT AS per_execute
FROM added AS d
JOIN query_table(targets) AS a USING (capture_id)
-- Methods without times did not run.
WHERE d.op_type IS NOT NULL AND d.executes IS NOT NULL;

-- All captures that have a program or a record with graphs, in their default units.
CREATE MACRO _covered_captures() AS TABLE
SELECT c.capture_id, c.unit, c.scale, c.record_id, c.program_id,
    CASE WHEN NOT coalesce(r.is_complete, false) THEN c.program_id END AS answering_program
FROM _scaled_captures() AS c
LEFT JOIN records AS r USING (record_id)
WHERE c.format <> 'torch_trace' AND (c.program_id IS NOT NULL OR r.is_complete);

-- One op type of a method that a capture ran: the number of its nodes that a delegate runs, the number of nodes that no
-- delegate runs, and the cost of the nodes that fell back to kernels. The calls of all rows add up to the kernels of
-- the executes. Needs a linked record, or, if there is no record or it is half-written, a linked program.
-- Needs: dump; else: kernel_table
-- Shown: op_type!, method, delegated#, not_delegated!#, per_execute!~, share_percent!%, worst_source!, calls#,
--   worst_module, basis, total+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   op_type: op type of the nodes; for kernels of an unknown method, or that run no node of the graphs, the kernels' name
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   delegated: number of nodes that a delegate runs; NULL if the row has no nodes
--   not_delegated: number of nodes that no delegate runs; NULL if the row has no nodes
--   calls: number of kernel calls for it
--   total: self time of these kernels; NULL without any
--   share_percent: total in percent of the executes; NULL without kernels
--   unit: unit of times
--   worst_source: file and line with most of that time; NULL where unknown
--   worst_module: module with most of that time; NULL where unknown
--   basis: source of the numbers of nodes, as in `delegation`; NULL if the row has no nodes
--   executes: number of executes of the method
--   per_execute: total / executes; NULL without kernels
CREATE MACRO delegate_coverage(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH covered_target AS MATERIALIZED (
    SELECT
        CASE
            WHEN c.format = 'torch_trace' THEN NULL
            WHEN c.program_id IS NOT NULL THEN c.capture_id
            ELSE _linked_key(capture, c.capture_id, c.name, r.record_id, r.name, r.is_complete)
        END AS capture_id,
        c.unit, c.scale, c.record_id, c.program_id,
        CASE WHEN NOT coalesce(r.is_complete, false) THEN c.program_id END AS answering_program
    FROM _scaled_capture_with_method(capture, unit, method) AS c
    LEFT JOIN records AS r USING (record_id)
),
covered_times AS (
    FROM _attributed_times('covered_target', steps, phase, method, runs)
)
SELECT d.op_type, d.method, d.delegated, d.not_delegated, d.calls, d.total, d.share_percent, d.unit, d.worst_source,
    d.worst_module, d.basis, d.executes, d.per_execute
FROM _delegate_coverage('covered_target', 'covered_times') AS d
ORDER BY d.place;
