-- The times of captures' runs that executed, computed from own times of events. Readers write these times. They are
-- computed here for the same reasons as own times. A sum of 2**63 - 1 is unknown, because larger sums are cut to it.
-- They are unknown, too, if work has impossible times, or is detached and within no other work.
CREATE MACRO _find_run_times(first_key, last_key) AS TABLE
WITH timed AS (
    SELECT e.capture_id, e.run_index, e.is_execute, s.kind, e.children, e.self_ticks,
        e.event_index = e.execute_index AS is_outermost,
        _duration_ticks(e.elapsed_ticks, e.unwrapped_ticks) AS ticks
    FROM event_ticks AS e
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE e.capture_id BETWEEN first_key AND last_key AND e.execute_index IS NOT NULL AND e.is_additive
),
added AS (
    SELECT t.capture_id, t.run_index, count(*) FILTER (t.is_execute)::INTEGER AS executes,
        bool_and(t.ticks IS NOT NULL) FILTER (t.is_outermost) AS are_possible,
        _sum_where(t.ticks, t.is_outermost) AS execute_ticks,
        _sum_where(t.self_ticks, t.kind = 'kernel') AS kernel_ticks,
        _sum_where(t.self_ticks, t.kind IN ('delegate_call', 'delegate')) AS delegate_ticks,
        _sum_where(t.self_ticks, t.kind = 'operator_call' AND t.children = 0) AS operator_ticks
    FROM timed AS t
    GROUP BY t.capture_id, t.run_index
),
unknown AS (
    SELECT DISTINCT e.capture_id, e.run_index
    FROM event_ticks AS e
    JOIN signatures AS s USING (capture_id, signature_index)
    JOIN event_ticks AS p
        ON p.capture_id = e.capture_id AND p.run_index = e.run_index AND p.event_index = e.parent_index
    JOIN signatures AS o ON o.capture_id = p.capture_id AND o.signature_index = p.signature_index
    WHERE e.capture_id BETWEEN first_key AND last_key
        AND e.execute_index IS NOT NULL
        AND s.kind IN ('kernel', 'operator_call', 'delegate_call')
        AND (
            _duration_ticks(e.elapsed_ticks, e.unwrapped_ticks) IS NULL
            OR NOT e.is_additive AND p.is_additive
                AND o.kind NOT IN ('kernel', 'operator_call', 'delegate_call', 'delegate')
        )
)
SELECT d.capture_id, d.run_index, d.executes,
    CASE WHEN d.are_possible THEN nullif(d.execute_ticks, 9223372036854775807) END AS execute_ticks,
    CASE WHEN d.are_known THEN nullif(d.kernel_ticks, 9223372036854775807) END AS kernel_ticks,
    CASE WHEN d.are_known THEN nullif(d.delegate_ticks, 9223372036854775807) END AS delegate_ticks,
    CASE WHEN d.are_known THEN nullif(d.operator_ticks, 9223372036854775807) END AS operator_ticks
FROM (
    SELECT i.*, i.are_possible AND u.run_index IS NULL AS are_known
    FROM added AS i
    LEFT JOIN unknown AS u USING (capture_id, run_index)
) AS d;
