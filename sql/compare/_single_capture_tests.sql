-- The change of one item from one capture to another, compared with the changes
-- between successive captures of the same program, the history. The difference is
-- in units of the op's usual variation there: the greater of the standard
-- deviations by median deviation and by successive differences, shrunk towards the
-- median op's, and at least 0.3 %. If the level of the history changed for good, what
-- is before that is put on the new level. A change is rare if it is more than 8 such
-- units and more than 1.5 times the op's greatest change in the history. Disturbed
-- captures of the history are excluded, but not from totals.
-- Columns:
--   comparison: index of the comparison
--   level: total, op or module
--   scope: scope, as in the input
--   item: key of what was measured
--   base_ticks: time in the capture of base, in ticks
--   new_ticks: time in the capture of new, in ticks
--   change: ratio of new to base, less 1, without the common shift; for the total, with it
--   score: difference in standard deviations
--   worst_score: greatest score of two successive captures of the history
--   is_rare: whether the difference is rare for this item
--   is_shared: whether other ops differ as much: in the history, by two thirds of this difference, any op of 1 % of the total or more, for smaller items any op of 0.1 to 1 %; or two other ops have a rare difference now, and this one is of an op and less than a factor of 2, as an op may be slower for a whole capture and others with it
--   worst_step: greatest difference of two successive captures of the history, as a logarithm
--   history_captures: number of captures of the history that have it; of ops, disturbed captures are excluded
--   share: share of base's total, between 0 and 1
--   resolution: value that the times are multiples of, in ticks
--   is_coarse: whether that resolution is coarse for the time
--   is_disturbed: whether the capture of base or that of new is disturbed
CREATE MACRO _single_capture_tests(
    adjusted  -- rows of `_normalized_samples` as a list
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(adjusted, recursive := true)
),
valued AS MATERIALIZED (
    SELECT
        g.*,
        g.log_ticks - CASE g.level WHEN 'total' THEN 0 ELSE g.factor END AS value
    FROM input AS g
),
histories AS (
    SELECT
        v.comparison,
        v.level,
        v.item,
        count(*) AS captures,
        2 * count(*) FILTER (WHERE v.is_coarse) >= count(*) AS is_coarse,
        list(v.value ORDER BY v.position, v.capture_id) AS history
    FROM valued AS v
    -- How often captures are disturbed as a whole is what a total is judged by.
    WHERE v.side = 'history' AND (v.level = 'total' OR NOT v.is_disturbed)
    GROUP BY v.comparison, v.level, v.item
),
-- The place of the history with the greatest change of its median.
shifted AS (
    SELECT
        h.*,
        list_max(list_transform(
            range(3, len(h.history) - 2),
            lambda k: struct_pack(
                size := sqrt(k * (len(h.history) - k)) * abs(
                    list_median(list_transform(
                        range(k + 1, len(h.history) + 1), lambda i: h.history[i]
                    ))
                    - list_median(list_transform(
                        range(1, k + 1), lambda i: h.history[i]
                    ))
                ),
                place := k,
                shift := list_median(list_transform(
                    range(k + 1, len(h.history) + 1), lambda i: h.history[i]
                ))
                - list_median(list_transform(range(1, k + 1), lambda i: h.history[i]))
            )
        )) AS change,
        list_median(list_transform(
            range(2, len(h.history) + 1),
            lambda i: abs(h.history[i] - h.history[i - 1])
        )) AS usual
    FROM histories AS h
),
-- A change that stayed is not variation: values before it are moved to its level.
leveled AS (
    SELECT
        f.comparison,
        f.level,
        f.item,
        f.captures,
        f.is_coarse,
        CASE
            WHEN abs(f.change.shift) > greatest(0.03, 6 * f.usual) THEN list_transform(
                range(1, len(f.history) + 1),
                lambda i: f.history[i]
                + CASE WHEN i <= f.change.place THEN f.change.shift ELSE 0 END
            )
            ELSE f.history
        END AS history
    FROM shifted AS f
),
spread AS MATERIALIZED (
    SELECT
        h.comparison,
        h.level,
        h.item,
        h.captures,
        list_max(h.steps) AS worst_step,
        h.is_coarse,
        greatest(
            list_median(list_transform(
                h.history, lambda value: abs(value - h.middle)
            )),
            list_median(h.steps)
        ) AS spread
    FROM (
        SELECT
            g.*,
            list_median(g.history) AS middle,
            list_transform(
                range(2, len(g.history) + 1),
                lambda i: abs(g.history[i] - g.history[i - 1]) / sqrt(2)
            ) AS steps
        FROM leveled AS g
    ) AS h
),
shrunk AS (
    SELECT
        s.*,
        greatest(0.003, sqrt(
            (
                3 * power(coalesce(t.spread, s.spread), 2)
                + 0.4 * (s.captures + 1) * power(s.spread, 2)
            ) / (3 + 0.4 * (s.captures + 1))
        )) AS used_spread
    FROM spread AS s
    LEFT JOIN (
        SELECT p.comparison, p.level, median(p.spread) AS spread
        FROM spread AS p
        WHERE NOT p.is_coarse AND p.level <> 'total'
        GROUP BY p.comparison, p.level
    ) AS t
        ON t.comparison = s.comparison AND t.level = s.level
),
scored AS (
    SELECT
        b.comparison,
        b.level,
        b.scope,
        b.item,
        b.ticks AS base_ticks,
        n.ticks AS new_ticks,
        n.value - b.value AS difference,
        abs(n.value - b.value) / sqrt(2) / h.used_spread AS score,
        h.worst_step / h.used_spread AS worst_score,
        sqrt(2) * h.worst_step AS worst_step,
        max(CASE
            WHEN b.level = 'op' AND b.ticks >= 0.001 * t.ticks THEN h.worst_step
        END) OVER (PARTITION BY b.comparison, b.ticks >= 0.01 * t.ticks)
        / h.used_spread AS worst_of_ops,
        coalesce(h.captures, 0) AS history_captures,
        b.ticks / t.ticks AS share,
        greatest(b.resolution, n.resolution) AS resolution,
        b.is_coarse OR n.is_coarse AS is_coarse,
        b.is_disturbed OR n.is_disturbed AS is_disturbed
    FROM valued AS b
    JOIN valued AS n
        ON n.comparison = b.comparison
        AND n.level = b.level
        AND n.item = b.item
        AND n.side = 'new'
    LEFT JOIN shrunk AS h
        ON h.comparison = b.comparison AND h.level = b.level AND h.item = b.item
    LEFT JOIN valued AS t
        ON t.comparison = b.comparison
        AND t.scope = b.scope
        AND t.side = 'base'
        AND t.level = 'total'
    WHERE b.side = 'base'
),
rated AS (
    SELECT s.*, s.score > 8 AND s.score > 1.5 * s.worst_score AS is_rare
    FROM scored AS s
)
SELECT
    r.comparison,
    r.level,
    r.scope,
    r.item,
    r.base_ticks,
    r.new_ticks,
    exp(r.difference) - 1 AS change,
    r.score,
    r.worst_score,
    r.is_rare,
    r.level <> 'total' AND (
        coalesce(r.score <= 1.5 * r.worst_of_ops, false)
        OR r.level = 'op'
        AND r.is_rare
        AND abs(r.difference) < ln(2)
        AND count(*) FILTER (WHERE r.is_rare) OVER (PARTITION BY r.comparison, r.level)
            >= 3
    ) AS is_shared,
    r.worst_step,
    r.history_captures,
    r.share,
    r.resolution,
    r.is_coarse,
    r.is_disturbed
FROM rated AS r;
