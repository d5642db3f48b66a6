-- Whether a clock is too coarse to measure small changes of a time: its step is 1 us (or 1000 cycles) or more, and the
-- time is less than 500 steps.
CREATE MACRO _is_clock_coarse(
    ticks,
    resolution,  -- value that at least half of such times are multiples of, in ticks
    scale  -- nanoseconds in a tick; 1 for cycles
) AS (resolution * scale >= 1000 AND ticks < 500 * resolution);
