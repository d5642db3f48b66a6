-- The resolution of times: the step of their clock, and where none is seen, one tick.
CREATE MACRO _resolution(step) AS (greatest(1, coalesce(step, 1))::DOUBLE);
