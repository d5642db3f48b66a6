-- One part of a program's file. The parts add up to the file's size. Data that several tensors or delegates share
-- counts once.
-- Shown: part!, item!, bytes! (bytes), share_percent!%, number#, methods
-- Share: of the file
-- Columns:
--   part: constants, mutable data, delegate (a blob), named data (a segment), segment (of unknown content), padding (between parts, and after the last one), or program (the rest of the FlatBuffers part: methods, values, instructions)
--   item: the delegate's backend; the keys of named data; NULL for other parts
--   methods: methods that use the delegate's blob; NULL for other parts
--   number: number of constants with data; 1 for other parts
--   bytes: size of the part in bytes
--   share_percent: bytes in percent of the file
CREATE MACRO program_size(
    program  -- name or hash prefix of a program
) AS TABLE
WITH target AS (
    SELECT p.program_id, p.size_bytes, p.flatbuffer_bytes
    FROM (SELECT _key_of('program', program) AS program_id) AS f
    JOIN programs AS p USING (program_id)
),
shared_constants AS (
    SELECT DISTINCT c.byte_offset, c.size_bytes, c.location
    FROM constant_buffers AS c
    JOIN target AS a USING (program_id)
    WHERE c.size_bytes > 0
),
pieces AS (
    SELECT s.segment_index, s.content, s.size_bytes, s.byte_offset
    FROM segments AS s
    JOIN target AS a USING (program_id)
),
constants AS (
    SELECT count(*) AS number, coalesce(sum(c.size_bytes) FILTER (WHERE c.location = 'inline'), 0) AS inline_bytes,
        (SELECT coalesce(sum(s.size_bytes), 0) FROM pieces AS s WHERE s.content = 'constants') AS segment_bytes
    FROM shared_constants AS c
),
blobs AS (
    SELECT string_agg(DISTINCT d.backend, ', ' ORDER BY d.backend) AS item,
        list(DISTINCT d.method ORDER BY d.method) AS methods, d.location, d.byte_offset, d.blob_bytes AS bytes
    FROM program_delegates AS d
    JOIN target AS a USING (program_id)
    LEFT JOIN pieces AS s ON s.segment_index = d.data_index
    WHERE d.location = 'inline' OR s.content = 'delegate'
    GROUP BY d.location, d.data_index, d.byte_offset, d.blob_bytes
),
others AS (
    SELECT s.content,
        (
            SELECT string_agg(k.key, ', ' ORDER BY k.key)
            FROM named_data AS k
            JOIN target AS a USING (program_id)
            WHERE k.segment_index = s.segment_index
        ) AS item,
        s.byte_offset, s.size_bytes AS bytes
    FROM pieces AS s
    WHERE s.content NOT IN ('constants', 'delegate')
),
parts AS (
    SELECT
        0 AS place, 'program' AS part, NULL::VARCHAR AS item, NULL::VARCHAR[] AS methods, 1 AS number, 0 AS byte_offset,
        a.flatbuffer_bytes - c.inline_bytes - coalesce((
            SELECT sum(b.bytes) FROM blobs AS b WHERE b.location = 'inline'
        ), 0) AS bytes
    FROM target AS a CROSS JOIN constants AS c
    UNION ALL
    SELECT 1, 'constants', NULL, NULL, c.number, 0, c.inline_bytes + c.segment_bytes FROM constants AS c
    UNION ALL
    SELECT 2, 'delegate', b.item, b.methods, 1, b.byte_offset, b.bytes FROM blobs AS b
    UNION ALL
    SELECT CASE o.content WHEN 'mutable' THEN 3 WHEN 'named' THEN 4 ELSE 5 END,
        CASE o.content WHEN 'mutable' THEN 'mutable data' WHEN 'named' THEN 'named data' ELSE 'segment' END, o.item,
        NULL, 1, o.byte_offset, o.bytes
    FROM others AS o
    UNION ALL
    SELECT 6, 'padding', NULL, NULL, 1, 0,
        a.size_bytes - a.flatbuffer_bytes - coalesce((SELECT sum(s.size_bytes) FROM pieces AS s), 0)
    FROM target AS a
)
SELECT p.part, p.item, p.methods, p.number, try_cast(p.bytes AS BIGINT) AS bytes,
    100e0 * p.bytes / a.size_bytes AS share_percent
FROM parts AS p CROSS JOIN target AS a
ORDER BY p.place, p.byte_offset, p.item;
