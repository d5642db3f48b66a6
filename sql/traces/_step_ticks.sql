-- The ticks of one step in one category; each moment counts for the first category
-- that applies, in the order of `step_breakdown`.
CREATE MACRO _step_ticks(capture_key) AS TABLE
WITH
slices AS MATERIALIZED (
    SELECT s.*
    FROM _trace_slices(capture_key) AS s
    WHERE s.kind NOT IN ('step', 'module')
),
steps AS MATERIALIZED (
    SELECT d.* FROM _device_steps(capture_key) AS d
),
placed AS (
    SELECT
        s.start_ticks,
        s.end_ticks,
        CASE
            WHEN s.kind = 'kernel'
                THEN CASE s.kernel_family WHEN 'communication' THEN 4 ELSE 1 END
            WHEN s.kind = 'copy' THEN 2
            WHEN s.kind = 'fill' THEN 3
            WHEN s.kind = 'call' THEN 5
            WHEN s.is_data_loader THEN 6
            WHEN s.is_communication AND NOT h.has_kernels THEN 4
            WHEN s.kind IN ('op', 'python') THEN 7
        END AS place
    FROM slices AS s
    CROSS JOIN (
        SELECT EXISTS (FROM slices AS k WHERE k.kind = 'kernel') AS has_kernels
    ) AS h
),
-- Each slice with the latest end of the slices of its category that start before it.
reaching AS MATERIALIZED (
    SELECT
        p.place,
        p.start_ticks,
        p.end_ticks,
        max(p.end_ticks) OVER (
            PARTITION BY p.place ORDER BY p.start_ticks
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reached_ticks
    FROM placed AS p
    WHERE p.place IS NOT NULL
),
-- Start and end of the intervals in which any slice of a category runs. They are few,
-- as most slices lie within others.
edges AS (
    SELECT r.start_ticks AS ticks, r.place, 1 AS change
    FROM reaching AS r
    WHERE r.reached_ticks IS NULL OR r.start_ticks > r.reached_ticks
    UNION ALL
    SELECT r.reached_ticks, r.place, -1
    FROM reaching AS r
    WHERE r.start_ticks > r.reached_ticks
    UNION ALL
    SELECT max(r.end_ticks), r.place, -1 FROM reaching AS r GROUP BY r.place
    UNION ALL
    SELECT s.start_ticks, 8, 0 FROM steps AS s
    UNION ALL
    SELECT s.end_ticks, 8, 0 FROM steps AS s
),
moments AS (
    SELECT
        e.ticks,
        sum(CASE e.place WHEN 1 THEN e.change ELSE 0 END)::INTEGER AS kernel,
        sum(CASE e.place WHEN 2 THEN e.change ELSE 0 END)::INTEGER AS memcpy,
        sum(CASE e.place WHEN 3 THEN e.change ELSE 0 END)::INTEGER AS memset,
        sum(CASE e.place WHEN 4 THEN e.change ELSE 0 END)::INTEGER AS communication,
        sum(CASE e.place WHEN 5 THEN e.change ELSE 0 END)::INTEGER AS runtime,
        sum(CASE e.place WHEN 6 THEN e.change ELSE 0 END)::INTEGER AS data_loader,
        sum(CASE e.place WHEN 7 THEN e.change ELSE 0 END)::INTEGER AS cpu
    FROM edges AS e
    GROUP BY e.ticks
),
stretches AS (
    SELECT
        m.ticks,
        lead(m.ticks) OVER (ORDER BY m.ticks) - m.ticks AS length,
        CASE
            WHEN sum(m.kernel) OVER so_far > 0 THEN 1
            WHEN sum(m.communication) OVER so_far > 0 THEN 4
            WHEN sum(m.memcpy) OVER so_far > 0 THEN 2
            WHEN sum(m.memset) OVER so_far > 0 THEN 3
            WHEN sum(m.runtime) OVER so_far > 0 THEN 5
            WHEN sum(m.data_loader) OVER so_far > 0 THEN 6
            WHEN sum(m.cpu) OVER so_far > 0 THEN 7
            ELSE 8
        END AS place
    FROM moments AS m
    WINDOW so_far AS (ORDER BY m.ticks ROWS UNBOUNDED PRECEDING)
),
-- Steps without device events may overlap: first between the starts and ends of
-- steps, which are few.
parts AS (
    SELECT b.ticks, t.place, try_cast(sum(t.length) AS BIGINT) AS length
    FROM stretches AS t
    ASOF JOIN (
        SELECT s.start_ticks AS ticks FROM steps AS s
        UNION
        SELECT s.end_ticks FROM steps AS s
    ) AS b ON t.ticks >= b.ticks
    GROUP BY b.ticks, t.place
),
counted AS (
    SELECT s.run_index, p.place, try_cast(sum(p.length) AS BIGINT) AS ticks
    FROM parts AS p
    JOIN steps AS s ON p.ticks >= s.start_ticks AND p.ticks < s.end_ticks
    GROUP BY s.run_index, p.place
)
SELECT
    s.run_index,
    s.step,
    s.end_ticks - s.start_ticks AS step_ticks,
    p.place,
    coalesce(c.ticks, 0) AS ticks
FROM steps AS s
CROSS JOIN (SELECT unnest([1, 2, 3, 4, 5, 6, 7, 8]) AS place) AS p
LEFT JOIN counted AS c ON c.run_index = s.run_index AND c.place = p.place;
