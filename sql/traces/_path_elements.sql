-- One part of the critical path of a trace with the op that it belongs to.
-- Columns:
--   kind: as in `critical_path`
--   start_ticks: clock at the start
--   end_ticks: clock at the end
--   event_index: as in `_path_parts`
--   label: its label
--   thread_index: as in `_path_parts`
--   op_index: the op that contains it or that launched it; NULL if there is none
--   call: name of the call of the runtime or driver in which the host was; NULL outside of calls
--   begin_ticks: clock at the start of the path
--   until_ticks: clock at its end
CREATE MACRO _path_elements(
    capture_key,  -- key of a capture
    step,  -- as in `critical_path`
    step_name  -- as in `critical_path`
) AS TABLE
WITH RECURSIVE
parts AS MATERIALIZED (
    SELECT p.* FROM _path_parts(capture_key, step, step_name) AS p
),
kinds AS MATERIALIZED (
    SELECT
        s.signature_index,
        s.label,
        CASE
            WHEN s.category IN ('python_function', 'Python') THEN 'python'
            ELSE CASE _slice_kind(s.category, s.label, 'all')
                WHEN 'Operator' THEN 'op'
                WHEN 'Runtime' THEN 'call'
                WHEN 'Annotation' THEN 'annotation'
                WHEN 'Step' THEN 'annotation'
                ELSE lower(
                    coalesce(_slice_kind(s.category, s.label, 'all'), 'other')
                )
            END
        END AS kind,
        _is_device_event(s.category) AS is_device
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id
),
events_of_path AS MATERIALIZED (
    SELECT p.event_index, p.call_index, e.parent_index, k.label, k.kind, k.is_device
    FROM (
        SELECT p.event_index, max(p.call_index) AS call_index
        FROM parts AS p
        WHERE p.event_index IS NOT NULL
        GROUP BY p.event_index
    ) AS p
    JOIN (SELECT i.* FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e
        ON e.event_index = p.event_index
    JOIN kinds AS k ON k.signature_index = e.signature_index
),
-- Read once instead of for each level of nesting.
parents AS MATERIALIZED (
    SELECT e.event_index, e.parent_index, k.kind = 'op' AS is_op
    FROM event_ticks AS e
    JOIN kinds AS k ON k.signature_index = e.signature_index
    WHERE e.capture_id = capture_key
),
-- The ancestors of host events, and of launches, up to an op.
ancestors AS (
    SELECT
        e.event_index AS from_index,
        CASE WHEN e.kind = 'op' THEN e.event_index END AS op_index,
        e.parent_index
    FROM events_of_path AS e
    WHERE NOT e.is_device
    UNION ALL
    SELECT e.event_index, NULL, e.call_index
    FROM events_of_path AS e
    WHERE e.is_device AND e.call_index IS NOT NULL
    UNION ALL
    SELECT
        c.from_index,
        CASE WHEN e.is_op THEN e.event_index END,
        e.parent_index
    FROM ancestors AS c
    JOIN parents AS e ON e.event_index = c.parent_index
    WHERE c.op_index IS NULL
),
-- Without a launch, the first op with the same external id, as in `_device_owners`.
unlaunched AS MATERIALIZED (
    SELECT e.event_index, t.external_id
    FROM events_of_path AS e
    JOIN (SELECT i.* FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
        ON t.event_index = e.event_index
    WHERE e.is_device
        AND e.call_index IS NULL
        AND t.external_id > 0
        AND t.external_id IS DISTINCT FROM t.correlation_id
),
ops AS (
    SELECT c.from_index AS event_index, c.op_index
    FROM ancestors AS c
    WHERE c.op_index IS NOT NULL
    UNION ALL
    SELECT u.event_index, min(t.event_index)
    FROM unlaunched AS u
    JOIN (SELECT i.* FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
        ON t.external_id = u.external_id
    JOIN (SELECT i.* FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e
        ON e.event_index = t.event_index
    JOIN kinds AS k ON k.signature_index = e.signature_index AND k.kind = 'op'
    GROUP BY u.event_index
)
SELECT
    CASE p.kind
        WHEN 'device' THEN e.kind
        WHEN 'host' THEN coalesce(e.kind, 'host')
        ELSE p.kind
    END AS kind,
    p.start_ticks,
    p.end_ticks,
    p.event_index,
    e.label,
    p.thread_index,
    o.op_index,
    CASE
        WHEN p.kind = 'synchronization' OR p.kind = 'host' AND e.kind = 'call'
            THEN e.label
    END AS call,
    p.begin_ticks,
    p.until_ticks
FROM parts AS p
LEFT JOIN events_of_path AS e ON e.event_index = p.event_index
LEFT JOIN ops AS o ON o.event_index = p.event_index;
