-- The time at which a capture was recorded, in UTC. Captures are ordered by it: @latest is the one recorded last. If
-- captured_at is unknown, it is the time of ingest, because no other time is known.
CREATE MACRO _recorded_at(
    captured_at,  -- when it was measured; NULL where unknown
    ingested_at  -- when it was read
) AS (coalesce(captured_at, ingested_at));
