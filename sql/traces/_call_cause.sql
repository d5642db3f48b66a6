-- What a thread that launches work does in a call instead of launching: synchronization for calls that wait for a
-- device, the purpose of others, call for those of no known purpose; NULL for calls that belong to launching.
CREATE MACRO _call_cause(
    purpose,
    waits  -- whether it waits for a device
) AS (
    CASE
        WHEN purpose = 'copy' AND waits THEN 'synchronization'
        WHEN purpose IN ('launch', 'copy', 'stream_wait', 'event_record', 'query') THEN NULL
        ELSE coalesce(purpose, 'call')
    END
);
