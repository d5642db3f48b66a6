-- The refined place of a change in one part of a series: with values clipped to 2
-- standard deviations beyond the medians of both sides, the place of the greatest
-- cumulated deviation from the mean.
-- Columns:
--   series: key of the series
--   part: key of the part of the series
--   place: the last place before the change
CREATE MACRO _refined_change_point(
    places  -- list of rows of series, part, place, size, value and first_place
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(places, recursive := true)
),
sides AS (
    SELECT g.*, median(g.value) OVER in_side AS middle
    FROM input AS g
    WINDOW in_side AS (PARTITION BY g.series, g.part, g.place <= g.first_place)
),
bounds AS (
    SELECT
        s.series,
        s.part,
        min(s.middle) - 2 * 1.4826 * median(abs(s.value - s.middle)) AS low,
        max(s.middle) + 2 * 1.4826 * median(abs(s.value - s.middle)) AS high
    FROM sides AS s
    GROUP BY s.series, s.part
),
clipped AS (
    SELECT
        g.series,
        g.part,
        g.place,
        g.size,
        greatest(b.low, least(b.high, g.value)) AS value
    FROM input AS g
    JOIN bounds AS b ON b.series = g.series AND b.part = g.part
),
cumulated AS (
    SELECT
        c.series,
        c.part,
        c.place,
        c.size,
        sum(c.value) OVER (
            PARTITION BY c.series, c.part ORDER BY c.place ROWS UNBOUNDED PRECEDING
        ) - c.place * avg(c.value) OVER (PARTITION BY c.series, c.part) AS sum
    FROM clipped AS c
)
SELECT
    c.series,
    c.part,
    max_by(c.place, abs(c.sum) / sqrt(c.place * (c.size - c.place))) AS place
FROM cumulated AS c
WHERE c.place BETWEEN 5 AND c.size - 5
GROUP BY c.series, c.part;

-- The probability that the greatest rank-sum statistic over all places of a series
-- that leave 5 values on each side is this great without a change.
CREATE MACRO _maximum_p(
    score,  -- the greatest statistic
    size  -- length of the series
) AS (
    least(1, exp(-score * score / 2) / sqrt(2 * pi()) * (
        4 / score + (score - 1 / score) * 2 * ln(greatest(1, (size - 5) / 5))
    ))
);
