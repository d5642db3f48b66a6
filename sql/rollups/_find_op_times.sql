-- The time of one op of a capture, run by run: the events within executes that compute, and the executes themselves. A
-- row of the table `op_times`.
CREATE MACRO _find_op_times(
    times,  -- a table with rows of `_answered_times`
    first_key, last_key
) AS TABLE
WITH blocks AS (
    -- Not `runs.scope`: its numbers are only valid within one capture.
    SELECT DISTINCT r.capture_id, r.block_index, coalesce(r.method, r.name) AS scope
    FROM runs AS r
    WHERE r.capture_id BETWEEN first_key AND last_key
),
kernels AS (
    SELECT DISTINCT s.capture_id, s.block_index, s.chain_index, s.instruction_id
    FROM signatures AS s
    WHERE s.capture_id BETWEEN first_key AND last_key AND s.kind IN ('kernel', 'delegate_call')
),
computing AS (
    SELECT s.capture_id, s.signature_index, b.scope, s.kind, s.label, s.family,
        CASE s.kind WHEN 'framework' THEN -1 ELSE s.chain_index END AS chain_index,
        CASE WHEN s.kind <> 'framework' THEN s.instruction_id END AS instruction_id,
        CASE WHEN s.kind <> 'framework' THEN o.op_type END AS op_type,
        CASE WHEN s.kind <> 'framework' THEN o.module_path END AS module_path, s.value_unit,
        s.clock = 'host'
        AND s.value_unit = 'ticks'
        AND s.kind NOT IN ('delegate', 'user') AS is_additive,
        s.slot
    FROM signatures AS s
    JOIN blocks AS b USING (capture_id, block_index)
    LEFT JOIN kernels AS k
        ON s.kind = 'operator_call'
        AND k.capture_id = s.capture_id
        AND k.block_index = s.block_index
        AND k.chain_index = s.chain_index
        AND k.instruction_id = s.instruction_id
    LEFT JOIN signature_ops AS o USING (capture_id, signature_index)
    WHERE s.capture_id BETWEEN first_key AND last_key
        AND s.value_unit IN ('ticks', 'us', 'cycles')
        AND CASE s.kind
            WHEN 'framework' THEN s.name IN ('Method::execute', 'Method::step')
            WHEN 'operator_call' THEN k.capture_id IS NULL
            ELSE s.kind IN ('kernel', 'delegate', 'delegate_call', 'user')
        END
),
-- One op may be in several blocks, if runs take different branches. The total is one op, though each Method::step has
-- another label and instruction.
grouped AS (
    SELECT c.capture_id, c.scope, c.kind, min(c.label) AS label, min(c.family) AS family, c.chain_index,
        c.instruction_id, c.op_type, c.module_path, c.value_unit, c.is_additive, min(c.slot) AS slot,
        list(c.signature_index) AS signature_indexes,
        -- A signature belongs to one op only, so the first one identifies the op.
        min(c.signature_index) AS first_signature
    FROM computing AS c
    GROUP BY c.capture_id, c.scope, c.kind, CASE WHEN c.kind <> 'framework' THEN c.label END,
        CASE WHEN c.kind <> 'framework' THEN c.family END, c.chain_index, c.instruction_id, c.op_type, c.module_path,
        c.value_unit, c.is_additive
),
ops AS MATERIALIZED (
    SELECT g.capture_id, g.scope, g.kind, g.label, g.family, g.chain_index, g.instruction_id, g.op_type, g.module_path,
        g.value_unit, g.is_additive, g.signature_indexes, g.first_signature,
        CASE g.kind WHEN 'framework' THEN 0 ELSE row_number() OVER (
            PARTITION BY g.capture_id, g.kind = 'framework'
            ORDER BY g.scope, g.chain_index, g.instruction_id NULLS FIRST, g.slot, g.kind, g.label, g.value_unit,
                g.op_type, g.module_path
        ) END AS op_index,
        row_number() OVER (
            PARTITION BY g.capture_id, g.scope, g.kind, g.module_path, coalesce(g.op_type, g.family)
            ORDER BY g.chain_index, g.instruction_id NULLS FIRST, g.slot, g.label, g.value_unit
        ) AS ordinal,
        row_number() OVER (
            PARTITION BY g.capture_id, g.scope, g.module_path, coalesce(g.op_type, g.family)
            ORDER BY g.chain_index, g.instruction_id NULLS FIRST, g.slot, g.kind, g.label, g.value_unit, g.op_type,
                g.module_path
        ) AS place_in_module,
        row_number() OVER (
            PARTITION BY g.capture_id, g.scope, g.kind, g.family
            ORDER BY
                g.chain_index, g.instruction_id NULLS FIRST, g.slot, g.label, g.value_unit, g.op_type, g.module_path
        ) AS place_in_kind
    FROM grouped AS g
),
members AS (
    SELECT o.capture_id, o.kind, o.first_signature, unnest(o.signature_indexes) AS signature_index FROM ops AS o
),
timed AS (
    SELECT t.capture_id, m.kind, m.first_signature, t.run_index, t.event_index, t.parent_run_index, t.parent_index,
        t.execute_index, t.duration_ticks, t.is_additive, t.is_detached, t.is_impossible
    FROM members AS m
    JOIN query_table(times) AS t USING (capture_id, signature_index)
),
-- The time of a delegate's event excludes the time of other events that it encloses.
parts AS (
    SELECT t.capture_id, t.first_signature, t.run_index, 1 AS calls, t.duration_ticks AS ticks
    FROM timed AS t
    WHERE t.execute_index IS NOT NULL
        AND NOT t.is_impossible
        -- Delegates' events are in no total, so they may be detached.
        AND (NOT t.is_detached OR t.kind IN ('delegate', 'framework'))
    UNION ALL
    SELECT p.capture_id, p.first_signature, p.run_index, 0, -e.duration_ticks
    FROM timed AS e
    JOIN timed AS p
        ON p.capture_id = e.capture_id
        AND p.run_index = e.parent_run_index
        AND p.event_index = e.parent_index
        AND p.kind = 'delegate'
        AND p.execute_index IS NOT NULL
        AND NOT p.is_impossible
    WHERE e.kind = 'delegate' AND e.is_additive AND NOT e.is_detached
),
-- These rows are about half as many as the events, so they have only numbers.
in_runs AS MATERIALIZED (
    SELECT p.capture_id, p.first_signature, p.run_index, sum(p.calls)::BIGINT AS calls,
        try_cast(sum(p.ticks) AS BIGINT) AS ticks
    FROM parts AS p
    GROUP BY p.capture_id, p.first_signature, p.run_index
),
phases AS (
    SELECT i.capture_id, i.first_signature, NULL AS phase, i.calls, i.ticks FROM in_runs AS i WHERE i.ticks IS NOT NULL
    UNION ALL
    SELECT i.capture_id, i.first_signature, r.phase, i.calls, i.ticks
    FROM in_runs AS i
    JOIN runs AS r USING (capture_id, run_index)
    WHERE r.phase IS NOT NULL AND i.ticks IS NOT NULL
),
-- The time of a run outside of its ops.
rests AS MATERIALIZED (
    SELECT i.capture_id, i.run_index, max(o.first_signature) FILTER (WHERE o.op_index = 0) AS first_signature,
        sum(CASE o.op_index WHEN 0 THEN i.ticks ELSE -i.ticks END) AS ticks
    FROM in_runs AS i
    JOIN ops AS o USING (capture_id, first_signature)
    WHERE o.is_additive
    GROUP BY i.capture_id, i.run_index, o.scope
),
outside AS (
    SELECT p.capture_id, p.first_signature, p.phase, quantile_cont(p.ticks::DOUBLE, [0.25, 0.5, 0.9]) AS quantiles
    FROM (
        SELECT t.capture_id, t.first_signature, NULL AS phase, t.ticks FROM rests AS t
        UNION ALL
        SELECT t.capture_id, t.first_signature, r.phase, t.ticks
        FROM rests AS t
        JOIN runs AS r USING (capture_id, run_index)
        WHERE r.phase IS NOT NULL
    ) AS p
    GROUP BY p.capture_id, p.first_signature, p.phase
),
numbers AS (
    SELECT p.capture_id, p.first_signature, p.phase, count(*)::INTEGER AS runs, sum(p.calls)::BIGINT AS calls,
        try_cast(sum(p.ticks) AS BIGINT) AS total_ticks, quantile_cont(p.ticks::DOUBLE, [0.25, 0.5, 0.9]) AS quantiles
    FROM phases AS p
    GROUP BY p.capture_id, p.first_signature, p.phase
)
SELECT o.capture_id, o.op_index::INTEGER AS op_index, n.phase,
    CASE o.op_index WHEN 0 THEN o.scope ELSE concat_ws(
        '|', o.scope, o.kind, coalesce(o.module_path, '?'), coalesce(o.op_type, o.family), o.ordinal
    ) END AS item,
    o.scope, o.kind, o.label, o.family, o.chain_index, o.instruction_id, o.op_type, o.module_path,
    o.place_in_module::INTEGER AS place_in_module, o.place_in_kind::INTEGER AS place_in_kind, o.value_unit,
    o.is_additive, n.runs, n.calls, n.total_ticks, n.quantiles[1] AS p25, n.quantiles[2] AS p50, n.quantiles[3] AS p90,
    t.quantiles[1] AS outside_p25, t.quantiles[2] AS outside_p50, t.quantiles[3] AS outside_p90,
    _resolution(CASE o.value_unit WHEN 'ticks' THEN k.step_ticks END) AS resolution
FROM ops AS o
JOIN numbers AS n ON n.capture_id = o.capture_id AND n.first_signature = o.first_signature
LEFT JOIN outside AS t
    ON t.capture_id = o.capture_id AND t.first_signature = o.first_signature AND t.phase IS NOT DISTINCT FROM n.phase
LEFT JOIN capture_clocks AS k
    ON k.capture_id = o.capture_id AND k.clock = CASE o.kind WHEN 'delegate' THEN 'delegate' ELSE 'host' END
ORDER BY o.capture_id, o.op_index, n.phase NULLS FIRST;
