-- One op type of a method that a capture ran: the number of its nodes that a delegate runs and of those that none runs,
-- and the cost of those that fell back to kernels. The calls of all rows add up to the kernels of the executes. Needs a
-- linked record, or a linked program if there is none or it is half-written.
-- Needs: dump; else: kernel_table
-- Shown: op_type!, method, delegated#, not_delegated!#, per_execute!~, share_percent!%, worst_source!, calls#,
--   worst_module, basis, total+~, executes+#, unit
-- Columns:
--   op_type: op type of the nodes; for kernels that run no node of the graphs, or of an unknown method, their name
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
WITH target AS MATERIALIZED (
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
times AS MATERIALIZED (FROM _attributed_times((SELECT a.capture_id FROM target AS a), steps, phase, method, runs) AS t),
executes AS (
    SELECT t.method, nullif(sum(t.executes), 0)::BIGINT AS number, sum(sum(t.self_ticks)) OVER ()::DOUBLE AS ticks
    FROM times AS t
    GROUP BY t.method
),
kernels AS (
    SELECT t.method,
        -- Handles of a kernel count only if one of their nodes calls the kernel's op.
        CASE
            WHEN string_split(m.first_op_type, '.')[2] = string_split(s.family, '.')[1] THEN m.first_op_type
            WHEN m.first_op_type = 'aten.view_copy.default'
                AND string_split(s.family, '.')[1] = 'et_view' THEN m.first_op_type
            ELSE s.family
        END AS op_type,
        t.calls, t.self_ticks, t.source_file || coalesce(':' || t.source_line, '') AS source,
        CASE WHEN a.answering_program IS NULL THEN t.module_path END AS module_path
    FROM target AS a CROSS JOIN times AS t
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.signature_index = t.signature_index AND s.kind = 'kernel'
    LEFT JOIN signature_ops AS m ON m.capture_id = a.capture_id AND m.signature_index = t.signature_index
),
fallbacks AS (
    SELECT k.method, k.op_type, sum(k.calls)::BIGINT AS calls, sum(k.self_ticks) AS ticks,
        max_by(k.source, (k.self_ticks, k.source)) AS worst_source,
        max_by(k.module_path, (k.self_ticks, k.module_path)) AS worst_module
    FROM kernels AS k
    GROUP BY k.method, k.op_type
),
counted AS (
    SELECT d.method, d.op_type, d.delegated, d.not_delegated, d.basis
    FROM (
        FROM _delegation(
            (SELECT a.record_id FROM target AS a), (SELECT a.program_id FROM target AS a),
            (SELECT a.capture_id FROM target AS a)
        )
        UNION ALL
        FROM _program_delegation((SELECT a.answering_program FROM target AS a))
    ) AS d
    WHERE d.method IN (SELECT x.method FROM executes AS x)
),
together AS (
    SELECT c.*, f.calls, f.ticks, f.worst_source, f.worst_module
    FROM counted AS c
    LEFT JOIN fallbacks AS f USING (method, op_type)
    UNION ALL BY NAME
    SELECT f.* FROM fallbacks AS f LEFT JOIN counted AS c USING (method, op_type) WHERE c.method IS NULL
)
SELECT t.op_type, t.method, t.delegated, t.not_delegated, coalesce(t.calls, 0) AS calls,
    _in_unit(try_cast(t.ticks AS BIGINT), a.scale) AS total, 100e0 * t.ticks / nullif(x.ticks, 0) AS share_percent,
    a.unit AS unit, t.worst_source, t.worst_module, t.basis, x.number AS executes, total / x.number AS per_execute
FROM together AS t
JOIN executes AS x USING (method)
CROSS JOIN target AS a
ORDER BY coalesce(t.ticks, 0) DESC, t.op_type, t.method;
