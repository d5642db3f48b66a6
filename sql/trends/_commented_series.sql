-- The totals and ops of series of captures with their times, one row of an item of a series. Values are logarithms; the
-- values of ops are without the common shift.
CREATE MACRO _series_items(
    ordered,  -- the name of a table with the rows of `_series_factors`
    phase
) AS TABLE
SELECT i.*, CASE WHEN i.is_total THEN 'total' ELSE 'op' END AS what,
    CASE WHEN i.is_total THEN i.scope ELSE i.op || coalesce('@' || i.instruction_id, '') END AS name
FROM (
    SELECT d.series, o.item, o.op_index = 0 AS is_total, o.scope,
        arg_max(coalesce(o.op_type, o.family), d.position) AS op, arg_max(o.module_path, d.position) AS module_path,
        arg_max(o.instruction_id, d.position) AS instruction_id, median(o.p25 * d.scale) AS ticks,
        bool_or(d.is_cycles) AS is_cycles, any_value(o.kind) AS kind,
        -- As in comparisons, ops that at least half of the captures have.
        CASE
            WHEN 2 * count(*) FILTER (WHERE _is_clock_coarse(o.p25, o.resolution)) >= count(*)
                THEN max(o.resolution * d.scale) FILTER (WHERE _is_clock_coarse(o.p25, o.resolution))
            ELSE 0
        END AS resolution,
        list(d.position) AS positions, list(d.build) AS builds,
        list(
            ln(o.p25 * d.scale) - CASE WHEN o.op_index = 0 OR _is_device_time(o.kind) THEN 0 ELSE d.factor END
        ) AS values
    FROM query_table(ordered) AS d
    JOIN op_times AS o USING (capture_id)
    WHERE o.phase IS NOT DISTINCT FROM _checked_phase(phase) AND o.p25 > 0
    GROUP BY d.series, o.op_index = 0, o.scope, o.item
) AS i;

-- The rows of `_series_factors`, with comments that follow from others: a change of a total is accepted where the
-- changes of ops that were accepted explain at least half of it, within 2 captures. The change of the total then has
-- the latest of the comments on these ops. The item of the total of all methods together is empty.
CREATE MACRO _commented_series(selector, over, "by", phase, alpha, min_effect, is_lenient := false) AS TABLE
WITH placed AS MATERIALIZED (FROM _series_factors(selector, over, "by", phase, is_lenient := is_lenient)),
comments AS MATERIALIZED (
    SELECT d.series, d.position, unnest(d.comments, recursive := true) FROM placed AS d
),
affected AS MATERIALIZED (
    SELECT d.* FROM placed AS d
    WHERE d.series IN (SELECT c.series FROM comments AS c WHERE c.verdict = 'accepted' AND c.what = 'op')
),
found AS MATERIALIZED (SELECT i.* FROM _series_items('affected', phase) AS i),
items AS MATERIALIZED (
    SELECT e.*, row_number() OVER () AS number
    FROM (
        SELECT f.series, f.scope, f.item, f.what, f.name, f.ticks, f.resolution, f.positions, f.builds, f.values,
            f.is_total AND f.kind <> 'device_total' AS is_of_all
        FROM found AS f
        UNION ALL
        SELECT a.series, NULL, NULL, 'total', '', 0, 0, list(a.position), list(a.build), list(ln(a.ticks)), false
        FROM (
            SELECT d.series, d.position, d.build, sum(o.p25 * d.scale) AS ticks
            FROM affected AS d
            JOIN op_times AS o USING (capture_id)
            WHERE o.phase IS NOT DISTINCT FROM _checked_phase(phase) AND o.op_index = 0 AND o.kind <> 'device_total'
            GROUP BY d.series, d.position, d.build
        ) AS a
        WHERE a.ticks > 0
        GROUP BY a.series
    ) AS e
),
accepted AS MATERIALIZED (
    SELECT i.number, c.*
    FROM comments AS c
    JOIN items AS i ON i.series = c.series AND _is_comment_on(c, i.what, i.name, i.item)
    WHERE c.verdict = 'accepted'
),
resets AS (
    SELECT c.number, bool_or(c.what = 'op') AS is_of_op, list(c.position) FILTER (WHERE c.kind <> 'creep') AS steps,
        list(c.position) FILTER (WHERE c.kind = 'creep') AS creeps
    FROM accepted AS c
    GROUP BY c.number
),
changes AS MATERIALIZED (
    SELECT i.number, i.series, i.scope, i.item, i.what, i.name, i.is_of_all, f.kind, f.first_bad, f.is_accepted,
        exp(f.before) * (exp(f.step) - 1) AS cost
    FROM (SELECT unnest(
        needs_etq_to_find_changes(
            (
                SELECT list({
                    'series': i.number, 'family': 1, 'positions': i.positions, 'builds': i.builds,
                    'values': i.values, 'steps': coalesce(r.steps, []), 'creeps': coalesce(r.creeps, []),
                    'resolution': i.resolution, 'total': 0
                })
                FROM items AS i
                LEFT JOIN resets AS r ON r.number = i.number
                WHERE i.what = 'total' OR r.is_of_op
            ),
            ln(1 + min_effect), alpha::DOUBLE
        ),
        recursive := true
    )) AS f
    JOIN items AS i ON i.number = f.series
    WHERE f.kind <> 'stretch' AND f.stage IN ('kept', 'not kept yet')
),
-- The scopes whose times are the sums over all methods.
scopes AS (SELECT DISTINCT i.series, i.scope FROM items AS i WHERE i.is_of_all),
explained AS (
    SELECT t.number, any_value(t.series) AS series, t.first_bad AS position, any_value(t.name) AS name,
        any_value(t.item) AS item, t.kind, list(o.number) AS ops
    FROM changes AS t
    JOIN changes AS o ON o.series = t.series AND abs(o.first_bad - t.first_bad) <= 2
    LEFT JOIN scopes AS s ON s.series = o.series AND s.scope = o.scope
    WHERE t.what = 'total'
        AND NOT t.is_accepted
        AND o.what = 'op'
        AND o.is_accepted
        AND (o.scope = t.scope OR t.scope IS NULL AND s.scope IS NOT NULL)
    GROUP BY t.number, t.first_bad, t.kind
    HAVING 2 * sum(o.cost) / any_value(t.cost) >= 1
),
derived AS (
    SELECT e.series, e.position,
        list({
            'comment_id': c.comment_id, 'what': 'total', 'item': e.name, 'identity': e.item, 'kind': e.kind,
            'verdict': 'accepted', 'text': c.text, 'author': c.author, 'written_at': c.written_at
        }) AS comments
    FROM explained AS e
    JOIN accepted AS c
        ON c.series = e.series AND list_contains(e.ops, c.number) AND abs(c.position - e.position) <= 2
    GROUP BY e.series, e.position
)
SELECT p.* REPLACE (list_concat(p.comments, d.comments) AS comments)
FROM placed AS p
LEFT JOIN derived AS d ON d.series = p.series AND d.position = p.position;
