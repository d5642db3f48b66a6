-- The part of a span that lies before a moment; 0 without a moment.
CREATE MACRO _part_before(
    span_start, span_end,
    moment  -- the moment; NULL for none
) AS (CASE WHEN moment > span_start THEN least(span_end, moment) - span_start ELSE 0 END);
