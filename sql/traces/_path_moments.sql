-- One moment at which something could continue because something else had ended: the end of a device event, which had
-- waited before its start as `wait_kind` of `device_events` says, or a moment of a thread of the host, at which a wait
-- ended, see `host_waits`. `node` is the event; below -1 for handovers, which may be at the start of an event that also
-- waits for a device.
CREATE MACRO _path_moments(
    capture_key,
    launches  -- a table of the rows of `_launches`
) AS TABLE
WITH work AS MATERIALIZED (FROM query_table(launches) AS w WHERE w.end_ticks > w.start_ticks)
SELECT j.event_index AS node, j.event_index, j.wait_kind AS kind, j.start_ticks, j.end_ticks,
    CASE
        WHEN j.wait_index IS NOT NULL THEN w.end_ticks
        WHEN j.wait_kind IS NOT NULL THEN least(j.call_start_ticks, j.start_ticks)
    END AS from_ticks,
    j.wait_index AS from_event,
    CASE WHEN j.wait_kind IS NOT NULL AND j.wait_index IS NULL THEN j.call_thread END AS from_thread,
    false AS is_host, NULL::INTEGER AS thread_index
FROM work AS j
LEFT JOIN work AS w ON w.event_index = j.wait_index
UNION ALL
SELECT CASE WHEN w.for_event IS NULL THEN -2 - w.event_index ELSE w.event_index END, w.event_index,
    CASE WHEN w.for_event IS NULL THEN 'handover' ELSE 'synchronization' END, w.at_ticks, w.at_ticks, w.since_ticks,
    w.for_event, w.for_thread, true, w.thread_index
FROM host_waits AS w
WHERE w.capture_id = capture_key;
