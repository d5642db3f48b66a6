-- One part of the critical path of a trace, with the op, annotation or function that its time counts for.
CREATE MACRO _path_shares(capture_key, step, step_name) AS TABLE
WITH families AS MATERIALIZED (
    SELECT s.signature_index, s.family
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
)
SELECT CASE WHEN p.kind NOT IN ('unknown', 'unknown_wait') THEN f.family END AS op, p.call, p.cause,
    CASE WHEN p.kind IN ('kernel', 'memcpy', 'memset') THEN p.label END AS kernel,
    p.kind IN ('op', 'call', 'annotation', 'python', 'other', 'host') AS is_host, p.end_ticks - p.start_ticks AS ticks
FROM _path_elements(capture_key, step, step_name) AS p
LEFT JOIN event_ticks AS e ON e.capture_id = capture_key AND e.event_index = coalesce(p.op_index, p.event_index)
LEFT JOIN families AS f ON f.signature_index = e.signature_index;

-- The time of one op on the critical path of a trace.
CREATE MACRO _path_totals(capture_key, step, step_name) AS TABLE
WITH by_event AS (
    SELECT n.op, n.call, n.kernel, try_cast(sum(n.ticks) AS BIGINT) AS ticks,
        _sum_where(n.ticks, n.is_host) AS host_ticks, count(*) AS parts
    FROM _path_shares(capture_key, step, step_name) AS n
    GROUP BY n.op, n.call, n.kernel
)
SELECT r.op, try_cast(sum(r.ticks) AS BIGINT) AS ticks, try_cast(sum(r.host_ticks) AS BIGINT) AS host_ticks,
    _sum_where(r.ticks, r.kernel IS NOT NULL) AS device_ticks,
    arg_min(r.call, (-r.ticks, r.call)) FILTER (WHERE r.call IS NOT NULL) AS call,
    arg_min(r.kernel, (-r.ticks, r.kernel)) FILTER (WHERE r.kernel IS NOT NULL) AS kernel, sum(r.parts)::BIGINT AS parts
FROM by_event AS r
GROUP BY r.op;
