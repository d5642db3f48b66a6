-- One total or op of a series in one capture. `number` distinguishes totals and ops, `place` is the capture's place among
-- the `places` captures of the series that have it; what describes it is that of the last of these.
CREATE MACRO _placed_ops(selector, over, "by", phase) AS TABLE
WITH found AS MATERIALIZED (
    SELECT d.series, o.op_index = 0 AS is_total, o.scope, o.item, d.position, d.label, d.is_cycles,
        CASE o.op_index WHEN 0 THEN o.scope ELSE coalesce(o.op_type, o.family) END AS op, o.module_path,
        o.instruction_id, o.p25 * d.scale AS ticks,
        ticks / CASE WHEN o.op_index = 0 OR _is_device_time(o.kind) THEN 1 ELSE exp(d.factor) END AS normalized
    FROM _series_factors(selector, over, "by", phase) AS d
    JOIN op_times AS o USING (capture_id)
    WHERE o.phase IS NOT DISTINCT FROM _checked_phase(phase) AND o.p25 > 0
),
described AS MATERIALIZED (
    SELECT i.*, row_number() OVER () AS number
    FROM (
        SELECT f.series, f.is_total, f.scope, f.item, count(*) AS places, arg_max(f.op, f.position) AS op,
            arg_max(f.module_path, f.position) AS module_path,
            arg_max(f.instruction_id, f.position) AS instruction_id, bool_or(f.is_cycles) AS is_cycles
        FROM found AS f
        GROUP BY f.series, f.is_total, f.scope, f.item
    ) AS i
),
-- Windows over numbers take half as long as windows over texts.
placed AS (
    SELECT d.number, f.label, f.ticks, f.normalized,
        row_number() OVER (PARTITION BY d.number ORDER BY f.position) AS place
    FROM found AS f
    JOIN described AS d USING (series, is_total, scope, item)
)
SELECT p.place, p.label, p.ticks, p.normalized, d.*
FROM placed AS p
JOIN described AS d USING (number);

-- The rows of `op_trends`.
CREATE MACRO _op_parts(
    placed,  -- the name of a table with the rows of `_placed_ops`
    bins, unit
) AS TABLE
WITH described AS (
    SELECT p.number, any_value(p.series) AS series, any_value(p.is_total) AS is_total, any_value(p.scope) AS scope,
        any_value(p.item) AS item, any_value(p.op) AS op, any_value(p.module_path) AS module_path,
        any_value(p.instruction_id) AS instruction_id, _series_unit(unit, bool_or(p.is_cycles)) AS unit
    FROM query_table(placed) AS p
    GROUP BY p.number
),
parts AS (
    SELECT p.number, min(p.place) AS position, count(*) AS captures, arg_min(p.label, p.place) AS first_label,
        arg_max(p.label, p.place) AS last_label, median(p.normalized) AS normalized, min(p.normalized) AS low,
        max(p.normalized) AS high, median(p.ticks) AS p25
    FROM query_table(placed) AS p
    GROUP BY p.number, (p.place - 1) * least(bins, p.places) // p.places
)
SELECT d.series, CASE WHEN d.is_total THEN 'total' ELSE 'op' END AS what, d.scope AS method, d.op, d.module_path,
    d.instruction_id, p.position, p.captures, p.first_label, p.last_label,
    p.normalized / _divisor('ns', d.unit) AS normalized, p.low / _divisor('ns', d.unit) AS low,
    p.high / _divisor('ns', d.unit) AS high, p.p25 / _divisor('ns', d.unit) AS p25, d.unit
FROM parts AS p
JOIN described AS d USING (number)
ORDER BY d.series, d.is_total DESC, d.scope, d.item, p.position;

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
WITH placed AS MATERIALIZED (FROM _placed_ops(selector, over, "by", phase))
FROM _op_parts('placed', bins, unit) AS p;
