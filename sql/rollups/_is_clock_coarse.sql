-- Whether a clock is too coarse for a time to show the state of the machine, and 3 % of a series: it is less than 50 steps.
CREATE MACRO _is_clock_coarse(ticks, resolution) AS (ticks < 50 * resolution);
