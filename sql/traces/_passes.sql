-- Whether a host event of a trace is of the backward pass, by what it is itself. Ops that autograd records have its
-- sequence number; those of the backward pass also the number of the thread that ran the forward op.
CREATE MACRO _is_backward(kind, label, sequence_number, forward_thread) AS (
    kind = 'op' AND (
        coalesce(sequence_number IS NOT NULL AND forward_thread > 0, false)
        OR starts_with(label, 'autograd::engine::evaluate_function: ')
        OR regexp_matches(label, '^([A-Za-z0-9_]+Backward[0-9]*|torch::autograd::AccumulateGrad)$')
    )
);

-- The pass of a training step that a host event of a trace belongs to, by what it is itself: 1 backward, 2 optimizer, 3
-- data_loading, 4 forward; NULL for other events.
CREATE MACRO _pass_place(
    kind, is_data_loader, label, sequence_number, forward_thread,
    has_sequences  -- whether any event of the trace has a sequence number
) AS (
    CASE
        WHEN _is_backward(kind, label, sequence_number, forward_thread) THEN 1
        WHEN kind IN ('op', 'annotation') AND starts_with(label, 'Optimizer.') THEN 2
        WHEN is_data_loader THEN 3
        WHEN kind = 'module' THEN 4
        WHEN kind = 'op' AND (sequence_number IS NOT NULL OR NOT has_sequences) THEN 4
    END
);

-- One host event of a trace with a pass, see `_pass_place`.
CREATE MACRO _pass_slices(capture_key) AS TABLE
WITH hosts AS MATERIALIZED (
    SELECT s.event_index, s.label, s.kind, s.is_data_loader, s.thread_index, s.sequence_number, s.forward_thread,
        s.start_ticks, s.end_ticks
    FROM _trace_slices(capture_key) AS s
    WHERE s.kind IN ('op', 'annotation', 'module')
),
placed AS (
    SELECT h.*,
        _pass_place(
            h.kind, h.is_data_loader, h.label, h.sequence_number, h.forward_thread,
            EXISTS (FROM hosts AS n WHERE n.sequence_number IS NOT NULL)
        ) AS place
    FROM hosts AS h
)
FROM placed AS p WHERE p.place IS NOT NULL;

-- The time until which the events of a pass last that have begun on a thread: a later event before it is part of the
-- pass.
CREATE MACRO _pass_covers(capture_key) AS TABLE
SELECT b.thread_index, b.place, b.start_ticks,
    max(b.end_ticks) OVER (PARTITION BY b.thread_index, b.place ORDER BY b.start_ticks) AS end_ticks
FROM (
    SELECT s.thread_index, s.place, s.start_ticks, max(s.end_ticks) AS end_ticks
    FROM _pass_slices(capture_key) AS s
    GROUP BY s.thread_index, s.place, s.start_ticks
) AS b;

-- One step of a trace as the host has it; a trace without steps has one, from its first op to its last. A step that
-- several threads wrote is one.
CREATE MACRO _host_steps(capture_key) AS TABLE
SELECT s.run_index, s.step, s.host_start_ticks AS start_ticks, s.host_end_ticks AS end_ticks
FROM trace_steps AS s
WHERE s.capture_id = capture_key AND s.host_start_ticks IS NOT NULL;
