-- One capture of a series, in order, with its common shift: the median over the
-- series' ops of the ratio of their times to those in the median capture; over the
-- 20 largest ops with a precise clock that at least half of the captures have; 0
-- with fewer than three such ops; of traces those on the host. Median and largest ops are determined from about
-- 100 captures, evenly spaced in the series.
-- Columns:
--   series: the series
--   capture_id: the capture
--   label: its position in order, as text
--   position: position in the series
--   scale: nanoseconds in one of its ticks; 1 for cycles
--   is_cycles: whether its ticks are cycles
--   factor: common shift of all ops, as a logarithm
CREATE MACRO _series_factors(
    selector,  -- as in `trend`
    over,  -- as in `trend`
    "by",  -- as in `trend`
    phase  -- as in `trend`
) AS TABLE
WITH
ordered AS MATERIALIZED (
    SELECT
        s.*,
        coalesce(_nanoseconds(c.time_scale), 1) AS scale,
        c.time_scale = 'cycles' AS is_cycles,
        s.position % greatest(1, s.captures // 100) = 0 AS is_in_sample,
        s.captures // greatest(1, s.captures // 100) AS sampled
    FROM (
        SELECT p.*, max(p.position) OVER (PARTITION BY p.series) AS captures
        FROM _series_captures(selector, over, "by") AS p
    ) AS s
    JOIN captures AS c ON c.capture_id = s.capture_id
),
typical AS MATERIALIZED (
    SELECT
        d.series,
        o.item,
        median(ln(o.p25 * d.scale)) AS middle
    FROM ordered AS d
    JOIN op_times AS o ON o.capture_id = d.capture_id
    WHERE d.is_in_sample
        AND o.phase IS NOT DISTINCT FROM _checked_phase(phase)
        AND o.op_index > 0
        AND o.kind <> 'annotation'
        AND NOT _is_device_time(o.kind)
        AND o.p25 > 0
        AND NOT _is_clock_coarse(o.p25, o.resolution, d.scale)
    GROUP BY d.series, o.item
    HAVING 2 * count(*) >= max(d.sampled)
    QUALIFY row_number() OVER (
        PARTITION BY d.series ORDER BY median(o.p25 * d.scale) DESC, o.item
    ) <= 20
),
-- Ops are chosen before captures, so that few texts are compared.
large AS MATERIALIZED (
    SELECT d.series, o.capture_id, o.item, ln(o.p25 * d.scale) AS value
    FROM op_times AS o
    JOIN ordered AS d ON d.capture_id = o.capture_id
    WHERE o.item IN (SELECT y.item FROM typical AS y)
        AND o.phase IS NOT DISTINCT FROM _checked_phase(phase)
        AND o.p25 > 0
),
factors AS (
    SELECT
        l.capture_id,
        CASE WHEN count(*) >= 3 THEN median(l.value - y.middle) ELSE 0 END AS factor
    FROM large AS l
    JOIN typical AS y ON y.item = l.item AND y.series = l.series
    GROUP BY l.capture_id
)
SELECT
    d.series,
    d.capture_id,
    d.label,
    d.position,
    d.scale,
    d.is_cycles,
    coalesce(f.factor, 0) AS factor
FROM ordered AS d
LEFT JOIN factors AS f ON f.capture_id = d.capture_id;
