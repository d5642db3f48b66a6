-- One capture of a series with its value of a total, an op, a module or a metric.
-- The first capture after a lasting change of level has the change.
-- Columns:
--   series: labels of the series, as key=value,key=value
--   position: place in the series, from 1
--   label: label by which captures are ordered
--   capture: the capture's name
--   captured_at: when it was measured, in UTC; NULL where unknown
--   runs: number of runs; for a metric, of values
--   p25: 25th percentile over runs; for several ops, the sum of theirs
--   median: median over runs; for a metric, over its values
--   p90: 90th percentile over runs
--   unit: unit of these
--   common_percent: common shift of all ops relative to the series' median capture, in percent; NULL for metrics
--   normalized: p25 without the common shift; for totals and metrics equal to p25 or median
--   change_percent: lasting change of normalized at this capture, in percent; NULL if there is none
--   p: probability of a change this clear in a series without changes; NULL if there is none
CREATE MACRO trend(
    what := 'total',  -- total, op, module or metric
    item := NULL,  -- for op: family or op type, optionally followed by @instruction; for module: the path; for metric: the name; for total: the method, or what the steps of traces are; of traces followed by ` on devices` for times there, but for kernels
    selector := NULL,  -- name, hash prefix or selector of captures; NULL: all captures
    over := 'build',  -- label to order by: numbers, versions, commits (by commit_time); or captured_at
    "by" := 'model,device,backend',  -- keys of the labels that distinguish series, with commas between
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    min_effect := 0.03  -- smallest change of level that counts, as a fraction
) AS TABLE
WITH
samples AS MATERIALIZED (
    FROM _trend_samples(what, item, selector, over, "by", phase)
),
values_of AS MATERIALIZED (
    SELECT
        s.series,
        s.capture_id,
        any_value(s.label) AS label,
        any_value(s.position) AS position,
        row_number() OVER (
            PARTITION BY s.series ORDER BY any_value(s.position)
        ) AS place,
        dense_rank() OVER (ORDER BY s.series) AS number,
        max(s.runs) AS runs,
        sum(s.ticks) AS ticks,
        sum(s.median_ticks) AS median_ticks,
        sum(s.slow_ticks) AS slow_ticks,
        any_value(s.factor) AS factor,
        any_value(s.value_unit) AS value_unit
    FROM samples AS s
    GROUP BY s.series, s.capture_id
),
points AS (
    SELECT
        v.number AS series,
        v.place AS position,
        what = 'total' AS is_total,
        ln(v.ticks) - CASE WHEN what IN ('op', 'module') THEN v.factor ELSE 0 END
            AS value
    FROM values_of AS v
    WHERE v.ticks > 0 AND _is_valid_effect(min_effect)
),
changes AS (
    SELECT unnest(
        needs_etq_to_find_changes(
            (SELECT list(p) FROM points AS p), ln(1 + min_effect)
        ),
        recursive := true
    )
),
shown AS (
    SELECT
        v.*,
        CASE
            WHEN v.value_unit NOT IN ('ns', 'cycles') THEN v.value_unit
            WHEN v.value_unit = 'cycles' THEN 'cycles'
            ELSE _series_unit(unit)
        END AS unit_shown,
        CASE
            WHEN v.value_unit = 'ns' THEN _divisor('ns', _series_unit(unit)) ELSE 1
        END AS divisor
    FROM values_of AS v
)
SELECT
    v.series,
    v.place AS position,
    v.label,
    c.name AS capture,
    c.captured_at,
    v.runs,
    CASE WHEN what <> 'metric' THEN v.ticks / v.divisor END AS p25,
    v.median_ticks / v.divisor AS median,
    CASE WHEN what <> 'metric' THEN v.slow_ticks / v.divisor END AS p90,
    v.unit_shown AS unit,
    CASE WHEN what <> 'metric' THEN 100 * (exp(v.factor) - 1) END AS common_percent,
    v.ticks / v.divisor
    / CASE WHEN what IN ('op', 'module') THEN exp(v.factor) ELSE 1 END AS normalized,
    100 * (exp(g.step) - 1) AS change_percent,
    g.p
FROM shown AS v
JOIN captures AS c ON c.capture_id = v.capture_id
LEFT JOIN changes AS g
    ON g.series = v.number AND g.first_bad = v.place AND g.kind = 'step'
ORDER BY v.series, v.place;

-- One row of the op, module, metric or total of `trend`, of one capture.
-- Columns:
--   series: the series
--   capture_id: the capture
--   label: its position in order, as text
--   position: position in the series
--   runs: number of runs or values
--   ticks: 25th percentile over runs, in ns, or cycles; for a metric, its median
--   median_ticks: median over runs
--   slow_ticks: 90th percentile over runs
--   value_unit: ns, cycles, or the metric's unit
--   factor: common shift of all ops of the capture, as a logarithm
CREATE MACRO _trend_samples(
    what,  -- as in `trend`
    item,  -- as in `trend`
    selector,  -- as in `trend`
    over,  -- as in `trend`
    "by",  -- as in `trend`
    phase  -- as in `trend`
) AS TABLE
WITH
captures_of AS MATERIALIZED (
    FROM _series_factors(selector, over, "by", phase)
),
found AS (
    SELECT
        s.series,
        s.capture_id,
        s.label,
        s.position,
        o.runs,
        o.p25 * s.scale AS ticks,
        o.p50 * s.scale AS median_ticks,
        o.p90 * s.scale AS slow_ticks,
        CASE WHEN s.is_cycles THEN 'cycles' ELSE 'ns' END AS value_unit,
        CASE WHEN _is_device_time(o.kind) THEN 0 ELSE s.factor END AS factor
    FROM captures_of AS s
    JOIN op_times AS o ON o.capture_id = s.capture_id
    WHERE o.phase IS NOT DISTINCT FROM _checked_phase(phase) AND CASE what
        WHEN 'total' THEN o.op_index = 0
            AND coalesce(o.scope = item, o.kind <> 'device_total')
        WHEN 'op' THEN o.op_index > 0
            AND split_part(item, '@', 1) IN (
                o.family || _device_suffix(o.kind), o.op_type
            )
            AND (
                split_part(item, '@', 2) = ''
                OR o.instruction_id = try_cast(split_part(item, '@', 2) AS INTEGER)
            )
        WHEN 'module' THEN false
        WHEN 'metric' THEN false
        ELSE error(
            'what must be ''total'', ''op'', ''module'' or ''metric'', not ' || what
        )
    END
    UNION ALL
    SELECT
        s.series,
        s.capture_id,
        s.label,
        s.position,
        m.runs,
        m.p25 * s.scale,
        m.p50 * s.scale,
        m.p90 * s.scale,
        CASE WHEN s.is_cycles THEN 'cycles' ELSE 'ns' END,
        s.factor
    FROM captures_of AS s
    JOIN module_times AS m ON m.capture_id = s.capture_id
    WHERE what = 'module'
        AND item = m.module_path || CASE
            WHEN ends_with(m.scope, ' on devices') THEN ' on devices' ELSE ''
        END
        AND m.phase IS NOT DISTINCT FROM _checked_phase(phase)
    UNION ALL
    SELECT
        s.series,
        s.capture_id,
        any_value(s.label),
        any_value(s.position),
        count(*)::INTEGER,
        median(m.value),
        median(m.value),
        median(m.value),
        coalesce(m.unit, ''),
        0
    FROM captures_of AS s
    JOIN metrics AS m ON m.capture_id = s.capture_id
    WHERE what = 'metric' AND m.name = item
    GROUP BY s.series, s.capture_id, m.unit
)
SELECT f.*
FROM found AS f
UNION ALL
SELECT
    error(CASE
        WHEN what <> 'total' AND item IS NULL
            THEN 'name the ' || what || ' of the trend'
        ELSE 'no ' || what || coalesce(' ' || item, '') || ' in these captures'
    END || k.nothing),
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM (SELECT CASE count(*) WHEN 0 THEN '' END AS nothing FROM found AS g) AS k
WHERE k.nothing IS NOT NULL;
