-- One event of one run, as a timeline draws it: where it lies, in which lane and
-- how deep. What is on a delegate's own clock is laid into the call that contains
-- it, as far from the call's start as it is from the first event within; bare
-- values one after the other; both are shrunk where they are longer than the
-- call, or in no unit of time. Such places are estimates. What has no place at
-- all (bytes, counts, impossible times) has no row.
-- Columns:
--   run_index: the run
--   event_index: position in the run's list of events
--   signature_index: what event it is, in `signatures`
--   lane: host; of a trace the thread, or the device and stream
--   depth: number of the events of the run that it is within
--   parent_index: event_index of the event that contains it; NULL where none of its run does
--   kind: framework, user, operator_call, kernel, delegate_call, delegate, control, slice
--   event_name: the event's label
--   start: from the start of the run's first event on the host's clock
--   duration: how long it is drawn
--   exclusive: inclusive time less the events directly within it, where all are on the host's clock
--   is_estimated: whether start and duration are estimates
--   unit: unit of start, duration and exclusive
--   value: what was logged: the duration, in value_unit
--   value_unit: unit of value: the one asked for; for what is no time, its own
CREATE MACRO timeline(
    capture,  -- name, hash prefix, @latest or selector
    runs := NULL,  -- list of run_index: these runs alone; NULL: all
    unit := NULL  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
) AS TABLE
WITH RECURSIVE
asked AS (
    SELECT c.capture_id, c.time_scale, c.unit FROM _capture(capture, unit) AS c
),
chosen AS MATERIALIZED (
    SELECT
        t.run_index,
        t.event_index,
        e.signature_index,
        t.kind,
        t.event_name,
        CASE WHEN e.parent_run_index = e.run_index THEN t.parent_index END
            AS parent_index,
        t.start,
        t.inclusive,
        t.exclusive,
        t.unit AS value_unit,
        t.clock,
        e.start_ticks,
        _written_unit(e.value_unit, a.time_scale) AS written,
        a.unit
    FROM event_times(capture, unit) AS t
    CROSS JOIN asked AS a
    JOIN events AS e
        ON e.capture_id = a.capture_id
        AND e.run_index = t.run_index
        AND e.event_index = t.event_index
    WHERE t.inclusive IS NOT NULL
        AND t.unit NOT IN ('bytes', 'count')
        AND (runs IS NULL OR list_contains(runs, t.run_index))
),
deep AS (
    SELECT c.run_index, c.event_index, 0 AS depth
    FROM chosen AS c
    WHERE c.parent_index IS NULL
    UNION ALL
    SELECT c.run_index, c.event_index, d.depth + 1
    FROM deep AS d
    JOIN chosen AS c
        ON c.run_index = d.run_index AND c.parent_index = d.event_index
),
-- What has to be laid into its call: from the call's start, in its own unit.
within AS (
    SELECT
        c.run_index,
        c.event_index,
        p.start AS call_start,
        p.inclusive AS call_duration,
        c.value_unit = c.unit AS is_time,
        c.inclusive,
        CASE
            WHEN c.clock = 'delegate' THEN (
                c.start_ticks - min(c.start_ticks) OVER siblings
            ) * _multiplier(c.written, c.unit) / _divisor(c.written, c.unit)
            ELSE sum(c.inclusive) OVER (
                siblings ORDER BY c.event_index
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) - c.inclusive
        END AS past
    FROM chosen AS c
    JOIN chosen AS p
        ON p.run_index = c.run_index AND p.event_index = c.parent_index
    WHERE c.clock <> 'host' AND p.start IS NOT NULL
    WINDOW siblings AS (PARTITION BY c.run_index, c.parent_index, c.clock, c.value_unit)
),
laid AS (
    SELECT
        w.*,
        CASE
            WHEN w.is_time AND w.whole <= w.call_duration THEN 1
            ELSE coalesce(w.call_duration / nullif(w.whole, 0), 0)
        END AS scale
    FROM (
        SELECT
            w.*,
            max(w.past + w.inclusive)
                OVER (PARTITION BY w.run_index, w.call_start, w.is_time) AS whole
        FROM within AS w
    ) AS w
),
devices AS (
    SELECT
        d.run_index,
        d.event_index,
        'device ' || d.device || coalesce(' stream ' || d.stream, '') AS lane
    FROM asked AS a
    JOIN device_events AS d ON d.capture_id = a.capture_id
),
on_threads AS (
    SELECT
        v.run_index,
        v.event_index,
        coalesce(h.thread_name, 'thread ' || h.thread) AS lane
    FROM asked AS a
    JOIN trace_events AS v ON v.capture_id = a.capture_id
    JOIN threads AS h
        ON h.capture_id = v.capture_id AND h.thread_index = v.thread_index
)
SELECT
    c.run_index,
    c.event_index,
    c.signature_index,
    coalesce(v.lane, h.lane, 'host') AS lane,
    d.depth,
    c.parent_index,
    c.kind,
    c.event_name,
    coalesce(c.start, l.call_start + l.past * l.scale) AS start,
    CASE
        WHEN c.start IS NOT NULL THEN c.inclusive ELSE l.inclusive * l.scale
    END AS duration,
    c.exclusive,
    c.start IS NULL AS is_estimated,
    c.unit,
    c.inclusive AS value,
    c.value_unit
FROM chosen AS c
JOIN deep AS d ON d.run_index = c.run_index AND d.event_index = c.event_index
LEFT JOIN laid AS l
    ON l.run_index = c.run_index AND l.event_index = c.event_index
LEFT JOIN devices AS v
    ON v.run_index = c.run_index AND v.event_index = c.event_index
LEFT JOIN on_threads AS h
    ON h.run_index = c.run_index AND h.event_index = c.event_index
WHERE c.start IS NOT NULL OR l.scale IS NOT NULL
ORDER BY c.run_index, c.start, d.depth, c.event_index;
