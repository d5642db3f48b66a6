-- Needs etq: in DuckDB alone, it is an error.
-- The change from base to new of the memory that a capture's files name: what its program plans for a method, and what
-- its runs allocated. Unlike times, sizes have no noise as long as the captures of a side agree.
-- Empty: no capture of both sides has allocations or a linked program
-- Shown: what!, method, verdict! (verdict), change_percent! (change), base! (bytes), new! (bytes), note
-- Columns:
--   what: planned (the buffers of a method), or allocated (the most of one run, by all of its allocators)
--   method: the method; NULL for allocated
--   verdict: better (less), worse (more), ~ (no difference that counts), not decided (the captures of a side differ from each other as much as the sides), added, removed
--   change_percent: change from base to new in percent of base; NULL if base is 0
--   base: median over captures of base, in bytes; NULL if no capture of base has it
--   new: median over captures of new, in bytes; NULL if no capture of new has it
--   note: why a difference has no verdict; NULL if it has one, or there is no difference
--   base_captures: number of captures of base that have it
--   new_captures: number of captures of new that have it
CREATE MACRO compare_memory(
    base, new,
    min_effect := NULL  -- smallest change that counts, as a fraction; NULL: 0.02
) AS TABLE
WITH sides AS MATERIALIZED (
    SELECT s.capture_id, s.side, s.side = 'new' AS is_new, c.program_id
    FROM _compared_sides(base, new) AS s
    JOIN captures AS c USING (capture_id)
),
of_runs AS (
    SELECT s.capture_id, s.is_new, sum(a.size_bytes)::DOUBLE AS bytes
    FROM sides AS s
    JOIN allocations AS a USING (capture_id)
    GROUP BY s.capture_id, s.is_new, a.run_index
),
of_captures AS MATERIALIZED (
    SELECT 'planned|' || b.method AS name, s.is_new, sum(b.size_bytes)::DOUBLE AS value
    FROM sides AS s
    JOIN planned_buffers AS b USING (program_id)
    WHERE b.buffer_index > 0
    GROUP BY s.capture_id, s.is_new, b.method
    UNION ALL
    SELECT 'allocated|', r.is_new, max(r.bytes) FROM of_runs AS r GROUP BY r.capture_id, r.is_new
),
-- If one side lacks the files, memory is neither more nor less.
on_both AS (
    SELECT split_part(c.name, '|', 1) AS what
    FROM of_captures AS c
    GROUP BY ALL
    HAVING count(DISTINCT c.is_new) = 2
),
judged AS (
    FROM _value_changes(
        (
            SELECT list({
                    'name': c.name, 'unit': 'B', 'better': 'lower', 'is_new': c.is_new, 'position': NULL,
                    'value': c.value
                })
            FROM of_captures AS c
            JOIN on_both AS b ON b.what = split_part(c.name, '|', 1)
        ), 'size', 'sides', 0.05, min_effect, true
    )
)
SELECT split_part(j.name, '|', 1) AS what, nullif(substr(j.name, length(split_part(j.name, '|', 1)) + 2), '') AS method,
    j.verdict, 100 * j.change AS change_percent, j.base, j.new, j.note, j.base_captures, j.new_captures
FROM judged AS j
ORDER BY what DESC, method;
