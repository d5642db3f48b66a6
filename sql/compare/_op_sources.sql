-- The line of the user's model for an op, from the latest of some captures that has a linked record. Ops with several
-- lines, or none, have no row.
CREATE MACRO _op_sources(capture_keys) AS TABLE
WITH linked AS MATERIALIZED (
    SELECT max(c.capture_id) AS capture_id
    FROM captures AS c
    WHERE list_contains(capture_keys, c.capture_id) AND c.record_id IS NOT NULL
)
SELECT t.scope, t.kind, t.instruction_id, t.family, t.op_type, t.module_path, min(o.source_file) AS source_file,
    min(o.source_line) AS source_line,
    (SELECT count(DISTINCT r.scope) = 1 FROM runs AS r JOIN linked USING (capture_id)) AS is_only_scope
FROM linked AS a
JOIN op_times AS t USING (capture_id)
JOIN signatures AS s
    ON s.capture_id = t.capture_id AND s.kind = t.kind AND s.label = t.label AND s.chain_index = t.chain_index
    AND s.instruction_id = t.instruction_id
JOIN signature_ops AS o
    ON o.capture_id = s.capture_id AND o.signature_index = s.signature_index AND o.method = t.scope
WHERE t.phase IS NULL AND o.source_file IS NOT NULL
GROUP BY t.scope, t.kind, t.instruction_id, t.family, t.op_type, t.module_path
HAVING count(DISTINCT (o.source_file, o.source_line)) = 1;
