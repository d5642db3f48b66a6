-- The rows of `op_trends`.
CREATE MACRO _op_parts(
    items,  -- the name of a table with the rows of `_series_items`
    ordered,  -- the name of a table with the rows of `_series_captures`
    bins, unit
) AS TABLE
WITH numbered AS MATERIALIZED (SELECT i.*, row_number() OVER () AS number FROM query_table(items) AS i),
described AS MATERIALIZED (
    SELECT n.number, n.series, n.is_total, n.scope, n.item, CASE WHEN n.is_total THEN n.scope ELSE n.op END AS op,
        n.module_path, n.instruction_id, _series_unit(unit, n.is_cycles) AS unit
    FROM numbered AS n
),
placed AS (
    SELECT n.number, len(n.captures) AS places, unnest(n.captures) AS capture,
        generate_subscripts(n.captures, 1) - 1 AS place
    FROM numbered AS n
),
parts AS (
    SELECT p.number, min(p.place) + 1 AS position, count(*) AS captures, min(p.capture[1]) AS first_place,
        max(p.capture[1]) AS last_place, median(p.capture[2] / p.capture[3]) AS normalized,
        min(p.capture[2] / p.capture[3]) AS low, max(p.capture[2] / p.capture[3]) AS high,
        median(p.capture[2]) AS p25
    FROM placed AS p
    GROUP BY p.number, p.place * least(bins, p.places) // p.places
)
SELECT d.series, CASE WHEN d.is_total THEN 'total' ELSE 'op' END AS what, d.scope AS method, d.op, d.module_path,
    d.instruction_id, p.position, p.captures, f.label AS first_label, l.label AS last_label,
    p.normalized / _divisor('ns', d.unit) AS normalized, p.low / _divisor('ns', d.unit) AS low,
    p.high / _divisor('ns', d.unit) AS high, p.p25 / _divisor('ns', d.unit) AS p25, d.unit
FROM parts AS p
JOIN described AS d ON d.number = p.number
-- A place is a single value; with two columns, captures would first be joined by series, each with all others.
JOIN query_table(ordered) AS f
    ON {'series': f.series, 'place': f.position} = {'series': d.series, 'place': p.first_place}
JOIN query_table(ordered) AS l
    ON {'series': l.series, 'place': l.position} = {'series': d.series, 'place': p.last_place}
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
WITH ordered AS MATERIALIZED (FROM _series_factors(selector, over, "by", phase)),
items AS (FROM _series_items('ordered', phase))
FROM _op_parts('items', 'ordered', bins, unit) AS p;
