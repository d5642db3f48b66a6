-- The ops and totals of series of captures, in order, with what all ops of a
-- capture have in common: the median over its ops of how much more than in the
-- median capture of the series they took, of ops with a precise clock that at
-- least half of the captures have; 0 with fewer than three of them.
-- Columns:
--   series: which series of captures
--   capture_id: the capture
--   label: its place in order, as text
--   position: place in the series
--   level: total or op
--   scope: the method that ran, or else the name of its runs
--   item: what is the same op in all captures: method, module, op and order among those alike
--   op: op type where a record tells it, else family
--   family: its family
--   module_path: its module, where a record tells it
--   instruction_id: the instruction; NULL where none is named
--   runs: number of runs
--   ticks: a quarter of them took less, in ns, or cycles
--   median_ticks: half of them took less
--   slow_ticks: nine tenths of them took less
--   is_cycles: whether these are cycles
--   factor: what all ops have in common, as a logarithm
CREATE MACRO _op_series(
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
        count(*) OVER (PARTITION BY s.series) AS captures
    FROM _series_captures(selector, over, "by") AS s
    JOIN captures AS c ON c.capture_id = s.capture_id
),
precise AS MATERIALIZED (
    SELECT d.series, d.captures, o.capture_id, o.item, ln(o.p25 * d.scale) AS log_ticks
    FROM ordered AS d
    JOIN op_times AS o ON o.capture_id = d.capture_id
    WHERE o.phase IS NOT DISTINCT FROM phase
        AND o.op_index > 0
        AND o.p25 > 0
        AND NOT _counts_coarsely(o.p25, o.resolution, d.scale)
),
typical AS (
    SELECT p.series, p.item, median(p.log_ticks) AS middle
    FROM precise AS p
    GROUP BY p.series, p.item
    HAVING 2 * count(*) >= max(p.captures)
),
factors AS (
    SELECT
        p.capture_id,
        CASE WHEN count(*) >= 3 THEN median(p.log_ticks - y.middle) ELSE 0 END
            AS factor
    FROM precise AS p
    JOIN typical AS y ON y.series = p.series AND y.item = p.item
    GROUP BY p.capture_id
)
SELECT
    d.series,
    d.capture_id,
    d.label,
    d.position,
    CASE o.op_index WHEN 0 THEN 'total' ELSE 'op' END AS level,
    o.scope,
    o.item,
    coalesce(o.op_type, o.family) AS op,
    o.family,
    o.module_path,
    o.instruction_id,
    o.runs,
    o.p25 * d.scale AS ticks,
    o.p50 * d.scale AS median_ticks,
    o.p90 * d.scale AS slow_ticks,
    d.is_cycles,
    coalesce(f.factor, 0) AS factor
FROM ordered AS d
JOIN op_times AS o ON o.capture_id = d.capture_id
LEFT JOIN factors AS f ON f.capture_id = d.capture_id
WHERE o.phase IS NOT DISTINCT FROM phase;
