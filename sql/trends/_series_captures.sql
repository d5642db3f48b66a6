-- One capture with its series, the captures that have the same labels of some keys, and the label by which it is
-- ordered; NULL if it has none: then it is judged in no series. A series is in the order of the label `over`; if that
-- is NULL, of the first of build, commits (if all of its commits have a commit_time) and captured_at that more than
-- half of its captures have, or else of the one that most captures have. Builds that are hashes are no order unless
-- `over` names them. `bound` is the value that ranges of selectors compare in this order.
CREATE MACRO _series_labels(
    selector, over, "by",
    is_lenient := false  -- whether captures without a label to order them by are no error if there are no others
) AS TABLE
WITH labelled AS (
    SELECT l.capture_id,
        array_to_string(list_sort(
            list(l.key || '=' || _selector_value(l.key, l.value)) FILTER (
                WHERE list_contains(_series_keys("by"), l.key)
            )
        ), ',') AS series,
        any_value(l.value) FILTER (WHERE l.key = coalesce(over, 'build')) AS label,
        any_value(l.value) FILTER (WHERE l.key = 'commit') AS hash,
        any_value(l.value) FILTER (WHERE l.key = 'commit_time') AS committed_at
    FROM labels AS l
    GROUP BY l.capture_id
),
-- Hashes have digits of base 16 in many forms; numbers and dates, with letters before or after them or not, have few.
chosen AS (
    SELECT c.capture_id, c.name, c.captured_at, c.ingested_at, c.time_scale, l.label, l.hash, l.committed_at,
        coalesce(l.series, '') AS series,
        regexp_full_match(l.label, '[0-9a-f]{7,40}([.+-]dirty)?') AS may_be_hash,
        regexp_replace(regexp_replace(l.label, '[0-9]', '0', 'g'), '[a-f]', 'a', 'g') AS form
    FROM _chosen_captures(selector) AS c
    LEFT JOIN labelled AS l USING (capture_id)
),
counted AS (
    SELECT c.*, count(*) OVER same AS captures,
        over IS NULL AND bool_and(c.may_be_hash) OVER same AND count(DISTINCT c.label) OVER same >= 3
            AND count(DISTINCT c.label) OVER same
            < 2 * count(DISTINCT CASE WHEN c.form LIKE '%a%' THEN c.form END) OVER same AS are_hashes,
        CASE WHEN are_hashes THEN 0 ELSE count(c.label) OVER same END AS builds,
        count(c.captured_at) OVER same AS times,
        CASE
            WHEN bool_and(c.hash IS NULL OR c.committed_at IS NOT NULL) OVER same THEN count(c.hash) OVER same ELSE 0
        END AS commits
    FROM chosen AS c
    WINDOW same AS (PARTITION BY c.series)
),
ordered AS (
    SELECT n.* EXCLUDE (may_be_hash, form), CASE
        WHEN over IS NOT NULL THEN over
        WHEN 2 * n.builds > n.captures OR n.builds >= greatest(n.commits, n.times, 1) THEN 'build'
        WHEN 2 * n.commits > n.captures OR n.commits >= greatest(n.times, 1) THEN 'commit'
        ELSE 'captured_at'
    END AS ordered_by
    FROM counted AS n
),
placed AS (
    SELECT o.capture_id, o.name, o.captured_at, o.ingested_at, o.time_scale, o.committed_at, o.series, o.ordered_by,
        o.are_hashes,
        CASE o.ordered_by
            WHEN 'captured_at' THEN o.captured_at::VARCHAR WHEN 'commit' THEN o.hash ELSE o.label
        END AS label,
        CASE o.ordered_by
            WHEN 'captured_at' THEN o.captured_at::VARCHAR WHEN 'commit' THEN o.committed_at ELSE o.label
        END AS bound
    FROM ordered AS o
),
checked AS (
    SELECT p.*, count(*) OVER () AS captures, count(p.label) OVER () AS labelled,
        count(p.committed_at) OVER () AS commits, count(p.captured_at) OVER () AS times,
        bool_or(p.are_hashes) OVER () AS has_hashes
    FROM placed AS p
),
-- The keys of `by` that no capture has; those of its default may be missing.
known AS (
    SELECT
        array_to_string(list_sort(list_filter(
            _series_keys("by"),
            lambda k: k NOT IN ('model', 'device', 'backend', '') AND NOT coalesce(list_contains(a.keys, k), false)
        )), ', ') AS missing,
        coalesce(_listed('label', a.keys), 'no capture has labels') AS labels
    FROM (SELECT list_sort(list(DISTINCT l.key)) AS keys FROM labels AS l) AS a
)
-- If nothing can be judged, the error is about the label, so it is checked before conditions on rows.
SELECT c.* EXCLUDE (captures, labelled, commits, times, are_hashes, has_hashes) REPLACE (CASE
    WHEN n.missing <> '' THEN _unless(is_lenient,
        'no capture has a label ' || n.missing || ' to separate series by; ' || n.labels
    )
    WHEN c.labelled = 0 THEN _unless(is_lenient, 'no capture has ' || CASE
        WHEN over IS NULL THEN 'a label build' || CASE WHEN c.has_hashes THEN ' that is no hash' ELSE '' END
            || ', a label commit with commit_time or a captured_at'
        WHEN over = 'captured_at' THEN 'a captured_at'
        ELSE 'a label ' || over
    END || ' to order by; ' || n.labels || CASE
        WHEN over IS NULL AND n.labels LIKE 'labels are %' THEN '; over names another label to order by'
        WHEN over <> 'captured_at' THEN '; or order by captured_at'
        ELSE ''
    END || '; etq label CAPTURE ' || CASE coalesce(over, 'build')
        WHEN 'build' THEN 'build=41' WHEN 'captured_at' THEN 'captured_at=TIME' ELSE over || '=VALUE'
    END || ' sets it')
    WHEN over = 'commit' AND c.commits < c.labelled AND c.times < c.labelled THEN _unless(is_lenient,
        'commits cannot be ordered: not all captures have a label commit_time (--label-git) or a captured_at'
    )
    ELSE c.label
END AS label)
FROM checked AS c CROSS JOIN known AS n;

-- NULL, or an error with this text.
CREATE MACRO _unless(is_lenient, problem) AS (CASE WHEN NOT is_lenient THEN error(problem) END);

-- One capture of a series, in order, with the nanoseconds of its ticks (1 for cycles). Labels are ordered as numbers and
-- versions, 9 before 10 and 1.0-rc1 before 1.0; commits by their label commit_time; captures with equal labels, which
-- have the same number `build`, in the order in which they were recorded. `bound_key` and `bound` are the key and value
-- that ranges of selectors compare in this order, such as build and 91; NULL if selectors compare these labels in
-- another order: as texts, v10 is before v9.
CREATE MACRO _series_captures(selector, over, "by", is_lenient := false) AS TABLE
WITH placed_captures AS (FROM _series_labels(selector, over, "by", is_lenient := is_lenient))
FROM _ordered_captures('placed_captures');

-- The same for the captures of a table.
CREATE MACRO _ordered_captures(
    placed  -- the name of a table with the rows of `_series_labels`
) AS TABLE
WITH ordered AS (
    SELECT p.*,
        CASE
            WHEN p.ordered_by = 'commit' THEN concat(
                coalesce(p.committed_at, '~'), ' ', _recorded_at(p.captured_at, p.ingested_at)
            )
            ELSE _version_key(p.label)
        END AS label_key,
        row_number() OVER (
            PARTITION BY p.series
            ORDER BY label_key, _recorded_at(p.captured_at, p.ingested_at), p.ingested_at, p.capture_id
        ) AS position,
        -- Whether selectors compare this label as a text, and place it after the label before.
        regexp_full_match(p.bound, '[\w.+:-]+') AND try_cast(p.bound AS DOUBLE) IS NULL AND p.bound >= coalesce(
            lag(p.bound) OVER (
                PARTITION BY p.series
                ORDER BY label_key, _recorded_at(p.captured_at, p.ingested_at), p.ingested_at, p.capture_id
            ), ''
        ) AS is_in_order
    FROM query_table(placed) AS p
    WHERE p.label IS NOT NULL
)
SELECT p.capture_id, p.name, p.captured_at, p.ingested_at, p.series, p.label, p.label_key, p.position,
    count(*) OVER (PARTITION BY p.series) AS captures,
    min(p.position) OVER (PARTITION BY p.series, p.label) AS build,
    coalesce(_nanoseconds(p.time_scale), 1) AS scale, p.time_scale = 'cycles' AS is_cycles, p.ordered_by,
    CASE
        WHEN bool_and(CASE
            WHEN p.ordered_by = 'captured_at' THEN p.bound IS NOT NULL
            WHEN p.ordered_by = 'commit' THEN coalesce(regexp_full_match(p.bound, '[0-9TZ +.:-]+'), false)
            ELSE coalesce(regexp_full_match(p.bound, '\d{1,15}'), false)
        END) OVER same THEN CASE p.ordered_by WHEN 'commit' THEN 'commit_time' ELSE p.ordered_by END
        WHEN p.ordered_by NOT IN ('captured_at', 'commit') AND bool_and(p.is_in_order) OVER same THEN p.ordered_by
    END AS bound_key,
    p.bound
FROM ordered AS p
WINDOW same AS (PARTITION BY p.series);

-- The keys of labels in a text with commas between.
CREATE MACRO _series_keys("by") AS (list_distinct(list_transform(string_split("by", ','), lambda k: trim(k))));

-- The captures of series with the common shift of all ops as a logarithm. The shift is the median of the ratios of the
-- ops' times to their median times in the series. If the ops are of three families or more, it is the median of the
-- families' medians, so that the instances of one op don't shift all. Of the ops with a precise clock that at least
-- half of the captures have, the 20 largest are used, of traces only ops on the host; with fewer than three such ops,
-- the shift is 0. Median times and largest ops are determined from about 100 captures, evenly spaced in the series,
-- for cycles and times separately.
CREATE MACRO _series_factors(selector, over, "by", phase, is_lenient := false) AS TABLE
WITH placed_captures AS (FROM _series_labels(selector, over, "by", is_lenient := is_lenient))
FROM _shifted_captures('placed_captures', phase);

-- The same for the captures of a table.
CREATE MACRO _shifted_captures(
    placed,  -- the name of a table with the rows of `_series_labels`
    phase
) AS TABLE
WITH ordered AS MATERIALIZED (
    SELECT c.*, count(*) OVER (PARTITION BY c.series, c.is_cycles) AS same_clock FROM _ordered_captures(placed) AS c
),
typical AS MATERIALIZED (
    SELECT d.series, d.is_cycles, o.item, any_value(o.family) AS family, median(ln(o.p25 * d.scale)) AS middle
    FROM ordered AS d
    JOIN op_times AS o USING (capture_id)
    WHERE d.position % greatest(1, d.captures // 100) = 0
        AND o.phase IS NOT DISTINCT FROM _checked_phase(phase)
        AND o.op_index > 0
        AND o.kind <> 'annotation'
        AND NOT _is_device_time(o.kind)
        AND o.p25 > 0
        AND NOT _is_clock_coarse(o.p25, o.resolution)
    GROUP BY d.series, d.is_cycles, o.item
    HAVING 2 * count(*) >= max(d.same_clock // greatest(1, d.captures // 100))
    QUALIFY row_number() OVER (PARTITION BY d.series, d.is_cycles ORDER BY median(o.p25 * d.scale) DESC, o.item) <= 20
),
-- Ops are chosen before captures, so that few texts are compared.
large AS MATERIALIZED (
    SELECT d.series, d.is_cycles, o.capture_id, o.item, ln(o.p25 * d.scale) AS value
    FROM op_times AS o
    JOIN ordered AS d USING (capture_id)
    WHERE o.item IN (SELECT y.item FROM typical AS y)
        AND o.phase IS NOT DISTINCT FROM _checked_phase(phase)
        AND o.p25 > 0
),
factors AS (
    SELECT f.capture_id, CASE
        WHEN count(*) >= 3 THEN median(f.middle)
        WHEN sum(len(f.offs)) >= 3 THEN list_aggregate(flatten(list(f.offs)), 'median')
        ELSE 0
    END AS factor
    FROM (
        SELECT l.capture_id, list(l.value - y.middle) AS offs, median(l.value - y.middle) AS middle
        FROM large AS l
        JOIN typical AS y USING (item, series, is_cycles)
        GROUP BY l.capture_id, y.family
    ) AS f
    GROUP BY f.capture_id
)
SELECT d.* EXCLUDE (same_clock), coalesce(f.factor, 0) AS factor
FROM ordered AS d
LEFT JOIN factors AS f USING (capture_id);

-- The selector of each series, as in `_series_selector`. `is_within` is whether captures of another series have its
-- labels, and more: then no selector chooses it alone.
CREATE MACRO _series_selectors(
    ordered,  -- the name of a table with the rows of `_series_captures`
    selector
) AS TABLE
WITH names AS MATERIALIZED (
    SELECT d.series, _selector_parts(d.series) AS parts, _series_selector(selector, d.series) AS labels
    FROM query_table(ordered) AS d
    WHERE d.position = 1
)
SELECT s.series, any_value(s.labels) AS labels, count(o.series) > 0 AS is_within
FROM names AS s
LEFT JOIN names AS o ON len(o.parts) > len(s.parts) AND list_has_all(o.parts, s.parts)
GROUP BY s.series;

-- The unit that a series shows times in.
CREATE MACRO _series_unit(unit, is_cycles) AS (
    CASE
        WHEN is_cycles THEN 'cycles'
        WHEN unit IS NULL THEN 'us'
        WHEN _nanoseconds(unit) IS NOT NULL THEN unit
        ELSE error('unknown unit of time ' || unit || '; known are ns, us, ms, s')
    END
);

-- One build of a series whose dumps have different ops although they are of one profiling level. They ran different
-- programs, or other branches of one program.
CREATE MACRO _builds_of_programs(
    placed  -- the name of a table with the rows of `_series_labels`
) AS TABLE
SELECT p.series, p.label
FROM query_table(placed) AS p
JOIN captures AS c USING (capture_id)
JOIN capture_ops AS o USING (capture_id)
WHERE c.format <> 'torch_trace' AND p.label IS NOT NULL
GROUP BY p.series, p.label, c.profiling_level
HAVING min(o.ops_hash) < max(o.ops_hash);
