-- Whether a clock is too coarse for a time to show the state of the machine, or a change of 3 % in a series: the time
-- is less than 50 steps of the clock.
CREATE MACRO _is_clock_coarse(ticks, resolution) AS (ticks < 50 * resolution);
