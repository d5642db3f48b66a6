-- One node of the graph in which a critical path is searched: a device event, at its end; a moment of a thread; and the
-- end of the part that is requested, node -1. Each has one predecessor: what it waited for. Before a node there are up
-- to three stretches of time: of the device event itself, of the wait for what came before, and of the thread that then
-- ran, from its own last wait on.
CREATE MACRO _path_nodes(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    begin_ticks,  -- clock at the start of the requested part
    until_ticks,  -- clock at its end
    last_thread  -- thread in which the path ends if it does not end in a device
) AS TABLE
WITH moments AS MATERIALIZED (
    FROM _path_moments(capture_key, launches, last_thread) AS m
    WHERE m.end_ticks > begin_ticks AND m.end_ticks <= until_ticks
),
last_work AS (
    SELECT max(m.event_index) AS event_index FROM moments AS m WHERE m.end_ticks = until_ticks AND NOT m.is_host
),
all_moments AS (
    SELECT m.node, m.event_index, m.kind, m.start_ticks, m.end_ticks, m.from_ticks, m.from_event, m.from_thread
    FROM moments AS m
    UNION ALL
    SELECT -1, NULL, NULL, until_ticks, until_ticks, until_ticks, l.event_index,
        CASE WHEN l.event_index IS NULL THEN last_thread END
    FROM last_work AS l
),
waits AS (SELECT m.node, m.thread_index, m.end_ticks FROM moments AS m WHERE m.is_host),
arrived AS (
    SELECT m.*, w.end_ticks AS host_ticks, w.node AS host_node
    FROM (SELECT m.* FROM all_moments AS m WHERE m.from_thread IS NOT NULL) AS m
    ASOF LEFT JOIN waits AS w ON w.thread_index = m.from_thread AND row(m.from_ticks) >= row(w.end_ticks)
    UNION ALL
    SELECT m.*, NULL, NULL FROM all_moments AS m WHERE m.from_thread IS NULL
)
SELECT a.node, a.event_index, a.kind, a.start_ticks, a.end_ticks, a.from_ticks, a.from_thread AS thread_index,
    a.host_ticks,
    CASE
        WHEN a.from_event IS NULL THEN a.host_node
        WHEN a.from_ticks > begin_ticks THEN 2 * a.from_event::BIGINT + 1
    END AS before
FROM arrived AS a;

-- The nodes of `_path_nodes` on the path that ends in node -1.
CREATE MACRO _path_walk(capture_key, launches, begin_ticks, until_ticks, last_thread) AS TABLE
WITH nodes AS MATERIALIZED (
    SELECT n.*, n.node = -1 AS is_last
    FROM _path_nodes(capture_key, launches, begin_ticks, until_ticks, last_thread) AS n
)
FROM _walked('nodes');

-- The nodes that paths go through, of which each has one predecessor, `before`. Algorithm: pointer doubling, as a walk of
-- one node at a time takes a round for each. In round k each node knows the one 2**k before it; those of marked nodes get
-- marked.
CREATE MACRO _walked(
    nodes  -- a table of the nodes: node, before, and is_last, whether a path ends there
) AS TABLE
WITH RECURSIVE rounds AS (
    SELECT 0 AS round, n.node, n.before, n.is_last AS is_marked FROM query_table(nodes) AS n
    UNION ALL
    SELECT r.round + 1, r.node, j.before, r.is_marked OR m.before IS NOT NULL
    FROM rounds AS r
    LEFT JOIN rounds AS j ON j.node = r.before
    LEFT JOIN rounds AS m ON m.is_marked AND m.before = r.node
    WHERE EXISTS (FROM rounds AS a WHERE a.is_marked AND a.before IS NOT NULL)
)
SELECT n.*
FROM query_table(nodes) AS n
JOIN rounds AS r USING (node)
WHERE r.is_marked
QUALIFY r.round = max(r.round) OVER ();

-- One stretch of time on the critical path of a part of a trace. Stretches follow each other without a gap, from its
-- start to its end.
CREATE MACRO _path_stretches(capture_key, launches, begin_ticks, until_ticks, last_thread) AS TABLE
WITH walk AS MATERIALIZED (FROM _path_walk(capture_key, launches, begin_ticks, until_ticks, last_thread) AS p),
stretches AS (
    SELECT 'device' AS kind, p.start_ticks, p.end_ticks, p.event_index, NULL::INTEGER AS thread_index FROM walk AS p
    UNION ALL
    SELECT coalesce(p.kind, 'unknown'), coalesce(p.from_ticks, begin_ticks), p.start_ticks, p.event_index, NULL
    FROM walk AS p
    UNION ALL
    SELECT 'host', coalesce(p.host_ticks, begin_ticks), p.from_ticks, NULL, p.thread_index
    FROM walk AS p
    WHERE p.thread_index IS NOT NULL
)
SELECT s.kind, greatest(s.start_ticks, begin_ticks) AS start_ticks, s.end_ticks, s.event_index, s.thread_index
FROM stretches AS s
WHERE s.end_ticks > greatest(s.start_ticks, begin_ticks);
