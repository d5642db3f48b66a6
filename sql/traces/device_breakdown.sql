-- The time of one device of a trace by type of work: kernels of computation and of communication, copies and fills. By
-- device, the time is from its first event to the end of its last, as in HolisticTraceAnalysis; by step, there is a row
-- for each step, as in `step_breakdown`.
-- Needs: torch_trace, device_events
-- Empty: {capture} has no device events in its steps
-- Shown: device!#, step#, total!~, compute!~, communication!~, idle!~, non_compute~, overlapped~, exposed~,
--   idle_percent%, compute_percent%, non_compute_percent%, overlap_percent%, unit
-- Columns:
--   device: number of the device; NULL if not written
--   run_index: run of the step; NULL by device
--   step: number of the step in the trace; NULL by device
--   total: length of the time
--   idle: time in which nothing ran
--   compute: time in which a kernel of computation ran
--   non_compute: time in which only communication, copies or fills ran
--   communication: time in which a kernel of communication ran
--   overlapped: part of the time of communication in which a kernel of computation ran, too
--   exposed: rest of the time of communication
--   idle_percent: idle in percent of the total
--   compute_percent: compute in percent of the total
--   non_compute_percent: non_compute in percent of the total
--   overlap_percent: overlapped in percent of communication; NULL without communication
--   unit: the requested unit of time
CREATE MACRO device_breakdown(
    capture, unit := NULL,
    "by" := 'device'  -- device or step
) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
summed AS (
    SELECT d.device, d.run_index, d.step, try_cast(sum(d.ticks) AS BIGINT) AS ticks,
        _sum_where(d.ticks, NOT (d.computes OR d.communicates OR d.copies)) AS idle,
        _sum_where(d.ticks, d.computes) AS compute,
        _sum_where(d.ticks, (d.communicates OR d.copies) AND NOT d.computes) AS non_compute,
        _sum_where(d.ticks, d.communicates) AS communication,
        _sum_where(d.ticks, d.communicates AND d.computes) AS overlapped
    FROM _device_activity((SELECT a.capture_id FROM target AS a), "by") AS d
    GROUP BY d.device, d.run_index, d.step
)
SELECT s.device, s.run_index, s.step, _in_unit(s.ticks, a.scale) AS total, _in_unit(s.idle, a.scale) AS idle,
    _in_unit(s.compute, a.scale) AS compute, _in_unit(s.non_compute, a.scale) AS non_compute,
    _in_unit(s.communication, a.scale) AS communication, _in_unit(s.overlapped, a.scale) AS overlapped,
    _in_unit(s.communication - s.overlapped, a.scale) AS exposed, 100 * s.idle::DOUBLE / s.ticks AS idle_percent,
    100 * s.compute::DOUBLE / s.ticks AS compute_percent, 100 * s.non_compute::DOUBLE / s.ticks AS non_compute_percent,
    100 * s.overlapped::DOUBLE / nullif(s.communication, 0) AS overlap_percent, a.unit
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.device, s.run_index;

-- The time in which one device of a trace ran exactly these types of work at once: computation, communication, memory
-- (copies and fills), or several of them. A device's rows add up to the time in which it was not idle.
-- Shown: device!#, types!, total!~, share_percent!%, unit
-- Share: of the time in which the device ran anything
-- Columns:
--   device: number of the device; NULL if not written
--   types: the types of work, such as computation, or computation and communication
--   total: time in which exactly these types ran
--   share_percent: time in percent of the time in which the device ran anything
--   unit: the requested unit of time
CREATE MACRO work_types(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
summed AS (
    SELECT d.device, d.computes::INTEGER + 2 * d.communicates::INTEGER + 4 * d.copies::INTEGER AS place,
        try_cast(sum(d.ticks) AS BIGINT) AS ticks
    FROM _device_activity((SELECT a.capture_id FROM target AS a), 'device') AS d
    WHERE d.computes OR d.communicates OR d.copies
    GROUP BY 1, 2
)
SELECT s.device,
    [
        'computation', 'communication', 'computation and communication', 'memory',
        'computation and memory', 'communication and memory', 'computation, communication and memory'
    ][s.place] AS types,
    _in_unit(s.ticks, a.scale) AS total,
    100 * s.ticks::DOUBLE / sum(s.ticks) OVER (PARTITION BY s.device) AS share_percent, a.unit
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.device, s.ticks DESC, s.place;

-- The device events of a trace by name and type, as in HolisticTraceAnalysis; those with the most time come first.
-- Shown: event!, type, per_step!~, per_call~, share_percent!%, calls!#, total+~, min~, max~, stddev~,
--   nullif(outside_steps, 0) AS outside_steps!~, steps+#, unit
-- Share: of all events of the type
-- Columns:
--   type: computation, communication or memory (copies and fills)
--   event: label of the events
--   calls: number of events
--   total: sum of their durations
--   share_percent: sum in percent of all events of the type
--   per_call: mean duration of a call
--   stddev: sample standard deviation of the durations; 0 for a single one
--   min: shortest duration
--   max: longest duration
--   unit: the requested unit of time
--   steps: number of the trace's steps; NULL without steps
--   per_step: time of the events that steps launched, per step
--   outside_steps: part of total that no step launched, or whose launch the trace lacks; NULL without steps
CREATE MACRO work_totals(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _capture_with_steps(capture, unit, NULL, NULL)),
work AS (
    SELECT _work_type(l.kind, l.kernel_family) AS type, l.label, l.end_ticks - l.start_ticks AS ticks,
        _is_step_run(r.name) AS is_in_step
    FROM target AS a CROSS JOIN _launches((SELECT a.capture_id FROM target AS a)) AS l
    JOIN runs AS r USING (capture_id, run_index)
),
means AS (
    SELECT w.*,
        sum(w.ticks) OVER (PARTITION BY w.type, w.label)::DOUBLE
            / count(*) OVER (PARTITION BY w.type, w.label) AS mean_ticks
    FROM work AS w
),
summed AS (
    SELECT m.type, m.label, count(*) AS calls, try_cast(sum(m.ticks) AS BIGINT) AS ticks,
        _sum_where(m.ticks, m.is_in_step) AS step_ticks,
        fsum((m.ticks - m.mean_ticks) * (m.ticks - m.mean_ticks)) AS squares, min(m.ticks) AS shortest,
        max(m.ticks) AS longest
    FROM means AS m
    GROUP BY m.type, m.label
)
SELECT s.type, s.label AS event, s.calls, _in_unit(s.ticks, a.scale) AS total,
    100 * s.ticks::DOUBLE / nullif(sum(s.ticks) OVER (PARTITION BY s.type), 0) AS share_percent,
    _in_unit(s.ticks::DOUBLE / s.calls, a.scale) AS per_call,
    CASE WHEN s.calls = 1 THEN 0 ELSE _in_unit(sqrt(s.squares / (s.calls - 1)), a.scale) END AS stddev,
    _in_unit(s.shortest, a.scale) AS min, _in_unit(s.longest, a.scale) AS max, a.unit, a.step_count AS steps,
    _in_unit(s.step_ticks::DOUBLE / a.step_count, a.scale) AS per_step,
    CASE WHEN a.step_count IS NOT NULL THEN _in_unit(s.ticks - s.step_ticks, a.scale) END AS outside_steps
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.ticks DESC, s.type, s.label;
