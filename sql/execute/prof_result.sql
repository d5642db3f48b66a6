-- A number rounded to 4 decimal places as by Python's `round`: by the exact value of the double, and halves to the even
-- digit. DuckDB's `round` multiplies first, so that numbers near a half may be rounded differently.
CREATE MACRO _round_half_even(value) AS (format('{:.4f}', value::DOUBLE)::DOUBLE);

-- A whole number of ticks divided by a power of ten, as the nearest double. It is made from a text of digits and
-- exponent, which is rounded only once.
CREATE MACRO _exact_quotient(
    ticks,  -- a whole number, of any size
    digits  -- the divisor is ten to the power of this
) AS ((ticks::VARCHAR || 'e-' || digits::VARCHAR)::DOUBLE);

-- One entry of one iteration of a block of a prof_result, with the times of ExecuTorch's old parser of that format.
-- Ticks of ns and us become ms, divided by 1000000 and 1000; ms and cycles are kept; all are rounded to 4 decimal
-- places. `event_times` has unrounded times in any unit.
-- Shown: event_name!, block!, iteration!#, duration! (time), start! (time), instruction_id#, chain_index#, run_index#,
--   unit
-- Columns:
--   block: the block's name
--   entry: position of the entry in the block
--   event_name: the entry's name
--   chain_index: the chain; -1 for none
--   instruction_id: the instruction; NULL for none
--   iteration: position among the blocks of that name, from 0
--   run_index: the run
--   start: clock at the start, in unit
--   duration: time from start to end, in unit; below 0 if the clock ran backward
--   start_ticks: clock at the start, as written
--   elapsed_ticks: end - start, as written
--   unit: unit of start and duration: ms, or cycles
CREATE MACRO prof_result_profile(
    capture,  -- name, hash prefix, @latest or selector of a prof_result
    time_scale := NULL  -- unit of one tick: ns, us, ms, cycles; NULL: the capture's
) AS TABLE
WITH target AS (
    SELECT p.capture_id,
        CASE coalesce(time_scale, p.time_scale)
            WHEN 'ns' THEN 6
            WHEN 'us' THEN 3
            WHEN 'ms' THEN 0
            WHEN 'cycles' THEN 0
            ELSE error(
                'the old parser has no time scale '
                || coalesce(time_scale, p.time_scale) || '; it knows ns, us, ms, cycles'
            )
        END AS digits,
        CASE coalesce(time_scale, p.time_scale) WHEN 'cycles' THEN 'cycles' ELSE 'ms' END AS unit
    FROM _prof_result(capture) AS p
),
-- The clock is unsigned: a negative value is 2**63 or more.
written AS (
    SELECT t.run_index, t.event_index, t.signature_index,
        (t.start_ticks::HUGEINT + 18446744073709551616) % 18446744073709551616 AS start_ticks,
        (t.start_ticks::HUGEINT + t.elapsed_ticks + 36893488147419103232) % 18446744073709551616 AS end_ticks
    FROM event_ticks AS t
    JOIN target AS a USING (capture_id)
)
SELECT r.name AS block, w.event_index AS entry, s.label AS event_name, s.chain_index, s.instruction_id, r.iteration,
    w.run_index, _round_half_even(_exact_quotient(w.start_ticks, a.digits)) AS start,
    _round_half_even(_exact_quotient(w.end_ticks - w.start_ticks, a.digits)) AS duration, w.start_ticks,
    w.end_ticks - w.start_ticks AS elapsed_ticks, a.unit
FROM target AS a CROSS JOIN written AS w
JOIN runs AS r USING (capture_id, run_index)
JOIN signatures AS s USING (capture_id, signature_index)
ORDER BY min(w.run_index) OVER (PARTITION BY r.name), w.event_index, w.run_index;

-- The framework tax of one iteration of a block of a prof_result, as ExecuTorch's old parser computes it, from rounded
-- durations. `framework_tax` computes it from ticks, and identifies kernels and delegates by nesting. If a block has
-- several entries of Method::execute, the old parser takes the one that is longest in the first iteration. This view
-- takes the longest one of each iteration.
-- Shown: block!, iteration!#, tax_percent!%, execute! (time), work! (time), run_index#, unit
-- Columns:
--   block: the block's name; blocks without Method::execute, or without work, have no rows
--   iteration: position among the blocks of that name, from 0
--   run_index: the run
--   execute: duration of the longest entry whose name contains Method::execute
--   work: durations of all entries whose names contain native_call or delegate_execute
--   tax_percent: execute minus work, in percent of execute, rounded to 2 decimal places; NULL if execute is 0
--   unit: unit of execute and work: ms, or cycles
CREATE MACRO prof_result_tax(
    capture,  -- name, hash prefix, @latest or selector of a prof_result
    time_scale := NULL  -- unit of one tick: ns, us, ms, cycles; NULL: the capture's
) AS TABLE
WITH added AS (
    SELECT p.block, p.iteration, p.run_index, p.unit,
        max(p.duration) FILTER (WHERE contains(p.event_name, 'Method::execute')) AS execute,
        -- Durations are added one after the other, as in the old parser, because sums of doubles depend on the order.
        list_reduce(
            list(p.duration ORDER BY p.entry) FILTER (
                WHERE contains(p.event_name, 'native_call') OR contains(p.event_name, 'delegate_execute')
            ),
            lambda sum, duration: sum + duration
        ) AS work
    FROM prof_result_profile(capture, time_scale) AS p
    GROUP BY p.block, p.iteration, p.run_index, p.unit
)
SELECT a.block, a.iteration, a.run_index, a.execute, a.work,
    100 * _round_half_even((a.execute - a.work) / nullif(a.execute, 0)) AS tax_percent, a.unit
FROM added AS a
WHERE a.execute IS NOT NULL AND a.work IS NOT NULL
ORDER BY min(a.run_index) OVER (PARTITION BY a.block), a.run_index;
