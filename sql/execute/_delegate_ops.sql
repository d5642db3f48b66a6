-- Whether a capture has events of XNNPACK's graphs, but none could be aligned with an op. Then the linked program may
-- not be the one that ran.
CREATE MACRO _has_unaligned_delegates(capture_key) AS (
    EXISTS (
        SELECT 1
        FROM _instruction_events(capture_key) AS e
        JOIN _delegate_calls(capture_key) AS c USING (method, instruction_id)
        WHERE e.kind = 'delegate'
            AND c.backend = 'XnnpackBackend'
            AND c.blob_offset IN (
                SELECT o.blob_offset
                FROM captures AS k
                JOIN delegate_ops AS o USING (program_id)
                WHERE k.capture_id = capture_key
            )
    )
    AND NOT EXISTS (SELECT 1 FROM signature_delegate_ops AS a WHERE a.capture_id = capture_key)
);
