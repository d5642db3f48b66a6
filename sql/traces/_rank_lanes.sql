-- The activities of some ranks of a job over time: for each rank, the parts of a step in which it computes, waits for
-- the last rank of a collective, transfers, or is in a collective whose wait isn't known. Times are on clocks that
-- `clock_offsets` aligns; a rank whose clock isn't known has no rows. Each step is drawn in `cells` of equal length,
-- from the first event of these ranks to the last one; a cell has the activity that takes most of the cell, unless that
-- is idle time, and equal neighbouring cells are one row. There are at most ranks times steps times cells rows. A row
-- of kind step is that of a rank on its host. `first_cell` is the first cell of the row, counted from 0, and `end_cell`
-- the cell after the last. `first` is the start of the row after the first event of the step, and `span` the duration of
-- the step. `ticks` is how long the rank has this activity within these cells; for kind step, how long the step takes on
-- the rank's host. `waited` is how long these ranks wait in the step, as far as it is known. These times are in ns.
-- `steps` is the number of steps of the job.
CREATE MACRO _rank_lanes(
    selector,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    shown_ranks,  -- a list of ranks
    most_steps,  -- the most steps: those in which ranks wait longest
    cells
) AS TABLE
WITH ranks AS MATERIALIZED (FROM _job_ranks(selector, 'ns')),
numbered AS MATERIALIZED (FROM _numbered_collectives('ranks')),
clocks AS MATERIALIZED (
    SELECT o.capture_id, k.rank, o.shift_ticks AS ticks
    FROM _clock_offsets('numbered') AS o
    JOIN ranks AS k ON k.capture_id = o.capture_id
    WHERE o.ticks IS NOT NULL AND list_contains(shown_ranks, k.rank)
),
calls AS MATERIALIZED (
    SELECT c.capture_id, c.run_index, c.starts_at, c.ends_at, c.last_start, c.waited_ticks, c.no_wait
    FROM _collective_calls('ranks') AS c
),
pieces AS (
    SELECT c.capture_id, c.run_index, 'wait' AS kind, c.starts_at AS start_ticks, c.last_start AS end_ticks
    FROM calls AS c
    WHERE c.no_wait IS NULL AND c.waited_ticks > 0
    UNION ALL
    SELECT c.capture_id, c.run_index, CASE WHEN c.no_wait IS NULL THEN 'transfer' ELSE 'collective' END,
        CASE WHEN c.no_wait IS NULL THEN c.last_start ELSE c.starts_at END, c.ends_at
    FROM calls AS c
    WHERE c.starts_at IS NOT NULL
    UNION ALL
    SELECT d.capture_id, d.run_index, 'computation', d.start_ticks - o.ticks,
        d.start_ticks - o.ticks + d.elapsed_ticks
    FROM clocks AS o
    JOIN signatures AS s ON s.capture_id = o.capture_id
    JOIN device_events AS d ON d.capture_id = s.capture_id AND d.event_signature = s.signature_index
    WHERE s.activity = 'kernel' AND s.kernel_family IS DISTINCT FROM 'communication' AND d.elapsed_ticks >= 0
),
stepped AS (
    SELECT w.capture_id, w.run_index, w.step, w.start_ticks - o.ticks AS start_ticks, w.end_ticks - o.ticks AS end_ticks
    FROM _written_steps AS w
    JOIN clocks AS o ON o.capture_id = w.capture_id
),
-- Without steps, a recording is one step.
placed_pieces AS (
    SELECT o.rank, s.step, p.kind, p.start_ticks, p.end_ticks
    FROM pieces AS p
    JOIN clocks AS o ON o.capture_id = p.capture_id
    LEFT JOIN stepped AS s ON s.capture_id = p.capture_id AND s.run_index = p.run_index
    WHERE s.step IS NOT NULL OR NOT EXISTS (FROM stepped)
),
-- Pieces of a kind that overlap, such as pieces of several streams, are one piece.
placed AS MATERIALIZED (
    SELECT b.rank, b.step, b.kind, min(b.start_ticks) AS start_ticks, max(b.end_ticks) AS end_ticks
    FROM (
        SELECT n.*,
            count(CASE WHEN n.begins THEN 1 END) OVER (
                PARTITION BY n.rank, n.step, n.kind ORDER BY n.start_ticks, n.end_ticks
                ROWS UNBOUNDED PRECEDING
            ) AS place
        FROM (
            SELECT p.*,
                coalesce(p.start_ticks > max(p.end_ticks) OVER (
                    PARTITION BY p.rank, p.step, p.kind ORDER BY p.start_ticks, p.end_ticks
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ), true) AS begins
            FROM placed_pieces AS p
        ) AS n
    ) AS b
    GROUP BY b.rank, b.step, b.kind, b.place
    UNION ALL
    SELECT o.rank, s.step, 'step', s.start_ticks, s.end_ticks
    FROM stepped AS s
    JOIN clocks AS o ON o.capture_id = s.capture_id
),
frames AS MATERIALIZED (
    SELECT f.*, greatest(f.end_ticks - f.start_ticks, 1) AS span
    FROM (
        SELECT p.step, min(p.start_ticks) AS start_ticks, max(p.end_ticks) AS end_ticks,
            coalesce(sum(p.end_ticks - p.start_ticks) FILTER (WHERE p.kind = 'wait'), 0)::BIGINT AS waited,
            count(*) OVER () AS steps
        FROM placed AS p
        GROUP BY p.step
    ) AS f
    QUALIFY row_number() OVER (ORDER BY f.waited DESC, f.step) <= most_steps
),
-- A piece within each cell that it is in; `at` is from the beginning of the step.
within_frames AS (
    SELECT f.step, p.rank, p.kind, p.start_ticks - f.start_ticks AS from_ticks, p.end_ticks - f.start_ticks AS to_ticks,
        f.span::DOUBLE / cells AS size
    FROM placed AS p
    JOIN frames AS f ON f.step IS NOT DISTINCT FROM p.step
    WHERE p.kind <> 'step'
),
parted AS (
    SELECT w.step, w.rank, w.kind, w.from_ticks, w.to_ticks, w.size,
        unnest(range(
            w.first_cell::BIGINT, greatest(least(ceil(w.to_ticks / w.size), cells), w.first_cell + 1)::BIGINT
        )) AS cell
    FROM (SELECT i.*, least(floor(i.from_ticks / i.size), cells - 1) AS first_cell FROM within_frames AS i) AS w
),
summed AS (
    SELECT p.step, p.rank, p.cell, p.kind, any_value(p.size) AS size,
        sum(least(p.to_ticks, (p.cell + 1) * p.size) - greatest(p.from_ticks, p.cell * p.size)) AS ticks
    FROM parted AS p
    GROUP BY p.step, p.rank, p.cell, p.kind
),
-- The activity that takes most of a cell, if idle time doesn't; of equal times, the collective.
drawn AS (
    SELECT s.step, s.rank, s.cell, s.kind, s.ticks
    FROM summed AS s
    QUALIFY row_number() OVER (
            PARTITION BY s.step, s.rank, s.cell ORDER BY s.ticks DESC, s.kind = 'computation', s.kind
        ) = 1
        AND s.ticks >= s.size - sum(s.ticks) OVER (PARTITION BY s.step, s.rank, s.cell)
),
joined AS (
    SELECT d.step, d.rank, d.kind, min(d.cell) AS first_cell, max(d.cell) + 1 AS end_cell, sum(d.ticks) AS ticks
    FROM (
        SELECT n.*, n.cell - row_number() OVER (PARTITION BY n.step, n.rank, n.kind ORDER BY n.cell) AS island
        FROM drawn AS n
    ) AS d
    GROUP BY d.step, d.rank, d.kind, d.island
)
SELECT j.step, j.rank, j.kind, j.first_cell, j.end_cell, j.first_cell * f.span / cells AS first, f.span, j.ticks,
    f.waited, f.steps
FROM joined AS j
JOIN frames AS f ON f.step IS NOT DISTINCT FROM j.step
UNION ALL
SELECT p.step, p.rank, p.kind, floor(cells * (p.start_ticks - f.start_ticks) / f.span)::BIGINT,
    ceil(cells * (p.end_ticks - f.start_ticks) / f.span)::BIGINT, p.start_ticks - f.start_ticks, f.span,
    p.end_ticks - p.start_ticks, f.waited, f.steps
FROM placed AS p
JOIN frames AS f ON f.step IS NOT DISTINCT FROM p.step
WHERE p.kind = 'step'
ORDER BY ALL;
