-- Whether a clock is too coarse to measure small changes of a time: that is less than 500 of its steps.
CREATE MACRO _is_clock_coarse(
    ticks,
    step  -- of the clock, in ticks; NULL where none is seen, as in `clock_steps`
) AS (coalesce(ticks < 500 * step, false));
