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

-- One stretch of time on the critical path of a trace. Stretches follow each other without a gap, from the start to the
-- end. Algorithm: the path is searched in a graph of nodes: device events, at their ends; moments of threads; and the
-- end of the part that is requested, node -1. Each has one predecessor: what it waited for. Before a node there are up
-- to three stretches: of the device event itself, of the wait for what came before, and of the thread that then ran,
-- from its own last wait on. The path of a whole recording begins with its first device event, if it is unknown what
-- that event waited for during most of the time until then.
CREATE MACRO _path_spans(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    path_window,  -- a table of the row of `_path_window`
    is_recording  -- whether that is the whole recording
) AS TABLE
WITH moments AS MATERIALIZED (
    SELECT m.*
    FROM _path_moments(capture_key, launches) AS m
    JOIN query_table(path_window) AS p ON m.end_ticks > p.start_ticks AND m.end_ticks <= p.end_ticks
),
all_moments AS (
    SELECT m.node, m.event_index, m.kind, m.start_ticks, m.end_ticks, m.from_ticks, m.from_event, m.from_thread
    FROM moments AS m
    UNION ALL
    SELECT -1, NULL, NULL, p.end_ticks, p.end_ticks, p.end_ticks, max(m.event_index),
        CASE WHEN max(m.event_index) IS NULL THEN p.thread_index END
    FROM query_table(path_window) AS p
    LEFT JOIN moments AS m ON m.end_ticks = p.end_ticks AND NOT m.is_host
    GROUP BY p.end_ticks, p.thread_index
),
nodes AS MATERIALIZED (
    SELECT m.node, m.event_index, m.kind, m.start_ticks, m.end_ticks, m.from_ticks, m.from_thread AS thread_index,
        w.end_ticks AS host_ticks, m.node = -1 AS is_last,
        CASE
            WHEN m.from_event IS NULL THEN w.node
            WHEN m.from_ticks > p.start_ticks THEN m.from_event
        END AS before
    FROM all_moments AS m CROSS JOIN query_table(path_window) AS p
    ASOF LEFT JOIN (FROM moments AS i WHERE i.is_host) AS w
        ON w.thread_index = coalesce(m.from_thread, -1) AND row(m.from_ticks) >= row(w.end_ticks)
),
walk AS MATERIALIZED (FROM _walked('nodes')),
stretches AS (
    SELECT 'device' AS kind, w.start_ticks, w.end_ticks, w.event_index, NULL::INTEGER AS thread_index FROM walk AS w
    UNION ALL
    SELECT coalesce(w.kind, 'unknown'), w.from_ticks, w.start_ticks, w.event_index, NULL FROM walk AS w
    UNION ALL
    SELECT 'host', w.host_ticks, w.from_ticks, NULL, w.thread_index FROM walk AS w WHERE w.thread_index IS NOT NULL
),
-- With the start of the first device event.
whole AS (
    -- Times that are unknown reach back to the start.
    SELECT s.* REPLACE (greatest(s.start_ticks, p.start_ticks) AS start_ticks), p.start_ticks AS begin_ticks,
        min(CASE WHEN s.kind = 'device' THEN greatest(s.start_ticks, p.start_ticks) END) OVER () AS device_ticks
    FROM stretches AS s CROSS JOIN query_table(path_window) AS p
    WHERE s.end_ticks > greatest(s.start_ticks, p.start_ticks)
)
SELECT s.kind, s.start_ticks, s.end_ticks, s.event_index, s.thread_index
FROM whole AS s
QUALIFY coalesce(
    s.start_ticks >= max(
        CASE
            WHEN is_recording
                AND s.kind IN ('unknown', 'unknown_wait')
                AND s.end_ticks <= s.device_ticks
                AND 2 * (s.end_ticks - s.start_ticks) > s.end_ticks - s.begin_ticks
                THEN s.end_ticks
        END
    ) OVER (),
    true
);
