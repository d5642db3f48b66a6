-- The device events of a trace by name and by the annotation that launched them: the innermost annotation around the
-- launch, such as those of `record_function`. Pairs with the most time come first. `work_totals` has the events by
-- type.
-- Needs: torch_trace, device_events; else: op_totals
-- Empty: {capture} has no device events
-- Shown: coalesce(annotation, '(no annotation)') AS annotation!, event!, calls!#, total!~, share_percent!%, per_call~,
--   min~, max~, unit
-- Share: of all device events
-- Columns:
--   annotation: name of the annotation, ProfilerStep* for steps; NULL for events that no annotation launched
--   event: label of the events
--   calls: number of events
--   total: sum of their durations
--   share_percent: sum in percent of all device events
--   per_call: mean duration of a call
--   min: shortest duration
--   max: longest duration
--   unit: the requested unit of time
CREATE MACRO annotation_kernels(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
summed AS (
    SELECT s.family AS annotation, l.label AS event, count(*) AS calls,
        try_cast(sum(l.end_ticks - l.start_ticks) AS BIGINT) AS ticks, min(l.end_ticks - l.start_ticks) AS shortest,
        max(l.end_ticks - l.start_ticks) AS longest
    FROM target AS a CROSS JOIN _launches((SELECT a.capture_id FROM target AS a)) AS l
    LEFT JOIN signatures AS s ON s.capture_id = a.capture_id AND s.signature_index = l.annotation_signature
    GROUP BY s.family, l.label
)
SELECT s.annotation, s.event, s.calls, _in_unit(s.ticks, a.scale) AS total,
    100 * s.ticks::DOUBLE / nullif(sum(s.ticks) OVER (), 0) AS share_percent,
    _in_unit(s.ticks::DOUBLE / s.calls, a.scale) AS per_call, _in_unit(s.shortest, a.scale) AS min,
    _in_unit(s.longest, a.scale) AS max, a.unit
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.ticks DESC, s.annotation, s.event;
