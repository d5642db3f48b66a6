-- The allocations of one allocator in the first iteration of a block of a prof_result: the totals of ExecuTorch's old
-- parser, which assumes that all iterations are equal. `memory_totals` counts all runs.
-- Shown: allocator!, total_bytes! (bytes), block!, allocator_id#
-- Columns:
--   block: the block's name
--   allocator_id: the allocator
--   allocator: its name; NULL if no block of the file has one
--   total_bytes: sum of the sizes of its allocations in bytes
CREATE MACRO prof_result_memory(
    capture  -- name, hash prefix, @latest or selector of a prof_result
) AS TABLE
WITH
-- This is materialized so that its error is raised although no row is joined with it.
target AS MATERIALIZED (SELECT p.capture_id FROM _prof_result(capture) AS p),
added AS (
    SELECT r.capture_id, r.run_index, r.name, s.allocator_id, try_cast(sum(s.size_bytes) AS BIGINT) AS bytes,
        min(s.event_index) AS first_index
    FROM target AS a
    JOIN runs AS r ON r.capture_id = a.capture_id AND r.iteration = 0
    JOIN allocations AS s ON s.capture_id = r.capture_id AND s.run_index = r.run_index
    GROUP BY r.capture_id, r.run_index, r.name, s.allocator_id
)
SELECT d.name AS block, d.allocator_id, t.name AS allocator, d.bytes AS total_bytes
FROM added AS d
LEFT JOIN allocators AS t USING (capture_id, run_index, allocator_id)
ORDER BY d.run_index, d.first_index;
