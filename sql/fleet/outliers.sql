-- The captures that have a label, with its value. It is an error if all have one value, as there is nothing to compare,
-- and if they are of several models, unless a mismatch is allowed.
CREATE MACRO _labelled_captures(
    selector,  -- NULL: all captures
    key,  -- NULL: no captures
    allow_mismatch
) AS TABLE
WITH asked AS MATERIALIZED (SELECT "key" AS key),
labelled AS (
    SELECT l.capture_id, l.value
    FROM asked AS a
    JOIN labels AS l USING (key)
    JOIN _chosen_captures(selector) AS c USING (capture_id)
),
counted AS (
    SELECT count(DISTINCT d.value) AS number, any_value(d.value) AS one,
        list_sort(list(DISTINCT m.value)) AS models,
        (SELECT list(DISTINCT l.key ORDER BY l.key) FROM labels AS l) AS keys
    FROM labelled AS d
    LEFT JOIN labels AS m ON m.capture_id = d.capture_id AND m.key = 'model'
),
checked AS (
    SELECT CASE
        WHEN c.number > 1 AND len(c.models) > 1 AND a.key <> 'model' AND NOT allow_mismatch THEN error(
            'the captures are of ' || len(c.models) || ' models, ' || array_to_string(c.models[:3], ', ')
            || CASE WHEN len(c.models) > 3 THEN ', ...' ELSE '' END || ': choose one, as model='
            || _selector_value('model', c.models[1])
            || '; to compare them nevertheless: --allow-mismatch, or in SQL allow_mismatch := true'
        )
        WHEN a.key IS NULL THEN 0
        WHEN c.number > 1 THEN c.number
        WHEN c.number = 1 THEN error(
            'all captures with a label ' || a.key || ' have ' || a.key || '=' || c.one
            || ': there is no other to compare it with'
        )
        ELSE error(
            'no capture' || coalesce(' of ' || selector::VARCHAR, '') || ' has a label ' || a.key || '; '
            || coalesce(_listed('label', c.keys), 'no capture has labels')
            || '; etq label CAPTURE ' || a.key || '=VALUE sets it'
        )
    END AS number
    FROM counted AS c CROSS JOIN asked AS a
)
SELECT d.capture_id::BIGINT AS capture_id, d.value
FROM checked AS c
LEFT JOIN labelled AS d ON c.number > 1
WHERE c.number > 0;

-- Comparisons of the captures of each value of a label with all others, as rows of `_comparison` with the value and, of
-- totals, the ops that differ. They share the samples, and the probability of a false verdict: with n values, each has
-- the nth part of alpha, and p and q are n times as large.
CREATE MACRO _outliers(selector, key, unit, quantile, phase, alpha, min_effect, allow_mismatch) AS TABLE
WITH of_values AS MATERIALIZED (FROM _labelled_captures(selector, "key", allow_mismatch)),
outlier_sides AS MATERIALIZED (FROM _outlier_sides('of_values', selector, "key")),
with_history AS (FROM _comparison_captures('outlier_sides', NULL)),
measured_times AS (FROM _compared_times(quantile, phase) UNION ALL FROM _compared_steps('outlier_sides', phase)),
sampled AS MATERIALIZED (FROM _comparison_samples('with_history', 'measured_times', phase, allow_mismatch))
FROM _outliers_of('of_values', 'sampled', unit, phase, alpha, min_effect, allow_mismatch);

-- The two sides, as in `_placed_sides`: the captures of one value, and all others.
CREATE MACRO _outlier_sides(
    of_values,  -- the name of a table with the rows of `_labelled_captures`
    selector, key
) AS TABLE
WITH outlier_captures AS (
    SELECT v.capture_id, CASE WHEN v.value = v.least THEN 'new' ELSE 'base' END AS side,
        concat_ws(
            ',', selector::VARCHAR,
            concat("key", CASE WHEN v.value = v.least THEN '=' ELSE '!=' END, _selector_value("key", v.least))
        ) AS selector
    FROM (SELECT o.*, min(o.value) OVER () AS least FROM query_table(of_values) AS o) AS v
)
FROM _placed_sides('outlier_captures');

-- The comparisons of samples.
CREATE MACRO _outliers_of(
    of_values,  -- as in `_outlier_sides`
    sampled,  -- the name of a table with the rows of `_comparison_samples`
    unit, phase, alpha, min_effect, allow_mismatch
) AS TABLE
WITH measured_captures AS (SELECT v.capture_id FROM query_table(of_values) AS v),
input AS (
    SELECT a.samples, a.ops, (SELECT list(c) FROM _conditions('measured_captures') AS c) AS conditions,
        (SELECT list({'capture_id': v.capture_id, 'value': v.value}) FROM query_table(of_values) AS v) AS of_captures,
        a.counted[2] IS NULL AS is_one_clock, a.counted
    FROM (
        SELECT list(s) FILTER (WHERE s.level <> 'to align') AS samples,
            list({
                'capture_id': s.capture_id, 'op_index': s.place::BIGINT, 'program': s.op, 'name': s.item,
                'is_by_module': s.matched = 'module', 'ticks': s.ticks
            } ORDER BY s.capture_id, s.place) FILTER (WHERE s.level = 'to align') AS ops,
            list_sort(list_distinct(list(s.counted) FILTER (WHERE s.level = 'total'))) AS counted
        FROM query_table(sampled) AS s
    ) AS a
    WHERE _has_valid_options(alpha, min_effect, phase)
),
answer AS (
    SELECT needs_etq_to_compare_each(
            i.samples, i.ops, [], i.conditions, i.of_captures, i.is_one_clock, alpha::DOUBLE, min_effect::DOUBLE,
            phase::VARCHAR, allow_mismatch::BOOLEAN
        ) AS decided, i.counted
    FROM input AS i
)
FROM _comparison_answer('answer', unit);

-- Needs etq: in DuckDB alone, it is an error.
-- One value of a label, such as a device, against all others: the captures that have it, compared with the others that
-- `selector` chooses, by the rules of `compare_captures`. The verdicts of all values share one probability of a false
-- verdict. With `what := 'op'`, a row is one op of a value, with all its instances in `compare_ops`.
-- Shown: value!, op!, verdict! (verdict), change_percent! (change), low_percent (interval), high_percent%, in_ops!, base!
--   (time), new! (time), unit, common_percent (change), instances#, slower_instances#, captures#, q (probability), note|
-- Columns:
--   value: value of the label
--   method: the method that ran; if unknown, the name of its runs; for traces, the kind of steps, with ` on devices` for times there
--   op: op type, or name without serial numbers; NULL for totals
--   verdict: verdict on the total, as in `compare_captures`; for an op, the verdict on the instance that changed most
--   change_percent: change in percent of the time in all others; for an op, of all instances together, without the common shift
--   low_percent: lower end of its interval: with a probability of 95 %, the intervals of all values contain their changes; for several instances, the sum of the instances' lower ends
--   high_percent: upper end of that interval
--   in_ops: which ops differ: all ops, those named, or both; NULL for ops, and where none does
--   base: time in all others, median over captures
--   new: time in the captures of this value, median over captures
--   unit: unit of base and new
--   common_percent: common shift of all ops against all others, in percent; NULL where unknown
--   instances: number of instances of an op; NULL for totals
--   slower_instances: number of these instances that are slower; NULL for totals
--   captures: number of captures of this value that were used; disturbed ones are excluded
--   other_captures: number of captures of all others that were used
--   q: probability of a difference this large by chance, corrected over values and ops
--   note: why no verdict is possible, or what is needed for one
CREATE MACRO outliers(
    selector := NULL,
    "by" := 'device',  -- the label whose values are compared
    what := 'total',  -- total or op; NULL: both
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25, phase := NULL, alpha := 0.05, min_effect := NULL, allow_mismatch := false
) AS TABLE
WITH compared AS MATERIALIZED (
    FROM _outliers(
        selector, CASE
            WHEN what NOT IN ('total', 'op') THEN error('what must be ''total'' or ''op'', not ' || what)
            ELSE "by"
        END, unit, quantile, phase, alpha, min_effect, allow_mismatch
    )
),
listed AS (
    SELECT c.value, c.scope AS method, NULL AS op, c.verdict, c.change_percent, c.low_percent, c.high_percent, c.in_ops,
        c.base, c.new, c.unit, c.comparison, NULL AS instances, NULL AS slower_instances, c.new_captures,
        c.base_captures, c.p AS q, c.note
    FROM compared AS c
    WHERE coalesce(what, 'total') = 'total' AND c.level = 'total'
    UNION ALL
    SELECT c.value, c.scope, c.op,
        arg_max(c.verdict, (c.verdict IN ('slower', 'faster'), coalesce(abs(c.change * c.base), 0), c.verdict)),
        CASE count(*) WHEN 1 THEN any_value(c.change_percent) ELSE sum(c.change_percent * c.base) / sum(c.base) END,
        CASE WHEN count(*) = count(c.low_percent) THEN sum(c.low_percent * c.base) / sum(c.base) END,
        CASE WHEN count(*) = count(c.high_percent) THEN sum(c.high_percent * c.base) / sum(c.base) END, NULL,
        sum(c.base), sum(c.new), c.unit, c.comparison, count(*), count(*) FILTER (WHERE c.verdict = 'slower'),
        max(c.new_captures), max(c.base_captures), min(c.q), CASE WHEN min(c.note) = max(c.note) THEN min(c.note) END
    FROM compared AS c
    WHERE coalesce(what, 'op') = 'op' AND c.level = 'op'
    GROUP BY c.value, c.scope, c.op, c.unit, c.comparison
)
SELECT l.value, l.method, l.op, l.verdict, l.change_percent, l.low_percent, l.high_percent, l.in_ops, l.base, l.new,
    l.unit, s.change_percent AS common_percent, l.instances, l.slower_instances, l.new_captures AS captures,
    l.base_captures AS other_captures, l.q, l.note
FROM listed AS l
LEFT JOIN compared AS s ON s.level = 'common shift' AND s.value = l.value AND s.comparison = l.comparison
ORDER BY list_position(['slower', 'faster', 'unstable'], l.verdict) NULLS LAST, l.in_ops IS NULL,
    abs(l.low_percent + l.high_percent) DESC NULLS LAST, l.value, l.method, l.op;
