-- The rows of `memory_totals` of captures, with their place.
CREATE MACRO _memory_totals(
    targets  -- a table whose capture_id are the captures
) AS TABLE
WITH tracked AS (
    SELECT t.capture_id, t.run_index, t.allocator_id, t.name
    FROM allocators AS t
    JOIN query_table(targets) AS a USING (capture_id)
),
allocated AS (
    SELECT t.capture_id, t.run_index, t.allocator_id, t.size_bytes
    FROM allocations AS t
    JOIN query_table(targets) AS a USING (capture_id)
),
sized AS (
    SELECT t.capture_id, t.run_index, t.name AS allocator, s.size_bytes
    FROM tracked AS t
    LEFT JOIN allocated AS s USING (capture_id, run_index, allocator_id)
    UNION ALL
    SELECT s.capture_id, s.run_index, NULL, s.size_bytes
    FROM allocated AS s
    LEFT JOIN tracked AS t USING (capture_id, run_index, allocator_id)
    WHERE t.run_index IS NULL
),
by_run AS (
    SELECT z.capture_id, z.run_index, z.allocator, count(z.size_bytes) AS allocations, sum(z.size_bytes) AS bytes,
        max(z.size_bytes) AS largest
    FROM sized AS z
    GROUP BY z.capture_id, z.run_index, z.allocator
),
by_allocator AS (
    SELECT r.capture_id, r.allocator, count(*) AS runs, sum(r.allocations)::BIGINT AS allocations,
        try_cast(coalesce(sum(r.bytes), 0) AS BIGINT) AS total_bytes, max(r.largest) AS largest_bytes,
        try_cast(max(r.bytes) AS BIGINT) AS largest_run_bytes
    FROM by_run AS r
    GROUP BY r.capture_id, r.allocator
)
SELECT b.*,
    row_number() OVER (PARTITION BY b.capture_id ORDER BY b.total_bytes DESC, b.allocator)::INTEGER AS place
FROM by_allocator AS b;

-- The allocations of all allocators with one name, over all runs.
-- Empty: {capture} has no allocations; for the memory that a program plans: etq show planned_memory PROGRAM
-- Shown: allocator!, total_bytes! (bytes), largest_run_bytes! (bytes), largest_bytes! (bytes), allocations!#, runs#
-- Columns:
--   allocator: name of the allocator; NULL if the allocator has none, or if an allocation refers to an allocator that its run lacks
--   runs: number of runs with such an allocator
--   allocations: number of allocations
--   total_bytes: sum of their sizes in bytes
--   largest_bytes: largest allocation in bytes; NULL if there are none
--   largest_run_bytes: largest sum of one run in bytes; NULL if there are none
CREATE MACRO memory_totals(capture) AS TABLE
WITH memory_target AS MATERIALIZED (FROM _capture(capture, NULL))
SELECT m.allocator, m.runs, m.allocations, m.total_bytes, m.largest_bytes, m.largest_run_bytes
FROM _memory_totals('memory_target') AS m
ORDER BY m.place;
