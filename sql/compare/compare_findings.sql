-- One finding about a comparison that affects how far its verdicts can be trusted.
-- Columns:
--   rule: no times, one trace per side, measured apart, time order unknown, disturbed capture, disturbed steps, unstable side, conditions differ, different programs, different clocks, no common shift, common shift, two groups of ops, few captures
--   detail: what was found, and what to do
CREATE MACRO compare_findings(
    base,  -- name, hash prefix, @latest, or a selector of one or several captures
    new,  -- as `base`
    quantile := 0.25,  -- as in `compare_ops`
    phase := NULL,  -- as in `compare_ops`
    history := NULL,  -- as in `compare_ops`
    allow_mismatch := false  -- as in `compare_ops`
) AS TABLE
WITH
comparison AS MATERIALIZED (
    FROM _comparison(
        base, new, quantile := quantile, phase := phase,
        history := history, allow_mismatch := allow_mismatch
    )
),
compared AS MATERIALIZED (
    SELECT
        c.*,
        NOT c.is_disturbed
        OR bool_or(c.side = 'history') OVER (PARTITION BY c.comparison) AS is_used
    FROM comparison AS c
    WHERE c.level = 'capture'
    QUALIFY c.side <> 'history'
),
turns AS (
    SELECT
        count(*) FILTER (WHERE o.has_changed) >= any_value(o.least) AS is_interleaved
    FROM (
        SELECT
            c.side <> lag(c.side) OVER (ORDER BY c.position) AS has_changed,
            least(
                count(*) FILTER (WHERE c.side = 'base') OVER (),
                count(*) FILTER (WHERE c.side = 'new') OVER ()
            ) AS least
        FROM compared AS c
        WHERE c.comparison = 0
    ) AS o
),
sides AS (
    SELECT
        bool_or(c.step > 0) AS is_by_step,
        count(*) FILTER (WHERE c.side = 'base') AS bases,
        count(*) FILTER (WHERE c.side = 'new') AS news,
        bool_and(c.has_factor) AS has_factor,
        bool_or(c.is_scattered) AS is_scattered,
        count(c.position) = count(*) AS is_ordered,
        exp(any_value(c.other_shift)) - 1 AS other_shift,
        exp(
            avg(c.factor) FILTER (WHERE c.side = 'new' AND c.is_used)
            - avg(c.factor) FILTER (WHERE c.side = 'base' AND c.is_used)
        ) - 1 AS common_shift
    FROM compared AS c
    WHERE c.comparison = 0
),
totals AS (
    SELECT count(t.unit) > 0 AS is_one_clock
    FROM comparison AS t
    WHERE t.level = 'total'
),
conditions AS (
    FROM _differing_conditions(
        (SELECT list(DISTINCT b.capture_id) FROM comparison AS b WHERE b.side = 'base'),
        (SELECT list(DISTINCT n.capture_id) FROM comparison AS n WHERE n.side = 'new')
    )
),
items AS (
    SELECT
        i.matched, i.base_kind IS NOT NULL AS is_in_base,
        i.new_kind IS NOT NULL AS is_in_new
    FROM comparison AS i
    WHERE i.level = 'op'
)
SELECT f.rule, f.detail
FROM (
    SELECT
        0 AS place,
        'no times' AS rule,
        c.name || ' of ' || t.side || ' ' || t.note || ', and is excluded' AS detail
    FROM comparison AS t
    JOIN captures AS c ON c.capture_id = t.capture_id
    WHERE t.level = 'none' AND t.side <> 'history'
    UNION ALL
    SELECT
        1 AS place,
        'conditions differ' AS rule,
        x.name || ': ' || x.detail
        || '; this may be the reason for slower and faster' AS detail
    FROM conditions AS x
    UNION ALL
    SELECT
        2,
        'one trace per side',
        'steps are the samples, ' || d.bases || ' of base and ' || d.news
        || ' of new; as they share the state of the machine, a difference is at most '
        || 'possible: take at least 3 traces per side, in turns'
        || CASE
            WHEN least(d.bases, d.news) < 3 THEN
                ', or traces of more steps (--step-name NAME: calls of an annotation)'
            ELSE ''
        END
    FROM sides AS d
    WHERE d.is_by_step
    UNION ALL
    SELECT
        2,
        'few captures',
        d.bases || ' in base, ' || d.news || ' in new: take at least 3 per side, '
        || 'better 5 to 10 (etq plan)'
    FROM sides AS d
    WHERE least(d.bases, d.news) < 3 AND NOT d.is_by_step
    UNION ALL
    SELECT
        3,
        'time order unknown',
        'not all captures have a time of measurement (etq ingest --captured-at): a '
        || 'change of the machine cannot be separated from one of the program; '
        || 'intervals are the spread of the captures, without that change'
    FROM sides AS d
    WHERE NOT d.is_ordered AND NOT d.is_by_step
    UNION ALL
    SELECT
        3,
        'measured apart',
        'the sides were measured at different times: a change of the machine cannot be '
        || 'separated from one of the program; intervals are the spread of the '
        || 'captures, without that change; interleave them (etq plan)'
    FROM sides AS d
    CROSS JOIN turns AS t
    WHERE d.is_ordered AND NOT t.is_interleaved
    UNION ALL
    SELECT
        4,
        'disturbed capture',
        c.name || ' of ' || a.side || ' took '
        || printf('%.1f', 100 * abs(exp(a.off) - 1))
        || CASE WHEN a.off > 0 THEN ' % more' ELSE ' % less' END
        || CASE WHEN a.has_factor THEN ' in all ops' ELSE ' in total' END
        || CASE WHEN a.comparison > 0 THEN ' on devices' ELSE '' END
        || CASE
            WHEN a.is_used THEN ' than the other captures: measure again'
            WHEN a.has_factor
                THEN ' than the rest of its side, and is excluded: measure again'
            ELSE ' than the captures of both sides, and is excluded: measure again'
        END
    FROM compared AS a
    JOIN captures AS c ON c.capture_id = a.capture_id
    WHERE a.is_disturbed AND a.step = 0
    UNION ALL
    SELECT
        4,
        'disturbed steps',
        count(*) FILTER (WHERE a.is_disturbed) || ' of ' || count(*) || ' steps of '
        || a.side || ' took ' || printf(
            '%.1f', 100 * abs(exp(median(a.off) FILTER (WHERE a.is_disturbed)) - 1)
        )
        || CASE
            WHEN median(a.off) FILTER (WHERE a.is_disturbed) > 0 THEN ' % more'
            ELSE ' % less'
        END
        || CASE WHEN bool_or(a.has_factor) THEN ' in all ops' ELSE ' in total' END
        || CASE WHEN a.comparison > 0 THEN ' on devices' ELSE '' END
        || ' and are excluded'
    FROM compared AS a
    WHERE a.step > 0
    GROUP BY a.comparison, a.side
    HAVING bool_or(a.is_disturbed)
    UNION ALL
    SELECT
        5,
        'unstable side',
        count(*) FILTER (WHERE a.is_disturbed) || ' of ' || count(*)
        || ' captures of ' || a.side || ' are disturbed: the others may not be '
        || 'typical either'
    FROM compared AS a
    WHERE a.comparison = 0 AND a.step = 0
    GROUP BY a.side
    HAVING count(*) > 1 AND count(*) FILTER (WHERE a.is_disturbed) > 0.2 * count(*)
    UNION ALL
    SELECT
        6,
        'different programs',
        'ops are matched by ' || any_value(i.matched) || ': '
        || count(*) FILTER (WHERE NOT i.is_in_base) || ' of new are not in base, '
        || count(*) FILTER (WHERE NOT i.is_in_new) || ' of base not in new'
        || CASE
            WHEN 2 * count(*) FILTER (WHERE i.is_in_base AND i.is_in_new) < least(
                count(*) FILTER (WHERE i.is_in_base),
                count(*) FILTER (WHERE i.is_in_new)
            )
                THEN '; fewer than half are in both, so that only totals compare'
            ELSE ''
        END
    FROM items AS i
    HAVING any_value(i.matched) <> 'event'
    UNION ALL
    SELECT
        7,
        'different clocks',
        'one side counts cycles and the other time: only shares are comparable'
    FROM totals AS t
    WHERE NOT t.is_one_clock
    UNION ALL
    SELECT
        8,
        'no common shift',
        CASE
            WHEN d.is_scattered THEN
                'two groups of ops moved apart, and captures of a side differ too much '
                || 'to determine which of them changed: '
            ELSE
                'fewer than 3 ops with a precise clock in all captures, or fewer than '
                || 'half of them: '
        END
        || 'the common shift of all ops cannot be separated from the change of one op'
    FROM sides AS d
    WHERE NOT d.has_factor
    UNION ALL
    SELECT
        8,
        'common shift',
        'the whole program is '
        || CASE WHEN d.common_shift > 0 THEN 'slower' ELSE 'faster' END
        || ' by ' || printf('%.1f', 100 * abs(d.common_shift))
        || ' % in all ops: verdicts on ops do not include this common shift'
    FROM sides AS d
    CROSS JOIN totals AS t
    WHERE d.has_factor AND abs(d.common_shift) >= 0.02 AND t.is_one_clock
    UNION ALL
    SELECT
        8,
        'two groups of ops',
        'two groups of ops moved apart, by ' || printf('%.1f', 100 * d.common_shift)
        || ' % and by ' || printf('%.1f', 100 * d.other_shift) || ' %: it cannot be '
        || 'determined which of them the program changed; the first is taken for '
        || 'the common shift: see the total, and '
        || CASE
            WHEN d.is_ordered AND t.is_interleaved
                THEN 'measure more captures of both'
            ELSE 'measure both again, in turns'
        END
    FROM sides AS d
    CROSS JOIN turns AS t
    CROSS JOIN totals AS u
    WHERE d.has_factor
        AND d.other_shift IS NOT NULL
        AND abs(d.common_shift) >= 0.02
        AND u.is_one_clock
) AS f
ORDER BY f.place, f.detail;
