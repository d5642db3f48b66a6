-- The time of one DELEGATE_CALL of an event block, over the recorded runs, and the part that the delegate's events
-- account for. Events that don't fit into their calls, such as those of asynchronous backends, don't count towards that
-- part.
-- Needs: dump; else: kernel_table
-- Empty: {capture} called no delegate; for its kernels: etq ops
-- Shown: block_index#, method, instruction_id!#, per_execute!~, per_call~, share_percent!%, ops / executes AS
--   ops_per_execute!~, copies / executes AS copies_per_execute!~, layout / executes AS layout_per_execute!~,
--   unaccounted / executes AS unaccounted_per_execute!~, microkernels / executes AS microkernels_per_execute~, calls!#,
--   events#, other_events#, total+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   block_index: the event block
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   chain_index: the chain of the instruction
--   instruction_id: the instruction that calls the delegate
--   calls: number of calls, without those nested in a call of the same instruction
--   total: time of the calls; NULL if none has a time
--   ops: self time of events within them that compute
--   copies: self time of events within them that copy or convert
--   layout: self time of events within them that only move dimensions
--   unaccounted: total minus ops, copies and layout
--   microkernels: time that XNNPACK logged for its microkernels, summed over its threads; NULL where it logged none
--   per_call: total / calls
--   share_percent: total in percent of the executes
--   unit: unit of times
--   events: number of the delegate's events, and of kernels that it runs within its calls
--   other_events: number of these events that are in none of the parts, because they are on another clock, aren't times, are detached (see `events`), or are within no call
--   executes: number of executes of the method
--   per_execute: total / executes; NULL where total is
CREATE MACRO delegate_totals(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH RECURSIVE target AS MATERIALIZED (
    FROM _scaled_capture_with_method(capture, unit, method)
),
timed AS MATERIALIZED (
    SELECT s.block_index, t.scope AS method, s.chain_index, s.instruction_id, s.kind, _delegate_part(s.family) AS part,
        t.run_index, t.event_index, t.parent_index, t.is_additive, t.duration_ticks, t.self_ticks, t.execute_ticks,
        t.is_execute, t.is_impossible
    FROM target AS a
    JOIN signatures AS s USING (capture_id)
    JOIN _run_events('target', steps, phase, method, runs) AS t USING (signature_index)
    WHERE t.execute_index IS NOT NULL
),
logged AS (
    SELECT e.run_index, e.event_index, _microkernel(e.delegate_metadata)['us'] AS microkernel_us
    FROM target AS a
    JOIN event_ticks AS e USING (capture_id)
    WHERE e.delegate_metadata IS NOT NULL
),
-- A delegate's events within its calls, and kernels that it runs there; a delegate's events may enclose each other.
within AS (
    SELECT t.run_index, t.event_index
    FROM timed AS t
    JOIN timed AS c ON c.run_index = t.run_index AND c.event_index = t.parent_index
    WHERE t.kind IN ('delegate', 'kernel') AND c.kind = 'delegate_call'
    UNION ALL
    SELECT t.run_index, t.event_index
    FROM within AS w
    JOIN timed AS t ON t.run_index = w.run_index AND t.parent_index = w.event_index
    WHERE t.kind = 'delegate'
),
placed AS (
    SELECT t.*, t.kind = 'delegate_call' AND t.is_additive AND i.run_index IS NULL AS is_call,
        t.is_additive AND c.run_index IS NOT NULL AS is_part, l.microkernel_us
    FROM timed AS t
    LEFT JOIN logged AS l ON l.run_index = t.run_index AND l.event_index = t.event_index
    LEFT JOIN within AS c ON c.run_index = t.run_index AND c.event_index = t.event_index
    LEFT JOIN _inner_calls('target') AS i
        ON i.run_index = t.run_index AND i.event_index = t.event_index
    WHERE t.kind IN ('delegate', 'delegate_call') OR c.run_index IS NOT NULL
),
calls AS (
    SELECT p.block_index, p.method, p.chain_index, p.instruction_id, count(*) FILTER (WHERE p.is_call) AS calls,
        try_cast(sum(p.duration_ticks) FILTER (WHERE p.is_call AND NOT p.is_impossible) AS BIGINT) AS total,
        coalesce(try_cast(sum(p.self_ticks) FILTER (WHERE p.is_part AND p.part = 'ops') AS BIGINT), 0) AS ops,
        coalesce(try_cast(sum(p.self_ticks) FILTER (WHERE p.is_part AND p.part = 'copies') AS BIGINT), 0) AS copies,
        coalesce(try_cast(sum(p.self_ticks) FILTER (WHERE p.is_part AND p.part = 'layout') AS BIGINT), 0) AS layout,
        try_cast(sum(p.microkernel_us) FILTER (WHERE p.is_part) AS BIGINT) AS microkernel_us,
        count(*) FILTER (WHERE p.kind <> 'delegate_call') AS events,
        count(*) FILTER (WHERE p.kind <> 'delegate_call' AND NOT p.is_part) AS other_events
    FROM placed AS p
    GROUP BY p.block_index, p.method, p.chain_index, p.instruction_id
),
executes AS (SELECT t.method, nullif(count(*), 0) AS number FROM timed AS t WHERE t.is_execute GROUP BY t.method),
scale AS (
    SELECT a.unit, a.scale, CASE WHEN _nanoseconds(a.unit) IS NOT NULL THEN _scale('us', a.unit) END AS us_scale,
        (SELECT try_cast(sum(t.execute_ticks) AS BIGINT) FROM timed AS t WHERE t.is_additive) AS execute_ticks
    FROM target AS a
)
SELECT c.block_index, c.method, c.chain_index, c.instruction_id, c.calls, _in_unit(c.total, x.scale) AS total,
    _in_unit(c.ops, x.scale) AS ops, _in_unit(c.copies, x.scale) AS copies, _in_unit(c.layout, x.scale) AS layout,
    _in_unit(c.total - c.ops - c.copies - c.layout, x.scale) AS unaccounted,
    _in_unit(c.microkernel_us, x.us_scale) AS microkernels, _in_unit(c.total / nullif(c.calls, 0), x.scale) AS per_call,
    100e0 * c.total / nullif(x.execute_ticks, 0) AS share_percent, x.unit AS unit, c.events, c.other_events,
    n.number AS executes, _in_unit(c.total / n.number, x.scale) AS per_execute
FROM calls AS c
LEFT JOIN executes AS n ON n.method = c.method
CROSS JOIN scale AS x
ORDER BY c.total DESC, c.block_index, c.chain_index, c.instruction_id;
