-- One op that the kernels of a record's program run, as far as the events of linked captures and the instructions of a
-- program show them.
CREATE MACRO _kernel_ops(
    record_key,
    program_key,  -- key of a program; NULL: none
    capture_key  -- key of a capture that is linked to the record; NULL: for each method, the capture that fits the method best
) AS TABLE
WITH blocks AS (
    SELECT m.capture_id, m.block_index, m.method
    FROM captures AS k
    JOIN linked_methods AS m USING (capture_id)
    WHERE k.record_id = record_key AND (k.capture_id = capture_key OR capture_key IS NULL) AND m.method IS NOT NULL
    QUALIFY capture_key IS NOT NULL OR rank() OVER (PARTITION BY m.method ORDER BY m.score DESC, m.capture_id DESC) = 1
),
named AS (
    SELECT b.method, s.instruction_id, string_split(s.family, '.')[1] AS op, 0 AS place
    FROM blocks AS b
    JOIN signatures AS s USING (capture_id, block_index)
    WHERE s.kind = 'kernel' AND s.chain_index = 0
    UNION ALL
    SELECT i.method, i.instruction_id, string_split(i.op, '::')[2] AS op, 1 AS place
    FROM instructions AS i
    WHERE i.program_id = program_key AND i.kind = 'kernel' AND i.chain_index = 0
)
SELECT n.method, n.instruction_id,
    -- A view of a tensor whose shape is dynamic.
    CASE n.op WHEN 'et_view' THEN 'view_copy' ELSE n.op END AS op
FROM named AS n
QUALIFY row_number() OVER (PARTITION BY n.method, n.instruction_id ORDER BY n.place, n.op) = 1;
