-- The groups of captures in which devices are compared, and those in which they can't be. Here, series that differ only
-- in their devices are one series; a group has the captures of such a series with one model, profiling level and clock,
-- and for traces with one kind of steps. `captures` are those that are compared: the captures of the last 20 builds
-- that were measured on all devices of the newest build with several devices, apart from devices with fewer than 3
-- captures, such as a new one. So no change between builds is taken for a difference of devices. If any build is known,
-- captures without a build aren't compared.
CREATE MACRO _device_groups(selector, over, "by", phase) AS TABLE
WITH placed AS MATERIALIZED (
    SELECT p.*, CASE p.ordered_by
            WHEN 'captured_at' THEN NULL WHEN 'commit' THEN coalesce(p.committed_at, '~') ELSE _version_key(p.label)
        END AS build_key,
        CASE WHEN p.ordered_by <> 'captured_at' THEN p.label END AS build
    FROM _series_labels(
        selector, over, array_to_string(list_filter(_series_keys("by"), lambda k: k <> 'device'), ','),
        is_lenient := true
    ) AS p
),
measured AS MATERIALIZED (
    SELECT p.series, p.ordered_by, p.build, p.build_key, p.capture_id, d.value AS device,
        _recorded_at(c.captured_at, c.ingested_at) AS recorded_at,
        {
            'model': m.value, 'profiling_level': c.profiling_level,
            'clock': CASE c.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'time' END,
            'steps': CASE c.format WHEN 'torch_trace' THEN t.scope END
        } AS kind,
        count(*) OVER (PARTITION BY p.series, kind, d.value) AS of_device
    FROM placed AS p
    JOIN captures AS c USING (capture_id)
    LEFT JOIN labels AS m ON m.capture_id = p.capture_id AND m.key = 'model'
    JOIN labels AS d ON d.capture_id = p.capture_id AND d.key = 'device'
    JOIN (
        SELECT o.capture_id, min(o.scope) AS scope
        FROM op_times AS o
        WHERE o.op_index = 0 AND o.kind <> 'device_total' AND o.phase IS NOT DISTINCT FROM _checked_phase(phase)
        GROUP BY o.capture_id
    ) AS t ON t.capture_id = p.capture_id
),
every AS MATERIALIZED (
    SELECT m.series, m.kind, any_value(m.ordered_by) AS ordered_by, count(*) AS all_captures,
        count(DISTINCT m.device) AS all_devices, row_number() OVER (ORDER BY m.series, m.kind) AS place
    FROM measured AS m
    GROUP BY m.series, m.kind
),
builds AS (
    SELECT e.place, m.build, m.build_key, list_distinct(list(m.device)) AS devices,
        list_distinct(list(m.device) FILTER (WHERE m.of_device >= 3)) AS judged, list(m.capture_id) AS captures
    FROM measured AS m
    JOIN every AS e ON e.series = m.series AND e.kind IS NOT DISTINCT FROM m.kind
    WHERE m.build IS NOT NULL OR m.ordered_by = 'captured_at'
    GROUP BY e.place, m.build, m.build_key
),
newest AS (
    SELECT b.place, max_by(b.judged, coalesce(b.build_key, '')) FILTER (WHERE len(b.judged) > 1) AS devices
    FROM builds AS b
    WHERE len(b.devices) > 1
    GROUP BY b.place
),
chosen AS (
    SELECT b.place, n.devices, b.build, b.captures
    FROM builds AS b
    JOIN newest AS n ON n.place = b.place AND list_has_all(b.judged, n.devices)
    QUALIFY row_number() OVER (PARTITION BY b.place ORDER BY b.build_key DESC) <= 20
),
-- Devices with fewer captures aren't judged.
kept AS (
    SELECT c.place, m.device, any_value(c.builds) AS builds, list(m.capture_id) AS captures,
        max(m.recorded_at) AS recorded_at
    FROM (
        SELECT h.place, h.devices, list(h.build) AS builds, flatten(list(h.captures)) AS captures
        FROM chosen AS h
        GROUP BY h.place, h.devices
    ) AS c
    JOIN measured AS m ON list_contains(c.captures, m.capture_id) AND list_contains(c.devices, m.device)
    GROUP BY c.place, m.device
    HAVING count(*) >= 3
),
grouped AS MATERIALIZED (
    SELECT e.*, k.builds, k.devices, k.captures::BIGINT[] AS captures, k.recorded
    FROM every AS e
    JOIN (
        SELECT k.place, any_value(k.builds) AS builds, list_sort(list(k.device)) AS devices,
            flatten(list(k.captures)) AS captures, list({'device': k.device, 'recorded_at': k.recorded_at}) AS recorded
        FROM kept AS k
        GROUP BY k.place
        HAVING count(*) > 1
    ) AS k ON k.place = e.place
),
-- The captures that the labels of a group choose, including captures of other series with these labels.
labelled AS (
    SELECT g.place, m.capture_id, m.kind.model AS model, m.device, m.build
    FROM grouped AS g
    JOIN (
        SELECT n.series, _selector_parts(n.series) AS parts FROM (SELECT DISTINCT p.series FROM placed AS p) AS n
    ) AS o ON list_has_all(o.parts, _selector_parts(g.series))
    JOIN measured AS m ON m.series = o.series
),
-- Whether the shortest selector needs a part, and whether its parts choose no other captures.
selected AS (
    SELECT g.place,
        count(*) FILTER (WHERE l.is_of_model AND l.is_of_devices AND l.is_of_builds) = max(len(g.captures)) AS is_exact,
        NOT bool_and(l.is_of_model) AS needs_model, NOT bool_and(l.is_of_devices) AS needs_devices,
        NOT bool_and(l.is_of_builds) AS needs_builds
    FROM grouped AS g
    JOIN (
        SELECT n.place, n.capture_id, n.model IS NOT DISTINCT FROM o.kind.model AS is_of_model,
            list_contains(o.devices, n.device) AS is_of_devices,
            o.ordered_by = 'captured_at' OR coalesce(list_contains(o.builds, n.build), false) AS is_of_builds
        FROM labelled AS n
        JOIN grouped AS o ON o.place = n.place
    ) AS l ON l.place = g.place
    GROUP BY g.place
)
SELECT e.series, e.kind, e.all_devices, e.all_captures, e.place, g.devices, g.captures, g.recorded,
    CASE WHEN s.is_exact AND NOT (s.needs_model AND e.kind.model IS NULL) THEN concat_ws(
        ',', _series_selector(selector, e.series),
        CASE WHEN s.needs_model THEN 'model=' || _selector_value('model', e.kind.model) END,
        CASE WHEN s.needs_devices
            THEN _one_of_values('device', g.devices) END,
        CASE WHEN s.needs_builds THEN _one_of_values(e.ordered_by, list_sort(g.builds)) END
    ) END AS selector,
    CASE
        WHEN e.all_devices = 1 THEN 'one device'
        WHEN n.place IS NULL THEN 'no build was measured on several devices'
        WHEN g.place IS NULL THEN 'fewer than 2 devices have 3 captures of the same builds'
        WHEN len(g.devices) < e.all_devices
            THEN 'too few captures of the same builds: ' || (e.all_devices - len(g.devices)) || ' of '
                || e.all_devices || ' devices'
    END AS reason
FROM every AS e
LEFT JOIN newest AS n ON n.place = e.place
LEFT JOIN grouped AS g ON g.place = e.place
LEFT JOIN selected AS s ON s.place = e.place;

-- What is slower on devices, as in `causes`.
CREATE MACRO _slow_devices(selector, over, "by", unit, phase, alpha, min_effect) AS TABLE
WITH RECURSIVE groups AS MATERIALIZED (
    SELECT g.series, g.kind, g.selector, g.captures, g.recorded, row_number() OVER (ORDER BY g.place) AS place
    FROM _device_groups(selector, over, "by", phase) AS g
    WHERE g.captures IS NOT NULL
),
-- Groups are compared one after the other. With LATERAL, DuckDB would join the ops of all captures before selecting
-- those of a group: of 4,000 captures, a group of 40 took more than 6 GB; this way, a group of 400 takes 3 s.
compared AS (
    SELECT 1::BIGINT AS place, NULL::VARCHAR AS value, NULL::VARCHAR AS level, NULL::VARCHAR AS scope,
        NULL::VARCHAR AS op, NULL::VARCHAR AS verdict, NULL::DOUBLE AS change_percent, NULL::DOUBLE AS low_percent,
        NULL::DOUBLE AS high_percent, NULL::DOUBLE AS base, NULL::DOUBLE AS new, NULL::VARCHAR AS unit,
        NULL::DOUBLE AS p, NULL::DOUBLE AS q, NULL::BIGINT AS new_captures
    FROM groups AS g
    WHERE g.place = 1
    UNION ALL
    (
        WITH now AS MATERIALIZED (SELECT max(c.place) AS place FROM compared AS c),
        -- DuckDB evaluates this once more after the last group, and also without groups: then there are no captures.
        asked AS MATERIALIZED (
            SELECT any_value(CASE WHEN g.place = n.place THEN g.captures END) AS captures,
                CASE WHEN NOT bool_or(g.place = n.place AND g.kind.clock = 'cycles') THEN unit END AS unit
            FROM groups AS g CROSS JOIN now AS n
        ),
        of_values AS MATERIALIZED (
            SELECT l.capture_id::BIGINT AS capture_id, l.value
            FROM asked AS a
            JOIN labels AS l ON l.key = 'device' AND list_contains(a.captures, l.capture_id)
        ),
        -- Of each device, there are too many captures for a history, or to compare steps.
        outlier_sides AS MATERIALIZED (FROM _outlier_sides('of_values', NULL, 'device')),
        measured_times AS (FROM _compared_times(0.25, phase)),
        sampled AS MATERIALIZED (FROM _comparison_samples('outlier_sides', 'measured_times', phase, false)),
        found AS (
            FROM _outliers_of(
                'of_values', 'sampled', (SELECT a.unit FROM asked AS a), phase, alpha, min_effect, false
            )
        )
        SELECT g.place + 1, f.value, f.level, f.scope, f.op, f.verdict, f.change_percent, f.low_percent,
            f.high_percent, f.base, f.new, f.unit, f.p, f.q, f.new_captures
        FROM groups AS g
        JOIN now AS n ON n.place = g.place
        LEFT JOIN found AS f ON true
    )
),
ops AS MATERIALIZED (
    SELECT c.place, c.value, c.scope, c.op, count(*) AS instances, sum(c.new - c.base) AS cost,
        sum(c.base) AS base, sum(c.change_percent * c.base) AS changed, min(c.q) AS q,
        CASE WHEN count(*) = count(c.low_percent) THEN sum(c.low_percent * c.base) END AS low,
        CASE WHEN count(*) = count(c.high_percent) THEN sum(c.high_percent * c.base) END AS high
    FROM compared AS c
    WHERE c.level = 'op' AND c.verdict = 'slower'
    GROUP BY c.place, c.value, c.scope, c.op
),
totals AS (
    SELECT c.*, c.new - c.base AS cost, s.ops_cost
    FROM compared AS c
    LEFT JOIN (
        SELECT o.place, o.value, o.scope, sum(o.cost) AS ops_cost FROM ops AS o GROUP BY ALL
    ) AS s ON s.place = c.place AND s.value = c.value AND s.scope IS NOT DISTINCT FROM c.scope
    WHERE c.level = 'total'
),
slow AS (
    SELECT t.place, t.value, NULL::VARCHAR AS op, NULL::BIGINT AS instances,
        t.change_percent, t.low_percent, t.high_percent, t.cost, t.unit, t.change_percent AS share_percent, t.p AS q,
        t.new_captures AS captures
    FROM totals AS t
    WHERE t.verdict = 'slower' AND NOT coalesce(2 * t.ops_cost >= t.cost, false)
    UNION ALL
    SELECT t.place, t.value, o.op, o.instances, o.changed / o.base, o.low / o.base,
        o.high / o.base, o.cost, t.unit, 100 * o.cost / t.base, o.q, t.new_captures
    FROM ops AS o
    JOIN totals AS t ON t.place = o.place AND t.value = o.value AND t.scope IS NOT DISTINCT FROM o.scope
)
SELECT s.*, g.series, list_filter(g.recorded, lambda d: d.device = s.value)[1].recorded_at AS recorded_at,
    CASE WHEN g.selector IS NOT NULL
        THEN concat_ws(',', nullif(g.selector, ''), 'device=' || _selector_value('device', s.value)) END AS new,
    CASE WHEN g.selector IS NOT NULL
        THEN concat_ws(',', nullif(g.selector, ''), 'device!=' || _selector_value('device', s.value)) END AS base
FROM slow AS s
JOIN groups AS g ON g.place + 1 = s.place;

-- What is slower since a build, as in `causes`. A total is left out if the changes of its ops account for its
-- change, even if those changes were accepted. Changes within 2 captures of each other are one, as in `regressions`;
-- a creep of a total is the sum of all steps and creeps of ops that it meets. `last` is the position of a creep's last
-- capture.
CREATE MACRO _slow_builds(selector, over, "by", unit, phase, alpha, min_effect, with_accepted) AS TABLE
WITH changes AS MATERIALIZED (
    SELECT r.*, r.change_percent * r.share_percent / 100 AS at_stake_percent,
        r.position + CASE r.kind WHEN 'creep' THEN r.captures_after - 1 ELSE 0 END AS last
    FROM _regressions(selector, over, "by", NULL, unit, phase, alpha, min_effect, true, true) AS r
    WHERE r.stage = 'kept' AND r.verdict = 'slower' AND r.what <> 'instance'
)
SELECT c.*
FROM changes AS c
WHERE (with_accepted OR NOT c.is_accepted)
    AND (c.what = 'op' OR NOT coalesce(2 * (
        SELECT sum(o.cost) FROM changes AS o
        WHERE o.what = 'op' AND o.series = c.series AND CASE c.kind
            WHEN 'creep' THEN o.position <= c.last + 2 AND o.last >= c.position - 2
            ELSE abs(o.position - c.position) <= 2
        END
    ) >= c.cost, false));

-- Needs etq: in DuckDB alone, it is an error.
-- One cause of lost time: an op that is slower since a build, or on a device, in all series that contain it; the total,
-- if no op explains the loss; or a finding of `advice` about a job: a rank that other ranks wait for, a slow link, or
-- clocks that differ. The largest share of the time of a run or step comes first. Devices are compared as in
-- `outliers`, on the last builds that were measured on all of them; changes are those of `regressions` that are kept.
-- Empty: {view} has no rows: nothing is found to be slower; etq show series says what is judged
-- Shown: kind!, cause!, value!, series!, number_of_series#, share_percent!%, cost (time), change_percent! (change),
--   low_percent (interval), high_percent%, unit, instances#, first_bad (label), last_good (label), recorded_at (moment),
--   captures#, q (probability), is_accepted, comment, author, finding!|, evidence|
-- Share: of the time before the change, or of the time on other devices, in the series in which most is lost
-- Columns:
--   kind: change: since a build; creep: growth in small steps over builds; device: on a device; rank, link or clock: in a job
--   cause: the op; `all ops` for a loss of the total that no op explains; for jobs, the rule of `advice`
--   value: label of the device or rank; of a link, or clocks, their ranks; NULL for changes and creeps
--   series: the series in which most is lost, as in `series`; for jobs, the job's selector
--   number_of_series: number of series in which it is slower
--   share_percent: time lost in percent of the time before the change, or of the time on other devices, in the series in which most is lost
--   cost: time lost for each run or step; for jobs, time_at_stake of `advice`
--   change_percent: change of the op, or of the total, in percent; NULL for jobs
--   low_percent: lower end of its interval
--   high_percent: upper end
--   unit: unit of cost
--   instances: number of instances of the op that are slower; NULL for totals and jobs
--   first_bad: label of the first capture after a change; of a creep, of its last capture; NULL for other kinds
--   last_good: label of the last capture before a change; of a creep, of its first capture
--   recorded_at: when first_bad was recorded, as in `regressions`; for other kinds, the latest of their captures, in UTC
--   captures: number of captures after a change, of the creep, of the device, or of the ranks
--   q: probability that it is due to chance, corrected as in `regressions` and `outliers`; NULL for jobs
--   is_accepted: whether somebody has accepted the change
--   comment: the latest comment on it; NULL without one
--   author: who wrote the comment
--   base: selector of what it is compared with, as `compare_ops` takes it; NULL for jobs, and if no selector distinguishes these captures from others
--   new: selector of the captures in which it is slower; NULL if no selector distinguishes these captures from others
--   ordered_by: the label by which captures are ordered; NULL for other kinds than changes and creeps
--   finding: for jobs, the finding of `advice`; NULL for other kinds
--   evidence: for jobs, its evidence; NULL for other kinds
CREATE MACRO causes(
    selector := NULL, over := NULL,
    "by" := 'model,device,backend',  -- keys of the labels that distinguish series, with commas between
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    phase := NULL,
    alpha := 0.05,  -- accepted share of false positives
    min_effect := 0.03,  -- smallest change that counts, as a fraction
    with_accepted := false  -- whether changes that were accepted are listed, too
) AS TABLE
-- Of rows that are equally large, the first one is shown, whatever the order of captures.
WITH changes AS (
    SELECT min_by(s.most, (-s.most.at_stake_percent, s.most)) AS most, sum(s.instances)::BIGINT AS instances,
        count(*) AS number_of_series, sum(s.captures)::BIGINT AS captures
    FROM (
        SELECT c.what, CASE c.what WHEN 'op' THEN c.op END AS op, min_by(c, (-c.at_stake_percent, c)) AS most,
            sum(c.instances) FILTER (WHERE c.what = 'op') AS instances, max(c.captures_after) AS captures
        FROM _slow_builds(selector, over, "by", unit, phase, alpha, min_effect, with_accepted) AS c
        GROUP BY c.series, c.what, CASE c.what WHEN 'op' THEN c.op END, c.kind, c.ordered_by, c.first_bad,
            c.is_accepted
    ) AS s
    GROUP BY s.what, s.op, s.most.kind, s.most.ordered_by, s.most.first_bad, s.most.is_accepted
),
devices AS (
    SELECT min_by(s.most, (-s.most.share_percent, s.most)) AS most, sum(s.instances)::BIGINT AS instances,
        count(DISTINCT s.most.series) AS number_of_series, sum(s.most.captures)::BIGINT AS captures,
        max(s.most.recorded_at) AS recorded_at
    FROM (
        SELECT d.value, d.op, min_by(d, (-d.share_percent, d)) AS most, sum(d.instances) AS instances
        FROM _slow_devices(selector, over, "by", unit, phase, alpha, min_effect) AS d
        GROUP BY d.place, d.value, d.op
    ) AS s
    GROUP BY s.value, s.op
),
-- A finding about several ranks is in the advice about each of them.
ranks AS (
    SELECT a.rule, a.finding, min(a.evidence) AS evidence, min(a.unit) AS unit,
        max(a.share_percent) AS share_percent, max(a.time_at_stake) AS time_at_stake,
        list_sort(list(DISTINCT {'number': try_cast(r.value AS BIGINT), 'text': r.value})) AS numbered,
        array_to_string(list_transform(numbered[:8], lambda k: k.text), ', ')
        || CASE WHEN len(numbered) > 8 THEN ' and ' || (len(numbered) - 8) || ' more' ELSE '' END AS of_ranks,
        'job=' || _selector_value('job', l.value) AS series,
        _one_of_values('rank', list_sort(list(DISTINCT r.value))) AS part, count(*) AS captures,
        max(_recorded_at(c.captured_at, c.ingested_at)) AS recorded_at
    FROM all_advice AS a
    JOIN captures AS c ON c.capture_id = a.capture_id
    JOIN labels AS l ON l.capture_id = a.capture_id AND l.key = 'job'
    JOIN labels AS r ON r.capture_id = a.capture_id AND r.key = 'rank'
    WHERE a.rule IN ('late rank', 'slow link') AND a.severity <> 'low' OR a.rule = 'clock offset'
    GROUP BY a.rule, a.finding, l.value
    HAVING selector IS NULL
        OR bool_or(a.capture_id IN (SELECT s.capture_id FROM _several_captures(selector) AS s))
)
SELECT f.kind, f.cause, f.value, f.series, f.number_of_series, f.share_percent, f.cost, f.change_percent,
    f.low_percent, f.high_percent, f.unit, f.instances, f.first_bad, f.last_good, f.recorded_at, f.captures, f.q,
    f.is_accepted, f.comment, f.author, f.base, f.new, f.ordered_by, f.finding, f.evidence
FROM (
    SELECT CASE c.most.kind WHEN 'creep' THEN 'creep' ELSE 'change' END AS kind,
        CASE c.most.what WHEN 'op' THEN c.most.op ELSE 'all ops' END AS cause, NULL AS value,
        c.most.series AS series, c.number_of_series, c.most.at_stake_percent AS share_percent, c.most.cost AS cost,
        c.most.change_percent AS change_percent, c.most.low_percent AS low_percent,
        c.most.high_percent AS high_percent, c.most.unit AS unit, c.instances, c.most.first_bad AS first_bad,
        c.most.last_good AS last_good, c.most.recorded_at AS recorded_at, c.captures, c.most.q AS q,
        c.most.is_accepted AS is_accepted, c.most.comment AS comment, c.most.author AS author, c.most.base AS base,
        c.most.new AS new, c.most.ordered_by AS ordered_by, NULL AS finding, NULL AS evidence
    FROM changes AS c
    UNION ALL
    SELECT 'device', coalesce(d.most.op, 'all ops'), d.most.value, d.most.series, d.number_of_series,
        d.most.share_percent, d.most.cost, d.most.change_percent, d.most.low_percent, d.most.high_percent,
        d.most.unit, d.instances, NULL, NULL, d.recorded_at, d.captures, d.most.q, false, NULL, NULL, d.most.base,
        d.most.new, NULL, NULL, NULL
    FROM devices AS d
    UNION ALL
    SELECT CASE r.rule WHEN 'late rank' THEN 'rank' WHEN 'slow link' THEN 'link' ELSE 'clock' END, r.rule, r.of_ranks,
        r.series, 1, r.share_percent, r.time_at_stake, NULL, NULL, NULL, r.unit, NULL, NULL, NULL, r.recorded_at,
        r.captures, NULL, false, NULL, NULL, NULL, concat(r.series, ',', r.part), NULL, r.finding, r.evidence
    FROM ranks AS r
) AS f
ORDER BY f.share_percent DESC NULLS LAST, f.kind, f.cause, f.value, f.series;
