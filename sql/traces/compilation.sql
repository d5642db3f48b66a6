-- Whether an event of the host is torch.compile at work, by its purpose. Calls of compiled code, their lookup, and the
-- recording of graphs are not.
CREATE MACRO _is_compilation(purpose) AS (
    coalesce(purpose IN ('compiling'), false)
);

-- Whether an event of the host begins or ends the capture of a graph, or is the whole capture.
CREATE MACRO _is_capture(purpose, label) AS (
    coalesce(purpose = 'graph_capture' OR contains(label, 'BeginCapture') OR contains(label, 'EndCapture'), false)
);

-- The events of a trace in which torch.compile compiles, with the part of each; and the captures of graphs, from the
-- call that begins one to the call that ends it, in one thread.
CREATE MACRO _compiling(capture_key) AS TABLE
WITH names AS MATERIALIZED (
    SELECT i.signature_index, i.label, i.purpose, contains(i.label, 'BeginCapture') AS is_begin
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS i USING (capture_id)
    WHERE NOT i.on_device
        AND (_is_compilation(i.purpose) OR i.purpose LIKE 'graph_%' AND _is_capture(i.purpose, i.label))
),
found AS MATERIALIZED (
    SELECT e.run_index, e.event_index, e.thread_index, e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks,
        s.label, s.purpose, s.is_begin
    FROM names AS s
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS e ON e.event_signature = s.signature_index
    WHERE e.elapsed_ticks >= 0
)
SELECT f.run_index, f.event_index, f.thread_index, f.start_ticks, f.end_ticks, f.label, f.purpose
FROM found AS f
WHERE f.purpose <> 'graph_instantiation'
UNION ALL
SELECT c.run_index, c.event_index, c.thread_index, c.start_ticks, c.until_ticks, c.label, 'graph_capture'
FROM (
    SELECT f.*, lead(f.end_ticks) OVER calls AS until_ticks, lead(f.is_begin) OVER calls AS is_next_begin
    FROM found AS f
    WHERE f.purpose = 'graph_instantiation'
    WINDOW calls AS (PARTITION BY f.thread_index ORDER BY f.start_ticks, f.event_index)
) AS c
WHERE c.is_begin AND NOT c.is_next_begin;

-- One compilation of a trace with the events of torch.compile in it: events that no other one of their thread contains
-- have `place` 1; of others, `outermost_index` is the outermost event that contains them.
CREATE MACRO _compiling_within(capture_key) AS TABLE
WITH ordered AS (
    SELECT c.*,
        max(c.end_ticks) OVER (
            PARTITION BY c.thread_index
            ORDER BY c.start_ticks, c.end_ticks DESC, c.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM (FROM _compiling(capture_key) AS i WHERE i.purpose <> 'graph_capture') AS c
)
SELECT o.run_index, o.event_index, o.thread_index, o.start_ticks, o.end_ticks, o.label, o.purpose,
    last_value(
        CASE WHEN coalesce(o.start_ticks >= o.before_ticks, true) THEN o.event_index END IGNORE NULLS
    ) OVER (
        PARTITION BY o.thread_index
        ORDER BY o.start_ticks, o.end_ticks DESC, o.event_index
        ROWS UNBOUNDED PRECEDING
    ) AS outermost_index
FROM ordered AS o;

-- The time in which torch.compile compiled, and graphs were captured, in one step of a trace, or of one compilation; by
-- parts, as in `compilation`. No row for a step without compilation. Algorithm: +1 at each start, -1 at each end,
-- running sums: how many events of each part are open. A part runs within those before it, so that the last open one
-- has the time.
CREATE MACRO _compiled_ticks(
    capture_key,
    "by"  -- step or compilation, whose key is that of its outermost event
) AS TABLE
WITH events AS (
    SELECT c.run_index AS key, c.start_ticks, c.end_ticks, c.purpose
    FROM _compiling(capture_key) AS c
    WHERE "by" = 'step'
    UNION ALL
    SELECT c.outermost_index, c.start_ticks, c.end_ticks, c.purpose
    FROM _compiling_within(capture_key) AS c
    WHERE "by" = 'compilation'
),
edges AS (
    SELECT e.key, e.start_ticks AS at_ticks, e.purpose, 1 AS change FROM events AS e
    UNION ALL
    SELECT e.key, e.end_ticks, e.purpose, -1 FROM events AS e
),
moments AS (
    SELECT e.key, e.at_ticks, sum(CASE WHEN e.purpose = 'graph_capture' THEN 0 ELSE e.change END) AS compiles,
        sum(CASE WHEN e.purpose = 'dynamo' THEN e.change ELSE 0 END) AS dynamo,
        sum(CASE WHEN e.purpose = 'aot_autograd' THEN e.change ELSE 0 END) AS aot_autograd,
        sum(CASE WHEN e.purpose = 'inductor' THEN e.change ELSE 0 END) AS inductor,
        sum(CASE WHEN e.purpose = 'autotuning' THEN e.change ELSE 0 END) AS autotuning,
        sum(CASE WHEN e.purpose = 'graph_capture' THEN e.change ELSE 0 END) AS graph_capture
    FROM edges AS e
    GROUP BY e.key, e.at_ticks
),
open_events AS (
    SELECT m.key, lead(m.at_ticks) OVER in_order - m.at_ticks AS ticks, sum(m.compiles) OVER in_order > 0 AS compiles,
        sum(m.compiles) OVER in_order - m.compiles > 0 AS compiled, sum(m.dynamo) OVER in_order > 0 AS dynamo,
        sum(m.aot_autograd) OVER in_order > 0 AS aot_autograd, sum(m.inductor) OVER in_order > 0 AS inductor,
        sum(m.autotuning) OVER in_order > 0 AS autotuning, sum(m.graph_capture) OVER in_order > 0 AS graph_capture
    FROM moments AS m
    WINDOW in_order AS (PARTITION BY m.key ORDER BY m.at_ticks)
),
states AS (
    SELECT o.key, o.ticks, o.compiles, o.compiles AND NOT o.compiled AS begins,
        CASE
            WHEN o.autotuning THEN 'autotuning'
            WHEN o.inductor THEN 'inductor'
            WHEN o.aot_autograd THEN 'aot_autograd'
            WHEN o.dynamo THEN 'dynamo'
            WHEN o.compiles THEN 'other'
            WHEN o.graph_capture THEN 'graph_capture'
        END AS part
    FROM open_events AS o
)
SELECT s.key, _sum_where(s.ticks, s.compiles) AS ticks, count(*) FILTER (WHERE s.begins) AS parts,
    _sum_where(s.ticks, s.part = 'dynamo') AS dynamo, _sum_where(s.ticks, s.part = 'aot_autograd') AS aot_autograd,
    _sum_where(s.ticks, s.part = 'inductor') AS inductor, _sum_where(s.ticks, s.part = 'autotuning') AS autotuning,
    _sum_where(s.ticks, s.part = 'other') AS other, _sum_where(s.ticks, s.part = 'graph_capture') AS graph_capture
FROM states AS s
GROUP BY s.key;

-- The time in which torch.compile compiled in one step of a trace, or in a trace without steps, and its parts. Each
-- moment counts once, even if events are nested or in several threads, for the last of the parts that runs then, so
-- that the parts add up to `time`. No rows: nothing was compiled, and no graph captured.
-- Needs: torch_trace
-- Empty: {capture} has no events of torch.compile at work
-- Shown: step!#, time!~, share_percent!%, dynamo~, aot_autograd~, inductor~, autotuning~, nullif(other, 0) AS other~,
--   nullif(graph_capture, 0) AS graph_capture~, parts!#, step_time~, unit
-- Share: of the step
-- Columns:
--   step: number of the step, as in `wide_steps`
--   time: time in which torch.compile compiled; 0 for a step without compilation
--   share_percent: time in percent of the step
--   parts: number of intervals without a gap that make up time
--   step_time: length of the step
--   unit: the requested unit of time
--   dynamo: time of TorchDynamo, which records the graph and its guards
--   aot_autograd: time of AOTAutograd, which makes the graph of the backward pass
--   inductor: time of Inductor, which makes kernels and compiles them
--   autotuning: time in which Inductor and Triton measured which kernels are fastest
--   other: time of other parts, such as of another backend
--   graph_capture: time in which CUDA or HIP graphs were captured while nothing was compiled; no part of time
CREATE MACRO compilation(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
compiled AS MATERIALIZED (FROM _compiled_ticks((SELECT a.capture_id FROM target AS a), 'step'))
SELECT w.step, coalesce(_in_unit(s.ticks, a.scale), 0e0) AS time,
    100 * coalesce(s.ticks, 0)::DOUBLE / nullif(w.end_ticks - w.start_ticks, 0) AS share_percent,
    coalesce(s.parts, 0) AS parts, _in_unit(w.end_ticks - w.start_ticks, a.scale) AS step_time, a.unit,
    coalesce(_in_unit(s.dynamo, a.scale), 0e0) AS dynamo,
    coalesce(_in_unit(s.aot_autograd, a.scale), 0e0) AS aot_autograd,
    coalesce(_in_unit(s.inductor, a.scale), 0e0) AS inductor,
    coalesce(_in_unit(s.autotuning, a.scale), 0e0) AS autotuning, coalesce(_in_unit(s.other, a.scale), 0e0) AS other,
    coalesce(_in_unit(s.graph_capture, a.scale), 0e0) AS graph_capture
FROM target AS a
JOIN trace_steps AS w ON w.capture_id = a.capture_id AND w.start_ticks IS NOT NULL
LEFT JOIN compiled AS s ON s.key = w.run_index
WHERE EXISTS (FROM compiled)
ORDER BY w.run_index;
