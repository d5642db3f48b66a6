-- The durations that the clocks of captures in a range of keys measured, each with its number of events. Only captures
-- whose clocks are not stored yet have rows. Events that are in no total are left out, because they need no precise
-- clock.
CREATE MACRO _clock_durations(first_key, last_key) AS TABLE
SELECT e.capture_id,
    CASE WHEN s.kind = 'delegate' THEN 'delegate' WHEN s.on_device THEN 'device' ELSE 'host' END AS clock,
    _duration_ticks(e.elapsed_ticks, e.unwrapped_ticks) AS ticks, count(*) AS events
FROM (FROM event_ticks AS i WHERE i.capture_id BETWEEN first_key AND last_key) AS e
JOIN signatures AS s USING (capture_id, signature_index)
WHERE s.value_unit = 'ticks' AND s.clock <> 'synthetic' AND NOT e.is_detached
    AND e.capture_id NOT IN (SELECT k.capture_id FROM capture_clocks AS k)
GROUP BY ALL
HAVING ticks IS NOT NULL;

-- The step of a clock of a capture: the time from one of its values to the next, estimated from the durations that it
-- measured. An event of less than a step has a time of 0 or of one step. Each capture has a row for each clock by which
-- events were timed.
-- Shown: clock!, step!~, events#, zeros#, median~, unit
-- Columns:
--   clock: host; delegate: the clock of delegates' events, which may differ from the host's; device: the clock of a trace's devices
--   step: its step; NULL if no step is seen, for example because the step is less than 8 ticks, or too few events were timed
--   events: number of events that it timed, without detached ones (see `events`)
--   zeros: number of these events with a time of 0
--   median: half of the events take at most this time
--   unit: unit of step and median
--   step_ticks: step in ticks of the capture
CREATE MACRO clock_steps(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit))
SELECT k.clock, _in_unit(k.step_ticks, a.scale) AS step, k.events, k.zeros, _in_unit(k.median_ticks, a.scale) AS median,
    a.unit, k.step_ticks
FROM target AS a
JOIN capture_clocks AS k ON k.capture_id = a.capture_id
ORDER BY k.clock;
