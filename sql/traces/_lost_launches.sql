-- How many launches of a trace have no event of a device. Launches that a graph records run in its replays: those between
-- the calls that begin and end a capture in their thread are not counted. As many others have an event as events share
-- their call with another, or kernels have none: ids may be repeated. `call` is the name of most of them.
CREATE MACRO _lost_launches(capture_key) AS TABLE
WITH names AS MATERIALIZED (
    SELECT s.signature_index, s.label, s.purpose = 'launch' AND NOT contains(s.label, 'HostFunc') AS launches,
        CASE
            WHEN contains(s.label, 'BeginCapture') THEN 1
            WHEN contains(s.label, 'EndCapture') THEN -1
            ELSE 0
        END AS capture
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.activity = 'call'
),
calls AS (
    SELECT n.label, n.launches, t.lost_launches,
        sum(n.capture) OVER (
            PARTITION BY t.thread_index ORDER BY e.start_ticks, e.event_index ROWS UNBOUNDED PRECEDING
        ) > 0 AS is_captured
    FROM names AS n
    JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e USING (signature_index)
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t USING (event_index)
    WHERE n.launches OR n.capture <> 0
),
spare AS (
    SELECT coalesce(sum(k.kernels - (k.call_index IS NOT NULL)::INTEGER), 0) AS kernels
    FROM (
        SELECT l.call_index, count(*) AS kernels
        FROM _launches(capture_key) AS l
        LEFT JOIN _event_labels(capture_key) AS n ON n.event_index = l.call_index
        WHERE (l.kind = 'kernel' OR l.call_index IS NOT NULL) AND NOT coalesce(contains(n.label, 'Graph'), false)
        GROUP BY l.call_index
    ) AS k
)
SELECT count(*) AS launches, count(*) FILTER (WHERE c.lost_launches > 0) - (SELECT s.kernels FROM spare AS s) AS lost,
    mode(c.label ORDER BY c.label) FILTER (WHERE c.lost_launches > 0) AS call
FROM calls AS c
WHERE c.launches AND NOT c.is_captured;
