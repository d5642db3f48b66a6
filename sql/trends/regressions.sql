-- The rows of `regressions` for captures of series.
CREATE MACRO _regressions_of(
    captures_of_series,  -- the name of a table with the rows of `_series_factors`
    items_of_series,  -- the name of a table with the rows of `_series_items`
    comments_of_series,  -- the name of a table with the rows of `_series_comments`
    selector, since, unit, alpha, min_effect, with_accepted
) AS TABLE
WITH ordered AS (FROM query_table(captures_of_series)),
-- The place of `since` in each order of labels; for a commit, the place of its first capture.
from_label AS MATERIALIZED (
    SELECT d.ordered_by,
        CASE d.ordered_by
            WHEN 'commit' THEN min(d.label_key) FILTER (WHERE starts_with(d.label, since))
            WHEN 'captured_at' THEN _version_key(coalesce(
                try_cast(since AS TIMESTAMP)::VARCHAR, replace(since, 'T', ' ')
            ))
            ELSE _version_key(since)
        END AS since_key,
        since IS NULL OR coalesce(since_key <= max(d.label_key), false) AS is_known,
        'no capture has ' || d.ordered_by || ' ' || since || CASE
            WHEN d.ordered_by = 'commit' THEN '' ELSE ' or a later one'
        END || '; they are ' || arg_min(d.label, d.label_key) || ' to '
        || arg_max(d.label, d.label_key) AS problem
    FROM ordered AS d
    GROUP BY d.ordered_by
),
described AS MATERIALIZED (
    SELECT i.* EXCLUDE (captures),
        row_number() OVER (ORDER BY i.series, i.is_cycles, i.is_total, i.scope, i.item) AS number,
        _series_unit(unit, i.is_cycles) AS unit, count(*) OVER (PARTITION BY i.is_total) AS family
    FROM query_table(items_of_series) AS i
    WHERE _has_valid_options(alpha, min_effect)
        AND CASE
            WHEN (SELECT bool_or(f.is_known) FROM from_label AS f) THEN true
            ELSE error((SELECT string_agg(f.problem, '; ' ORDER BY f.ordered_by) FROM from_label AS f))
        END
),
totals AS MATERIALIZED (SELECT s.series, s.unit, s.scope, s.ticks FROM described AS s WHERE s.is_total),
judged_items AS (
    SELECT s.number, s.series, s.what AS measure, s.name, s.item AS identity, s.scope, s.is_cycles, s.is_of_all,
        s.family, s.positions, s.positions AS series_positions, s.builds, s.values, s.resolution,
        CASE WHEN s.is_total THEN 0 ELSE coalesce(t.ticks, 0) END AS total
    FROM described AS s
    LEFT JOIN totals AS t ON t.series = s.series AND t.unit = s.unit AND t.scope = s.scope
),
changes AS MATERIALIZED (
    SELECT c.*
    FROM _series_changes('judged_items', [], 'ordered', comments_of_series, alpha, min_effect) AS c
    WHERE c.kind <> 'stretch'
),
-- Captures with their ops, and the bound of the first capture in their series. The place is a single value; with two
-- columns, captures at both ends of changes would first be joined by series, each with all others.
bounded AS MATERIALIZED (
    SELECT d.*, {'series': d.series, 'position': d.position} AS place,
        first_value(d.bound) OVER (PARTITION BY d.series ORDER BY d.position) AS first_bound, o.scope, o.ops_hash
    FROM ordered AS d
    LEFT JOIN capture_ops AS o USING (capture_id)
),
-- Changes with their captures and the sides to compare.
counted AS (
    SELECT c.*, a.captured_at, a.ingested_at, a.label, a.label_key, a.ordered_by, b.label AS label_before,
        k.label AS label_back,
        _change_sides(
            s.is_within, s.labels, c.kind = 'step', a.ordered_by, a.bound_key, a.first_bound, b.bound,
            lag(a.bound) OVER in_order, a.bound, lead(a.bound) OVER in_order, b.label, a.label
        ) AS sides,
        a.scope IS NOT DISTINCT FROM b.scope AND a.ops_hash = b.ops_hash AS is_same_program
    FROM changes AS c
    JOIN described AS d ON d.number = c.series
    JOIN bounded AS a ON a.place = {'series': d.series, 'position': c.first_bad}
    JOIN bounded AS b ON b.place = {'series': d.series, 'position': c.last_good}
    LEFT JOIN bounded AS k ON k.place = {'series': d.series, 'position': c.back::BIGINT}
    JOIN _series_selectors('ordered', selector) AS s ON s.series = d.series
    WINDOW in_order AS (PARTITION BY c.series, c.kind ORDER BY c.place)
),
found AS (
    SELECT d.series, d.what, CASE WHEN d.is_total THEN d.scope ELSE d.op END AS op,
        d.module_path, d.instruction_id, 1 AS instances, c.verdict, c.stage,
        c.condition,
        c.label_before AS last_good, c.label AS first_bad, c.label_back AS reverted_at,
        exp(c.before) / _divisor('ns', d.unit) AS time_before, time_before * (exp(c.step) - 1) AS cost,
        time_before * (exp(c.low) - 1) AS low, time_before * (exp(c.high) - 1) AS high, d.unit,
        100 * CASE WHEN d.is_total THEN 1 ELSE exp(c.before) / t.ticks END AS share_percent, c.p, c.q,
        c.captures_before, c.captures_after, c.builds_after, c.place AS position, c.kind,
        CASE c.kind WHEN 'creep' THEN 100 * (exp(c.step / (c.captures_after - 1)) - 1) END AS per_capture_percent,
        _recorded_at(c.captured_at, c.ingested_at) AS recorded_at, c.is_accepted, c.comment,
        c.author, c.ordered_by, c.sides.base AS base, c.sides.new AS new, c.is_same_program,
        c.first_bad AS place, d.scope
    FROM counted AS c
    JOIN described AS d ON d.number = c.series
    LEFT JOIN totals AS t ON t.series = d.series AND t.unit = d.unit AND t.scope = d.scope
    LEFT JOIN from_label AS f ON f.ordered_by = c.ordered_by
    WHERE (with_accepted OR NOT c.is_accepted)
        AND c.stage <> 'returned'
        AND (since IS NULL OR f.is_known AND c.label_key >= f.since_key)
),
-- Instances of an op that changed within 2 captures of each other are one cause.
near AS (
    SELECT f.*, coalesce(f.place - lag(f.place) OVER alike > 2, false)::INTEGER AS is_apart
    FROM found AS f
    WINDOW alike AS (
        PARTITION BY f.series, f.unit, f.scope, f.what, f.op, f.verdict, f.stage, f.kind, f.is_accepted ORDER BY f.place
    )
),
caused AS MATERIALIZED (
    SELECT n.*,
        hash(
            n.series, n.unit, n.scope, n.what, n.op, n.verdict, n.stage, n.kind, n.is_accepted,
            sum(n.is_apart) OVER cause
        ) AS cause
    FROM near AS n
    WINDOW cause AS (
        PARTITION BY n.series, n.unit, n.scope, n.what, n.op, n.verdict, n.stage, n.kind, n.is_accepted ORDER BY n.place
    )
),
-- The row of a cause is the row of its instance with the largest cost.
by_cause AS (
    SELECT t.* EXCLUDE (largest, said), t.largest.last_good AS last_good, t.largest.first_bad AS first_bad,
        t.largest.reverted_at AS reverted_at, t.largest.captures_before AS captures_before,
        t.largest.captures_after AS captures_after, t.largest.builds_after AS builds_after,
        t.largest.position AS position, t.largest.per_capture_percent AS per_capture_percent,
        t.largest.recorded_at AS recorded_at, t.largest.base AS base, t.largest.new AS new, t.said.comment AS comment,
        t.said.author AS author
    FROM (
        SELECT c.cause, any_value(c.series) AS series, any_value(c.what) AS what, any_value(c.op) AS op,
            CASE WHEN min(c.module_path) = max(c.module_path) THEN min(c.module_path) END AS module_path,
            CASE WHEN count(*) = 1 THEN min(c.instruction_id) END AS instruction_id, count(*) AS instances,
            any_value(c.verdict) AS verdict, any_value(c.stage) AS stage, any_value(c.condition) AS condition,
            arg_max(
                {
                    'last_good': c.last_good, 'first_bad': c.first_bad, 'reverted_at': c.reverted_at,
                    'captures_before': c.captures_before, 'captures_after': c.captures_after,
                    'builds_after': c.builds_after, 'position': c.position,
                    'per_capture_percent': c.per_capture_percent, 'recorded_at': c.recorded_at,
                    'base': c.base, 'new': c.new
                },
                (abs(c.cost), -c.position, c.instruction_id)
            ) AS largest,
            arg_max(
                {'comment': c.comment, 'author': c.author}, (abs(c.cost), -c.position, c.instruction_id)
            ) FILTER (WHERE c.comment IS NOT NULL) AS said, sum(c.time_before) AS time_before, sum(c.cost) AS cost,
            sum(c.low) AS low, sum(c.high) AS high, any_value(c.unit) AS unit, sum(c.share_percent) AS share_percent,
            min(c.p) AS p, min(c.q) AS q, any_value(c.kind) AS kind, any_value(c.is_accepted) AS is_accepted,
            any_value(c.ordered_by) AS ordered_by, bool_and(c.is_same_program) AS is_same_program
        FROM caused AS c
        GROUP BY c.cause
    ) AS t
),
listed AS (
    SELECT c.*, c.cost AS cause_cost FROM by_cause AS c
    UNION ALL BY NAME
    SELECT f.* EXCLUDE (place, scope, is_apart) REPLACE ('instance' AS what), c.cost AS cause_cost
    FROM caused AS f
    JOIN by_cause AS c USING (cause)
    WHERE c.instances > 1
)
SELECT l.series, l.what, l.op, l.module_path, l.instruction_id, l.instances, l.verdict, l.stage, l.condition,
    l.last_good, l.first_bad, l.reverted_at, 100 * l.cost / l.time_before AS change_percent,
    100 * l.low / l.time_before AS low_percent, 100 * l.high / l.time_before AS high_percent, l.cost, l.unit,
    l.share_percent, l.p, l.q, l.captures_before, l.captures_after, l.builds_after, l.position, l.kind,
    l.per_capture_percent, l.recorded_at, l.is_accepted, l.comment, l.author, l.ordered_by, l.base, l.new,
    l.is_same_program
FROM listed AS l
ORDER BY list_position(['kept', 'not kept yet', 'reverted', 'one of two levels'], l.stage), l.cause_cost DESC, l.series,
    l.op, l.first_bad, l.cause, l.what = 'instance', l.cost DESC, l.instruction_id;

-- The rows of `regressions`. With `is_lenient`, captures without a label to order them by are no error.
CREATE MACRO _regressions(
    selector, over, "by", since, unit, phase, alpha, min_effect, with_accepted, is_lenient
) AS TABLE
WITH series_captures AS MATERIALIZED (FROM _series_factors(selector, over, "by", phase, is_lenient := is_lenient)),
series_items AS (FROM _series_items('series_captures', phase)),
series_comments AS (FROM _series_comments('series_captures'))
FROM _regressions_of(
    'series_captures', 'series_items', 'series_comments', selector, since, unit, alpha, min_effect, with_accepted
);

-- Needs etq: in DuckDB alone, it is an error.
-- One change of a total or op in a series of builds: a step to another level, or a creep, slow growth (or decline).
-- Changes that are kept come first, the costliest before others; then those that are not kept yet, those that were
-- reverted, and levels between which a series alternates. The change of an op excludes the common shift of all ops. It
-- counts if it is at least 3 %, at least 0.05 % of the total, more than the step of its clock, and not by chance among
-- so many series. Instances of an op that changed at the same build are one change, with a row for each below it. Where
-- somebody has accepted a change (`change_comments`), the level starts anew: it is not listed any more, and later
-- changes are measured against the level after it. The same holds for a change of a total if accepted changes of ops
-- explain at least half of it.
-- Shown: series!, what, CASE what WHEN 'total' THEN 'total of ' || op WHEN 'instance' THEN '@' || instruction_id
--   ELSE op || CASE WHEN instances > 1 THEN ', ' || instances || ' instances'
--   ELSE coalesce('@' || instruction_id, '') END END AS item!, verdict! (verdict), change_percent! (change),
--   low_percent (interval), high_percent%, stage!, condition, first_bad! (label), last_good! (label),
--   reverted_at! (label), cost! (time), unit!, share_percent%, module_path, kind, per_capture_percent%,
--   captures_before#, captures_after#, builds_after#, p (probability), q (probability), position#, comment, author,
--   is_accepted
-- Share: of the total before the change; 100 for a total
-- Columns:
--   series: labels of the series, as key=value,key=value
--   what: total, op, or instance: one of several instances of the op in a row above
--   op: the op, or the method of a total
--   module_path: its module; NULL if records don't have it, or instances have several
--   instruction_id: the instruction, in the last capture; NULL for several
--   instances: number of the op's instances that changed; 1 for a total
--   verdict: slower or faster
--   stage: kept; not kept yet: seen, and disturbed builds may look so; reverted; or one of two levels: the series often alternates between them
--   condition: what differs between the captures of both levels, such as the governor or the temperature: then they are levels of the machine; NULL if nothing is known
--   last_good: label of the last capture before the change; of a creep, of its first capture
--   first_bad: label of the first capture after it; of a creep, of its last capture
--   reverted_at: label of the first capture at the old level again; NULL if it was not reverted
--   change_percent: size of the change in percent
--   low_percent: low end of its 95 % interval
--   high_percent: high end
--   cost: additional time per run, from its level before and the change; below 0 if it is faster
--   unit: unit of cost
--   share_percent: time in percent of the total before the change; 100 for a total
--   p: probability of a change this clear in a series without changes
--   q: p, corrected for the number of series
--   captures_before: number of captures of the level before this change; 0 for a creep
--   captures_after: number of captures between this change and the next; for a creep, number of its captures
--   builds_after: number of builds of these captures
--   position: position of the first capture after it among those of its series that have the op, from 1; of a creep, of its first capture
--   kind: step or creep
--   per_capture_percent: mean change from one capture of a creep to the next; NULL for a step
--   recorded_at: when the capture of first_bad was recorded, in UTC: captured_at, or, where unknown, when it was read
--   is_accepted: whether somebody has accepted it
--   comment: the latest comment on it; NULL without one
--   author: who wrote the comment
--   ordered_by: the label by which captures are ordered, or captured_at
--   base: selector of the captures between the previous change and this one, as `compare_ops` takes it; for a creep, and if labels have no ranges, selector of the captures of last_good; NULL if no selector distinguishes these captures from others
--   new: selector of the captures from this change to the next, all captures of first_bad included; or, like base, only of the captures of first_bad
--   is_same_program: whether the first capture after it has the same ops as the last before
CREATE MACRO regressions(
    selector := NULL, over := NULL,
    "by" := 'model,device,backend',  -- keys of the labels that distinguish series, with commas between
    since := NULL,  -- label, or the beginning of a commit; only changes at it or later; NULL: all
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    phase := NULL,
    alpha := 0.05,  -- accepted share of false positives
    min_effect := 0.03,  -- smallest change that counts, as a fraction
    with_accepted := false  -- whether changes that were accepted are listed, too
) AS TABLE
FROM _regressions(selector, over, "by", since, unit, phase, alpha, min_effect, with_accepted, false) AS r;
