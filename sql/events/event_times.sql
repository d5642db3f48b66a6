-- The events of the selected runs of a capture, with starts on a clock without wraparound. If the counter has 32 bits,
-- times are counted back from the time at which the last event of the host's clock in their run was logged, as less than
-- the counter's range. The counter wrapped between two runs if that time is lower in the later one.
CREATE MACRO _monotonic_times(
    target,  -- a table with the capture: capture_id, format, time_scale, clock_bits
    steps, phase, method, runs
) AS TABLE
WITH
-- The time at which the last event of each run was logged: its end in an ETDump, its start in a prof_result.
last_logged AS (
    SELECT r.dump_index, e.run_index, max(e.event_index) AS last_index,
        arg_max(
            CASE a.format WHEN 'prof_result' THEN e.start_ticks ELSE e.start_ticks + e.elapsed_ticks END, e.event_index
        ) AS last_ticks
    FROM query_table(target) AS a
    JOIN event_ticks AS e USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    JOIN runs AS r USING (capture_id, run_index)
    WHERE a.clock_bits = 32
        AND s.kind <> 'delegate'
        AND e.start_ticks BETWEEN 0 AND 4294967295
        AND e.start_ticks + e.elapsed_ticks BETWEEN CASE e.start_ticks WHEN 0 THEN 0 ELSE 1 END AND 4294967295
    GROUP BY r.dump_index, e.run_index
),
falls AS (
    SELECT l.*, l.last_ticks < lag(l.last_ticks) OVER (PARTITION BY l.dump_index ORDER BY l.run_index) AS has_wrapped
    FROM last_logged AS l
),
wraps AS (
    SELECT f.run_index, f.last_index, f.last_ticks,
        count(CASE WHEN f.has_wrapped THEN 1 END) OVER (PARTITION BY f.dump_index ORDER BY f.run_index) AS wraps
    FROM falls AS f
),
with_clock AS (
    SELECT e.run_index, e.event_index, e.signature_index, s.kind, s.label, s.family, s.instruction_id, s.clock,
        _stored_unit(s.value_unit, a.time_scale) AS written_unit, e.parent_index,
        coalesce(e.parent_run_index, e.run_index) AS parent_run_index,
        _duration_ticks(e.elapsed_ticks, e.unwrapped_ticks) AS known_ticks, e.self_ticks,
        s.clock = 'host' AND s.value_unit = 'ticks' AS is_placed,
        CASE
            WHEN e.start_ticks NOT BETWEEN 0 AND 4294967295 THEN e.start_ticks
            -- Delegates' events may be logged later, and begin later.
            WHEN e.event_index > w.last_index
                THEN w.last_ticks + (e.start_ticks - w.last_ticks + 6442450944) % 4294967296 - 2147483648
            ELSE w.last_ticks - (w.last_ticks - e.start_ticks + 4294967296) % 4294967296
        END AS counted_back,
        coalesce(counted_back + 4294967296 * w.wraps, e.start_ticks) AS clock_ticks,
        r.scope, r.block_index, r.name AS block, r.iteration, r.dump_index
    FROM query_table(target) AS a
    JOIN event_ticks AS e USING (capture_id)
    JOIN (SELECT s.* FROM query_table(target) AS a JOIN signatures AS s USING (capture_id)) AS s USING (signature_index)
    JOIN (SELECT r.* FROM query_table(target) AS a JOIN runs AS r USING (capture_id)) AS r USING (run_index)
    LEFT JOIN wraps AS w USING (run_index)
    WHERE _is_selected_run(r.iteration, r.phase, r.scope, r.is_typical, steps, phase, method, runs)
)
SELECT t.* EXCLUDE (known_ticks, counted_back), coalesce(t.known_ticks, 0) AS duration_ticks,
    t.known_ticks IS NULL AS is_impossible,
    min(t.clock_ticks) FILTER (WHERE t.is_placed) OVER (PARTITION BY t.run_index) AS origin_ticks
FROM with_clock AS t;

-- One event of one run: its start, its total and its self time. Rows are in the order of the file: by the events' ends
-- in an ETDump, by their starts in a prof_result.
-- Shown: event_name!, run_index!#, total! (time), self_time! (time), start (time), unit, instruction_id#, kind, family,
--   method, iteration#
-- Columns:
--   run_index: the run
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   event_index: position in the run's list of events
--   kind: framework, user, operator_call, kernel, delegate_call, delegate, control
--   event_name: label of the event
--   family: label without serial numbers and wrappers
--   instruction_id: the instruction; NULL where none is named
--   parent_index: event_index of the event that contains it; NULL where none does
--   start: start relative to the run's first event on the host's clock; NULL for events on another clock
--   total: total time, end minus start; NULL if the times are impossible
--   self_time: total minus the total of its children, if all are on the host's clock
--   unit: unit of start, total and self_time: the requested one; values that are not times keep theirs
--   clock: host; delegate: the delegate's clock; synthetic: a bare value
--   signature_index: the event's signature; `event_nodes` has the nodes of each signature
--   block_index: the event block
--   block: name of its runs
--   iteration: position of the run among the runs of its name, from 0
CREATE MACRO event_times(capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'all') AS TABLE
WITH target AS MATERIALIZED (
    SELECT a.*, c.format, c.clock_bits
    FROM _capture_with_method(capture, unit, method) AS a
    JOIN captures AS c USING (capture_id)
),
named AS (
    SELECT t.*, a.unit, _scale(t.written_unit, a.unit) AS scale
    FROM _monotonic_times('target', steps, phase, method, runs) AS t CROSS JOIN target AS a
)
SELECT n.run_index, n.scope AS method, n.event_index, n.kind, n.label AS event_name, n.family, n.instruction_id,
    n.parent_index, CASE WHEN n.clock = 'host' THEN _in_unit(n.clock_ticks - n.origin_ticks, n.scale) END AS start,
    CASE WHEN NOT n.is_impossible THEN _in_unit(n.duration_ticks, n.scale) END AS total,
    CASE WHEN NOT n.is_impossible THEN _in_unit(n.self_ticks, n.scale) END AS self_time,
    _display_unit(n.written_unit, n.unit) AS unit, n.clock, n.signature_index, n.block_index, n.block, n.iteration
FROM named AS n
ORDER BY n.run_index, n.event_index;
