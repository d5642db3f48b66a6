-- The time of a trace, of its steps if it has any, by nested events, for traces without modules. Nodes that are too
-- narrow to see are merged into those around them.
CREATE MACRO _nested_times(capture, unit := NULL) AS TABLE
WITH nodes AS MATERIALIZED (
    SELECT t.node_index, t.parent_index, t.path, t.calls, coalesce(t.per_execute * t.executes, t.total) AS total, t.unit
    FROM time_tree(capture, "by" := 'event', unit := unit, runs := 'all') AS t
    WHERE t.depth > 0 AND t.share_percent >= 0.02
),
children AS (SELECT n.parent_index, sum(n.total) AS total FROM nodes AS n GROUP BY n.parent_index)
SELECT n.node_index, array_to_string(n.path, chr(31)) AS path, n.calls,
    greatest(n.total - coalesce(c.total, 0), 0) AS self_time, n.unit
FROM nodes AS n
LEFT JOIN children AS c ON c.parent_index = n.node_index;
