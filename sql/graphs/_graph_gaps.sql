-- The difference between the value of a node of the edge graphs of a side of a comparison of graphs and the right one,
-- as in `node_gaps`.
CREATE MACRO _graph_gaps(
    sides,  -- the name of a table with the rows of `_graph_sides`
    reference, metric
) AS TABLE
-- Without two different captures there is nothing to compare.
WITH judged AS MATERIALIZED (
    SELECT p.*
    FROM (
        SELECT s.is_base AS pair,
            CASE
                WHEN s.reference_key IS NULL THEN max(s.capture_id) FILTER (s.is_base) OVER ()
                WHEN count(s.capture_id) OVER () = 0 THEN error(
                    'both sides are records; values can only be compared with those of '
                    || reference::VARCHAR || ' if a side is a capture'
                )
                ELSE s.reference_key
            END AS base_key,
            s.capture_id AS new_key
        FROM query_table(sides) AS s
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
