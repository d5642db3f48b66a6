-- Whether all processes end a collective at about the same time: not those with a root, and not messages from one
-- process to another.
CREATE MACRO _ends_together(collective) AS (
    regexp_matches(replace(lower(collective), '_', ''), 'allreduce|allgather|reducescatter|alltoall|barrier')
);

-- The same from the name of a kernel. A name that lacks the collective, like that of a generic kernel, may be of such a
-- collective.
CREATE MACRO _may_end_together(name) AS (
    _ends_together(name) OR NOT regexp_matches(lower(name), 'broadcast|send|recv|reduce|gather|scatter')
);

-- One kernel of a collective, or collective of gloo, that a rank of a job ran, numbered among those of its step with
-- its process group and name.
CREATE MACRO _numbered_collectives(
    ranks  -- a table of the traces of the ranks, of columns of `_job_ranks`
) AS TABLE
WITH known AS MATERIALIZED (
    SELECT s.capture_id, s.signature_index
    FROM query_table(ranks) AS k
    JOIN signatures AS s ON s.capture_id = k.capture_id
    WHERE s.activity = 'kernel' AND s.kernel_family = 'communication'
),
-- Those of gloo with the same number of elements; several threads may run them.
named AS (
    SELECT d.capture_id, d.run_index, d.event_index, d.process_group, d.group_description, d.group_size, d.collective,
        d.collective AS matched_name, d.message_type,
        greatest(d.in_elements, d.out_elements) * _message_bytes(d.message_type) AS message_bytes, d.device,
        d.start_ticks, d.start_ticks + d.elapsed_ticks AS end_ticks
    FROM known AS k
    JOIN device_events AS d ON d.capture_id = k.capture_id AND d.event_signature = k.signature_index
    WHERE d.elapsed_ticks >= 0 AND d.process_group IS NOT NULL AND d.collective IS NOT NULL
    UNION ALL
    SELECT h.capture_id, h.run_index, h.event_index, h.group_description, h.group_description, h.group_size,
        h.collective, h.collective || coalesce(' ' || h.elements, ''), h.message_type, h.message_bytes, NULL,
        h.start_ticks, h.start_ticks + h.elapsed_ticks
    FROM query_table(ranks) AS k
    JOIN host_collectives AS h USING (capture_id)
    WHERE h.group_description IS NOT NULL
)
SELECT coalesce(k.job, '') AS job, c.*, _ends_together(c.collective) AS ends_together, coalesce(s.step, -1) AS step,
    row_number() OVER (
        PARTITION BY c.capture_id, coalesce(s.step, -1), c.process_group, c.matched_name
        ORDER BY c.start_ticks, c.event_index
    ) AS number,
    count(*) OVER (PARTITION BY c.capture_id, coalesce(s.step, -1), c.process_group, c.matched_name) AS calls
FROM named AS c
JOIN query_table(ranks) AS k ON k.capture_id = c.capture_id
LEFT JOIN _written_steps AS s ON s.capture_id = c.capture_id AND s.run_index = c.run_index;
