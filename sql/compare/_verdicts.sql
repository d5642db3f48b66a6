-- The verdict on one item of a comparison, and, as level common shift, the change
-- that all ops share, if known. Several captures per side are judged by their
-- spread, single ones by that of the history. A difference counts if it is not by
-- chance (q below alpha), if it reaches the smallest effect (2 %; for totals 3 % if
-- the sides were not measured in turn; 10 % for single captures), if it is at least
-- 0.05 % of the total (0.1 % for single captures), and if it is above the clock's
-- resolution; and if the captures that are left out as disturbed do not contradict: with
-- them, the interval must not contain 0. There is no difference if the interval is
-- within what doesn't count; for single captures, if the greatest difference of the
-- history, more, would not count. Otherwise it is not decided. A total that isn't
-- slower is unstable if new has more disturbed captures, slower ones, than base, by
-- more than a fifth of a side, or if it would be slower with them. Without a common
-- shift, alpha is halved.
-- Columns:
--   comparison: index of the comparison
--   level: total, op, module or common shift
--   scope: method
--   item: key of what was measured
--   verdict: slower, faster, ~ (no difference that counts), not decided, possibly slower, possibly faster, unstable, too few, can't judge, added, removed
--   change: ratio of new to base, less 1; for ops and modules without the common shift
--   change_low: lower end of its interval, as in `_difference_tests`; NULL if there are too few captures
--   change_high: upper end of that interval
--   base_ticks: median time in captures of base, in ticks
--   new_ticks: median time in captures of new, in ticks
--   share: share of base's total, between 0 and 1
--   p: probability of a difference this large by chance; NULL for single captures
--   q: p, corrected for the number of ops; NULL for single captures
--   score: for single captures, the difference in standard deviations; NULL otherwise
--   base_captures: number of captures of base that have it; disturbed captures are excluded
--   new_captures: number of captures of new that have it; disturbed captures are excluded
--   note: why no verdict is possible, or what is needed for one; NULL if there is nothing to note
CREATE MACRO _verdicts(
    samples,  -- rows of `_comparison_samples` as a list
    alpha,  -- as in `compare_ops`
    min_effect  -- as in `compare_ops`
) AS TABLE
WITH
adjusted AS MATERIALIZED (
    FROM _normalized_samples(samples)
),
counted AS (
    SELECT
        a.comparison,
        a.level,
        any_value(a.scope) AS scope,
        a.item,
        count(*) FILTER (WHERE a.side = 'base') AS bases,
        count(*) FILTER (WHERE a.side = 'new') AS news,
        count(*) FILTER (
            WHERE a.side = 'base' AND (a.is_single OR NOT a.is_disturbed)
        ) AS used_bases,
        count(*) FILTER (
            WHERE a.side = 'new' AND (a.is_single OR NOT a.is_disturbed)
        ) AS used_news,
        bool_or(a.side = 'history') AS has_history,
        bool_or(a.log_ticks IS NULL) AS is_zero,
        median(a.ticks) FILTER (WHERE a.side = 'base') AS base_ticks,
        median(a.ticks) FILTER (WHERE a.side = 'new') AS new_ticks
    FROM adjusted AS a
    GROUP BY a.comparison, a.level, a.item
),
several AS (
    FROM _difference_tests((SELECT list(a) FROM adjusted AS a))
),
single AS (
    FROM _single_capture_tests((SELECT list(a) FROM adjusted AS a WHERE a.is_single))
),
states AS (
    FROM _slow_captures((SELECT list(a) FROM adjusted AS a))
),
both_tests AS (
    SELECT
        c.*,
        c.bases > 0 AND c.news > 0 AS is_matched,
        c.has_history AND c.bases = 1 AND c.news = 1 AS is_single,
        s.base_captures, s.new_captures, s.base_ticks AS base_median,
        s.new_ticks AS new_median,
        s.change, s.change_low, s.change_high, s.p, s.q,
        coalesce(s.share, i.share) AS share,
        s.resolution,
        s.is_below_resolution,
        -- The interval of a total excludes 0, too, unless alpha is larger than its 5 %.
        s.is_consistent AND coalesce(
            c.level <> 'total'
            OR alpha > 0.05
            OR least(s.change * s.change_low, s.change * s.change_high) > 0,
            true
        ) AS is_consistent,
        w.change IS NOT NULL AND NOT coalesce(s.change * w.change > 0 AND _is_there(
            w.change, w.change_low, w.change_high, w.is_consistent,
            CASE c.level WHEN 'total' THEN w.p ELSE w.q END,
            alpha / CASE WHEN t.has_factor THEN 1 ELSE 2 END
        ), false) AS is_contradicted,
        s.is_interleaved, s.difference,
        -- More captures have disturbed ones, too.
        greatest(s.variance, w.variance) AS variance,
        s.freedom, s.weight,
        coalesce(min_effect, CASE
            WHEN c.level = 'total' AND NOT s.is_interleaved THEN 0.03 ELSE 0.02
        END) AS smallest,
        -- Without a common shift, ops are tested in addition to the total: half of
        -- alpha is left for them.
        alpha / CASE WHEN t.has_factor THEN 1 ELSE 2 END AS used_alpha,
        t.slow_news,
        t.off,
        t.slow_news >= 2
        AND t.slow_news / c.news - t.slow_bases / c.bases > 0.2 AS is_uneven,
        CASE c.level WHEN 'total' THEN s.p ELSE s.q END AS tested_p,
        abs(s.change) * coalesce(s.share, i.share, 1) >= 0.0005 AS is_material,
        w.p AS all_p,
        w.change AS all_change,
        w.change_low AS all_low,
        w.change_high AS all_high,
        i.change AS single_change,
        i.score,
        i.worst_step,
        i.is_rare,
        i.is_shared,
        i.history_captures,
        i.is_disturbed,
        (i.is_coarse AND abs(i.new_ticks - i.base_ticks) < 2 * i.resolution)
            AS is_below_twice
    FROM counted AS c
    LEFT JOIN several AS s
        ON s.comparison = c.comparison AND s.level = c.level AND s.item = c.item
    LEFT JOIN states AS t ON t.comparison = c.comparison
    LEFT JOIN several AS w
        ON w.comparison = c.comparison
        AND w.item = c.item
        AND w.level = 'all ' || c.level
    LEFT JOIN single AS i
        ON i.comparison = c.comparison AND i.level = c.level AND i.item = c.item
),
-- What counts of each item, with its part of the total.
sized AS (
    SELECT
        b.*,
        CASE
            WHEN b.is_single
                THEN greatest(
                    0.1, coalesce(min_effect, 0), 0.001 / coalesce(b.share, 1)
                )
            ELSE greatest(b.smallest, 0.0005 / coalesce(b.share, 1))
        END AS counting,
        sum(b.weight) FILTER (WHERE b.q >= b.used_alpha)
            OVER (PARTITION BY b.comparison, b.level) AS weights
    FROM both_tests AS b
),
first_judged AS (
    SELECT
        b.*,
        CASE
            WHEN b.bases = 0 AND b.news = 0 THEN NULL
            WHEN b.bases = 0 THEN 'added'
            WHEN b.news = 0 THEN 'removed'
            WHEN b.is_zero THEN 'can''t judge'
            WHEN b.is_single AND b.history_captures >= 10 THEN CASE
                WHEN b.is_disturbed OR b.is_below_twice THEN 'can''t judge'
                WHEN b.is_rare
                    AND abs(b.single_change) >= greatest(0.1, coalesce(min_effect, 0))
                    AND abs(b.single_change) * coalesce(b.share, 1) >= 0.001
                    THEN CASE WHEN b.is_shared THEN 'possibly ' ELSE '' END
                        || CASE WHEN b.single_change > 0 THEN 'slower' ELSE 'faster' END
                WHEN exp(abs(ln(1 + b.single_change)) + b.worst_step) - 1 <= b.counting
                    THEN '~'
                ELSE 'not decided'
            END
            WHEN coalesce(b.base_captures, 0) < 3 OR coalesce(b.new_captures, 0) < 3
                THEN 'too few'
            WHEN b.is_below_resolution THEN 'can''t judge'
            WHEN abs(b.change) >= b.smallest
                AND b.is_material
                AND b.tested_p < b.used_alpha
                AND b.is_consistent
                THEN CASE
                    WHEN b.is_contradicted THEN 'not decided'
                    WHEN b.change > 0 THEN 'slower'
                    ELSE 'faster'
                END
            WHEN greatest(-b.change_low, b.change_high) <= b.counting THEN '~'
            WHEN b.p = 1 AND abs(b.change) >= b.smallest AND b.is_material
                THEN 'can''t judge'
            ELSE 'not decided'
        END AS kept_verdict
    FROM sized AS b
),
judged AS (
    SELECT
        f.*,
        -- What is left out must not hide that new is slower.
        CASE
            WHEN f.level <> 'total' OR NOT f.is_matched OR f.kept_verdict = 'slower'
                THEN f.kept_verdict
            WHEN f.is_single
                AND f.slow_news = 1
                AND f.is_rare
                AND f.single_change >= greatest(0.1, coalesce(min_effect, 0))
                THEN 'unstable'
            WHEN f.is_single THEN f.kept_verdict
            WHEN f.is_uneven
                OR f.all_p < f.used_alpha AND f.all_change >= f.smallest
                THEN 'unstable'
            ELSE f.kept_verdict
        END AS verdict
    FROM first_judged AS f
)
SELECT
    j.comparison,
    j.level,
    j.scope,
    j.item,
    j.verdict,
    CASE
        WHEN NOT j.is_matched THEN NULL
        WHEN j.is_single THEN j.single_change
        ELSE j.change
    END AS change,
    CASE WHEN NOT j.is_single THEN j.change_low END AS change_low,
    CASE WHEN NOT j.is_single THEN j.change_high END AS change_high,
    coalesce(j.base_median, j.base_ticks) AS base_ticks,
    coalesce(j.new_median, j.new_ticks) AS new_ticks,
    j.share,
    CASE WHEN NOT j.is_single THEN j.p END AS p,
    CASE WHEN NOT j.is_single THEN j.q END AS q,
    CASE WHEN j.is_single THEN j.score END AS score,
    coalesce(j.base_captures, 0) AS base_captures,
    coalesce(j.new_captures, 0) AS new_captures,
    CASE
        WHEN j.verdict = 'unstable' THEN _unstable_note(
            j.is_single, j.is_uneven, j.slow_news, j.news, j.off, j.all_change,
            j.is_interleaved
        )
        WHEN j.verdict = 'too few' THEN _too_few_note(
            j.is_single, coalesce(j.history_captures, 0), j.used_bases, j.used_news,
            j.bases + j.news - j.used_bases - j.used_news
        )
        WHEN j.verdict = 'can''t judge' AND j.is_zero THEN
            'shorter than one step of the clock'
        WHEN j.verdict = 'can''t judge' AND j.is_disturbed THEN
            'a capture is disturbed: take 2 more of base and of new'
        WHEN j.verdict = 'can''t judge'
            AND NOT j.is_single
            AND NOT j.is_below_resolution THEN
            'the same in all captures of a side: its variation is unknown'
        WHEN j.verdict = 'can''t judge' THEN _clock_note(j.resolution, j.base_ticks)
        WHEN j.verdict LIKE 'possibly %' THEN
            'other ops differ as much between single captures: measure 3 more per side'
        WHEN j.verdict = '~' AND NOT j.is_single AND NOT j.is_material
            AND abs(j.change) >= j.smallest AND j.tested_p < j.used_alpha THEN
            'changed, but only by ' || printf('%.2g', 100 * abs(j.change) * j.share)
            || ' % of the total'
        WHEN j.verdict <> 'not decided' THEN NULL
        WHEN j.is_single THEN _single_note(j.worst_step)
        WHEN abs(j.change) < j.smallest OR NOT j.is_material THEN
            CASE
                WHEN j.level = 'total' THEN _wide_note(j.change_low, j.counting)
            END
        WHEN j.tested_p >= j.used_alpha THEN _noise_note(
            j.difference,
            j.variance,
            j.freedom,
            j.base_captures + j.new_captures,
            least(j.bases, j.news),
            greatest(j.bases / j.used_bases, j.news / j.used_news),
            j.used_alpha
            * CASE j.level WHEN 'total' THEN 1 ELSE j.weight / j.weights END,
            j.counting
        )
        WHEN NOT j.is_consistent THEN
            'not clear in all captures: take at least 5 per side, better 10'
        ELSE _left_out_note(
            j.bases + j.news - j.used_bases - j.used_news, j.all_change, j.all_low,
            j.all_high, j.is_interleaved
        )
    END AS note
FROM judged AS j
WHERE j.verdict IS NOT NULL
UNION ALL
SELECT
    f.comparison, 'common shift', NULL, '', NULL, f.change, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, f.base_captures, f.new_captures, NULL
FROM _common_shifts((SELECT list(a) FROM adjusted AS a)) AS f;
