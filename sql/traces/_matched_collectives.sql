-- Whether all processes end a collective at about the same time: not those with a
-- root, and not messages from one process to another.
CREATE MACRO _ends_together(collective) AS (
    regexp_matches(
        replace(lower(collective), '_', ''),
        'allreduce|allgather|reducescatter|alltoall|barrier'
    )
);

-- One kernel of a collective, or collective of gloo, that several ranks of a job ran,
-- matched among them: by the step, the process group, the name of the collective, and its number among
-- those of the step. A collective counts if all ranks that ran any of its group in
-- the trace ran it, equally often in the step.
CREATE MACRO _matched_collectives(selector) AS TABLE
WITH
ranks AS MATERIALIZED (
    SELECT r.capture_id, coalesce(r.job, '') AS job
    FROM _job_ranks(selector, NULL) AS r
),
known AS MATERIALIZED (
    SELECT s.capture_id, s.signature_index
    FROM ranks AS k
    JOIN signatures AS s USING (capture_id)
    WHERE s.activity = 'kernel' AND s.kernel_family = 'communication'
),
chosen AS MATERIALIZED (
    SELECT
        e.capture_id,
        e.run_index,
        e.event_index,
        e.start_ticks,
        e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM known AS k
    JOIN event_ticks AS e USING (capture_id, signature_index)
    WHERE e.elapsed_ticks >= 0
),
-- Those of gloo with the same number of elements; several threads may run them.
named AS (
    SELECT
        c.capture_id,
        c.run_index,
        c.event_index,
        d.process_group,
        d.group_size,
        d.collective,
        c.start_ticks,
        c.end_ticks
    FROM chosen AS c
    JOIN device_events AS d USING (capture_id, run_index, event_index)
    WHERE d.process_group IS NOT NULL
        AND _ends_together(d.collective)
    UNION ALL
    SELECT
        h.capture_id,
        h.run_index,
        h.event_index,
        h.group_description,
        h.group_size,
        h.collective || coalesce(' ' || h.elements, ''),
        h.start_ticks,
        h.start_ticks + h.elapsed_ticks
    FROM _host_collectives((SELECT list(k.capture_id) FROM ranks AS k)) AS h
    WHERE h.group_description IS NOT NULL AND _ends_together(h.collective)
),
calls AS (
    SELECT
        k.job,
        c.capture_id,
        c.process_group,
        c.group_size,
        c.collective,
        coalesce(s.step, -1) AS step,
        c.end_ticks,
        row_number() OVER (
            PARTITION BY c.capture_id, coalesce(s.step, -1), c.process_group,
                c.collective
            ORDER BY c.start_ticks, c.event_index
        ) AS number,
        count(*) OVER (
            PARTITION BY c.capture_id, coalesce(s.step, -1), c.process_group,
                c.collective
        ) AS calls
    FROM named AS c
    JOIN ranks AS k USING (capture_id)
    LEFT JOIN _written_steps AS s USING (capture_id, run_index)
),
-- The first end is subtracted before numbers become fractions: a clock's ticks since
-- 1970 have more digits than those.
collectives AS (
    SELECT
        c.job,
        c.process_group,
        c.collective,
        c.step,
        c.number,
        count(*) AS ranks,
        min(c.end_ticks) AS first_ticks
    FROM calls AS c
    GROUP BY c.job, c.process_group, c.collective, c.step, c.number
    HAVING count(*) > 1
        AND count(*) <= coalesce(max(c.group_size), count(*))
        AND min(c.calls) = max(c.calls)
),
complete AS (
    FROM collectives AS m
    QUALIFY m.ranks = max(m.ranks) OVER (PARTITION BY m.job, m.process_group)
),
matched AS MATERIALIZED (
    SELECT
        c.job,
        c.process_group,
        c.collective,
        c.step,
        c.number,
        c.capture_id,
        c.end_ticks - m.first_ticks AS ticks
    FROM complete AS m
    JOIN calls AS c USING (job, process_group, collective, step, number)
),
middles AS (
    SELECT
        m.job,
        m.process_group,
        m.collective,
        m.step,
        m.number,
        quantile_cont(m.ticks::DOUBLE, 0.5) AS ticks
    FROM matched AS m
    GROUP BY m.job, m.process_group, m.collective, m.step, m.number
)
SELECT m.job, m.process_group, m.capture_id, m.ticks - d.ticks AS ticks
FROM matched AS m
JOIN middles AS d USING (job, process_group, collective, step, number);
