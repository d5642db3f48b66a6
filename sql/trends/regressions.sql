-- One lasting change of a total or op in a series of captures, the costliest first:
-- a step to another level, or a creep, slow growth (or decline) over 30 captures or
-- more.
-- The change of an op is without the common shift of all ops. It counts if it is at
-- least 3 %, at least 0.05 % of the total, and not by chance among so many series.
-- Columns:
--   series: labels of the series, as key=value,key=value
--   what: total or op
--   op: the op, or the method of a total
--   module_path: its module; NULL if records don't have it
--   instruction_id: the instruction, in the last capture
--   verdict: slower or faster
--   last_good: label of the last capture before the change; of a creep, of its first capture
--   first_bad: label of the first capture after it; of a creep, of its last capture
--   change_percent: size of the change in percent
--   cost: additional time per run, from its level before and the change; below 0 if it is faster
--   unit: unit of cost
--   share_percent: share of the total before the change, in percent
--   p: probability of a change this clear in a series without changes
--   q: p, corrected for the number of series
--   captures_before: number of captures between the previous change and this one; 0 for a creep
--   captures_after: number of captures between this change and the next; of a creep, its captures
--   position: position of the first capture after it among those of its series that have the op, from 1; of a creep, of its first capture
--   kind: step or creep
--   per_capture_percent: mean change from one capture of a creep to the next; NULL for a step
CREATE MACRO regressions(
    selector := NULL,  -- name, hash prefix or selector of captures; NULL: all captures
    over := 'build',  -- as in `trend`
    "by" := 'model,device,backend',  -- keys of the labels that distinguish series, with commas between
    since := NULL,  -- label; only changes at it or later; NULL: all
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    alpha := 0.05,  -- accepted share of false positives
    min_effect := 0.03  -- smallest change that counts, as a fraction
) AS TABLE
WITH
ops AS MATERIALIZED (
    FROM _op_series(selector, over, "by", phase) AS o
    WHERE o.ticks > 0
),
described AS MATERIALIZED (
    SELECT
        o.series,
        o.level,
        o.scope,
        o.item,
        row_number() OVER (ORDER BY o.series, o.level, o.scope, o.item) AS number,
        arg_max(o.op, o.position) AS op,
        arg_max(o.module_path, o.position) AS module_path,
        arg_max(o.instruction_id, o.position) AS instruction_id,
        median(o.ticks) AS ticks,
        CASE WHEN bool_or(o.is_cycles) THEN 'cycles' ELSE _series_unit(unit) END
            AS unit
    FROM ops AS o
    GROUP BY o.series, o.level, o.scope, o.item
),
points AS (
    SELECT
        d.number AS series,
        o.position,
        o.level = 'total' AS is_total,
        ln(o.ticks) - CASE o.level WHEN 'op' THEN o.factor ELSE 0 END AS value
    FROM ops AS o
    JOIN described AS d
        ON d.series = o.series
        AND d.level = o.level
        AND d.scope = o.scope
        AND d.item = o.item
    WHERE _has_valid_options(alpha, min_effect)
),
changes AS MATERIALIZED (
    SELECT unnest(
        needs_etq_to_find_changes(
            (SELECT list(p) FROM points AS p), ln(1 + min_effect)
        ),
        recursive := true
    )
),
places AS (
    SELECT DISTINCT o.series, o.position, o.label
    FROM ops AS o
    SEMI JOIN changes AS c ON o.position IN (c.first_bad, c.last_good)
),
candidates AS (
    SELECT
        d.series,
        d.level AS what,
        CASE d.level WHEN 'op' THEN d.op ELSE d.scope END AS op,
        d.module_path,
        d.instruction_id,
        b.label AS last_good,
        a.label AS first_bad,
        exp(c.step) - 1 AS change,
        exp(c.before) * (exp(c.step) - 1) AS cost_ticks,
        exp(c.before) / t.ticks AS share,
        d.unit,
        c.p,
        c.q,
        c.captures_before,
        c.captures_after,
        c.place AS position,
        c.kind,
        CASE c.kind
            WHEN 'creep' THEN exp(c.step / (c.captures_after - 1)) - 1
        END AS per_capture
    FROM changes AS c
    JOIN described AS d ON d.number = c.series
    JOIN described AS t
        ON t.series = d.series AND t.scope = d.scope AND t.level = 'total'
    JOIN places AS a ON a.series = d.series AND a.position = c.first_bad
    JOIN places AS b ON b.series = d.series AND b.position = c.last_good
    WHERE c.q < alpha
)
SELECT
    t.series,
    t.what,
    t.op,
    t.module_path,
    t.instruction_id,
    CASE WHEN t.change > 0 THEN 'slower' ELSE 'faster' END AS verdict,
    t.last_good,
    t.first_bad,
    100 * t.change AS change_percent,
    t.cost_ticks / _divisor('ns', t.unit) AS cost,
    t.unit,
    100 * t.share AS share_percent,
    t.p,
    t.q,
    t.captures_before,
    t.captures_after,
    t.position,
    t.kind,
    100 * t.per_capture AS per_capture_percent
FROM candidates AS t
WHERE (t.what = 'total' OR abs(t.change) * t.share >= 0.0005)
    AND (since IS NULL OR _version_key(t.first_bad) >= _version_key(since))
ORDER BY
    t.cost_ticks DESC,
    t.series,
    t.what DESC,
    t.op,
    t.instruction_id,
    t.first_bad;
