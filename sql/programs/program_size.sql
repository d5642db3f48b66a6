-- One part of the files of programs, as in `program_size`, with its place.
CREATE MACRO _program_parts(
    targets  -- a table with the program_id of different programs
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT p.program_id, p.size_bytes, p.flatbuffer_bytes
    FROM query_table(targets) AS a
    JOIN programs AS p USING (program_id)
),
pieces AS MATERIALIZED (
    SELECT s.program_id, s.segment_index, s.content, s.size_bytes, s.byte_offset
    FROM segments AS s
    JOIN target AS a USING (program_id)
),
constants AS (
    SELECT c.program_id, count(*) AS number,
        coalesce(sum(c.size_bytes) FILTER (WHERE c.location = 'inline'), 0) AS inline_bytes
    FROM (
        SELECT DISTINCT i.program_id, i.byte_offset, i.size_bytes, i.location
        FROM constant_buffers AS i
        JOIN target AS a USING (program_id)
        WHERE i.size_bytes > 0
    ) AS c
    GROUP BY c.program_id
),
blobs AS MATERIALIZED (
    SELECT d.program_id, string_agg(DISTINCT d.backend, ', ' ORDER BY d.backend) AS item,
        list(DISTINCT d.method ORDER BY d.method) AS methods, d.location, d.byte_offset, d.blob_bytes AS bytes
    FROM program_delegates AS d
    JOIN target AS a USING (program_id)
    LEFT JOIN pieces AS s ON s.program_id = d.program_id AND s.segment_index = d.data_index
    WHERE d.location = 'inline' OR s.content = 'delegate'
    GROUP BY d.program_id, d.location, d.data_index, d.byte_offset, d.blob_bytes
),
sums AS MATERIALIZED (
    SELECT a.program_id, a.size_bytes, a.flatbuffer_bytes, coalesce(c.number, 0) AS constants,
        coalesce(c.inline_bytes, 0) AS constant_bytes, coalesce(b.bytes, 0) AS blob_bytes,
        coalesce(s.bytes, 0) AS segment_bytes, coalesce(s.constant_bytes, 0) AS segment_constant_bytes
    FROM target AS a
    LEFT JOIN constants AS c USING (program_id)
    LEFT JOIN (
        SELECT b.program_id, sum(b.bytes) FILTER (b.location = 'inline') AS bytes FROM blobs AS b GROUP BY b.program_id
    ) AS b USING (program_id)
    LEFT JOIN (
        SELECT s.program_id, sum(s.size_bytes) AS bytes,
            sum(s.size_bytes) FILTER (s.content = 'constants') AS constant_bytes
        FROM pieces AS s
        GROUP BY s.program_id
    ) AS s USING (program_id)
),
parts AS (
    SELECT a.program_id, 0 AS place, 'program' AS part, NULL::VARCHAR AS item, NULL::VARCHAR[] AS methods, 1 AS number,
        0 AS byte_offset, a.flatbuffer_bytes - a.constant_bytes - a.blob_bytes AS bytes
    FROM sums AS a
    UNION ALL
    SELECT a.program_id, 1, 'constants', NULL, NULL, a.constants, 0, a.constant_bytes + a.segment_constant_bytes
    FROM sums AS a
    UNION ALL
    SELECT b.program_id, 2, 'delegate', b.item, b.methods, 1, b.byte_offset, b.bytes FROM blobs AS b
    UNION ALL
    SELECT s.program_id, CASE s.content WHEN 'mutable' THEN 3 WHEN 'named' THEN 4 ELSE 5 END,
        CASE s.content WHEN 'mutable' THEN 'mutable data' WHEN 'named' THEN 'named data' ELSE 'segment' END,
        string_agg(k.key, ', ' ORDER BY k.key), NULL, 1, s.byte_offset, s.size_bytes
    FROM pieces AS s
    LEFT JOIN named_data AS k ON k.program_id = s.program_id AND k.segment_index = s.segment_index
    WHERE s.content NOT IN ('constants', 'delegate')
    GROUP BY s.program_id, s.segment_index, s.content, s.byte_offset, s.size_bytes
    UNION ALL
    SELECT a.program_id, 6, 'padding', NULL, NULL, 1, 0, a.size_bytes - a.flatbuffer_bytes - a.segment_bytes
    FROM sums AS a
)
SELECT p.program_id, p.place, p.byte_offset, p.part, p.item, p.methods, p.number, try_cast(p.bytes AS BIGINT) AS bytes,
    100e0 * p.bytes / a.size_bytes AS share_percent
FROM parts AS p
JOIN target AS a USING (program_id);

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
WITH target_of_parts AS MATERIALIZED (SELECT _key_of('program', program) AS program_id)
SELECT p.part, p.item, p.methods, p.number, p.bytes, p.share_percent
FROM _program_parts('target_of_parts') AS p
ORDER BY p.place, p.byte_offset, p.item;
