-- One measured op of a capture: events that run the same nodes together. Times within the executes that belong to no op
-- and no delegate are not included.
CREATE MACRO _measured_ops(
    target,  -- a table of the capture: capture_id, record_id
    "by",  -- instruction: delegate calls as a whole; else their events, if these have nodes
    steps, phase, method, runs
) AS TABLE
WITH timed AS (
    SELECT r.scope AS method, e.signature_index, e.is_additive, s.block_index, s.kind, s.label, s.instruction_id,
        s.value_unit, count(*) AS calls, sum(e.self_ticks) AS self_ticks,
        coalesce(
            sum(_duration_ticks(e.elapsed_ticks, e.unwrapped_ticks)) FILTER (WHERE i.run_index IS NULL), 0
        ) AS whole_ticks
    FROM query_table(target) AS a
    JOIN event_ticks AS e USING (capture_id)
    JOIN (SELECT s.* FROM query_table(target) AS a JOIN signatures AS s USING (capture_id)) AS s USING (signature_index)
    JOIN (SELECT r.* FROM query_table(target) AS a JOIN runs AS r USING (capture_id)) AS r USING (run_index)
    LEFT JOIN _inner_calls(target) AS i
        ON s.kind = 'delegate_call' AND i.run_index = e.run_index AND i.event_index = e.event_index
    WHERE e.execute_index IS NOT NULL
        AND (s.kind IN ('kernel', 'delegate', 'delegate_call') OR s.kind = 'operator_call' AND e.children = 0)
        AND _is_selected_run(r.iteration, r.phase, r.scope, r.is_typical, steps, phase, method, runs)
    GROUP BY ALL
),
mapped AS (
    SELECT t.*, c.graph_id, c.nodes, coalesce(c.is_one_of, false) AS is_one_of,
        -- Whether the delegate's call is split into its events.
        "by" <> 'instruction' AND bool_or(
            t.kind = 'delegate' AND t.is_additive AND c.nodes IS NOT NULL
        ) OVER (PARTITION BY t.block_index, t.instruction_id) AS is_split
    FROM timed AS t
    LEFT JOIN (SELECT c.* FROM query_table(target) AS a JOIN signature_costs AS c USING (capture_id)) AS c
        ON c.signature_index = t.signature_index
),
kept AS (
    SELECT t.* REPLACE (
            CASE WHEN t.kind = 'delegate_call' AND t.is_split THEN '(delegate unaccounted)' ELSE t.label END AS label
        ),
        CASE WHEN t.kind <> 'delegate_call' OR NOT t.is_split THEN t.nodes END AS kept_nodes,
        CASE WHEN t.kind = 'delegate_call' AND NOT t.is_split THEN t.whole_ticks ELSE t.self_ticks END AS ticks
    FROM mapped AS t
    WHERE t.kind <> 'delegate' OR t.is_split OR "by" <> 'instruction' AND NOT t.is_additive
),
-- Several events of a run that run the same nodes are one call; runs of another block have their own calls.
in_blocks AS (
    SELECT k.block_index, k.method, k.kind, k.instruction_id, k.graph_id, k.kept_nodes, k.is_additive, k.value_unit,
        min(k.signature_index) AS signature_index, min_by(k.label, k.signature_index) AS label,
        bool_or(k.is_one_of) AS is_one_of, max(k.calls) AS calls, sum(k.ticks) AS ticks
    FROM kept AS k
    GROUP BY k.block_index, k.method, k.kind, k.instruction_id, k.graph_id, k.kept_nodes,
        CASE WHEN k.kept_nodes IS NULL THEN k.signature_index END, k.is_additive, k.value_unit
)
SELECT row_number() OVER (ORDER BY min(b.signature_index)) AS item, b.method, b.kind,
    min_by(b.label, b.signature_index) AS label, b.instruction_id,
    any_value(b.graph_id) FILTER (WHERE b.kept_nodes IS NOT NULL) AS graph_id, b.kept_nodes AS nodes,
    CASE WHEN b.kept_nodes IS NOT NULL THEN min(b.signature_index) END AS cost_signature,
    bool_or(b.is_one_of) AS is_one_of, sum(b.calls)::BIGINT AS calls, try_cast(sum(b.ticks) AS BIGINT) AS ticks,
    b.is_additive, b.value_unit
FROM in_blocks AS b
GROUP BY b.method, b.kind, b.instruction_id, b.graph_id, b.kept_nodes,
    CASE WHEN b.kept_nodes IS NULL THEN b.signature_index END, b.is_additive, b.value_unit;
