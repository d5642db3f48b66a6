-- The total operations of the ops of one run of a trace, such as a step. Ops of the forward pass within a call of the
-- backward pass count as repeated only if that call does other work, too: where the backward pass is to be
-- differentiated (create_graph), autograd records all ops of the call. `compute_ticks`: the least time of the
-- operations at the peaks of their types, as far as these are known. `known_ticks`: the part of `ticks` whose
-- operations are known; copies, fills and communication have none. `costed_ticks`: the same with kernels that are known
-- to be limited by their bytes. `unpeaked_ticks`: the part of `known_ticks` whose peak is unknown. In a trace without device events, an op may contain others that do its work, as aten::linear
-- contains aten::addmm: it counts for what it does beyond these.
CREATE MACRO _step_flops(
    capture_key,
    rated  -- a table of the rows of `_rated_work`
) AS TABLE
WITH names AS MATERIALIZED (
    SELECT s.signature_index, _is_backward_name(s.label) AS is_named
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.activity = 'op'
),
passes AS (
    SELECT t.event_index, t.thread_index, t.start_ticks, t.start_ticks + t.elapsed_ticks AS end_ticks,
        _is_backward(n.is_named, t.sequence_number, t.forward_thread) AS is_backward
    FROM (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
    JOIN names AS n ON n.signature_index = t.event_signature
    WHERE n.is_named OR t.sequence_number IS NOT NULL
),
-- Without calls within another call of the same pass.
outermost AS MATERIALIZED (
    SELECT p.*
    FROM passes AS p
    QUALIFY coalesce(
        p.start_ticks >= max(p.end_ticks) OVER (
            PARTITION BY p.thread_index, p.is_backward
            ORDER BY p.start_ticks, p.end_ticks DESC, p.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        true
    )
),
-- The times in which ops of the forward pass run within a call of the backward pass, on its thread: with activation
-- checkpointing, activations that weren't kept are computed again. Autograd records the ops that compute them like
-- those of the forward pass.
repeats AS MATERIALIZED (
    SELECT f.thread_index, f.start_ticks, f.end_ticks, b.start_ticks AS call_start, b.end_ticks AS call_end
    FROM (FROM outermost AS o WHERE NOT o.is_backward) AS f
    ASOF JOIN (FROM outermost AS o WHERE o.is_backward) AS b
        ON b.thread_index = f.thread_index AND row(b.start_ticks) <= row(f.start_ticks)
    WHERE f.start_ticks < b.end_ticks
),
written AS MATERIALIZED (
    SELECT r.flops, CASE WHEN r.flops > 0 THEN r.flops * 1e9 / r.most_flops ELSE r.flops END AS compute_ticks,
        coalesce(r.flops IS NOT NULL OR r.family = 'communication', false) AS is_known,
        coalesce(r.is_bytes_alone AND r.bytes IS NOT NULL, false) AS has_bytes,
        CASE
            WHEN regexp_matches(r.reason, '^(no|recorded) ') OR r.label IS NULL THEN r.reason
            WHEN r.reason IS NULL OR starts_with(r.reason, 'bytes: ') THEN 'no operations are known of ' || r.label
            ELSE r.label || ': ' || r.reason
        END AS reason,
        -- Host times of autograd's functions are not their own work.
        coalesce(r.flops > 0, r.kernels > 0) AS has_work,
        r.device, r.most_flops IS NOT NULL OR r.bandwidth IS NOT NULL AS has_peaks, unnest(r.parts, recursive := true)
    FROM query_table(rated) AS r
),
-- Ops of the host with known operations, each with the nearest such op around it, among the three innermost ops around
-- it.
hosts AS MATERIALIZED (
    SELECT w.op_index, w.flops
    FROM written AS w
    WHERE w.flops > 0
        AND NOT EXISTS (FROM device_events AS d WHERE d.capture_id = capture_key AND d.is_inferred IS NOT NULL)
),
nested AS (
    SELECT coalesce(a.op_index, b.op_index, c.op_index) AS op_index, sum(h.flops)::HUGEINT AS flops
    FROM hosts AS h
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t ON t.event_index = h.op_index
    LEFT JOIN hosts AS a ON a.op_index = t.op_index
    LEFT JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS u ON u.event_index = t.op_index
    LEFT JOIN hosts AS b ON b.op_index = u.op_index
    LEFT JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS v ON v.event_index = u.op_index
    LEFT JOIN hosts AS c ON c.op_index = v.op_index
    GROUP BY 1
),
calls AS MATERIALIZED (
    SELECT w.*
        REPLACE (
            CASE WHEN n.flops > 0 THEN greatest(w.flops - n.flops, 0) ELSE w.flops END AS flops,
            CASE WHEN n.flops > 0 THEN greatest(1 - n.flops / w.flops, 0) ELSE 1 END * w.compute_ticks AS compute_ticks
        )
    FROM written AS w
    LEFT JOIN nested AS n ON n.op_index = w.op_index AND w.flops > 0
),
placed AS (
    SELECT c.op_index, c.has_work, t.thread_index, t.start_ticks
    FROM calls AS c
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t ON t.event_index = c.op_index
    WHERE (SELECT count(*) FROM repeats AS f) > 0
),
within AS (
    SELECT p.op_index, p.has_work, p.start_ticks, p.thread_index, b.call_start
    FROM placed AS p
    ASOF JOIN (SELECT DISTINCT f.thread_index, f.call_start, f.call_end FROM repeats AS f) AS b
        ON b.thread_index = p.thread_index AND row(b.call_start) <= row(p.start_ticks)
    WHERE p.start_ticks < b.call_end
),
repeated AS MATERIALIZED (
    SELECT w.op_index
    FROM (
        SELECT i.op_index, coalesce(i.start_ticks < f.end_ticks, false) AS is_forward,
            bool_or(i.has_work AND NOT coalesce(i.start_ticks < f.end_ticks, false)) OVER (
                PARTITION BY i.thread_index, i.call_start
            ) AS does_more
        FROM within AS i
        ASOF LEFT JOIN repeats AS f ON f.thread_index = i.thread_index AND row(f.start_ticks) <= row(i.start_ticks)
    ) AS w
    WHERE w.is_forward AND w.does_more
)
SELECT c.run_index, sum(c.flops)::HUGEINT AS flops,
    sum(CASE WHEN r.op_index IS NOT NULL THEN c.flops END)::HUGEINT AS repeated_flops,
    fsum(c.compute_ticks) AS compute_ticks,
    fsum(CASE WHEN r.op_index IS NOT NULL THEN c.compute_ticks END) AS repeated_compute_ticks,
    sum(c.ticks)::BIGINT AS ticks, sum(CASE WHEN c.is_known THEN c.ticks ELSE c.copy_ticks END)::BIGINT AS known_ticks,
    sum(CASE WHEN c.is_known OR c.has_bytes THEN c.ticks ELSE c.copy_ticks END)::BIGINT AS costed_ticks,
    coalesce(sum(c.ticks) FILTER (c.flops > 0 AND c.compute_ticks IS NULL), 0)::BIGINT AS unpeaked_ticks,
    arg_max(c.reason, (c.ticks - c.copy_ticks, c.reason)) FILTER (NOT c.is_known AND c.ticks > c.copy_ticks) AS reason,
    any_value(c.device) AS device, coalesce(bool_or(c.has_peaks), false) AS has_peaks
FROM calls AS c
LEFT JOIN repeated AS r ON r.op_index = c.op_index
GROUP BY c.run_index;
