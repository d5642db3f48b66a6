-- When a capture was recorded, in UTC, by which captures are ordered: @latest is the one recorded last. Where
-- captured_at is unknown, the time of ingest stands for it, which is later, but the only one that is known.
CREATE MACRO _recorded_at(
    captured_at,  -- when it was measured; NULL where unknown
    ingested_at  -- when it was read
) AS (
    coalesce(captured_at, ingested_at)
);
