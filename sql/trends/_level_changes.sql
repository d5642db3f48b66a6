-- One change of a series of values: a step to another level, see `_change_points`,
-- or a creep, a slow growth or decline between two steps.
-- Columns:
--   series: key of the series
--   kind: step or creep
--   position: the first position of the new level; of a creep, where it begins
--   before: median of the values since the previous change; of a creep, its first tenth's
--   after: median of the values up to the next change; of a creep, its last tenth's
--   step: size of the change
--   p: probability of a change this clear without one
--   captures_before: number of values since the previous change; 0 for a creep
--   captures_after: number of values up to the next step; of a creep, its values
CREATE MACRO _level_changes(
    points,  -- as in `_change_points`
    min_step  -- as in `_change_points`
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(points, recursive := true)
),
found AS MATERIALIZED (
    FROM _change_points(points, min_step)
),
-- Steep creep: series with steps that a straight line fits better.
steep AS (
    SELECT c.*
    FROM _creeps(
        (
            SELECT list(g)
            FROM input AS g
            WHERE g.series IN (SELECT t.series FROM found AS t)
        ),
        (SELECT list(t) FROM found AS t WHERE t.position IS NULL),
        min_step
    ) AS c
),
leveled AS (
    SELECT
        g.series,
        g.value,
        g.value - c.step / (c.captures - 1) * g.position AS beside_slope,
        count(t.position) OVER (
            PARTITION BY g.series ORDER BY g.position ROWS UNBOUNDED PRECEDING
        ) AS part
    FROM input AS g
    JOIN steep AS c ON c.series = g.series
    LEFT JOIN found AS t ON t.series = g.series AND t.position = g.position
),
deviations AS (
    SELECT
        v.series,
        abs(v.value - median(v.value) OVER (PARTITION BY v.series, v.part))
            AS beside_steps,
        abs(v.beside_slope - median(v.beside_slope) OVER (PARTITION BY v.series))
            AS beside_line
    FROM leveled AS v
),
lines AS MATERIALIZED (
    SELECT d.series
    FROM deviations AS d
    GROUP BY d.series
    HAVING sum(d.beside_line) < sum(d.beside_steps)
),
steps AS MATERIALIZED (
    SELECT t.*
    FROM found AS t
    WHERE t.series NOT IN (SELECT l.series FROM lines AS l)
)
SELECT
    s.series, 'step' AS kind, s.position, s.before, s.after, s.step, s.p,
    s.captures_before, s.captures_after
FROM steps AS s
UNION ALL
SELECT
    c.series, 'creep', c.position, c.before, c.after, c.step, c.p, 0, c.captures
FROM _creeps(points, (SELECT list(t) FROM steps AS t), min_step) AS c;

-- One part of a series, between two steps, that grows or declines. The part is
-- split into tenths, so that captures near each other count once, and a line is
-- fitted through their medians, by least squares. It creeps if the line's slope is
-- not by chance (p < 0.001), if it makes as much as the smallest step in all, and if
-- the line fits better than any one step.
-- Columns:
--   series: key of the series
--   position: first position of the part
--   before: median of its first tenth
--   after: median of its last tenth
--   step: growth from its first to its last value, by the line
--   p: probability of such a slope without growth
--   captures: number of its values
CREATE MACRO _creeps(
    points,  -- as in `_change_points`
    changes,  -- rows of `_change_points` as a list
    min_step  -- as in `_change_points`
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(points, recursive := true)
),
cuts AS (
    SELECT c.series, c.position FROM (SELECT unnest(changes, recursive := true)) AS c
),
parts AS (
    SELECT
        g.series,
        g.position,
        g.value,
        count(c.position) OVER (
            PARTITION BY g.series ORDER BY g.position ROWS UNBOUNDED PRECEDING
        ) AS part
    FROM input AS g
    LEFT JOIN cuts AS c ON c.series = g.series AND c.position = g.position
),
placed AS (
    SELECT
        p.*,
        (row_number() OVER (PARTITION BY p.series, p.part ORDER BY p.position) - 1)
        * 10 // count(*) OVER (PARTITION BY p.series, p.part) AS tenth,
        count(*) OVER (PARTITION BY p.series, p.part) AS captures
    FROM parts AS p
),
tenths AS (
    SELECT
        d.series,
        d.part,
        d.tenth,
        min(d.position) AS position,
        any_value(d.captures) AS captures,
        median(d.value) AS middle
    FROM placed AS d
    WHERE d.captures >= 30
    GROUP BY d.series, d.part, d.tenth
),
fitted AS (
    SELECT
        t.series,
        t.part,
        min(t.position) AS position,
        any_value(t.captures) AS captures,
        list(t.middle ORDER BY t.tenth) AS middles,
        regr_slope(t.middle, t.tenth) AS slope,
        regr_r2(t.middle, t.tenth) AS explained,
        10 * var_pop(t.middle) AS squares
    FROM tenths AS t
    GROUP BY t.series, t.part
),
compared AS (
    SELECT
        f.*,
        f.squares * (1 - f.explained) AS beside_line,
        f.squares - list_max(list_transform(
            range(1, 10),
            lambda k:
                k * (10 - k) / 10 * power(
                    list_avg(f.middles[k + 1:]) - list_avg(f.middles[:k]), 2
                )
        )) AS beside_step,
        CASE
            WHEN f.explained < 1
                THEN _student_p(sqrt(8 * f.explained / (1 - f.explained)), 8)
            ELSE 0
        END AS p
    FROM fitted AS f
    WHERE f.squares > 0
)
SELECT
    c.series,
    c.position,
    c.middles[1] AS before,
    c.middles[10] AS after,
    10 * c.slope * (c.captures - 1) / c.captures AS step,
    c.p,
    c.captures
FROM compared AS c
WHERE c.p < 0.001
    AND abs(10 * c.slope) >= min_step
    AND c.beside_line < c.beside_step;
