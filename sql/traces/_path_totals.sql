-- One part of the critical path of a trace with what its time counts for.
CREATE MACRO _path_shares(capture_key, step, step_name) AS TABLE
WITH
families AS MATERIALIZED (
    SELECT s.signature_index, s.family
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id
)
SELECT
    CASE WHEN p.kind NOT IN ('unknown', 'unknown_wait') THEN f.family END AS op,
    p.call,
    p.cause,
    CASE WHEN p.kind IN ('kernel', 'memcpy', 'memset') THEN p.label END AS kernel,
    p.kind IN ('op', 'call', 'annotation', 'python', 'other', 'host') AS is_host,
    p.end_ticks - p.start_ticks AS ticks
FROM _path_elements(capture_key, step, step_name) AS p
LEFT JOIN event_ticks AS e
    ON e.capture_id = capture_key
    AND e.event_index = coalesce(p.op_index, p.event_index)
LEFT JOIN families AS f ON f.signature_index = e.signature_index;

-- The time of one op on the critical path of a trace.
CREATE MACRO _path_totals(capture_key, step, step_name) AS TABLE
WITH
by_event AS (
    SELECT
        n.op,
        n.call,
        n.kernel,
        try_cast(sum(n.ticks) AS BIGINT) AS ticks,
        try_cast(
            sum(CASE WHEN n.is_host THEN n.ticks ELSE 0 END) AS BIGINT
        ) AS host_ticks,
        count(*) AS parts
    FROM _path_shares(capture_key, step, step_name) AS n
    GROUP BY n.op, n.call, n.kernel
),
ranked AS (
    SELECT
        b.*,
        row_number() OVER (
            PARTITION BY b.op ORDER BY b.kernel IS NULL, b.ticks DESC, b.kernel
        ) AS kernel_place,
        row_number() OVER (
            PARTITION BY b.op ORDER BY b.call IS NULL, b.ticks DESC, b.call
        ) AS call_place
    FROM by_event AS b
)
SELECT
    r.op,
    try_cast(sum(r.ticks) AS BIGINT) AS ticks,
    try_cast(sum(r.host_ticks) AS BIGINT) AS host_ticks,
    try_cast(
        sum(CASE WHEN r.kernel IS NULL THEN 0 ELSE r.ticks END) AS BIGINT
    ) AS device_ticks,
    max(CASE WHEN r.call_place = 1 THEN r.call END) AS call,
    max(CASE WHEN r.kernel_place = 1 THEN r.kernel END) AS kernel,
    sum(r.parts)::BIGINT AS parts
FROM ranked AS r
GROUP BY r.op;
