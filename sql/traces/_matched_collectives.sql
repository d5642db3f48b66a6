-- One kernel of a collective, or one collective of gloo, that several ranks of a job ran, matched between the ranks: by
-- the step, the process group, the name of the collective, and its number among those of the step. A collective is
-- included if all ranks that ran any collective of its group in the trace ran it, and ran it equally often in the step.
CREATE MACRO _matched_collectives(capture_keys) AS TABLE
WITH calls AS MATERIALIZED (
    SELECT n.job, n.capture_id, n.process_group, n.group_size, n.matched_name AS collective, n.step, n.end_ticks,
        n.number, n.calls
    FROM _numbered_collectives(capture_keys) AS n
    WHERE n.ends_together
),
-- The first end is subtracted before numbers become fractions: a clock's ticks since 1970 have more digits than a
-- DOUBLE.
collectives AS (
    SELECT c.job, c.process_group, c.collective, c.step, c.number, count(*) AS ranks, min(c.end_ticks) AS first_ticks
    FROM calls AS c
    GROUP BY c.job, c.process_group, c.collective, c.step, c.number
    HAVING count(*) > 1 AND count(*) <= coalesce(max(c.group_size), count(*)) AND min(c.calls) = max(c.calls)
),
complete AS (FROM collectives AS m QUALIFY m.ranks = max(m.ranks) OVER (PARTITION BY m.job, m.process_group)),
matched AS MATERIALIZED (
    SELECT c.job, c.process_group, c.collective, c.step, c.number, c.capture_id, c.end_ticks - m.first_ticks AS ticks
    FROM complete AS m
    JOIN calls AS c USING (job, process_group, collective, step, number)
),
middles AS (
    SELECT m.job, m.process_group, m.collective, m.step, m.number, quantile_cont(m.ticks::DOUBLE, 0.5) AS ticks
    FROM matched AS m
    GROUP BY m.job, m.process_group, m.collective, m.step, m.number
)
SELECT m.job, m.process_group, m.capture_id, m.ticks - d.ticks AS ticks
FROM matched AS m
JOIN middles AS d USING (job, process_group, collective, step, number);
