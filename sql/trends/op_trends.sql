-- One total or op over a part of a series of captures: the same series in which `regressions` finds changes. A series
-- of more captures than `bins` is split into that many parts of successive captures, of nearly equal size.
-- Shown: series!, what, op!, module_path AS module, instruction_id#, normalized! (time), low (time), high (time), unit,
--   captures#, first_label! (label), last_label! (label), position#, p25 (time), method
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
--   high: largest normalized value
--   p25: median over its captures of p25, common shift included
--   unit: unit of normalized, low, high and p25
CREATE MACRO op_trends(
    selector := NULL, over := NULL,
    "by" := 'model,device,backend',  -- keys of the labels that distinguish series, with commas between
    bins := 300,  -- largest number of parts of a series
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    phase := NULL
) AS TABLE
WITH placed AS (
    SELECT d.series, d.label, d.is_cycles, CASE o.op_index WHEN 0 THEN 'total' ELSE 'op' END AS level, o.scope, o.item,
        CASE o.op_index WHEN 0 THEN o.scope ELSE coalesce(o.op_type, o.family) END AS op, o.module_path,
        o.instruction_id, o.p25 * d.scale AS ticks,
        ticks / CASE WHEN o.op_index = 0 OR _is_device_time(o.kind) THEN 1 ELSE exp(d.factor) END AS normalized,
        row_number() OVER in_order AS place, count(*) OVER (PARTITION BY d.series, level, o.scope, o.item) AS places
    FROM _series_factors(selector, over, "by", phase) AS d
    JOIN op_times AS o USING (capture_id)
    WHERE o.phase IS NOT DISTINCT FROM _checked_phase(phase) AND o.p25 > 0
    WINDOW in_order AS (PARTITION BY d.series, level, o.scope, o.item ORDER BY d.position)
),
described AS (
    SELECT p.series, p.level, p.scope, p.item, arg_max(p.op, p.place) AS op,
        arg_max(p.module_path, p.place) AS module_path, arg_max(p.instruction_id, p.place) AS instruction_id,
        _series_unit(unit, bool_or(p.is_cycles)) AS unit
    FROM placed AS p
    GROUP BY p.series, p.level, p.scope, p.item
),
parts AS (
    SELECT p.series, p.level, p.scope, p.item, min(p.place) AS position, count(*) AS captures,
        arg_min(p.label, p.place) AS first_label, arg_max(p.label, p.place) AS last_label,
        median(p.normalized) AS normalized, min(p.normalized) AS low, max(p.normalized) AS high, median(p.ticks) AS p25
    FROM placed AS p
    GROUP BY p.series, p.level, p.scope, p.item, (p.place - 1) * least(bins, p.places) // p.places
)
SELECT p.series, p.level AS what, p.scope AS method, d.op, d.module_path, d.instruction_id, p.position, p.captures,
    p.first_label, p.last_label, p.normalized / _divisor('ns', d.unit) AS normalized,
    p.low / _divisor('ns', d.unit) AS low, p.high / _divisor('ns', d.unit) AS high,
    p.p25 / _divisor('ns', d.unit) AS p25, d.unit
FROM parts AS p
JOIN described AS d USING (series, level, scope, item)
ORDER BY p.series, p.level DESC, p.scope, p.item, p.position;
