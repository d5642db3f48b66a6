-- Needs etq: in DuckDB alone, it is an error.
-- One series of captures, with its total: the last change of the total, how noisy it is, the change that more builds
-- would show, and why it isn't judged. Cycles and times are rows of their own. Captures without an order, and those
-- without times, also belong to a series here.
-- Shown: series!, verdict! (verdict), change_percent! (change), first_bad! (label), value! (time), unit, noise_percent!%,
--   shown_percent!%, captures!#, builds#, label! (label), kind, condition, reason!, mixed_build (label),
--   captures_unordered#, ordered_by
-- Columns:
--   series: labels of the series, as key=value,key=value
--   verdict: slower or faster, if its last change is kept and nobody has accepted it; not kept yet; unstable, if it alternates between two levels; ~ without a change; not judged
--   change_percent: size of the last change in percent; NULL without one
--   kind: step or creep; NULL without one
--   first_bad: label of the first capture after it; of a creep, of its last capture; NULL without one
--   last_good: label of the last capture before it; of a creep, of its first capture; NULL without one
--   condition: what differs between the captures of both levels, as in `trend`; NULL if nothing is known
--   value: time of the last capture, as p25 in `trend`; NULL if none has times
--   least: smallest value of its captures
--   most: largest value of its captures
--   unit: unit of value, least and most
--   noise_percent: typical difference of builds from their neighbours, in percent, as in `trend`; NULL if not judged
--   shown_percent: the change that five more builds would show, in percent, as in `trend`; NULL if not judged
--   captures: number of captures in this unit
--   captures_unordered: number of captures without a label to order them by
--   builds: number of builds that have a time
--   label: label of the last capture
--   capture: name of the last capture that has a time
--   reason: why it isn't judged; NULL if it is
--   ordered_by: the label by which captures are ordered, or captured_at
--   mixed_build: label of a build whose captures have different ops, as of several programs; NULL if there is none
--   base: selector of the captures before the last change, as in `trend`
--   new: selector of the captures from that change on, as in `trend`
CREATE MACRO series(
    selector := NULL, over := NULL,
    "by" := 'model,device,backend',  -- keys of the labels that distinguish series, with commas between
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    phase := NULL,
    alpha := 0.05,  -- accepted share of false positives
    min_effect := 0.03  -- smallest change of level that counts, as a fraction
) AS TABLE
WITH placed_captures AS MATERIALIZED (FROM _series_labels(selector, over, "by", is_lenient := true)),
series_captures AS MATERIALIZED (FROM _shifted_captures('placed_captures', phase)),
series_comments AS (FROM _series_comments('series_captures')),
points AS MATERIALIZED (
    SELECT t.*
    FROM _trend_of(
        'series_captures', 'series_comments', 'total', NULL, selector, unit, phase, alpha, min_effect, true
    ) AS t
    WHERE t.series IS NOT NULL
),
counted AS (
    SELECT p.series, _series_unit(unit, p.time_scale = 'cycles') AS unit, count(*) AS captures,
        count(*) FILTER (WHERE p.label IS NULL) AS captures_unordered, any_value(p.ordered_by) AS ordered_by
    FROM placed_captures AS p
    GROUP BY p.series, p.time_scale = 'cycles'
),
last_points AS (
    SELECT t.series, t.unit, max_by(t, t.position) AS at, min(t.normalized) AS least, max(t.normalized) AS most,
        len(list_distinct(list(t.label))) AS builds, max_by(t, t.position) FILTER (WHERE t.stage IS NOT NULL) AS change
    FROM points AS t
    GROUP BY t.series, t.unit
),
judged AS (
    SELECT c.*, l.at, l.least, l.most, coalesce(l.builds, 0) AS builds,
        CASE WHEN NOT l.change.is_accepted AND l.change.stage NOT IN ('returned', 'reverted') THEN l.change END
            AS change,
        CASE
            WHEN c.captures_unordered = c.captures THEN 'no label to order captures by'
            WHEN l.at IS NULL THEN 'no times'
            WHEN l.at.shown_percent IS NULL THEN 'too few builds'
        END AS reason
    FROM counted AS c
    LEFT JOIN last_points AS l ON l.series = c.series AND l.unit = c.unit
),
mixed AS (
    SELECT b.series, min(b.label) AS label FROM _builds_of_programs('placed_captures') AS b GROUP BY b.series
)
SELECT j.series,
    CASE
        WHEN j.reason IS NOT NULL THEN 'not judged'
        WHEN j.change.stage = 'kept' THEN CASE WHEN j.change.change_percent > 0 THEN 'slower' ELSE 'faster' END
        WHEN j.change.stage = 'one of two levels' THEN 'unstable'
        ELSE coalesce(j.change.stage, '~')
    END AS verdict,
    j.change.change_percent AS change_percent, j.change.kind AS kind, j.change.label AS first_bad,
    j.change.last_good AS last_good,
    j.change.condition AS condition, j.at.normalized AS value, j.least, j.most, j.unit,
    j.at.noise_percent AS noise_percent, j.at.shown_percent AS shown_percent, j.captures, j.captures_unordered,
    j.builds, j.at.label AS label, j.at.capture AS capture, j.reason, j.ordered_by, m.label AS mixed_build,
    j.change.base AS base, j.change.new AS new
FROM judged AS j
LEFT JOIN mixed AS m USING (series)
ORDER BY
    list_position(['slower', 'not kept yet', 'unstable', 'faster', '~', 'not judged'], verdict),
    abs(j.change.change_percent) DESC NULLS LAST, j.series, j.unit;
