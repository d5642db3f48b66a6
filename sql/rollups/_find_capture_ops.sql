-- The identity of the ops of one capture, by which captures with the same ops are found. A row of the table
-- `capture_ops`, from `op_times`.
CREATE MACRO _find_capture_ops(first_key, last_key) AS TABLE
WITH methods AS (
    SELECT DISTINCT r.capture_id, r.method
    FROM runs AS r
    WHERE r.capture_id BETWEEN first_key AND last_key AND r.method IS NOT NULL
)
SELECT o.capture_id, CASE WHEN min(o.scope) = max(o.scope) THEN min(o.scope) END AS scope,
    bool_or(m.method IS NOT NULL) AS is_method,
    md5(CASE
        WHEN min(o.scope) = max(o.scope) THEN string_agg(
            concat_ws('|', o.kind, o.label, o.chain_index, o.instruction_id), chr(10) ORDER BY o.op_index
        )
        ELSE string_agg(
            concat_ws('|', o.scope, o.kind, o.label, o.chain_index, o.instruction_id),
            chr(10) ORDER BY o.op_index, o.scope
        )
    END) AS ops_hash
FROM op_times AS o
LEFT JOIN methods AS m ON m.capture_id = o.capture_id AND m.method = o.scope
WHERE o.capture_id BETWEEN first_key AND last_key AND o.phase IS NULL
GROUP BY o.capture_id
ORDER BY o.capture_id;
