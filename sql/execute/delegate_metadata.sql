-- One piece of metadata of a delegate's event: logged by the backend, or part of the event's name. Each field of
-- JSON (Core ML, VGF, Vulkan) has its own row. A unit after a name (QNN) becomes a field, and a single byte (NXP
-- Neutron's function code) becomes a number. XNNPACK's microkernel has three fields: its symbol, its mean time summed
-- over threads, and this time in percent of the event's. Other metadata is kept as it is. Metadata that differs between
-- runs has a row for each value.
-- Shown: event_name!, field!, value!, source, runs#, block_index#, slot#
-- Columns:
--   block_index: the event block
--   slot: position in the block's list of distinct events
--   event_name: the event's label
--   source: place where it was found: metadata or name
--   field: name of the field; function_code, unit, microkernel, microkernel_us, microkernel_percent; NULL for metadata that is kept as it is
--   value: value as text; bytes that are not text as hexadecimal
--   runs: number of events with this value
CREATE MACRO delegate_metadata(capture) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, NULL)),
logged AS (
    SELECT s.block_index, s.slot, s.label, t.delegate_metadata AS bytes, count(*) AS runs,
        _microkernel(t.delegate_metadata) AS microkernel,
        sum(t.elapsed_ticks) * _nanoseconds(any_value(a.time_scale)) / 1000 AS us
    FROM target AS a
    JOIN event_ticks AS t USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE s.kind = 'delegate'
    GROUP BY ALL
),
sources AS (
    SELECT l.block_index, l.slot, l.label, 'metadata' AS source,
        -- Some bytes are not text, and text may be JSON in base64.
        _metadata_text(l.bytes) AS text, l.bytes, l.runs
    FROM logged AS l
    WHERE l.bytes IS NOT NULL AND l.microkernel IS NULL
    UNION ALL
    SELECT l.block_index, l.slot, l.label, 'name', l.label, NULL, sum(l.runs)::BIGINT
    FROM logged AS l
    WHERE json_valid(l.label) AND starts_with(trim(l.label), '{')
    GROUP BY l.block_index, l.slot, l.label
),
fields AS (
    SELECT s.*, unnest(json_keys(s.text)) AS field
    FROM sources AS s
    WHERE json_valid(s.text) AND starts_with(trim(s.text), '{')
),
microkernels AS (
    SELECT l.block_index, l.slot, l.label, l.microkernel['symbol'] AS symbol, sum(l.runs)::BIGINT AS runs,
        sum(l.microkernel['us'] * l.runs) AS microkernel_us, sum(l.us) AS us
    FROM logged AS l
    WHERE l.microkernel IS NOT NULL
    GROUP BY ALL
),
described AS (
    SELECT m.block_index, m.slot, m.label, 'metadata' AS source, f.field, f.value, m.runs
    FROM microkernels AS m
    CROSS JOIN LATERAL (
        VALUES
            ('microkernel', m.symbol),
            ('microkernel_us', round(m.microkernel_us / m.runs, 1)::VARCHAR),
            ('microkernel_percent', round(100 * m.microkernel_us / nullif(m.us, 0), 1)::VARCHAR)
    ) AS f(field, value)
    WHERE f.value IS NOT NULL
    UNION ALL
    SELECT f.block_index, f.slot, f.label, f.source, f.field,
        json_extract_string(f.text, '/' || replace(replace(f.field, '~', '~0'), '/', '~1')) AS value, f.runs
    FROM fields AS f
    UNION ALL
    SELECT s.block_index, s.slot, s.label, s.source,
        CASE WHEN octet_length(s.bytes) = 1 AND s.text IS NULL THEN 'function_code' END,
        CASE
            WHEN s.text IS NOT NULL THEN s.text
            WHEN octet_length(s.bytes) = 1 THEN ('0x' || hex(s.bytes))::INTEGER::VARCHAR
            ELSE lower(hex(s.bytes))
        END,
        s.runs
    FROM sources AS s
    WHERE s.source = 'metadata' AND NOT coalesce(json_valid(s.text) AND starts_with(trim(s.text), '{'), false)
    UNION ALL
    SELECT s.block_index, s.slot, s.label, 'name', 'unit', s.value_unit,
        (SELECT sum(l.runs)::BIGINT FROM logged AS l WHERE l.block_index = s.block_index AND l.slot = s.slot)
    FROM target AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.kind = 'delegate' AND s.value_unit NOT IN ('ticks', 'unknown')
)
SELECT d.block_index, d.slot, d.label AS event_name, d.source, d.field, d.value, d.runs
FROM described AS d
ORDER BY d.block_index, d.slot, d.source, d.field, d.value;

-- Bytes as text. JSON in base64, which VGF writes, is decoded; other ASCII is unchanged; NULL if the bytes are not
-- text.
CREATE MACRO _metadata_text(bytes) AS (
    CASE
        WHEN regexp_full_match(_ascii_text(bytes), '[A-Za-z0-9+/]{8,}={0,2}')
            AND starts_with(coalesce(_ascii_text(try(from_base64(_ascii_text(bytes)))), ''), '{')
            THEN _ascii_text(try(from_base64(_ascii_text(bytes))))
        ELSE _ascii_text(bytes)
    END
);

-- The metadata that XNNPACK logs about an op's microkernel, `symbol\0microseconds`: its symbol, NULL if it has none,
-- and the microseconds of all threads in it. NULL for other metadata, and for more than 11 days.
CREATE MACRO _microkernel(bytes) AS (
    CASE
        WHEN regexp_full_match(try(decode(bytes)), '(xnn_\w+)?\x00[0-9]{1,12}')
            THEN {
                'symbol': nullif(string_split(decode(bytes), chr(0))[1], ''),
                'us': string_split(decode(bytes), chr(0))[2]::BIGINT
            }
    END
);

-- Bytes as text; NULL if some are not printable ASCII.
CREATE MACRO _ascii_text(bytes) AS (
    CASE WHEN regexp_full_match(try(decode(bytes)), '[\x20-\x7e\t\r\n]*') THEN try(decode(bytes)) END
);
