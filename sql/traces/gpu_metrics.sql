-- One value of a metric of a device during a trace, as torch-tb-profiler adds it to the trace: utilization in up to 100
-- buckets of 1, 10, 100, ... microseconds, and between any two starts or ends of kernels the estimated share of the
-- multiprocessors that have a block.
-- Shown: metric!, device!#, start! (time), duration (time), value_percent!%, unit
-- Columns:
--   device: number of the device
--   metric: utilization or sm_efficiency
--   start: start of the interval, relative to the start of the recording
--   duration: length of the interval; the last bucket may be longer than the others
--   value_percent: the metric in the interval, in percent
--   unit: unit of start and duration: the requested one
CREATE MACRO gpu_metrics(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
-- The recording: as the profiler marked it, or else from the first to the last event.
marked AS (
    SELECT min(e.start_ticks) AS start_ticks, max(e.end_ticks) AS end_ticks
    FROM _capture_events((SELECT a.capture_id FROM target AS a)) AS e
    WHERE e.category = 'Trace' AND e.label = 'PyTorch Profiler (0)'
),
bounds AS (
    SELECT coalesce(m.start_ticks, r.start_ticks) AS start_ticks, coalesce(m.end_ticks, r.end_ticks) AS end_ticks
    FROM marked AS m CROSS JOIN _recording((SELECT a.capture_id FROM target AS a)) AS r
),
sized AS MATERIALIZED (
    SELECT b.start_ticks, b.end_ticks, l.length // size.ticks AS buckets, size.ticks AS bucket_ticks
    FROM bounds AS b CROSS JOIN LATERAL (SELECT b.end_ticks - b.start_ticks AS length) AS l
    CROSS JOIN LATERAL (
        SELECT min(p.ticks) AS ticks
        FROM (SELECT (1000 * 10 ** unnest(range(0, 13)))::BIGINT AS ticks) AS p
        WHERE l.length / p.ticks <= 100
    ) AS size
),
kernels AS MATERIALIZED (FROM _device_kernels((SELECT a.capture_id FROM target AS a))),
stretches AS MATERIALIZED (
    FROM _device_intervals(
        'kernels',
        (
            SELECT list_append(
                list_transform(range(0, z.buckets), lambda place: z.start_ticks + place * z.bucket_ticks), z.end_ticks
            )
            FROM sized AS z
        )
    ) AS s
),
used AS (
    SELECT s.device, least((s.start_ticks - z.start_ticks) // z.bucket_ticks, z.buckets - 1) AS place,
        sum(CASE WHEN s.kernels > 0 THEN s.ticks ELSE 0 END)::DOUBLE AS ticks
    FROM stretches AS s CROSS JOIN sized AS z
    WHERE s.start_ticks >= z.start_ticks AND s.start_ticks < z.end_ticks
    GROUP BY 1, 2
),
samples AS (
    SELECT u.device, 'utilization' AS metric, u.place * z.bucket_ticks AS at_ticks,
        CASE
            WHEN u.place = z.buckets - 1 THEN z.end_ticks - z.start_ticks - u.place * z.bucket_ticks
            ELSE z.bucket_ticks
        END AS length,
        u.ticks AS amount
    FROM used AS u CROSS JOIN sized AS z
    UNION ALL
    SELECT s.device, 'sm_efficiency', s.start_ticks - z.start_ticks, s.ticks, s.ticks * s.sm_efficiency
    FROM _device_intervals('kernels', []::BIGINT[]) AS s CROSS JOIN sized AS z
    WHERE s.sized > 0
)
SELECT t.device, t.metric, _in_unit(t.at_ticks, a.scale) AS start, _in_unit(t.length, a.scale) AS duration,
    100e0 * t.amount / t.length AS value_percent, a.unit
FROM samples AS t CROSS JOIN target AS a
ORDER BY t.device, t.metric DESC, t.at_ticks;
