-- The difference between the value of a node of the edge graphs of a side of a comparison of graphs and the right one,
-- as in `node_gaps`.
CREATE MACRO _graph_gaps(
    sides,  -- the name of a table with the rows of `_graph_sides`
    reference, metric
) AS TABLE
WITH reference_key AS MATERIALIZED (
    SELECT
        CASE
            WHEN reference IS NULL THEN NULL
            WHEN count(*) = 0 THEN error('no capture matches ' || reference::VARCHAR)
            WHEN count(*) > 1 THEN error(reference::VARCHAR || ' matches ' || count(*) || ' captures; name one')
            WHEN any_value(k.record_id) IS NULL THEN error(
                reference::VARCHAR || ' has no record, whose debug handles identify '
                || 'values; link one: etq link ' || reference::VARCHAR || ' RECORD'
            )
            WHEN (SELECT count(s.capture_id) FROM query_table(sides) AS s) = 0
                THEN error(
                    'both sides are records; values can only be compared with those of '
                    || reference::VARCHAR || ' if a side is a capture'
                )
            ELSE any_value(k.capture_id)
        END AS capture_id
    FROM _matching_captures(reference) AS m
    JOIN captures AS k USING (capture_id)
),
-- Without two different captures there is nothing to compare.
judged AS MATERIALIZED (
    SELECT p.*
    FROM (
        SELECT s.is_base AS pair, coalesce(r.capture_id, max(s.capture_id) FILTER (s.is_base) OVER ()) AS base_key,
            s.capture_id AS new_key
        FROM query_table(sides) AS s CROSS JOIN reference_key AS r
    ) AS p
    WHERE p.base_key <> p.new_key
)
SELECT g.pair AS is_base, g.graph_id, g.node_index, g.debug_handle, g.gap, g.grows,
    CASE
        WHEN g.pair THEN replace(replace(g.problem, 'in base', 'in the reference'), 'in new', 'in base')
        WHEN reference IS NULL THEN g.problem
        ELSE replace(g.problem, 'in base', 'in the reference')
    END AS problem
FROM _node_gaps('judged', metric) AS g;
