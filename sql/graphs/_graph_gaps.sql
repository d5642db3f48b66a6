-- One node of the edge graphs of a side of a comparison of graphs, with the difference between its value and the right
-- one, as in `node_gaps`.
CREATE MACRO _graph_gaps(base_key, new_key, reference, metric) AS TABLE
WITH sides AS MATERIALIZED (SELECT base_key AS base_id, new_key AS new_id),
reference_key AS MATERIALIZED (
    SELECT
        CASE
            WHEN reference IS NULL THEN NULL
            WHEN count(*) = 0 THEN error('no capture matches ' || reference::VARCHAR)
            WHEN count(*) > 1 THEN error(reference::VARCHAR || ' matches ' || count(*) || ' captures; name one')
            WHEN any_value(k.record_id) IS NULL THEN error(
                reference::VARCHAR || ' has no record, whose debug handles identify '
                || 'values; link one: etq link ' || reference::VARCHAR || ' RECORD'
            )
            WHEN any_value(s.base_id) IS NULL AND any_value(s.new_id) IS NULL
                THEN error(
                    'both sides are records; values can only be compared with those of '
                    || reference::VARCHAR || ' if a side is a capture'
                )
            ELSE any_value(k.capture_id)
        END AS capture_id
    FROM _matching_captures(reference) AS m
    JOIN captures AS k USING (capture_id)
    CROSS JOIN sides AS s
),
-- Without two different captures there is nothing to compare: both keys are NULL.
keys AS MATERIALIZED (
    SELECT CASE WHEN s.base_id <> r.capture_id THEN r.capture_id END AS right_of_base,
        CASE WHEN s.base_id <> r.capture_id THEN s.base_id END AS base_id,
        CASE
            WHEN s.new_id <> coalesce(r.capture_id, s.base_id) THEN coalesce(r.capture_id, s.base_id)
        END AS right_of_new,
        CASE WHEN s.new_id <> coalesce(r.capture_id, s.base_id) THEN s.new_id END AS new_id
    FROM sides AS s CROSS JOIN reference_key AS r
)
SELECT true AS is_base, b.graph_id, b.node_index, b.debug_handle, b.gap, b.grows,
    replace(replace(b.problem, 'in base', 'in the reference'), 'in new', 'in base') AS problem
FROM _node_gaps((SELECT k.right_of_base FROM keys AS k), (SELECT k.base_id FROM keys AS k), metric) AS b
UNION ALL
SELECT false, n.graph_id, n.node_index, n.debug_handle, n.gap, n.grows,
    CASE WHEN reference IS NULL THEN n.problem ELSE replace(n.problem, 'in base', 'in the reference') END
FROM _node_gaps((SELECT k.right_of_new FROM keys AS k), (SELECT k.new_id FROM keys AS k), metric) AS n;
