-- One device event of a trace with what it waited for: the last of its launch and
-- the previous end in its stream; or, if it waited longer than 10 us from then on, and
-- than half of it for the call to return, the event of another stream that was the
-- last to end, if it started at most 10 us after that, as in `device_idle`.
-- Columns:
--   event_index: the event
--   start_ticks: clock at the start
--   end_ticks: clock at the end
--   kind: launch_delay, stream_delay, dependency; NULL if nothing is known that it waited for
--   from_ticks: clock when it was launched, or when that ended which it waited for
--   from_event: event that it waited for; NULL if that is the launch
--   from_thread: thread of the launch; NULL if it waited for an event
CREATE MACRO _path_work(
    capture_key  -- key of a capture
) AS TABLE
WITH
work AS MATERIALIZED (
    SELECT w.* FROM _device_work(capture_key) AS w WHERE w.end_ticks > w.start_ticks
),
started AS (
    SELECT
        w.event_index,
        w.start_ticks,
        w.end_ticks,
        coalesce(w.device, -1) AS device,
        coalesce(w.stream, -1) AS stream,
        w.call_thread,
        least(w.call_start_ticks, w.start_ticks) AS launch_ticks,
        w.call_end_ticks
    FROM work AS w
),
ended_in_stream AS (
    SELECT s.device, s.stream, s.end_ticks, max(s.event_index) AS event_index
    FROM started AS s
    GROUP BY s.device, s.stream, s.end_ticks
),
ended AS (
    SELECT s.end_ticks, max(s.event_index) AS event_index
    FROM started AS s
    GROUP BY s.end_ticks
),
queued AS (
    SELECT
        s.*,
        p.end_ticks AS stream_ticks,
        p.event_index AS stream_event
    FROM started AS s
    ASOF LEFT JOIN ended_in_stream AS p
        ON p.device = s.device AND p.stream = s.stream AND s.start_ticks >= p.end_ticks
),
waited AS (
    SELECT
        q.*,
        greatest(q.launch_ticks, q.stream_ticks) AS ready_ticks,
        o.end_ticks AS other_ticks,
        o.event_index AS other_event
    FROM queued AS q
    ASOF LEFT JOIN ended AS o ON q.start_ticks >= o.end_ticks
),
judged AS (
    SELECT
        w.*,
        CASE
            WHEN w.start_ticks - w.other_ticks <= 10000
                AND (w.ready_ticks IS NULL OR w.other_ticks > w.ready_ticks)
                AND (
                    w.launch_ticks IS NULL
                    OR w.start_ticks - w.ready_ticks > greatest(
                        10000,
                        2 * (
                            least(w.call_end_ticks, w.start_ticks)
                            - greatest(w.launch_ticks, w.ready_ticks)
                        )
                    )
                )
                THEN 'dependency'
            WHEN w.stream_ticks >= w.launch_ticks OR w.launch_ticks IS NULL
                THEN CASE WHEN w.stream_ticks IS NOT NULL THEN 'stream_delay' END
            ELSE 'launch_delay'
        END AS kind
    FROM waited AS w
)
SELECT
    j.event_index,
    j.start_ticks,
    j.end_ticks,
    j.kind,
    CASE j.kind
        WHEN 'dependency' THEN j.other_ticks
        WHEN 'stream_delay' THEN j.stream_ticks
        WHEN 'launch_delay' THEN j.launch_ticks
    END AS from_ticks,
    CASE j.kind
        WHEN 'dependency' THEN j.other_event
        WHEN 'stream_delay' THEN j.stream_event
    END AS from_event,
    CASE j.kind WHEN 'launch_delay' THEN j.call_thread END AS from_thread
FROM judged AS j;

-- One node of the graph in which a critical path is searched: a device event, at its
-- end; a moment of `_path_waits`; and the end of the part that is requested, node -1.
-- Each has one predecessor: what it waited for. Before a node there are up to three
-- stretches of time: of the device event itself, of the wait for what came before,
-- and of the thread that then ran, from its own last wait on.
-- Columns:
--   node: twice the index of the event, plus 1 if the moment is its end; -1 at the end
--   event_index: the event; NULL at the end
--   kind: as in `_path_work` and `_path_waits`; NULL if nothing is known that it waited for, and at the end
--   start_ticks: clock at the start of a device event, else at the moment
--   end_ticks: clock at the moment
--   from_ticks: clock when that ended which it waited for; NULL if nothing is known
--   thread_index: thread that ran before; NULL if a device event did
--   host_ticks: clock of the last wait of that thread; NULL if there is none
--   before: the node before; NULL if there is none
CREATE MACRO _path_nodes(
    capture_key,  -- key of a capture
    begin_ticks,  -- clock at the start of the requested part
    until_ticks,  -- clock at its end
    last_thread  -- thread in which the path ends if it does not end in a device
) AS TABLE
WITH
waits AS MATERIALIZED (
    SELECT w.*
    FROM _path_waits(capture_key, last_thread) AS w
    WHERE w.at_ticks > begin_ticks AND w.at_ticks <= until_ticks
),
work AS MATERIALIZED (
    SELECT w.*
    FROM _path_work(capture_key) AS w
    WHERE w.end_ticks > begin_ticks AND w.end_ticks <= until_ticks
),
last_work AS (
    SELECT max(w.event_index) AS event_index
    FROM work AS w
    WHERE w.end_ticks = until_ticks
),
moments AS (
    SELECT
        2 * w.event_index::BIGINT + 1 AS node,
        w.event_index,
        w.kind,
        w.start_ticks,
        w.end_ticks,
        w.from_ticks,
        w.from_event,
        w.from_thread
    FROM work AS w
    UNION ALL
    SELECT
        w.node, w.event_index, w.kind, w.at_ticks, w.at_ticks, w.from_ticks,
        w.from_event, w.from_thread
    FROM waits AS w
    UNION ALL
    SELECT
        -1, NULL, NULL, until_ticks, until_ticks, until_ticks, l.event_index,
        CASE WHEN l.event_index IS NULL THEN last_thread END
    FROM last_work AS l
),
arrived AS (
    SELECT m.*, w.at_ticks AS host_ticks, w.node AS host_node
    FROM (SELECT m.* FROM moments AS m WHERE m.from_thread IS NOT NULL) AS m
    ASOF LEFT JOIN waits AS w
        ON w.thread_index = m.from_thread AND m.from_ticks >= w.at_ticks
    UNION ALL
    SELECT m.*, NULL, NULL
    FROM moments AS m
    WHERE m.from_thread IS NULL
)
SELECT
    a.node,
    a.event_index,
    a.kind,
    a.start_ticks,
    a.end_ticks,
    a.from_ticks,
    a.from_thread AS thread_index,
    a.host_ticks,
    CASE
        WHEN a.from_event IS NULL THEN a.host_node
        WHEN a.from_ticks > begin_ticks THEN 2 * a.from_event::BIGINT + 1
    END AS before
FROM arrived AS a;

-- The nodes of `_path_nodes` on the path that ends in node -1. Algorithm: pointer
-- doubling, as a walk of one node at a time takes a round for each. In round k each
-- node knows the one 2**k before it; those of marked nodes get marked.
-- Columns: as in `_path_nodes`
CREATE MACRO _path_walk(
    capture_key,  -- key of a capture
    begin_ticks,  -- as in `_path_nodes`
    until_ticks,  -- as in `_path_nodes`
    last_thread  -- as in `_path_nodes`
) AS TABLE
WITH RECURSIVE
nodes AS MATERIALIZED (
    SELECT n.*
    FROM _path_nodes(capture_key, begin_ticks, until_ticks, last_thread) AS n
),
rounds AS (
    SELECT 0 AS round, n.node, n.before, n.node = -1 AS is_marked
    FROM nodes AS n
    UNION ALL
    SELECT
        r.round + 1,
        r.node,
        j.before,
        r.is_marked OR m.before IS NOT NULL
    FROM rounds AS r
    LEFT JOIN rounds AS j ON j.node = r.before
    LEFT JOIN rounds AS m ON m.is_marked AND m.before = r.node
    WHERE EXISTS (FROM rounds AS a WHERE a.is_marked AND a.before IS NOT NULL)
)
SELECT n.*
FROM nodes AS n
JOIN rounds AS r ON r.node = n.node
WHERE r.is_marked
QUALIFY r.round = max(r.round) OVER ();
