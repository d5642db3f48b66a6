-- One event of a run that the Inspector leaves out because it repeats another one. Of the events of a slot in a run, the
-- Inspector collects those of each chain, in the order in which the chains' instructions began, and keeps the last. If
-- chains take turns, this is not the last in the file.
CREATE MACRO _left_out_repeats(
    times  -- a table with events of a capture: their slot, occurrence, chain_index, instruction_id, kind and label
) AS TABLE
WITH ordered AS (
    SELECT t.run_index, t.event_index, t.slot,
        min(t.event_index) OVER (
            PARTITION BY t.run_index, t.chain_index, t.instruction_id, CASE t.kind WHEN 'delegate' THEN t.label END
        ) AS begins_at
    FROM query_table(times) AS t
    -- Few captures have repeats, and numbering all events takes long.
    WHERE coalesce(t.instruction_id, -1) IN (
        SELECT coalesce(r.instruction_id, -1) FROM query_table(times) AS r WHERE r.occurrence > 0
    )
)
SELECT o.run_index, o.event_index
FROM ordered AS o
QUALIFY row_number() OVER (PARTITION BY o.run_index, o.slot ORDER BY o.begins_at DESC, o.event_index DESC) > 1;

-- One event of a block, with lists of the values that its runs logged, for the columns of `etq.Inspector` that
-- `inspector_events` lacks. Durations are those of the Inspector: if a 32-bit clock wraps, they are one tick too short;
-- and start and end of delegates' events are scaled separately, as floats.
CREATE MACRO _event_lists(
    capture_key, unit,
    repeats  -- all: all occurrences in a run; last: only the last
) AS TABLE
WITH logged_events AS (
    SELECT s.block_index, s.slot, t.occurrence, s.chain_index, s.instruction_id, s.kind, s.label,
        coalesce(s.delegate_debug_id::VARCHAR, s.delegate_debug_str) IS NOT NULL AS is_delegated, t.run_index,
        t.event_index, t.start_ticks, t.start_ticks + t.elapsed_ticks AS end_ticks,
        coalesce(_nanoseconds(unit) / _nanoseconds(c.time_scale), 1.0)::DOUBLE AS divisor
    FROM captures AS c
    JOIN event_ticks AS t USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE c.capture_id = capture_key
),
chosen AS (
    SELECT l.*, CASE WHEN l.is_delegated THEN l.start_ticks / l.divisor ELSE l.start_ticks END AS start,
        CASE WHEN l.is_delegated THEN l.end_ticks / l.divisor ELSE l.end_ticks END AS stop
    FROM logged_events AS l
    LEFT JOIN (FROM _left_out_repeats('logged_events') AS o WHERE repeats = 'last') AS o USING (run_index, event_index)
    WHERE o.run_index IS NULL
),
timed AS (
    SELECT c.*,
        CASE
            WHEN c.start <= c.stop THEN c.stop - c.start
            WHEN c.start <= 4294967295 THEN 4294967295 - c.start + c.stop
        END / CASE WHEN c.is_delegated THEN 1 ELSE c.divisor END AS duration
    FROM chosen AS c
)
SELECT t.block_index, t.slot, CASE WHEN repeats = 'all' THEN t.occurrence ELSE 0 END AS occurrence, t.is_delegated,
    list(t.duration ORDER BY t.run_index, t.event_index) AS raw,
    list(t.start_ticks ORDER BY t.run_index, t.event_index) AS starts,
    list(t.end_ticks ORDER BY t.run_index, t.event_index) AS ends
FROM timed AS t
GROUP BY ALL;

-- One event with its values in the lists `raw` and `start_ticks` of `inspector_events`. It is for callers that group
-- events faster than lists can be made.
CREATE MACRO _event_values(capture_key, unit) AS TABLE
WITH scales AS (
    SELECT s.capture_id, s.signature_index, _scale(_stored_unit(s.value_unit, c.time_scale), unit) AS scale
    FROM captures AS c
    JOIN signatures AS s USING (capture_id)
    WHERE c.capture_id = capture_key
)
SELECT e.signature_index, e.occurrence, e.run_index,
    _in_unit(_duration_ticks(e.elapsed_ticks, e.unwrapped_ticks), s.scale) AS raw, e.start_ticks
FROM event_ticks AS e
JOIN scales AS s USING (capture_id, signature_index);

-- Statistics of a list of numbers, as in `inspector_events`; NULL for an empty list.
CREATE MACRO _list_statistics(numbers) AS (
    {
        'p10': list_aggregate(numbers, 'quantile_cont', 0.1), 'p50': list_aggregate(numbers, 'quantile_cont', 0.5),
        'p90': list_aggregate(numbers, 'quantile_cont', 0.9), 'avg': _list_average(numbers),
        'min': list_aggregate(numbers, 'min'), 'max': list_aggregate(numbers, 'max')
    }
);

-- Mean of a list of numbers. Up to 128 numbers are added in numpy's order, in eight separate sums. So the result equals
-- numpy's to the last bit, and is rounded like the Inspector's output.
CREATE MACRO _list_average(numbers) AS (
    CASE
        WHEN len(numbers) BETWEEN 8 AND 128 AND list_count(numbers) = len(numbers) THEN
            list_aggregate(
                list_prepend(
                    ((_lane(numbers, 1) + _lane(numbers, 2)) + (_lane(numbers, 3) + _lane(numbers, 4)))
                    + ((_lane(numbers, 5) + _lane(numbers, 6)) + (_lane(numbers, 7) + _lane(numbers, 8))),
                    numbers[len(numbers) // 8 * 8 + 1:]
                ),
                'sum'
            ) / len(numbers)
        WHEN len(numbers) < 8 THEN list_aggregate(numbers, 'avg')
        ELSE list_aggregate(numbers, 'favg')
    END
);

-- Sum of every eighth number of a list, up to a multiple of eight.
CREATE MACRO _lane(
    numbers,
    first  -- the first number to add, from 1 to 8
) AS (list_aggregate(numbers[first:len(numbers) // 8 * 8:8], 'sum'));
