-- The op that the device time of one device event of a trace belongs to: the
-- innermost that contains its launch on the launch's thread. If the trace has no
-- launch for it, it is the op with the same external id, unless that id is also the
-- correlation id. External ids are not used in any other case: in traces of many
-- versions they are the correlation id, 0, or the id of an older op. All views of
-- device time use this.
-- Columns:
--   run_index: run of the device's event
--   event_index: the device's event
--   kind: as in `_launches`
--   label: its label
--   kernel_family: as in `signatures`
--   uses_matrix_units: as in `signatures`
--   device_ticks: end less start, in ticks
--   launch_ticks: clock at the start of the call that launched it, or at its own if the trace has no such call
--   call_index: the call that launched it; NULL if the trace has none
--   op_index: the op; NULL if none contains the launch
--   owner_index: the op or annotation (steps are annotations) that is nearest; NULL if there is neither
CREATE MACRO _device_owners(
    capture_key  -- key of a capture
) AS TABLE
WITH RECURSIVE
launches AS MATERIALIZED (
    SELECT l.* FROM _launches(capture_key, 'all') AS l
),
-- Nothing is read if the trace has no device events.
hosts AS MATERIALIZED (
    SELECT
        e.event_index,
        e.parent_index,
        s.category IN ('cpu_op', 'Operator')
            AND NOT starts_with(s.label, 'ProfilerStep#') AS is_op,
        s.category IN ('cpu_op', 'Operator', 'user_annotation') AS is_owner
    FROM (
        SELECT DISTINCT d.capture_id
        FROM device_events AS d
        WHERE d.capture_id = capture_key AND EXISTS (FROM launches)
    ) AS a
    JOIN signatures AS s
        ON s.capture_id = a.capture_id AND NOT _is_device_event(s.category)
    JOIN event_ticks AS e
        ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
),
-- The ancestors of launches, up to an op.
ancestors AS (
    SELECT
        h.event_index AS from_index,
        h.event_index,
        h.parent_index,
        h.is_op,
        CASE WHEN h.is_owner THEN h.event_index END AS owner_index
    FROM hosts AS h
    SEMI JOIN launches AS l ON l.call_parent_index = h.event_index
    UNION ALL
    SELECT
        c.from_index,
        h.event_index,
        h.parent_index,
        h.is_op,
        coalesce(c.owner_index, CASE WHEN h.is_owner THEN h.event_index END)
    FROM ancestors AS c
    JOIN hosts AS h ON h.event_index = c.parent_index
    WHERE NOT c.is_op
),
enclosing AS (
    SELECT
        c.from_index,
        max(CASE WHEN c.is_op THEN c.event_index END) AS op_index,
        max(c.owner_index) AS owner_index
    FROM ancestors AS c
    GROUP BY c.from_index
),
-- The ops by external id: the first of each.
named AS (
    SELECT
        t.external_id,
        min(t.event_index) AS owner_index,
        min(CASE WHEN h.is_op THEN t.event_index END) AS op_index
    FROM hosts AS h
    JOIN trace_events AS t
        ON t.capture_id = capture_key AND t.event_index = h.event_index
    WHERE h.is_owner
        AND t.external_id > 0
        AND t.external_id IN (
            SELECT l.external_id FROM launches AS l WHERE l.call_index IS NULL
        )
    GROUP BY t.external_id
)
SELECT
    l.run_index,
    l.event_index,
    l.kind,
    l.label,
    l.kernel_family,
    l.uses_matrix_units,
    l.end_ticks - l.start_ticks AS device_ticks,
    coalesce(l.call_start_ticks, l.start_ticks) AS launch_ticks,
    l.call_index,
    CASE WHEN l.call_index IS NULL THEN n.op_index ELSE c.op_index END AS op_index,
    CASE WHEN l.call_index IS NULL THEN n.owner_index ELSE c.owner_index END
        AS owner_index
FROM launches AS l
LEFT JOIN enclosing AS c ON c.from_index = l.call_parent_index
LEFT JOIN named AS n
    ON n.external_id = l.external_id
    AND n.external_id IS DISTINCT FROM l.correlation_id;
