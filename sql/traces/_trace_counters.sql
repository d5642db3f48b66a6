-- One change of a counter, in the form of a trace with counters: the number of waiting events of a stream, as in
-- `queue_lengths`, and the sum of the bandwidths of the copies or fills of one name that run at once, as in
-- HolisticTraceAnalysis. If several changes are at the same time, only the last is included.
CREATE MACRO _trace_counters(capture_key) AS TABLE
WITH processes AS (
    SELECT d.device, min(h.process) AS process
    FROM device_events AS d
    JOIN trace_events AS t USING (capture_id, run_index, event_index)
    JOIN threads AS h USING (capture_id, thread_index)
    WHERE d.capture_id = capture_key
    GROUP BY d.device
),
queues AS (
    SELECT q.device, coalesce('stream ' || q.stream, 'no stream') AS name, q.at_ticks,
        arg_max(q.length, q.place)::DOUBLE AS value
    FROM _queue_changes(capture_key) AS q
    GROUP BY q.device, q.stream, q.at_ticks
),
copies AS (
    SELECT w.device, w.label, w.start_ticks, w.end_ticks, w.bandwidth_gb_per_s AS speed
    FROM _launches(capture_key) AS w
    WHERE w.kind <> 'kernel' AND w.start_ticks < w.end_ticks AND w.bandwidth_gb_per_s IS NOT NULL
),
changes AS (
    SELECT c.device, c.label, c.speed, c.start_ticks AS at_ticks, 1 AS change FROM copies AS c
    UNION ALL
    SELECT c.device, c.label, c.speed, c.end_ticks, -1 FROM copies AS c
),
running AS (
    SELECT c.device, c.label, c.at_ticks, fsum(c.speed * c.change) OVER so_far AS value,
        sum(c.change) OVER so_far AS number
    FROM changes AS c
    WINDOW so_far AS (PARTITION BY c.device, c.label ORDER BY c.at_ticks)
)
SELECT p.process, 'Queue length' AS counter, coalesce('device ' || q.device || ' ', '') || q.name AS series, q.at_ticks,
    q.value
FROM queues AS q
JOIN processes AS p ON p.device IS NOT DISTINCT FROM q.device
UNION ALL
SELECT DISTINCT p.process, 'Memory bandwidth (GB/s)', coalesce('device ' || r.device || ' ', '') || r.label, r.at_ticks,
    CASE WHEN r.number = 0 THEN 0 ELSE r.value END
FROM running AS r
JOIN processes AS p ON p.device IS NOT DISTINCT FROM r.device;
