-- The duration of the steps of a trace, in one row. A step is longer than its annotation if its work ends later.
-- Needs: torch_trace; else: headline
-- Shown: steps#, median!~, mean!~, low~, high~, annotation~, far_step#, far_time~, mean_of_others~, earlier_work~,
--   longest_wait~, after_wait~, recording!~, unit
-- Columns:
--   steps: number of steps; NULL for a trace without steps
--   median: median duration of a step with the work that it launched; NULL without steps
--   mean: mean duration of a step; NULL without steps
--   low: 10th percentile of the durations; NULL for fewer than two steps
--   high: 90th percentile of the durations; NULL for fewer than two steps
--   annotation: mean time from the start of a step's annotation to its end, as in the file; NULL without steps
--   far_step: number of the step furthest from the median, if it changes the mean by more than a twentieth; otherwise NULL
--   far_time: duration of that step; NULL without one
--   mean_of_others: mean duration of the other steps; NULL without a far step
--   earlier_work: time that work from before the recording runs in the first step, if that is the far step; such work has no recorded launch and comes first in its stream; NULL if there is none
--   longest_wait: longest wait of work on a device for something that isn't recorded, if it takes more than a tenth of its step; NULL if there is none, and if the clocks of host and device differ
--   after_wait: time from the end of that wait to the end of its step; NULL without a wait
--   recording: time from the start of the trace's first event to the end of its last event
--   unit: the requested unit of time
CREATE MACRO step_headline(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _capture_with_steps(capture, unit, NULL, NULL)),
recorded AS MATERIALIZED (
    SELECT s.*, s.end_ticks - s.start_ticks AS ticks
    FROM target AS a
    JOIN trace_steps AS s USING (capture_id)
    WHERE a.step_count IS NOT NULL AND s.start_ticks IS NOT NULL
),
summed AS (
    SELECT count(*) AS steps, median(r.ticks) AS middle, sum(r.ticks) AS ticks,
        quantile_cont(r.ticks, 0.1) AS low, quantile_cont(r.ticks, 0.9) AS high,
        avg(r.host_end_ticks - r.host_start_ticks) AS annotated
    FROM recorded AS r
    HAVING count(*) > 0
),
furthest AS (
    SELECT r.run_index, r.step, r.ticks, (s.ticks - r.ticks) / (s.steps - 1) AS others
    FROM recorded AS r CROSS JOIN summed AS s
    WHERE s.steps > 2
    ORDER BY abs(r.ticks - s.middle) DESC, r.run_index
    LIMIT 1
),
far AS (
    SELECT f.* FROM furthest AS f CROSS JOIN summed AS s
    WHERE abs(s.ticks / s.steps - f.others) > 0.05 * f.others
),
work AS (
    SELECT d.start_ticks, d.start_ticks + d.elapsed_ticks AS end_ticks, d.call_index, d.call_start_ticks,
        d.wait_kind, n.activity,
        min(CASE WHEN d.call_index IS NOT NULL AND n.activity IN ('kernel', 'copy', 'fill') THEN d.start_ticks END)
            OVER (PARTITION BY d.device, d.stream) AS launched_ticks,
        d.start_ticks - greatest(
            d.call_start_ticks + d.call_ticks,
            max(d.start_ticks + d.elapsed_ticks) OVER (
                PARTITION BY d.device
                ORDER BY d.start_ticks, d.event_index
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS waited_ticks
    FROM target AS a
    JOIN device_events AS d USING (capture_id)
    JOIN signatures AS n ON n.capture_id = d.capture_id AND n.signature_index = d.event_signature
    WHERE d.elapsed_ticks >= 0
),
earlier AS (
    SELECT max(w.end_ticks) - any_value(r.start_ticks) AS into_step
    FROM far AS f
    JOIN recorded AS r ON r.run_index = f.run_index
    JOIN work AS w
        ON w.call_index IS NULL AND w.start_ticks < w.launched_ticks AND w.start_ticks < r.end_ticks
        AND w.activity IN ('kernel', 'copy', 'fill')
    WHERE r.run_index = (SELECT min(i.run_index) FROM recorded AS i)
    HAVING into_step > 0 AND max(w.end_ticks) < any_value(r.end_ticks)
),
clocks AS (
    SELECT count(*) > 0 AS differ
    FROM target AS a
    JOIN findings AS f USING (capture_id)
    WHERE f.rule = 'device clock'
),
waited AS (
    SELECT w.waited_ticks, r.end_ticks - w.start_ticks AS after_ticks
    FROM work AS w
    JOIN recorded AS r ON r.start_ticks <= w.call_start_ticks AND w.start_ticks < r.end_ticks
    CROSS JOIN clocks AS c
    WHERE w.wait_kind = 'unknown_wait' AND 10 * w.waited_ticks > r.ticks AND NOT c.differ
    ORDER BY w.waited_ticks DESC, r.start_ticks DESC
    LIMIT 1
)
SELECT s.steps, _in_unit(s.middle, a.scale) AS median, _in_unit(s.ticks::DOUBLE / s.steps, a.scale) AS mean,
    CASE WHEN s.steps > 1 THEN _in_unit(s.low, a.scale) END AS low,
    CASE WHEN s.steps > 1 THEN _in_unit(s.high, a.scale) END AS high, _in_unit(s.annotated, a.scale) AS annotation,
    f.step AS far_step, _in_unit(f.ticks, a.scale) AS far_time, _in_unit(f.others, a.scale) AS mean_of_others,
    _in_unit(e.into_step, a.scale) AS earlier_work, _in_unit(w.waited_ticks, a.scale) AS longest_wait,
    _in_unit(w.after_ticks, a.scale) AS after_wait, _in_unit(o.end_ticks - o.start_ticks, a.scale) AS recording, a.unit
FROM target AS a
CROSS JOIN _recording((SELECT t.capture_id FROM target AS t)) AS o
LEFT JOIN summed AS s ON true
LEFT JOIN far AS f ON true
LEFT JOIN earlier AS e ON true
LEFT JOIN waited AS w ON true
ORDER BY a.capture_id;
