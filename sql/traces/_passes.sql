-- Whether an op is of the backward pass by its name.
CREATE MACRO _is_backward_name(label) AS (
    starts_with(label, 'autograd::engine::evaluate_function: ')
    OR regexp_matches(label, '^([A-Za-z0-9_]+Backward[0-9]*|torch::autograd::AccumulateGrad)$')
);

-- Whether an op is of the backward pass. Ops that autograd records have a sequence number from it; ops of the backward
-- pass also have the number of the thread that ran the forward op.
CREATE MACRO _is_backward(
    is_named,  -- whether its name shows that it is
    sequence_number, forward_thread
) AS (is_named OR coalesce(sequence_number IS NOT NULL AND forward_thread > 0, false));

-- One host event of a trace with the pass of a training step that it belongs to by itself: `place` is 1 for backward, 2
-- optimizer, 3 data_loading, 4 forward.
CREATE MACRO _pass_slices(capture_key) AS TABLE
WITH
-- Few rows, see `_trace_slices`: patterns are compared once for each name.
names AS MATERIALIZED (
    SELECT s.signature_index, _is_backward_name(s.label) AS is_backward,
        starts_with(s.label, 'Optimizer.') AS is_optimizer
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
),
hosts AS MATERIALIZED (
    SELECT s.event_index, s.label, s.kind, s.is_data_loader, s.thread_index, s.sequence_number, s.forward_thread,
        s.start_ticks, s.end_ticks, n.is_backward, n.is_optimizer
    FROM _trace_slices(capture_key) AS s
    JOIN names AS n USING (signature_index)
    WHERE s.kind IN ('op', 'annotation', 'module')
),
numbered AS (SELECT count(h.sequence_number) > 0 AS has_sequences FROM hosts AS h),
placed AS (
    SELECT h.event_index, h.label, h.kind, h.is_data_loader, h.thread_index, h.sequence_number, h.forward_thread,
        h.start_ticks, h.end_ticks,
        CASE
            WHEN h.kind = 'op' AND _is_backward(h.is_backward, h.sequence_number, h.forward_thread) THEN 1
            WHEN h.kind IN ('op', 'annotation') AND h.is_optimizer THEN 2
            WHEN h.is_data_loader THEN 3
            WHEN h.kind = 'module' THEN 4
            WHEN h.kind = 'op' AND (h.sequence_number IS NOT NULL OR NOT q.has_sequences) THEN 4
        END AS place
    FROM hosts AS h CROSS JOIN numbered AS q
)
FROM placed AS p WHERE p.place IS NOT NULL;

-- The latest end of the events of a pass that have begun on a thread: later events before that are part of the pass.
CREATE MACRO _pass_covers(
    slices  -- a table of the rows of `_pass_slices`
) AS TABLE
SELECT b.thread_index, b.place, b.start_ticks,
    max(b.end_ticks) OVER (PARTITION BY b.thread_index, b.place ORDER BY b.start_ticks) AS end_ticks
FROM (
    SELECT s.thread_index, s.place, s.start_ticks, max(s.end_ticks) AS end_ticks
    FROM query_table(slices) AS s
    GROUP BY s.thread_index, s.place, s.start_ticks
) AS b;

-- One step of a trace as the host has it; a trace without steps has one, from its first op to its last. A step that
-- several threads wrote is one.
CREATE MACRO _host_steps(capture_key) AS TABLE
SELECT s.run_index, s.step, s.host_start_ticks AS start_ticks, s.host_end_ticks AS end_ticks
FROM trace_steps AS s
WHERE s.capture_id = capture_key AND s.host_start_ticks IS NOT NULL;
