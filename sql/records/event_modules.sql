-- Where an event's time belongs in the model: the deepest module that all of
-- its own nodes stand in, and the source line that all of them come from.
-- Columns:
--   signature_index: the event, in `signatures`
--   op_type: what its own nodes call; NULL where they call several ops
--   first_op_type: what the first of them calls
--   output_shape: sizes of the first node's first output, as text; NULL where they aren't known
--   module_path: the module; NULL where no node tells one
--   source_file: file of the user's line; NULL where the nodes come from several
--   source_line: that line; NULL where the nodes come from several
--   lines: number of lines that the nodes come from
--   mapping: exact or aligned
CREATE MACRO _event_modules(
    capture  -- as everywhere
) AS TABLE
WITH
asked AS (
    SELECT k.capture_id, k.record_id
    FROM _capture(capture, NULL) AS c
    JOIN captures AS k ON k.capture_id = c.capture_id
),
own AS MATERIALIZED (
    SELECT
        n.signature_index,
        n.position,
        n.graph_id,
        n.node_index,
        n.op_type,
        n.source_file,
        n.source_line,
        n.mapping,
        a.record_id
    FROM event_nodes(capture) AS n
    CROSS JOIN asked AS a
    WHERE n.is_own
),
firsts AS (
    SELECT
        o.*,
        (
            SELECT count(DISTINCT (i.source_file, i.source_line))
            FROM own AS i
            WHERE i.signature_index = o.signature_index
                AND i.source_file IS NOT NULL
        ) AS lines,
        (
            SELECT count(DISTINCT i.op_type)
            FROM own AS i
            WHERE i.signature_index = o.signature_index
        ) AS op_types
    FROM own AS o
    QUALIFY row_number() OVER (
        PARTITION BY o.signature_index ORDER BY o.position
    ) = 1
),
levels AS (
    SELECT o.signature_index, m.depth, any_value(m.module_path) AS module_path
    FROM own AS o
    JOIN node_modules AS m
        ON m.record_id = o.record_id
        AND m.graph_id = o.graph_id
        AND m.node_index = o.node_index
    GROUP BY o.signature_index, m.depth
    HAVING count(DISTINCT m.module_path) = 1
        AND count(*) = (
            SELECT count(*)
            FROM own AS i
            WHERE i.signature_index = o.signature_index
        )
),
deepest AS (
    SELECT l.signature_index, max_by(l.module_path, l.depth) AS module_path
    FROM levels AS l
    GROUP BY l.signature_index
)
SELECT
    f.signature_index,
    CASE WHEN f.op_types = 1 THEN f.op_type END AS op_type,
    f.op_type AS first_op_type,
    v.sizes::VARCHAR AS output_shape,
    d.module_path,
    CASE WHEN f.lines = 1 THEN f.source_file END AS source_file,
    CASE WHEN f.lines = 1 THEN f.source_line END AS source_line,
    f.lines,
    f.mapping
FROM firsts AS f
LEFT JOIN deepest AS d ON d.signature_index = f.signature_index
LEFT JOIN node_values AS v
    ON v.record_id = f.record_id
    AND v.graph_id = f.graph_id
    AND v.node_index = f.node_index
    AND v.output_index = 0;
