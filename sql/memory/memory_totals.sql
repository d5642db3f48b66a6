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
WITH target AS MATERIALIZED (FROM _capture(capture, NULL)),
tracked AS (SELECT t.run_index, t.allocator_id, t.name FROM allocators AS t JOIN target AS a USING (capture_id)),
allocated AS (
    SELECT t.run_index, t.allocator_id, t.size_bytes FROM allocations AS t JOIN target AS a USING (capture_id)
),
sized AS (
    SELECT t.run_index, t.name AS allocator, s.size_bytes
    FROM tracked AS t
    LEFT JOIN allocated AS s USING (run_index, allocator_id)
    UNION ALL
    SELECT s.run_index, NULL, s.size_bytes
    FROM allocated AS s
    LEFT JOIN tracked AS t USING (run_index, allocator_id)
    WHERE t.run_index IS NULL
),
by_run AS (
    SELECT z.run_index, z.allocator, count(z.size_bytes) AS allocations, sum(z.size_bytes) AS bytes,
        max(z.size_bytes) AS largest
    FROM sized AS z
    GROUP BY z.run_index, z.allocator
)
SELECT r.allocator, count(*) AS runs, sum(r.allocations)::BIGINT AS allocations,
    try_cast(coalesce(sum(r.bytes), 0) AS BIGINT) AS total_bytes, max(r.largest) AS largest_bytes,
    try_cast(max(r.bytes) AS BIGINT) AS largest_run_bytes
FROM by_run AS r
GROUP BY r.allocator
ORDER BY total_bytes DESC, r.allocator;
