-- One call of the backward pass of a trace, without calls within another call, with the op of the forward pass that it
-- belongs to: of the ops with its sequence number that begin before it, the last one, as torch links them. Sequence
-- numbers count per thread. Files don't say which thread a number in `forward_thread` stands for. Threads get their
-- numbers as they begin to run ops, mostly in the order in which they were created, which is the order of their ids in
-- Linux. If there are as many numbers as threads, these are paired in this order, except for threads that have less
-- than half of the sequence numbers. Otherwise a number stands for the thread whose ops have most of its sequence
-- numbers; of several such threads, it is the one nearest in this order, or, for an unknown number, the one with the
-- last op.
CREATE MACRO _backward_calls(
    capture_key,
    pass_slices  -- a table of the rows of `_pass_slices`
) AS TABLE
WITH begun AS (
    SELECT b.*,
        max(b.end_ticks) OVER (
            PARTITION BY b.thread_index
            ORDER BY b.start_ticks, b.end_ticks DESC, b.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM query_table(pass_slices) AS b
    WHERE b.place = 1
),
outermost AS MATERIALIZED (FROM begun AS b WHERE b.before_ticks IS NULL OR b.start_ticks >= b.before_ticks),
ops AS MATERIALIZED (FROM query_table(pass_slices) AS f WHERE f.place = 4 AND f.sequence_number IS NOT NULL),
-- The last op of each thread that has the number. Algorithm: ops and calls in the order of their starts; repeated parts
-- of a trace have the same numbers.
moments AS (
    SELECT o.sequence_number, t.thread_index, o.start_ticks AS at_ticks, 0 AS place, o.end_ticks, o.event_index,
        o.forward_thread, NULL AS op_index, NULL AS op_start
    FROM outermost AS o
    JOIN (SELECT DISTINCT f.sequence_number, f.thread_index FROM ops AS f) AS t USING (sequence_number)
    UNION ALL
    SELECT f.sequence_number, f.thread_index, f.start_ticks, 1, f.end_ticks, f.event_index, NULL, f.event_index,
        f.start_ticks
    FROM ops AS f
),
found AS (
    SELECT m.place, m.event_index, m.forward_thread, m.thread_index,
        last_value(m.op_index IGNORE NULLS) OVER so_far AS op_index,
        last_value(m.op_start IGNORE NULLS) OVER so_far AS start_ticks
    FROM moments AS m
    WINDOW so_far AS (
        PARTITION BY m.sequence_number, m.thread_index
        ORDER BY m.at_ticks, m.place, m.end_ticks DESC, m.event_index
        ROWS UNBOUNDED PRECEDING
    )
),
candidates AS MATERIALIZED (SELECT f.* FROM found AS f WHERE f.place = 0 AND f.op_index IS NOT NULL),
threads_of_ops AS (
    SELECT c.forward_thread, c.thread_index, count(*) AS ops
    FROM candidates AS c
    GROUP BY c.forward_thread, c.thread_index
),
-- The places of numbers and of threads, each in their own order.
placed AS (
    SELECT t.forward_thread, t.thread_index, t.ops, max(t.ops) OVER (PARTITION BY t.forward_thread) AS most_ops,
        CASE
            WHEN t.forward_thread IS NOT NULL THEN dense_rank() OVER (ORDER BY t.forward_thread NULLS LAST)
        END AS number_place,
        dense_rank() OVER (ORDER BY try_cast(n.thread AS BIGINT) NULLS LAST, t.thread_index) AS thread_place
    FROM threads_of_ops AS t
    JOIN threads AS n ON n.capture_id = capture_key AND n.thread_index = t.thread_index
),
ranked AS (
    SELECT p.forward_thread, p.thread_index, p.ops, p.thread_place, abs(p.number_place - p.thread_place) AS distance,
        coalesce(
            p.number_place = p.thread_place
            AND max(p.number_place) OVER () = max(p.thread_place) OVER ()
            AND p.ops * 2 >= p.most_ops,
            false
        ) AS is_paired
    FROM placed AS p
),
chosen AS (
    SELECT r.forward_thread, r.thread_index, r.ops
    FROM ranked AS r
    QUALIFY r.forward_thread IS NULL OR row_number() OVER (
        PARTITION BY r.forward_thread
        ORDER BY r.is_paired DESC, r.ops DESC, r.distance, r.thread_place
    ) = 1
),
linked AS (
    SELECT c.event_index, c.op_index
    FROM candidates AS c
    JOIN chosen AS t ON t.forward_thread IS NOT DISTINCT FROM c.forward_thread AND t.thread_index = c.thread_index
    QUALIFY row_number() OVER (PARTITION BY c.event_index ORDER BY t.ops DESC, c.start_ticks DESC, c.op_index DESC) = 1
)
SELECT o.event_index,
    CASE
        WHEN starts_with(o.label, 'autograd::engine::evaluate_function: ') THEN substr(o.label, 38)
        ELSE o.label
    END AS label,
    o.end_ticks - o.start_ticks AS ticks, l.op_index
FROM outermost AS o
LEFT JOIN linked AS l USING (event_index);

-- One event of a trace that is in a module, with the names of the modules that contain it.
CREATE MACRO _event_module_paths(capture_key) AS TABLE
WITH RECURSIVE modules AS MATERIALIZED (
    SELECT t.event_index, m.module, t.module_index AS outer_index
    FROM _module_signatures(capture_key) AS m
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t ON t.event_signature = m.signature_index
),
paths AS (
    SELECT m.event_index, [m.module] AS modules FROM modules AS m WHERE m.outer_index IS NULL
    UNION ALL
    SELECT m.event_index, list_concat(p.modules, [m.module])
    FROM paths AS p
    JOIN modules AS m ON m.outer_index = p.event_index
)
SELECT t.event_index, p.modules
FROM (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
LEFT JOIN modules AS m USING (event_index)
JOIN paths AS p ON p.event_index = coalesce(m.event_index, t.module_index);
