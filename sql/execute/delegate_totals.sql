-- The time of one DELEGATE_CALL of an event block, over the recorded runs, and
-- what of it the delegate's own events explain.
-- Columns:
--   block_index: the event block
--   method: the method that ran; where that is not known, the name of the runs, numbered where these ran several programs
--   chain_index: the chain of the instruction
--   instruction_id: the instruction that calls the delegate
--   calls: number of calls
--   total: time of the calls
--   ops: time of events within them that compute
--   copies: time of events within them that copy or convert
--   layout: time of events within them that only move dimensions
--   unaccounted: total less ops, copies and layout
--   avg: total / calls
--   share_percent: total in percent of the executes
--   unit: unit of total to avg
--   events: number of the delegate's events
--   other_events: how many of these are on another clock or count no time, and so are in none of the parts
CREATE MACRO delegate_totals(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    skip_first := 0,  -- runs of each name to leave out at the start, as in `schedule`
    wait := 0,  -- as in `schedule`
    warmup := 0,  -- as in `schedule`
    active := 1,  -- as in `schedule`
    repeat := 0,  -- as in `schedule`
    skip_first_wait := 0,  -- as in `schedule`
    phase := NULL,  -- runs of that phase alone: load, prefill, decode, other; NULL: all
    method := NULL,  -- runs of that method alone, as the column `method` has it; NULL: all
    runs := 'typical'  -- typical: only runs that took about as long as most of their event block, see `typical_runs`; all
) AS TABLE
WITH
asked AS (
    SELECT c.capture_id, c.time_scale, c.unit FROM _capture(capture, unit) AS c
),
timed AS (
    SELECT
        s.block_index,
        r.scope AS method,
        s.chain_index,
        s.instruction_id,
        s.kind,
        _delegate_part(s.family) AS part,
        t.is_added,
        t.duration_ticks,
        t.self_ticks,
        t.event_index = t.execute_index AS is_execute
    FROM _self_times(
        _capture_id(capture),
        skip_first, wait, warmup, active, repeat, skip_first_wait, phase,
        method, runs
    ) AS t
    CROSS JOIN asked AS a
    JOIN signatures AS s
        ON s.capture_id = a.capture_id
        AND s.signature_index = t.signature_index
    JOIN runs AS r
        ON r.capture_id = a.capture_id AND r.run_index = t.run_index
    WHERE t.execute_index IS NOT NULL
),
calls AS (
    SELECT
        t.block_index,
        t.method,
        t.chain_index,
        t.instruction_id,
        count(*) FILTER (WHERE t.kind = 'delegate_call') AS calls,
        try_cast(sum(t.duration_ticks) FILTER (
            WHERE t.kind = 'delegate_call'
        ) AS BIGINT) AS total,
        coalesce(try_cast(sum(t.self_ticks) FILTER (
            WHERE t.kind = 'delegate' AND t.is_added AND t.part = 'ops'
        ) AS BIGINT), 0) AS ops,
        coalesce(try_cast(sum(t.self_ticks) FILTER (
            WHERE t.kind = 'delegate' AND t.is_added AND t.part = 'copies'
        ) AS BIGINT), 0) AS copies,
        coalesce(try_cast(sum(t.self_ticks) FILTER (
            WHERE t.kind = 'delegate' AND t.is_added AND t.part = 'layout'
        ) AS BIGINT), 0) AS layout,
        count(*) FILTER (WHERE t.kind = 'delegate') AS events,
        count(*) FILTER (WHERE t.kind = 'delegate' AND NOT t.is_added)
            AS other_events
    FROM timed AS t
    WHERE t.kind IN ('delegate', 'delegate_call')
    GROUP BY t.block_index, t.method, t.chain_index, t.instruction_id
),
scale AS (
    SELECT
        _multiplier(a.time_scale, a.unit) AS multiplier,
        _divisor(a.time_scale, a.unit) AS divisor,
        a.unit,
        (
            SELECT try_cast(sum(t.duration_ticks) AS BIGINT)
            FROM timed AS t
            WHERE t.is_execute AND t.is_added
        ) AS execute_ticks
    FROM asked AS a
)
SELECT
    c.block_index,
    c.method,
    c.chain_index,
    c.instruction_id,
    c.calls,
    c.total * x.multiplier / x.divisor AS total,
    c.ops * x.multiplier / x.divisor AS ops,
    c.copies * x.multiplier / x.divisor AS copies,
    c.layout * x.multiplier / x.divisor AS layout,
    (c.total - c.ops - c.copies - c.layout) * x.multiplier / x.divisor
        AS unaccounted,
    c.total / nullif(c.calls, 0) * x.multiplier / x.divisor AS avg,
    100 * c.total / nullif(x.execute_ticks, 0) AS share_percent,
    x.unit AS unit,
    c.events,
    c.other_events
FROM calls AS c
CROSS JOIN scale AS x
ORDER BY c.total DESC, c.block_index, c.chain_index, c.instruction_id;
