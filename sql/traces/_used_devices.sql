-- One device of a trace that ran work, as in `trace_devices`; if no listed device has the number of a device that ran
-- work, all listed devices; none if no device ran work.
CREATE MACRO _used_devices(capture_key) AS TABLE
SELECT t.device, t.name, t.compute_major, t.compute_minor
FROM trace_devices AS t
JOIN (
    SELECT list(DISTINCT d.device) AS devices
    FROM device_events AS d
    WHERE d.capture_id = capture_key AND d.is_inferred IS NOT NULL
    HAVING count(*) > 0
) AS w ON true
WHERE t.capture_id = capture_key
QUALIFY coalesce(list_contains(w.devices, t.device), false)
    OR NOT bool_or(coalesce(list_contains(w.devices, t.device), false)) OVER ();
