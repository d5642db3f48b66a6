-- The activity of a launching thread in a call other than a launch: synchronization if the call waits for a device,
-- else its purpose, or call if that is unknown; NULL for calls that belong to launching.
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
