-- One change of the level of a series of values, which may have several: by binary
-- segmentation, four levels deep. A segment, and, for changes that don't last, its
-- halves (of 40 values and more) and quarters (of 80), are tested at every place that
-- leaves 5 values on each side, by the rank-sum statistic; the probability of its
-- maximum, times the number of halves and quarters, is that of Miller and Siegmund,
-- Maximally selected chi square statistics (Biometrics 38, 1982). Ranks pull the place
-- to the middle: it is refined, see `_refined_change_point`, twice. A segment is split
-- there if the 15 nearest values on each side differ enough, and if on each side the
-- number of values, times the difference, is 25 times the smallest step, as series are
-- scanned again when they grow. The step is the lesser of both differences of levels.
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
        placed AS (
            SELECT
                c.series, c.position, c.value, c.greatest_p, c.level, c.part,
                row_number() OVER (
                    PARTITION BY c.series, c.part ORDER BY c.position
                ) AS place,
                count(*) OVER (PARTITION BY c.series, c.part) AS size
            FROM parts AS c
            WHERE c.level < 4
        ),
        -- Parts that may hold a change that doesn't last: the median of one of their
        -- 25 pieces lies apart from that of another.
        uneven AS (
            SELECT b.series, b.part
            FROM (
                SELECT d.series, d.part, median(d.value) AS middle
                FROM placed AS d
                WHERE d.size >= 40
                GROUP BY d.series, d.part, (d.place - 1) * 25 // d.size
            ) AS b
            GROUP BY b.series, b.part
            HAVING max(b.middle) - min(b.middle) >= min_step
        ),
        -- Each part as a whole, its halves and its quarters, each overlapping the
        -- next by half.
        windowed AS (
            SELECT
                d.series,
                d.part,
                d.value,
                w.number AS scan,
                w.first,
                d.place - w.first AS place,
                w.size,
                w.scans
            FROM (
                SELECT p.*, u.series IS NOT NULL AS is_uneven
                FROM placed AS p
                LEFT JOIN uneven AS u ON u.series = p.series AND u.part = p.part
            ) AS d,
                LATERAL (
                    SELECT n.number,
                        n.index * d.size // (2 * n.scale) AS first,
                        d.size // n.scale AS size,
                        CASE
                            WHEN NOT d.is_uneven THEN 1 WHEN d.size >= 80 THEN 11 ELSE 4
                        END AS scans
                    FROM (
                        VALUES (0, 1, 0), (1, 2, 0), (2, 2, 1), (3, 2, 2),
                            (4, 4, 0), (5, 4, 1), (6, 4, 2), (7, 4, 3), (8, 4, 4),
                            (9, 4, 5), (10, 4, 6)
                    ) AS n(number, scale, index)
                ) AS w
            WHERE w.number < w.scans
                AND d.place > w.first
                AND d.place <= w.first + w.size
        ),
        ranked AS (
            SELECT
                w.*,
                rank() OVER by_value
                + (count(*) OVER same_value - 1) / 2 AS rank,
                count(*) OVER same_value AS ties
            FROM windowed AS w
            WHERE w.size >= 10
            WINDOW
                by_value AS (PARTITION BY w.series, w.part, w.scan ORDER BY w.value),
                same_value AS (PARTITION BY w.series, w.part, w.scan, w.value)
        ),
        summed AS (
            SELECT
                r.*,
                sum(r.rank) OVER (
                    PARTITION BY r.series, r.part, r.scan
                    ORDER BY r.place
                    ROWS UNBOUNDED PRECEDING
                ) AS ranks,
                sum(r.ties * r.ties - 1) OVER (PARTITION BY r.series, r.part, r.scan)
                    AS tied
            FROM ranked AS r
        ),
        tried AS (
            SELECT
                s.series,
                s.part,
                s.scan,
                max(s.first) AS first,
                max(s.size) AS size,
                max(s.scans) AS scans,
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
            GROUP BY s.series, s.part, s.scan
        ),
        likely AS (
            SELECT
                t.*,
                least(
                    1,
                    -- The whole is the first that is tried: the windows come on top.
                    CASE t.scan WHEN 0 THEN 1 ELSE t.scans END
                    * _maximum_p(t.score, t.size)
                ) AS p
            FROM tried AS t
            WHERE t.score > 1
            QUALIFY row_number() OVER (
                PARTITION BY t.series, t.part
                ORDER BY
                    CASE t.scan WHEN 0 THEN 1 ELSE t.scans END
                    * _maximum_p(t.score, t.size),
                    t.scan
            ) = 1
        ),
        promising AS (
            SELECT
                d.*,
                d.place - t.first AS window_place,
                t.first,
                t.size AS window_size,
                t.place AS first_place,
                t.p
            FROM placed AS d
            JOIN likely AS t ON t.series = d.series AND t.part = d.part
            WHERE t.p < d.greatest_p
        ),
        near AS (
            SELECT
                p.series, p.part, p.window_place AS place, p.window_size AS size,
                p.value, p.first_place
            FROM promising AS p
            WHERE p.window_place BETWEEN 1 AND p.window_size
        ),
        first_cut AS (
            FROM _refined_change_point((SELECT list(n) FROM near AS n))
        ),
        second_cut AS (
            FROM _refined_change_point((
                SELECT list({
                    'series': n.series, 'part': n.part, 'place': n.place,
                    'size': n.size, 'value': n.value, 'first_place': c.place
                })
                FROM near AS n
                JOIN first_cut AS c ON c.series = n.series AND c.part = n.part
            ))
        ),
        steps AS (
            SELECT
                p.series,
                p.part,
                max(p.first) + c.place AS cut_place, count(*) AS size,
                min(p.position) FILTER (WHERE p.window_place > c.place) AS cut,
                any_value(p.p) AS p,
                median(p.value) FILTER (
                    WHERE p.window_place > c.place
                        AND p.window_place <= least(c.place + 15, p.window_size)
                ) - median(p.value) FILTER (
                    WHERE p.window_place <= c.place
                        AND p.window_place > greatest(c.place - 15, 0)
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
        WHERE abs(s.step) * least(25, s.cut_place, s.size - s.cut_place)
            >= 25 * min_step
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
