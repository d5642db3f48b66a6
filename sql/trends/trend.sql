-- The rows of `trend` for captures of series. With `is_lenient`, captures without values are no error.
CREATE MACRO _trend_of(
    captures_of_series,  -- the name of a table with the rows of `_series_factors`
    comments_of_series,  -- the name of a table with the rows of `_series_comments`
    what, item, selector, unit, phase, alpha, min_effect, is_lenient
) AS TABLE
WITH ordered AS (FROM query_table(captures_of_series)),
found AS (
    SELECT
        s.capture_id, o.runs, o.p25 * s.scale AS ticks, o.p50 * s.scale AS median_ticks, o.p90 * s.scale AS slow_ticks,
        CASE WHEN _is_clock_coarse(o.p25, o.resolution) THEN o.resolution * s.scale ELSE 0 END AS resolution,
        CASE WHEN s.is_cycles THEN 'cycles' ELSE 'ns' END AS value_unit, NOT _is_device_time(o.kind) AS has_factor,
        o.item AS identity, CASE what WHEN 'op' THEN o.scope END AS scope
    FROM ordered AS s
    JOIN op_times AS o USING (capture_id)
    WHERE o.phase IS NOT DISTINCT FROM _checked_phase(phase) AND CASE what
        WHEN 'total' THEN o.op_index = 0 AND coalesce(o.scope = item, o.kind <> 'device_total')
        WHEN 'op' THEN o.op_index > 0
            AND split_part(item, '@', 1) IN (o.family || _device_suffix(o.kind), o.op_type)
        WHEN 'module' THEN false
        WHEN 'metric' THEN false
        ELSE error('what must be ''total'', ''op'', ''module'' or ''metric'', not ' || what)
    END
    -- The instruction of an op may have had another number in captures before the last one with the op.
    QUALIFY what <> 'op' OR split_part(item, '@', 2) = ''
        OR try_cast(split_part(item, '@', 2) AS INTEGER)
        = arg_max(o.instruction_id, s.position) OVER (PARTITION BY s.series, o.item)
    UNION ALL
    SELECT s.capture_id, m.runs, m.p25 * s.scale, m.p50 * s.scale, m.p90 * s.scale, 0,
        CASE WHEN s.is_cycles THEN 'cycles' ELSE 'ns' END, true, NULL, NULL
    FROM ordered AS s
    JOIN module_times AS m USING (capture_id)
    WHERE what = 'module'
        AND item = m.module_path || CASE WHEN ends_with(m.scope, ' on devices') THEN ' on devices' ELSE '' END
        AND m.phase IS NOT DISTINCT FROM _checked_phase(phase)
    UNION ALL
    SELECT m.capture_id, count(*)::INTEGER, median(m.value), median(m.value), NULL, 0, coalesce(m.unit, ''), false,
        NULL, NULL
    FROM _measured_metrics AS m
    WHERE what = 'metric' AND m.name = item
    GROUP BY m.capture_id, m.unit
),
values_of AS MATERIALIZED (
    SELECT s.*, f.*, row_number() OVER (PARTITION BY s.series, f.value_unit ORDER BY s.position) AS place,
        dense_rank() OVER (ORDER BY s.series, f.value_unit) AS number,
        CASE WHEN f.has_factor THEN s.factor ELSE 0 END AS common,
        f.ticks / CASE WHEN what IN ('op', 'module') THEN exp(common) ELSE 1 END AS normalized
    FROM ordered AS s
    JOIN (
        SELECT d.capture_id AS of_capture, max(d.runs) AS runs, sum(d.ticks) AS ticks,
            sum(d.median_ticks) AS median_ticks, sum(d.slow_ticks) AS slow_ticks, sum(d.resolution) AS resolution,
            d.value_unit, any_value(d.has_factor) AS has_factor,
            CASE WHEN min(d.identity) = max(d.identity) THEN min(d.identity) END AS identity,
            list(d.scope) AS scopes
        FROM found AS d
        GROUP BY d.capture_id, d.value_unit
    ) AS f ON f.of_capture = s.capture_id
),
-- Series with their captures in order. Values of different units are in series of their own.
named AS MATERIALIZED (
    SELECT v.number, any_value(v.series) AS series, any_value(v.value_unit) AS value_unit,
        any_value(v.ordered_by) AS ordered_by, any_value(v.bound_key) AS bound_key,
        CASE WHEN min(v.identity) = max(v.identity) THEN min(v.identity) END AS identity,
        flatten(list(v.scopes)) AS scopes, list({'label': v.label, 'bound': v.bound} ORDER BY v.place) AS places
    FROM values_of AS v
    GROUP BY v.number
),
-- The number of series among which one may change by chance: for totals or ops, the series that `regressions` checks.
family AS (
    SELECT count(DISTINCT i.item) AS items
    FROM (
        SELECT (s.series, o.scope, o.item) AS item
        FROM ordered AS s
        JOIN op_times AS o USING (capture_id)
        WHERE what IN ('total', 'op')
            AND o.phase IS NOT DISTINCT FROM _checked_phase(phase)
            AND o.p25 > 0
            AND (o.op_index = 0) = (what = 'total')
        UNION ALL
        SELECT (n.series, NULL, NULL) FROM named AS n WHERE what NOT IN ('total', 'op')
    ) AS i
),
-- The totals that ops are parts of.
totals AS (
    SELECT n.number, sum(t.ticks) AS ticks
    FROM named AS n
    JOIN (
        SELECT s.series, CASE WHEN s.is_cycles THEN 'cycles' ELSE 'ns' END AS value_unit, o.scope,
            median(o.p25 * s.scale) AS ticks
        FROM ordered AS s
        JOIN op_times AS o USING (capture_id)
        WHERE what = 'op' AND o.op_index = 0 AND o.p25 > 0 AND o.phase IS NOT DISTINCT FROM _checked_phase(phase)
        GROUP BY s.series, s.is_cycles, o.scope
    ) AS t ON t.series = n.series AND t.value_unit = n.value_unit AND list_contains(n.scopes, t.scope)
    GROUP BY n.number
),
trend_items AS (
    SELECT v.number, any_value(v.series) AS series, what AS measure, coalesce(item, '') AS name,
        any_value(n.identity) AS identity, NULL AS scope, false AS is_of_all, any_value(f.items) AS family,
        any_value(n.value_unit) = 'cycles' AS is_cycles, list(v.place) AS positions,
        list(v.position) AS series_positions, list(v.build) AS builds,
        list(ln(v.ticks) - CASE WHEN what IN ('op', 'module') THEN v.common ELSE 0 END) AS values,
        -- As in comparisons, ops that at least half of the captures have.
        CASE
            WHEN 2 * count(*) FILTER (WHERE v.resolution > 0) >= count(*) THEN max(v.resolution)
            ELSE 0
        END AS resolution,
        coalesce(any_value(t.ticks), 0) AS total
    FROM values_of AS v CROSS JOIN family AS f
    JOIN named AS n ON n.number = v.number
    LEFT JOIN totals AS t ON t.number = v.number
    WHERE v.ticks > 0 AND _has_valid_options(alpha, min_effect)
    GROUP BY v.number
),
-- The totals and ops of series in which somebody has accepted the change of an op.
affected AS (
    SELECT d.* FROM ordered AS d
    WHERE what = 'total' AND d.series IN (
        SELECT c.series FROM query_table(comments_of_series) AS c WHERE c.accepts AND c.what = 'op'
    )
),
decided AS MATERIALIZED (
    FROM _series_changes(
        'trend_items',
        (
            SELECT list({
                'number': 0, 'series': i.series, 'measure': i.what, 'name': i.name, 'identity': i.item,
                'scope': i.scope, 'is_cycles': i.is_cycles, 'is_of_all': i.is_of_all, 'family': 1,
                'positions': i.positions,
                'series_positions': i.positions, 'builds': i.builds, 'values': i.values, 'resolution': i.resolution,
                'total': 0
            })
            FROM _series_items('affected', phase) AS i
        ),
        'ordered', comments_of_series, alpha, min_effect
    )
),
-- Changes with the captures around them, and the sides to compare.
placed AS (
    SELECT g.*, n.ordered_by, n.bound_key, n.places[1].bound AS first_bound, n.places[g.last_good] AS old_capture,
        n.places[g.first_bad] AS new_capture, n.places[g.first_bad - 1].bound AS bound_before,
        n.places[g.back::BIGINT].label AS label_back, s.is_within, s.labels
    FROM decided AS g
    JOIN named AS n ON n.number = g.series
    JOIN _series_selectors('ordered', selector) AS s ON s.series = n.series
    WHERE g.kind <> 'stretch'
),
sided AS (
    SELECT p.*,
        _change_sides(
            p.is_within, p.labels, p.kind = 'step', p.ordered_by, p.bound_key, p.first_bound, p.bound_before,
            lag(p.new_capture.bound) OVER in_order, p.new_capture.bound, lead(p.new_capture.bound) OVER in_order,
            p.old_capture.label, p.new_capture.label
        ) AS sides
    FROM placed AS p
    WINDOW in_order AS (PARTITION BY p.series, p.kind ORDER BY p.first_bad)
),
shown AS (
    SELECT v.*, CASE WHEN v.value_unit = 'ns' THEN _series_unit(unit, false) ELSE v.value_unit END AS unit_shown,
        CASE WHEN v.value_unit = 'ns' THEN _divisor('ns', _series_unit(unit, false)) ELSE 1 END AS divisor
    FROM values_of AS v
)
SELECT v.series, v.place AS position, v.label, v.name AS capture, v.captured_at, v.runs,
    CASE WHEN what <> 'metric' THEN v.ticks / v.divisor END AS p25, v.median_ticks / v.divisor AS median,
    v.slow_ticks / v.divisor AS p90, v.unit_shown AS unit,
    CASE WHEN what <> 'metric' THEN 100 * (exp(v.common) - 1) END AS common_percent,
    v.normalized / v.divisor AS normalized, 100 * (exp(g.step) - 1) AS change_percent, g.kind, g.stage, g.condition,
    g.old_capture.label AS last_good, g.label_back AS reverted_at, g.builds_after, v.ordered_by,
    100 * (exp(d.noise) - 1) AS noise_percent, 100 * (exp(d.shows) - 1) AS shown_percent, g.p, g.is_accepted,
    g.comment, g.author, g.sides.base AS base, g.sides.new AS new
FROM (SELECT count(*) AS captures FROM values_of AS n) AS k
LEFT JOIN shown AS v ON true
LEFT JOIN sided AS g ON g.series = v.number AND g.first_bad = v.place
LEFT JOIN decided AS d ON d.series = v.number AND d.kind = 'stretch'
    AND v.place BETWEEN d.level_first AND d.level_end
WHERE CASE WHEN k.captures > 0 THEN true WHEN is_lenient THEN false ELSE error(
    CASE
        WHEN what <> 'total' AND item IS NULL THEN 'name the ' || what || ' of the trend'
        ELSE 'no ' || what || coalesce(' ' || item, '') || ' in these captures'
            || CASE what
                WHEN 'op' THEN '; etq show op_trends lists ops'
                WHEN 'module' THEN '; etq show all_module_totals lists modules'
                WHEN 'metric' THEN '; etq show metrics lists metrics'
                ELSE ''
            END
    END
) END
ORDER BY v.number, v.place;

-- The rows of `trend`. With `is_lenient`, captures without a label to order them by, or without values, are no error.
CREATE MACRO _trend(what, item, selector, over, "by", unit, phase, alpha, min_effect, is_lenient) AS TABLE
WITH series_captures AS MATERIALIZED (FROM _series_factors(selector, over, "by", phase, is_lenient := is_lenient)),
series_comments AS (FROM _series_comments('series_captures'))
FROM _trend_of(
    'series_captures', 'series_comments', what, item, selector, unit, phase, alpha, min_effect, is_lenient
);

-- Needs etq: in DuckDB alone, it is an error.
-- One capture of a series with its value of a total, an op, a module or a metric. Captures whose values have another
-- unit, such as cycles, are a series of their own. The first capture after a change of
-- level has the change, and so has the last capture of slow growth. These changes are those that `regressions` lists,
-- and returns to an old level.
-- Shown: series!, label!, normalized AS value! (time), unit, runs#, capture!, change_percent! (change), stage, condition,
--   kind, p (probability), captured_at (moment), is_accepted, comment, author
-- Columns:
--   series: labels of the series, as key=value,key=value
--   position: place in the series, from 1
--   label: label by which captures are ordered
--   capture: the capture's name
--   captured_at: when it was measured, in UTC; NULL where unknown
--   runs: number of runs; for a metric, of values
--   p25: 25th percentile over runs; for several ops, the sum of their percentiles
--   median: median over runs; for a metric, over its values
--   p90: 90th percentile over runs
--   unit: unit of p25, median, p90 and normalized
--   common_percent: common shift of all ops relative to the series' median capture, in percent; NULL for metrics
--   normalized: p25 without the common shift; for totals and metrics equal to p25 or median
--   change_percent: change of normalized at this capture, in percent; NULL if there is none
--   kind: step or creep; NULL if there is no change
--   stage: kept; not kept yet: seen, and disturbed builds may look so; reverted; returned to an old level; or one of two levels: the series often alternates between them; NULL if there is no change
--   condition: what differs between the captures of both levels of that change, such as the governor or the temperature: then they are levels of the machine; NULL if nothing is known
--   last_good: label of the last capture before that change; of a creep, of its first capture; NULL if there is none
--   reverted_at: label of the first capture at the old level again; NULL if there is none
--   builds_after: number of builds from that change to the next; NULL if there is none
--   ordered_by: the label by which captures are ordered, or captured_at
--   noise_percent: typical difference of the series' builds from their neighbours, as a standard deviation in percent, without the common shift if normalized has none; NULL if shown_percent is NULL
--   shown_percent: the change that five more builds would show, in percent; NULL if a series has fewer than 8, in all or before or after an accepted change: the capture is not judged
--   p: probability of a change this clear in a series without changes; NULL if there is none
--   is_accepted: whether somebody has accepted that change (`change_comments`); NULL if there is none
--   comment: the latest comment on a change at this capture; NULL without one
--   author: who wrote the comment
--   base: selector of the captures between the previous change and that change, as `compare_ops` takes it; if labels have no ranges, selector of the captures of the label before; NULL if there is none, or no selector distinguishes these captures from others
--   new: selector of the captures from that change to the next; or, like base, only of the captures of its label
CREATE MACRO trend(
    what := 'total',  -- total, op, module or metric
    item := NULL,  -- for op: family or op type, optionally followed by @instruction (that of the last capture with the op); for module: the path; for metric: the name; for total: the method, or the kind of steps of traces; for traces, ` on devices` follows for times there, except for kernels
    selector := NULL, over := NULL,
    "by" := 'model,device,backend',  -- keys of the labels that distinguish series, with commas between
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    phase := NULL,
    alpha := 0.05,  -- accepted share of false positives
    min_effect := 0.03  -- smallest change of level that counts, as a fraction
) AS TABLE
FROM _trend(what, item, selector, over, "by", unit, phase, alpha, min_effect, false) AS t;
