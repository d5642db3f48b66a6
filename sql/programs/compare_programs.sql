-- One item of two programs, compared: operators, delegates and planned memory of each method, and the parts of the
-- files. The contents of delegates are not compared; delegates of equal size count as the same.
-- Shown: kind!, item!, change!, base_number#, new_number#, number_difference!#, base_bytes (bytes), new_bytes (bytes),
--   bytes_difference! (bytes), method
-- Columns:
--   kind: op (a method's kernels of one operator), delegate (a method's delegates of one backend), memory (a method's planned buffer) or part (of the file, as in `program_size`)
--   method: the method; NULL for parts of the file
--   item: the operator with its overload, the backend, memory_id of the buffer, or the part
--   change: added, removed, changed (in number or bytes) or same
--   base_number: number in base; 0 if there is none
--   new_number: number in new; 0 if there is none
--   number_difference: new_number minus base_number
--   base_bytes: size in base in bytes, 0 if there is none; NULL for op
--   new_bytes: size in new in bytes, 0 if there is none; NULL for op
--   bytes_difference: new_bytes minus base_bytes; NULL for op
CREATE MACRO compare_programs(
    base,  -- name or hash prefix of the program that is the baseline
    new  -- name or hash prefix of the program that is compared
) AS TABLE
WITH sides AS MATERIALIZED (SELECT _key_of('program', base) AS base_key, _key_of('program', new) AS new_key),
compared_programs AS MATERIALIZED (
    SELECT DISTINCT unnest([s.base_key, s.new_key]) AS program_id FROM sides AS s
),
items AS MATERIALIZED (FROM _program_items('compared_programs') AS i),
base_items AS (FROM items AS i JOIN sides AS s ON s.base_key = i.program_id),
new_items AS (FROM items AS i JOIN sides AS s ON s.new_key = i.program_id)
SELECT coalesce(b.kind, n.kind) AS kind, coalesce(b.method, n.method) AS method, coalesce(b.item, n.item) AS item,
    CASE
        WHEN b.kind IS NULL THEN 'added'
        WHEN n.kind IS NULL THEN 'removed'
        WHEN b.number <> n.number OR b.bytes <> n.bytes THEN 'changed'
        ELSE 'same'
    END AS change,
    coalesce(b.number, 0) AS base_number, coalesce(n.number, 0) AS new_number,
    coalesce(n.number, 0) - coalesce(b.number, 0) AS number_difference,
    CASE WHEN coalesce(b.kind, n.kind) <> 'op' THEN coalesce(b.bytes, 0) END AS base_bytes,
    CASE WHEN coalesce(b.kind, n.kind) <> 'op' THEN coalesce(n.bytes, 0) END AS new_bytes,
    CASE WHEN coalesce(b.kind, n.kind) <> 'op' THEN coalesce(n.bytes, 0) - coalesce(b.bytes, 0) END AS bytes_difference
FROM base_items AS b
FULL JOIN new_items AS n ON n.kind = b.kind AND n.method IS NOT DISTINCT FROM b.method AND n.item = b.item
ORDER BY list_position(['part', 'memory', 'delegate', 'op'], coalesce(b.kind, n.kind)), coalesce(b.method, n.method),
    coalesce(b.item, n.item);

-- One item of programs.
CREATE MACRO _program_items(
    targets  -- a table with the program_id of different programs
) AS TABLE
SELECT i.program_id, 'op' AS kind, i.method, i.op || coalesce('.' || i.overload, '') AS item, count(*) AS number,
    NULL::BIGINT AS bytes
FROM query_table(targets) AS a
JOIN instructions AS i USING (program_id)
WHERE i.kind = 'kernel'
GROUP BY i.program_id, i.method, i.op, i.overload
UNION ALL
SELECT d.program_id, 'delegate', d.method, d.backend, count(*), try_cast(sum(d.blob_bytes) AS BIGINT)
FROM query_table(targets) AS a
JOIN program_delegates AS d USING (program_id)
GROUP BY d.program_id, d.method, d.backend
UNION ALL
SELECT b.program_id, 'memory', b.method, b.buffer_index::VARCHAR, 1, b.size_bytes
FROM query_table(targets) AS a
JOIN planned_buffers AS b USING (program_id)
WHERE b.buffer_index > 0
UNION ALL
SELECT s.program_id, 'part', NULL, s.part, sum(s.number)::BIGINT, try_cast(sum(s.bytes) AS BIGINT)
FROM _program_parts(targets) AS s
GROUP BY s.program_id, s.part;
