-- One counter of a device that was sampled during a trace, such as those of NVIDIA's PM sampling, of MTIA and of XPUs: the
-- range of its values. Counters of kernels are in `kernel_counters`.
-- Needs: torch_trace
-- Empty: {capture} has no samples of counters: they are recorded where Kineto is configured to, as with CUPTI_PM_SAMPLING_METRICS
-- Shown: device!#, counter!, samples!#, mean!#, min#, max#, interval~, unit
-- Columns:
--   device: number of the device; NULL if the trace doesn't state it
--   counter: name of the counter, with the name of its track if that differs
--   samples: number of values
--   mean: mean of the values
--   min: least value
--   max: greatest value
--   interval: median time from a sample to the next; NULL for one sample
--   unit: the requested unit of time
CREATE MACRO sampled_counters(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
samples AS (
    SELECT
        try_cast(
            coalesce(nullif(regexp_extract(h.process, '^GPU (\d+) Counters$', 1), ''), h.process) AS INTEGER
        ) AS device,
        CASE WHEN s.label = c.counter THEN c.counter ELSE s.label || ': ' || c.counter END AS counter, c.value,
        e.start_ticks
    FROM target AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.activity = 'counter_range'
    JOIN trace_events AS e ON e.capture_id = s.capture_id AND e.event_signature = s.signature_index
    JOIN event_counters AS c ON c.capture_id = e.capture_id AND c.event_index = e.event_index
    JOIN threads AS h ON h.capture_id = e.capture_id AND h.thread_index = e.thread_index
    WHERE s.category <> 'cuda_profiler_range'
),
spaced AS (
    SELECT s.*, s.start_ticks - lag(s.start_ticks) OVER (
            PARTITION BY s.device, s.counter ORDER BY s.start_ticks
        ) AS interval_ticks
    FROM samples AS s
),
summed AS (
    SELECT s.device, s.counter, count(*) AS samples, fsum(s.value) / count(*) AS mean, min(s.value) AS min,
        max(s.value) AS max, median(s.interval_ticks) AS interval_ticks
    FROM spaced AS s
    GROUP BY s.device, s.counter
)
SELECT s.device, s.counter, s.samples, s.mean, s.min, s.max, _in_unit(s.interval_ticks, a.scale) AS "interval", a.unit
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.device, s.counter;
