-- One finding about a capture's logged values: tensors that the debug buffer doesn't contain, or ops whose values
-- differ between the runs of a block.
CREATE MACRO _value_findings(
    capture_key,
    buffer_bytes  -- size of the debug buffer in bytes
) AS TABLE
WITH valued AS (SELECT capture_key AS capture_id),
tensors AS (FROM debug_values AS v WHERE v.capture_id = capture_key AND v.kind IN ('tensor', 'tensor_list')),
unknown_tensors AS (
    SELECT count(*) AS tensors, count(*) FILTER (WHERE t.byte_offset IS NOT NULL AND t.sha256 IS NULL) AS unknown
    FROM tensors AS t
),
differing AS (
    SELECT p.block_index, p.op_name, p.event_index, count(DISTINCT coalesce(v.sha256, v.number::VARCHAR)) AS kinds
    FROM _values_with_events('valued') AS p
    JOIN debug_values AS v
        ON v.capture_id = capture_key
        AND v.run_index = p.run_index
        AND v.event_index = p.event_index
        AND v.value_index = p.value_index
    GROUP BY p.block_index, p.op_name, p.instruction_id, p.role, p.event_index, p.value_index
    HAVING kinds > 1
)
SELECT 'short debug buffer' AS rule,
    l.unknown || ' of ' || l.tensors || ' tensors lie outside of the debug buffer ('
    || buffer_bytes || ' bytes) or have an impossible type or strides: their values are unknown' AS detail
FROM unknown_tensors AS l
WHERE l.unknown > 0
UNION ALL
SELECT 'values differ',
    count(*) || ' values of block ' || d.block_index
    || ' differ between its runs, first of ' || coalesce(min_by(d.op_name, d.event_index), 'the program')
FROM differing AS d
GROUP BY d.block_index;
