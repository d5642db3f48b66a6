-- The change of one item between two sides of several captures each. The sample is
-- a capture, never a run: runs of one capture share the state of the device.
-- Disturbed captures are excluded. The test is a t-test on logarithms of normalized
-- times, see `_item_differences`; the variance of an op is moderated towards the median
-- of the ops of its type, with fewer than 3 of these, or if the sides were not measured
-- in turn, of all ops. This counts as 3 more degrees of freedom. The ratio is that of
-- Hodges and Lehmann: the median of all ratios of a new to a base capture, with the
-- interval from Mann's and Whitney's statistic, widened by the error of the part that
-- follows the common shift, and by the resolution of a coarse clock.
-- Columns:
--   comparison: index of the comparison
--   level: total, op or module; after `all ` with disturbed captures, if there are any
--   scope: scope, as in the input
--   item: key of what was measured
--   base_captures: number of captures of base that have it; disturbed captures are excluded
--   new_captures: number of captures of new that have it; disturbed captures are excluded
--   base_ticks: median time in captures of base, in ticks
--   new_ticks: median time in captures of new, in ticks
--   change: ratio of new to base, less 1, without the common shift; for the total, with it
--   change_low: lower end of its interval: of 95 % if the sides were measured in turns; else of the spread of the captures, without what the machine changed from side to side; NULL if there are too few captures for one
--   change_high: upper end of that interval
--   p: probability of a difference this large by chance
--   q: p, corrected for the number of ops (Holm): probability of any false positive among the ops with this q or less; ops below 1 % of the total count less, by their share
--   share: share of base's total, between 0 and 1
--   resolution: value that the times are multiples of, in ticks
--   is_below_resolution: whether the clock is coarse and the difference not more than its resolution
--   is_consistent: whether each capture of a side of 3 or 4 captures has at least half of the difference to the median of the other side; true for larger sides
--   is_interleaved: whether the sides' captures alternate in time at least as often as the smaller side has captures
--   difference: the mean difference of logarithms that p is about
--   variance: variance that p is about, of one capture
--   freedom: degrees of freedom of that variance
--   weight: the op's part of alpha, before it is divided by that of all ops
CREATE MACRO _difference_tests(
    adjusted  -- rows of `_normalized_samples` as a list
) AS TABLE
WITH
spread AS (
    SELECT
        d.*,
        d.is_coarse AND abs(d.new_ticks - d.base_ticks) <= d.resolution
            AS is_below_resolution
    FROM _item_differences(adjusted) AS d
),
precise AS (
    SELECT
        s.comparison,
        s.level,
        s.op,
        s.is_interleaved,
        s.variance / power(1 - 2 / (9 * s.freedom), 3) AS variance
    FROM spread AS s
    WHERE s.level NOT IN ('total', 'all total')
        AND s.freedom > 0
        AND NOT s.is_coarse
),
typical AS (
    SELECT r.comparison, r.level, median(r.variance) AS variance
    FROM precise AS r
    GROUP BY r.comparison, r.level
    HAVING count(*) >= 5
),
-- Ops of one type vary similarly, others less so. How a machine moves from side to side
-- if they were not measured in turn, the variance within them doesn't show.
of_types AS (
    SELECT r.comparison, r.level, r.op, median(r.variance) AS variance
    FROM precise AS r
    WHERE r.is_interleaved AND r.op IS NOT NULL
    GROUP BY r.comparison, r.level, r.op
    HAVING count(*) >= 3 AND median(r.variance) > 0
),
shared AS (
    SELECT
        s.*,
        coalesce(o.variance, y.variance) AS typical_variance,
        s.base_ticks / nullif(s.base_total, 0) AS share
    FROM spread AS s
    LEFT JOIN typical AS y ON y.comparison = s.comparison AND y.level = s.level
    LEFT JOIN of_types AS o
        ON o.comparison = s.comparison AND o.level = s.level AND o.op = s.op
),
moderated AS (
    SELECT
        h.*,
        CASE
            WHEN h.typical_variance IS NULL THEN h.variance
            ELSE (3 * h.typical_variance + h.freedom * h.variance) / (3 + h.freedom)
        END AS used_variance,
        h.freedom + CASE WHEN h.typical_variance IS NULL THEN 0 ELSE 3 END
            AS used_freedom,
        -- An op's part of the probability of a false positive.
        least(0.01, greatest(0.0005, coalesce(h.share, 0.01))) AS weight
    FROM shared AS h
),
tested AS (
    SELECT
        m.*,
        CASE
            WHEN m.freedom < 1 THEN NULL
            WHEN m.used_variance > 0 THEN _student_p(
                m.difference / sqrt(m.used_variance * m.per_capture),
                m.used_freedom
            )
            ELSE 1
        END AS p
    FROM moderated AS m
),
ranked AS (
    SELECT
        t.*,
        row_number() OVER in_level AS rank,
        t.p / t.weight * sum(t.weight) OVER rest_of_level AS stepped
    FROM tested AS t
    WINDOW
        in_level AS (
            PARTITION BY t.comparison, t.level, t.p IS NULL OR t.is_below_resolution
            ORDER BY t.p / t.weight, t.item
        ),
        rest_of_level AS (
            PARTITION BY t.comparison, t.level, t.p IS NULL OR t.is_below_resolution
            ORDER BY t.p / t.weight, t.item
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        )
),
corrected AS (
    SELECT
        r.*,
        list_sort(flatten(list_transform(
            r.new_values,
            lambda n: list_transform(r.base_values, lambda b: n - b)
        ))) AS differences,
        CASE
            WHEN NOT r.is_below_resolution THEN least(
                1,
                max(r.stepped) OVER (
                    PARTITION BY
                        r.comparison, r.level, r.p IS NULL OR r.is_below_resolution
                    ORDER BY r.rank
                    ROWS UNBOUNDED PRECEDING
                )
            )
        END AS q,
        CASE WHEN r.is_coarse THEN r.resolution / r.base_ticks ELSE 0 END AS step,
        sqrt(r.per_capture / (1 / r.base_captures + 1 / r.new_captures)) AS stretch,
        floor(
            r.base_captures * r.new_captures / 2 - 1.959963984540054 * sqrt(
                r.base_captures * r.new_captures
                * (r.base_captures + r.new_captures + 1) / 12
            )
        )::INTEGER AS place
    FROM ranked AS r
)
SELECT
    c.comparison,
    c.level,
    c.scope,
    c.item,
    c.base_captures,
    c.new_captures,
    c.base_ticks,
    c.new_ticks,
    exp(list_median(c.differences)) - 1 AS change,
    CASE
        WHEN c.place >= 1 THEN exp(
            c.stretch * c.differences[c.place]
            + (1 - c.stretch) * list_median(c.differences)
        ) - 1 - c.step
    END AS change_low,
    CASE
        WHEN c.place >= 1 THEN exp(
            c.stretch * c.differences[len(c.differences) + 1 - c.place]
            + (1 - c.stretch) * list_median(c.differences)
        ) - 1 + c.step
    END AS change_high,
    c.p,
    c.q,
    c.share,
    c.resolution,
    c.is_below_resolution,
    (
        c.new_captures > 4
        OR list_min(list_transform(
            c.new_values,
            lambda n:
                (n - list_median(c.base_values))
                * sign(list_median(c.differences))
        )) >= abs(list_median(c.differences)) / 2
    ) AND (
        c.base_captures > 4
        OR list_min(list_transform(
            c.base_values,
            lambda b:
                (list_median(c.new_values) - b)
                * sign(list_median(c.differences))
        )) >= abs(list_median(c.differences)) / 2
    ) AS is_consistent,
    c.is_interleaved,
    c.difference,
    c.used_variance * c.stretch * c.stretch AS variance,
    c.used_freedom AS freedom,
    c.weight
FROM corrected AS c;

-- Whether a change is there by its ranks, or by the t-test.
CREATE MACRO _is_there(
    change,  -- the change, as a fraction
    low,  -- lower end of its interval; NULL if there are too few captures for one
    high,  -- upper end of its interval
    is_consistent,  -- whether all of few captures show it
    p,  -- its p, corrected for the number of items
    alpha  -- accepted probability of a false positive
) AS (
    coalesce(least(change * low, change * high) > 0, is_consistent)
    OR coalesce(p < alpha, false)
);
