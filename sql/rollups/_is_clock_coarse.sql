-- Whether a clock is too coarse for a time to tell small changes of it: it counts
-- in steps of 1 us (or 1000 cycles) and more, of which the time takes less than 500.
CREATE MACRO _is_clock_coarse(
    ticks,  -- the time
    resolution,  -- what at least half of such times are multiples of
    scale  -- how many nanoseconds a tick is; 1 for cycles
) AS (
    resolution * scale >= 1000 AND ticks < 500 * resolution
);
