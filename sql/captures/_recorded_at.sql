-- When a capture was recorded, in UTC, by which captures are ordered: @latest is the one recorded last. Where
-- captured_at is unknown, it is the time of ingest, the only known one.
CREATE MACRO _recorded_at(
    captured_at,  -- when it was measured; NULL where unknown
    ingested_at  -- when it was read
) AS (coalesce(captured_at, ingested_at));
