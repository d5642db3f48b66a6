-- How many launches of a trace have no device event. Launches that a graph records run in its replays, and are not
-- counted. Because ids may be repeated, a kernel without a call, or a second kernel of the same call, may belong to a
-- launch that seems to have none: the number of lost launches is reduced by the number of these kernels. `call` is the
-- most frequent name of the launches.
CREATE MACRO _lost_launches(capture_key) AS TABLE
WITH calls AS (
    SELECT s.label, t.lost_launches
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t ON t.event_signature = s.signature_index
    WHERE s.activity = 'call' AND s.purpose = 'launch' AND t.captured_launches IS NULL
),
spare AS (
    SELECT coalesce(sum(k.kernels - (k.call_index IS NOT NULL)::INTEGER), 0) AS kernels
    FROM (
        SELECT l.call_index, count(*) AS kernels
        FROM _launches(capture_key) AS l
        LEFT JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS n ON n.signature_index = l.call_signature
        WHERE (l.kind = 'kernel' OR l.call_index IS NOT NULL) AND NOT coalesce(contains(n.label, 'Graph'), false)
        GROUP BY l.call_index
    ) AS k
)
SELECT count(*) AS launches, count(*) FILTER (WHERE c.lost_launches > 0) - (SELECT s.kernels FROM spare AS s) AS lost,
    mode(c.label ORDER BY c.label) FILTER (WHERE c.lost_launches > 0) AS call
FROM calls AS c;
