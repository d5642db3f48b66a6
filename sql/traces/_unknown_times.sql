-- The effect of times that a trace lacks. `of_host` says whether events of the host lack times. `device_ticks` is the
-- most that the kernels, copies and fills without a time may take: for each, the time from its launch to the start of
-- the next one of its stream that has a time, or to the end of all. `span_ticks` is the time from the first start to
-- the last end on devices. One row.
CREATE MACRO _unknown_times(capture_key) AS TABLE
WITH names AS MATERIALIZED (
    SELECT s.signature_index, s.on_device, s.activity IN ('kernel', 'copy', 'fill') AS is_work
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
),
work AS MATERIALIZED (
    SELECT d.device, d.stream, d.start_ticks, d.elapsed_ticks
    FROM (FROM device_events AS i WHERE i.capture_id = capture_key) AS d
    JOIN names AS n ON n.signature_index = d.event_signature AND n.is_work
),
span AS (
    SELECT min(w.start_ticks) AS start_ticks, max(w.start_ticks + greatest(w.elapsed_ticks, 0)) AS end_ticks
    FROM work AS w
)
SELECT
    EXISTS (
        FROM (FROM event_ticks AS i WHERE i.capture_id = capture_key AND i.elapsed_ticks < 0) AS e
        JOIN names AS n ON n.signature_index = e.signature_index AND NOT n.on_device
    ) AS of_host,
    coalesce(sum(coalesce(n.start_ticks, s.end_ticks) - u.start_ticks), 0) AS device_ticks,
    coalesce(any_value(s.end_ticks - s.start_ticks), 0) AS span_ticks
FROM span AS s
LEFT JOIN (FROM work AS w WHERE w.elapsed_ticks < 0) AS u ON true
ASOF LEFT JOIN (
    SELECT w.device, w.stream, w.start_ticks FROM work AS w WHERE w.elapsed_ticks >= 0
) AS n
    ON n.device = u.device AND n.stream = u.stream AND row(n.start_ticks) >= row(u.start_ticks);
