-- One value that a capture's runtime logged, with the event that produced it. Values with the same instruction and
-- delegate id belong to one call, unless there is an event with these ids between them.
CREATE MACRO _values_with_events(
    captures_of  -- the name of a table with a column capture_id
) AS TABLE
WITH
of_captures AS MATERIALIZED (
    SELECT k.capture_id, k.record_id FROM query_table(captures_of) AS a JOIN captures AS k USING (capture_id)
),
logged AS (
    SELECT a.capture_id, v.run_index, v.event_index, v.value_index, v.chain_index, v.instruction_id,
        coalesce(v.delegate_debug_id::VARCHAR, v.delegate_debug_str, '') AS delegate_id, v.name, v.is_output,
        false AS is_event
    FROM of_captures AS a
    JOIN debug_values AS v USING (capture_id)
),
timed AS (
    SELECT a.capture_id, t.run_index, t.event_index, -1 AS value_index, s.chain_index, s.instruction_id,
        coalesce(s.delegate_debug_id::VARCHAR, s.delegate_debug_str, '') AS delegate_id, s.name, false AS is_output,
        true AS is_event
    FROM of_captures AS a
    JOIN event_ticks AS t USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE s.kind IN ('kernel', 'delegate_call', 'delegate')
        AND (t.capture_id, t.run_index) IN (SELECT (l.capture_id, l.run_index) FROM logged AS l)
),
numbered_calls AS (
    SELECT c.*,
        count(CASE WHEN c.is_event THEN 1 END) OVER (
            PARTITION BY c.capture_id, c.run_index, c.chain_index, c.instruction_id, c.delegate_id
            ORDER BY c.event_index, c.value_index
        ) AS call
    FROM (FROM logged UNION ALL FROM timed) AS c
),
owners AS (
    SELECT a.capture_id, s.block_index, s.signature_index, s.chain_index, s.instruction_id,
        coalesce(s.delegate_debug_id::VARCHAR, s.delegate_debug_str, '') AS delegate_id, s.kind, s.label
    FROM of_captures AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.kind IN ('kernel', 'delegate_call', 'delegate')
    QUALIFY row_number() OVER (
        PARTITION BY a.capture_id, s.block_index, s.chain_index, s.instruction_id, delegate_id
        ORDER BY s.slot
    ) = 1
),
with_owners AS (
    SELECT c.*, r.block_index, coalesce(p.method, r.method) AS method, o.signature_index, o.kind AS owner_kind,
        coalesce(o.label, c.name) AS op_name, p.debug_handles, d.outputs AS delegate_outputs,
        row_number() OVER same_call - 1 AS place,
        count(*) OVER (
            PARTITION BY c.capture_id, c.run_index, c.chain_index, c.instruction_id, c.delegate_id, c.call
        ) AS places
    FROM numbered_calls AS c
    JOIN of_captures AS a USING (capture_id)
    JOIN runs AS r USING (capture_id, run_index)
    LEFT JOIN owners AS o
        ON o.capture_id = a.capture_id
        AND o.block_index = r.block_index
        AND o.chain_index = c.chain_index
        AND o.instruction_id = c.instruction_id
        AND o.delegate_id = c.delegate_id
        AND c.chain_index <> -1
    LEFT JOIN signature_ops AS p ON p.capture_id = a.capture_id AND p.signature_index = o.signature_index
    LEFT JOIN delegates AS d
        ON d.record_id = a.record_id
        AND d.method = p.method
        AND d.instruction_id = c.instruction_id
        AND o.kind = 'delegate_call'
    WHERE NOT c.is_event
    WINDOW same_call AS (
        PARTITION BY c.capture_id, c.run_index, c.chain_index, c.instruction_id, c.delegate_id, c.call
        ORDER BY c.event_index, c.value_index
    )
),
with_roles AS (
    SELECT o.*,
        CASE
            WHEN o.is_output OR o.chain_index = -1 THEN 'program output'
            WHEN o.owner_kind IS DISTINCT FROM 'delegate_call' THEN 'output'
            WHEN o.delegate_outputs IS NULL THEN 'argument'
            WHEN o.place >= o.places - o.delegate_outputs THEN 'output'
            ELSE 'input'
        END AS role
    FROM with_owners AS o
)
SELECT t.capture_id, t.run_index, t.event_index, t.value_index, t.block_index, t.method, t.signature_index,
    t.owner_kind, t.op_name, t.instruction_id, t.role, row_number() OVER same_role - 1 AS position, t.debug_handles
FROM with_roles AS t
WINDOW same_role AS (
    PARTITION BY t.capture_id, t.run_index, t.chain_index, t.instruction_id, t.delegate_id, t.call, t.role
    ORDER BY t.event_index, t.value_index
);

-- One value that a capture's runtime logged, with the op that produced it, its role and its statistics. Statistics of
-- tensors are known if the capture was ingested with its debug buffer.
-- Empty: {capture} has no logged values: the runtime logs them at the level kIntermediateOutputs
-- Shown: op_name!, instruction_id#, role!, position#, kind, scalar_type, sizes!, number#, min!#, max!#, mean!#,
--   nan_count#, inf_count#, module_path AS module, source_file, source_line#, run_index#
-- Columns:
--   run_index: the run
--   block_index: its event block
--   event_index: position of the value's entry in the run
--   value_index: position in the list that was logged; 0 for values outside of lists
--   op_name: label of the event that produced it, or the name in the file; NULL if there is neither
--   instruction_id: the instruction; NULL where none is named
--   role: program output; output of an op or delegate; input of a delegate; argument of a delegate if it is unknown whether it is an input or an output
--   position: position among the values of its call and role, from 0
--   kind: null, int, bool, float, double, tensor, tensor_list, string
--   scalar_type: element type of a tensor, by torch's name; NULL for other kinds
--   sizes: sizes of a tensor by dimension; NULL for other kinds
--   number: value of an int, bool, float or double; NULL for other kinds
--   min: smallest finite element; NULL, like the columns below, if the value is unknown or not a tensor
--   max: largest finite element
--   mean: mean of the finite elements
--   nan_count: number of elements that are NaN
--   inf_count: number of elements that are infinite
--   sha256: hash of the tensor's bytes in row-major order
--   debug_handles: debug handles of the op; NULL without a linked record
--   op_type: op type of the op's node: aten.addmm.default; NULL if the event has none or several
--   module_path: module that contains it; NULL where unknown
--   source_file: file of the user's line; NULL where unknown
--   source_line: line in that file; NULL where unknown
CREATE MACRO logged_values(capture) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, NULL))
SELECT p.run_index, p.block_index, p.event_index, p.value_index, p.op_name, p.instruction_id, p.role, p.position,
    v.kind, v.scalar_type, v.sizes, v.number, v.min, v.max, v.mean, v.nan_count, v.inf_count, v.sha256, p.debug_handles,
    o.op_type, o.module_path, o.source_file, o.source_line
FROM target AS a
JOIN debug_values AS v USING (capture_id)
JOIN _values_with_events('target') AS p
    USING (capture_id, run_index, event_index, value_index)
LEFT JOIN signature_ops AS o USING (capture_id, signature_index)
ORDER BY p.run_index, p.event_index, p.value_index;
