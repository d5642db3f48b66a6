-- One compilation by torch.compile in a trace, of a function or of its backward pass, that is not within another of its
-- thread. If a function is compiled again because a guard of the graph fails, that is a recompilation: its id ends in a
-- number above 0. The id is from the annotations of newer traces; in older traces, it is from the region that first
-- runs in the thread after the compilation. In the order of their starts.
-- Needs: torch_trace
-- Empty: {capture} has no events of torch.compile at work
-- Shown: step#, compile_id!, recompilation!#, is_backward, time!~, dynamo~, aot_autograd~, inductor~, autotuning~,
--   source, reason|, unit
-- Columns:
--   step: number of the step in which it begins; NULL outside of steps
--   compile_id: numbers of the function and of its compilation, such as 0/1; NULL if the trace doesn't state it
--   recompilation: how often the function was compiled before; 0 for the first time, NULL if the trace doesn't state it
--   is_backward: whether the backward pass was compiled alone, when it first ran
--   source: the innermost line of the user's code around it; NULL without stacks
--   time: time of the compilation
--   dynamo: part of it in TorchDynamo, as in `compilation`
--   aot_autograd: part of it in AOTAutograd
--   inductor: part of it in Inductor
--   autotuning: part of it in autotuning
--   reason: why it was compiled again, if the trace has an annotation with recompile_reason=; NULL otherwise: torch writes it to its log (TORCH_LOGS=recompiles)
--   start: when it begins, from the start of the trace
--   unit: the requested unit of time
CREATE MACRO compilations(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
outermost AS MATERIALIZED (
    SELECT c.run_index, c.event_index, c.thread_index, c.start_ticks, c.end_ticks, c.label
    FROM _compiling_within((SELECT a.capture_id FROM target AS a)) AS c
    WHERE c.outermost_index = c.event_index
),
-- The annotations of newer traces, and the regions of compiled code.
named AS MATERIALIZED (
    SELECT e.thread_index, e.start_ticks, n.id, n.reason, n.is_region
    FROM target AS a
    JOIN (
        SELECT i.capture_id, s.signature_index,
            regexp_extract(s.label, '(^Torch-Compiled Region: |\bcompile_id=)(!?[0-9][0-9/]*)', 2) AS id,
            nullif(regexp_extract(s.label, 'recompile_reason=(.*)$', 1), '') AS reason,
            starts_with(s.label, 'Torch-Compiled') AS is_region
        FROM target AS i
        JOIN signatures AS s USING (capture_id)
        WHERE NOT s.on_device AND (contains(s.label, '_data: ') OR starts_with(s.label, 'Torch-Compiled Region: '))
    ) AS n USING (capture_id)
    JOIN trace_events AS e ON e.capture_id = n.capture_id AND e.event_signature = n.signature_index
    WHERE n.id <> ''
),
told AS (
    SELECT o.event_index, arg_min(n.id, n.start_ticks) AS id, min(n.reason) AS reason
    FROM (FROM named AS i WHERE NOT i.is_region) AS n
    ASOF JOIN outermost AS o ON o.thread_index = n.thread_index AND row(n.start_ticks) >= row(o.start_ticks)
    WHERE n.start_ticks <= o.end_ticks
    GROUP BY o.event_index
),
regions AS (
    SELECT r.thread_index, r.start_ticks, r.id,
        row_number() OVER (PARTITION BY r.id ORDER BY r.start_ticks, r.thread_index) = 1 AS is_first
    FROM named AS r
    WHERE r.is_region
),
identified AS (
    SELECT o.event_index, o.run_index, o.start_ticks, starts_with(o.label, 'entire_backward') AS is_backward, t.reason,
        coalesce(t.id, CASE WHEN r.is_first THEN r.id END) AS id
    FROM outermost AS o
    LEFT JOIN told AS t USING (event_index)
    ASOF LEFT JOIN regions AS r ON r.thread_index = o.thread_index AND row(o.end_ticks) <= row(r.start_ticks)
)
SELECT w.step, i.id AS compile_id, try_cast(regexp_extract(i.id, '/([0-9]+)$', 1) AS BIGINT) AS recompilation,
    i.is_backward, nullif(e.source, '') AS source, _in_unit(s.ticks, a.scale) AS time,
    _in_unit(s.dynamo, a.scale) AS dynamo, _in_unit(s.aot_autograd, a.scale) AS aot_autograd,
    _in_unit(s.inductor, a.scale) AS inductor, _in_unit(s.autotuning, a.scale) AS autotuning, i.reason,
    _in_unit(i.start_ticks - r.start_ticks, a.scale) AS start, a.unit
FROM target AS a CROSS JOIN identified AS i
JOIN _compiled_ticks((SELECT o.capture_id FROM target AS o), 'compilation') AS s ON s.key = i.event_index
JOIN trace_events AS e ON e.capture_id = a.capture_id AND e.event_index = i.event_index
CROSS JOIN _recording((SELECT o.capture_id FROM target AS o)) AS r
LEFT JOIN trace_steps AS w ON w.capture_id = a.capture_id AND w.run_index = i.run_index
ORDER BY i.start_ticks, i.event_index;
