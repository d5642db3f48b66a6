-- One change of the level of a series of values, which may have several: by binary
-- segmentation, four levels deep. A segment is tested at every place that leaves 5
-- values on each side, by the rank-sum statistic; the probability of its maximum is
-- from Miller and Siegmund, Maximally selected chi square statistics (Biometrics
-- 38, 1982). As ranks pull the place to the middle, it is refined, twice, by the
-- greatest cumulated deviation from the mean, with values clipped to 2 standard
-- deviations (estimated by the median deviation) beyond the medians of both sides.
-- A segment is split there if the 15 nearest values on each side differ enough. The
-- step is the lesser of that difference and of that between the levels up to the
-- next changes, and both must be large enough.
-- Columns:
--   series: key of the series
--   level: 0 for changes in the whole series, 1 in a part of it, ...
--   position: the first position of the new level
--   before: median of the values since the previous change, or all
--   after: median of the values up to the next change, or all
--   step: size of the change
--   p: probability of a maximum this great without a change
--   captures_before: number of values since the previous change
--   captures_after: number of values up to the next cut
CREATE MACRO _change_points(
    points,  -- list of rows of series, position (from 1, without gaps), value (a logarithm) and greatest_p
    min_step  -- smallest step that counts
) AS TABLE
WITH RECURSIVE
input AS MATERIALIZED (
    SELECT unnest(points, recursive := true)
),
parts AS (
    SELECT
        g.series,
        g.position,
        g.value,
        g.greatest_p,
        0 AS level,
        0 AS part,
        NULL::BIGINT AS cut,
        NULL::DOUBLE AS step,
        NULL::DOUBLE AS p
    FROM input AS g
    UNION ALL
    (
        WITH
        ranked AS (
            SELECT
                c.series,
                c.position,
                c.value,
                c.greatest_p,
                c.level,
                c.part,
                row_number() OVER in_order AS place,
                count(*) OVER in_part AS size,
                rank() OVER by_value
                + (count(*) OVER same_value - 1) / 2 AS rank,
                count(*) OVER same_value AS ties
            FROM parts AS c
            WHERE c.level < 4
            WINDOW
                in_order AS (
                    PARTITION BY c.series, c.part ORDER BY c.position
                ),
                in_part AS (PARTITION BY c.series, c.part),
                by_value AS (PARTITION BY c.series, c.part ORDER BY c.value),
                same_value AS (PARTITION BY c.series, c.part, c.value)
        ),
        summed AS (
            SELECT
                r.*,
                sum(r.rank) OVER (
                    PARTITION BY r.series, r.part
                    ORDER BY r.place
                    ROWS UNBOUNDED PRECEDING
                ) AS ranks,
                sum(r.ties * r.ties - 1) OVER (PARTITION BY r.series, r.part)
                    AS tied
            FROM ranked AS r
            WHERE r.size >= 10
        ),
        tried AS (
            SELECT
                s.series,
                s.part,
                max(s.size) AS size,
                max_by(s.place, z.score) AS place,
                max(z.score) AS score
            FROM summed AS s,
                LATERAL (
                    SELECT abs(s.ranks - s.place * (s.size + 1) / 2) / sqrt(nullif(
                        s.place * (s.size - s.place) / 12 * (
                            s.size + 1 - s.tied / (s.size * (s.size - 1))
                        ), 0
                    )) AS score
                ) AS z
            WHERE s.place BETWEEN 5 AND s.size - 5
            GROUP BY s.series, s.part
        ),
        likely AS (
            SELECT t.*, _maximum_p(t.score, t.size) AS p
            FROM tried AS t
            WHERE t.score > 1
        ),
        promising AS (
            SELECT r.*, t.place AS first_place, t.p
            FROM ranked AS r
            JOIN likely AS t ON t.series = r.series AND t.part = r.part
            WHERE t.p < r.greatest_p
        ),
        first_cut AS (
            FROM _refined_change_point((SELECT list(q) FROM promising AS q))
        ),
        second_cut AS (
            FROM _refined_change_point((
                SELECT list({
                    'series': p.series,
                    'part': p.part,
                    'place': p.place,
                    'size': p.size,
                    'value': p.value,
                    'first_place': c.place
                })
                FROM promising AS p
                JOIN first_cut AS c ON c.series = p.series AND c.part = p.part
            ))
        ),
        steps AS (
            SELECT
                p.series,
                p.part,
                c.place AS cut_place,
                min(p.position) FILTER (WHERE p.place > c.place) AS cut,
                any_value(p.p) AS p,
                median(p.value) FILTER (
                    WHERE p.place > c.place AND p.place <= c.place + 15
                ) - median(p.value) FILTER (
                    WHERE p.place <= c.place AND p.place > c.place - 15
                ) AS step
            FROM promising AS p
            JOIN second_cut AS c ON c.series = p.series AND c.part = p.part
            GROUP BY p.series, p.part, c.place
        )
        SELECT
            p.series,
            p.position,
            p.value,
            p.greatest_p,
            p.level + 1,
            2 * p.part + (p.place > s.cut_place)::INTEGER,
            s.cut,
            s.step,
            s.p
        FROM promising AS p
        JOIN steps AS s ON s.series = p.series AND s.part = p.part
        WHERE abs(s.step) >= min_step
    )
),
cuts AS MATERIALIZED (
    SELECT DISTINCT c.series, c.level - 1 AS level, c.cut, c.step, c.p
    FROM parts AS c
    WHERE c.level > 0
),
levels AS (
    SELECT n.series, n.number, median(n.value) AS middle, count(*) AS captures
    FROM (
        SELECT
            g.series,
            g.value,
            count(c.cut) OVER (
                PARTITION BY g.series
                ORDER BY g.position
                ROWS UNBOUNDED PRECEDING
            ) AS number
        FROM input AS g
        LEFT JOIN cuts AS c ON c.series = g.series AND c.cut = g.position
        WHERE g.series IN (SELECT d.series FROM cuts AS d)
    ) AS n
    GROUP BY n.series, n.number
),
numbered AS (
    SELECT
        c.*,
        row_number() OVER (PARTITION BY c.series ORDER BY c.cut) AS number
    FROM cuts AS c
)
SELECT
    n.series,
    n.level,
    n.cut AS position,
    b.middle AS before,
    a.middle AS after,
    s.step,
    n.p,
    b.captures AS captures_before,
    a.captures AS captures_after
FROM numbered AS n
JOIN levels AS b ON b.series = n.series AND b.number = n.number - 1
JOIN levels AS a ON a.series = n.series AND a.number = n.number,
    LATERAL (
        SELECT
            CASE
                WHEN (a.middle > b.middle) <> (n.step > 0) THEN 0
                WHEN abs(n.step) < abs(a.middle - b.middle) THEN n.step
                ELSE a.middle - b.middle
            END AS step
    ) AS s
WHERE abs(s.step) >= min_step;

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
