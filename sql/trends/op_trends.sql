-- One total or op over a part of a series of captures: the same series in which
-- `regressions` finds changes. A series of more captures than `bins` is split into
-- that many parts of successive captures, of nearly equal size.
-- Columns:
--   series: labels of the series, as key=value,key=value
--   what: total or op
--   method: the method that ran; if unknown, the name of its runs
--   op: the op; the method of a total
--   module_path: its module; NULL if records don't have it
--   instruction_id: the instruction, in the last capture
--   position: position of the part's first capture among those of the series that have the op, from 1
--   captures: number of captures of the part
--   first_label: label of its first capture, by which captures are ordered
--   last_label: label of its last capture
--   normalized: median over its captures of normalized, as in `trend`
--   low: smallest normalized value
--   high: greatest normalized value
--   p25: median over its captures of p25, common shift included
--   unit: unit of these four
CREATE MACRO op_trends(
    selector := NULL,  -- name, hash prefix or selector of captures; NULL: all captures
    over := 'build',  -- as in `trend`
    "by" := 'model,device,backend',  -- keys of the labels that distinguish series, with commas between
    bins := 300,  -- greatest number of parts of a series
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    phase := NULL  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
) AS TABLE
WITH
placed AS (
    SELECT
        o.*,
        CASE o.level WHEN 'op' THEN o.op ELSE o.scope END AS name,
        o.ticks / CASE o.level WHEN 'op' THEN exp(o.factor) ELSE 1 END
            AS normalized_ticks,
        row_number() OVER in_order AS place,
        count(*) OVER (PARTITION BY o.series, o.level, o.scope, o.item) AS places
    FROM _op_series(selector, over, "by", phase) AS o
    WHERE o.ticks > 0
    WINDOW in_order AS (
        PARTITION BY o.series, o.level, o.scope, o.item ORDER BY o.position
    )
),
described AS (
    SELECT
        p.series,
        p.level,
        p.scope,
        p.item,
        arg_max(p.name, p.place) AS op,
        arg_max(p.module_path, p.place) AS module_path,
        arg_max(p.instruction_id, p.place) AS instruction_id,
        CASE WHEN bool_or(p.is_cycles) THEN 'cycles' ELSE _series_unit(unit) END
            AS unit
    FROM placed AS p
    GROUP BY p.series, p.level, p.scope, p.item
),
parts AS (
    SELECT
        p.series,
        p.level,
        p.scope,
        p.item,
        min(p.place) AS position,
        count(*) AS captures,
        arg_min(p.label, p.place) AS first_label,
        arg_max(p.label, p.place) AS last_label,
        median(p.normalized_ticks) AS normalized,
        min(p.normalized_ticks) AS low,
        max(p.normalized_ticks) AS high,
        median(p.ticks) AS p25
    FROM placed AS p
    GROUP BY
        p.series,
        p.level,
        p.scope,
        p.item,
        (p.place - 1) * least(bins, p.places) // p.places
)
SELECT
    p.series,
    p.level AS what,
    p.scope AS method,
    d.op,
    d.module_path,
    d.instruction_id,
    p.position,
    p.captures,
    p.first_label,
    p.last_label,
    p.normalized / _divisor('ns', d.unit) AS normalized,
    p.low / _divisor('ns', d.unit) AS low,
    p.high / _divisor('ns', d.unit) AS high,
    p.p25 / _divisor('ns', d.unit) AS p25,
    d.unit
FROM parts AS p
JOIN described AS d
    ON d.series = p.series
    AND d.level = p.level
    AND d.scope = p.scope
    AND d.item = p.item
ORDER BY p.series, p.level DESC, p.scope, p.item, p.position;
