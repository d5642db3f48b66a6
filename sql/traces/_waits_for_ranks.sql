-- The time that one rank of a trace's job waits in collectives for the rank that comes last, and the time of the
-- transfers after that: one row for each rank that waits and each that it waits for, the same for all ranks of a job.
-- Empty for a trace without the label rank.
CREATE MACRO _waits_for_ranks(capture_key) AS TABLE
WITH own AS (
    SELECT r.capture_id, j.value AS job
    FROM labels AS r
    LEFT JOIN labels AS j ON j.capture_id = r.capture_id AND j.key = 'job'
    WHERE r.capture_id = capture_key AND r.key = 'rank'
),
ranks AS MATERIALIZED (
    SELECT c.capture_id, j.value AS job, try_cast(r.value AS BIGINT) AS rank
    FROM captures AS c
    JOIN labels AS r ON r.capture_id = c.capture_id AND r.key = 'rank' AND try_cast(r.value AS BIGINT) IS NOT NULL
    LEFT JOIN labels AS j ON j.capture_id = c.capture_id AND j.key = 'job'
    -- Each trace without the label job stands alone.
    JOIN own AS o ON o.job = j.value OR o.capture_id = c.capture_id
    WHERE c.format = 'torch_trace'
)
SELECT c.capture_id, c.rank, c.last_rank, sum(c.waited_ticks)::BIGINT AS waited_ticks,
    sum(c.transfer_ticks)::BIGINT AS transfer_ticks
FROM _collective_calls('ranks') AS c
WHERE c.no_wait IS NULL
GROUP BY c.capture_id, c.rank, c.last_rank;
