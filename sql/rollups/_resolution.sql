-- The value that one time is a multiple of: 1, 1000 or 1000000.
CREATE MACRO _resolution(ticks) AS (
    CASE WHEN ticks > 0 AND ticks % 1000000 = 0 THEN 1000000 WHEN ticks > 0 AND ticks % 1000 = 0 THEN 1000 ELSE 1 END
);

-- The greatest power of 1000 of which at least half of several times are multiples: the step of their clock, as seen.
-- Zeros don't count. An aggregate.
CREATE MACRO _common_resolution(ticks) AS (
    CASE
        WHEN 2 * count(*) FILTER (WHERE ticks > 0 AND ticks % 1000000 = 0)
            >= greatest(1, count(*) FILTER (WHERE ticks > 0)) THEN 1000000
        WHEN 2 * count(*) FILTER (WHERE ticks > 0 AND ticks % 1000 = 0)
            >= greatest(1, count(*) FILTER (WHERE ticks > 0)) THEN 1000
        ELSE 1
    END
);
