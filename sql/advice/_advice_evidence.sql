-- The capture that rules apply to: one that a runtime on a device wrote. Traces and
-- references have other rules, or none.
CREATE MACRO _advice_capture(capture_key, unit) AS TABLE
SELECT
    k.capture_id,
    k.profiling_level,
    k.time_scale,
    a.unit
FROM (SELECT capture_key AS capture_id, unit AS unit) AS a
JOIN captures AS k ON k.capture_id = a.capture_id
WHERE k.format NOT IN ('torch_trace', 'reference');

-- Evidence: one run with an execute, as in `framework_tax`; no rows if values were
-- logged, as all times then include copying them. Shares are of the requested runs:
-- by default the typical ones, see `typical_runs`.
CREATE MACRO _advice_runs(capture_key, unit, steps, phase, method, runs) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT c.* FROM _advice_capture(capture_key, unit) AS c
),
logged AS (
    SELECT
        t.run_index,
        count(*) FILTER (
            WHERE t.event_index <> t.execute_index AND s.kind <> 'delegate'
        ) AS events
    FROM target AS a
    JOIN event_ticks AS t ON t.capture_id = a.capture_id
    JOIN signatures AS s
        ON s.capture_id = t.capture_id
        AND s.signature_index = t.signature_index
    WHERE t.execute_index IS NOT NULL
    GROUP BY t.run_index
)
SELECT
    j.run_index,
    j.block_index,
    j.execute,
    j.tax,
    j.tax_percent,
    l.events,
    j.is_first,
    j.is_outlier,
    runs = 'all' OR j.is_typical AS is_steady,
    j.middle,
    j.unit
FROM _classified_runs(
    capture_key, unit, steps, phase, method, 'all'
) AS j
CROSS JOIN target AS a
JOIN logged AS l ON l.run_index = j.run_index
WHERE a.profiling_level IS DISTINCT FROM 'debug';

-- Evidence: one event of a capture's blocks within its executes, with its self time
-- as in `op_totals` and `module_totals`, over steady runs.
CREATE MACRO _advice_times(
    capture_key,  -- key of a capture
    unit,  -- unit of results: one that `_capture` has checked
    runs  -- rows of `_advice_runs` as a list
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT
        c.*,
        k.record_id,
        -- Whether a record of the capture's program maps its events to ops and modules.
        k.record_id IS NOT NULL AND NOT EXISTS (
            FROM findings AS f
            WHERE f.capture_id = k.capture_id AND f.rule = 'foreign record'
        ) AS is_mapped
    FROM _advice_capture(capture_key, unit) AS c
    JOIN captures AS k ON k.capture_id = c.capture_id
),
input AS (
    SELECT unnest(runs, recursive := true)
),
classified_times AS (
    SELECT
        t.scope AS method,
        t.signature_index,
        t.kind,
        t.family,
        t.instruction_id,
        t.kind = 'operator_call' AND t.children > 0 AS is_framework,
        t.kind = 'delegate_call' AND t.children > 0 AS is_opened,
        count(*) AS calls,
        sum(t.self_ticks) AS ticks
    FROM _execute_times(capture_key, NULL, NULL, NULL, 'all') AS t
    JOIN input AS g ON g.run_index = t.run_index AND g.is_steady
    WHERE t.is_additive
    GROUP BY
        t.scope, t.signature_index, t.kind, t.family, t.instruction_id, is_framework,
        is_opened
),
readers AS (
    SELECT n.signature_index, bool_and(e.to_node IS NULL) AS is_of_constant
    FROM target AS a
    JOIN signature_nodes AS n ON n.capture_id = a.capture_id AND n.is_own
    LEFT JOIN op_edges AS e
        ON e.record_id = a.record_id
        AND e.graph_id = n.graph_id
        AND e.to_node = n.node_index
    GROUP BY n.signature_index
)
SELECT
    o.method,
    CASE WHEN o.is_framework THEN 'framework' ELSE o.kind END AS kind,
    o.family AS op,
    o.instruction_id,
    _is_copy(o.kind, o.family) AS is_copy,
    CASE WHEN a.is_mapped THEN r.is_of_constant END AS is_of_constant,
    CASE WHEN a.is_mapped AND NOT o.is_framework THEN m.module_path END AS module_path,
    CASE
        WHEN a.is_mapped THEN m.source_file || coalesce(':' || m.source_line, '')
    END AS source,
    o.is_opened,
    o.calls / n.runs AS calls,
    _in_unit(o.ticks::DOUBLE / n.runs, a.time_scale, a.unit) AS per_run,
    100 * o.ticks::DOUBLE / nullif(sum(o.ticks) OVER (), 0) AS share_percent,
    a.unit AS unit
FROM target AS a
CROSS JOIN (SELECT count(*) AS runs FROM input AS g WHERE g.is_steady) AS n
CROSS JOIN classified_times AS o
LEFT JOIN signature_ops AS m
    ON m.capture_id = a.capture_id AND m.signature_index = o.signature_index
LEFT JOIN readers AS r ON r.signature_index = o.signature_index;

-- Whether an op computes nothing, but moves, copies or converts data: kernels by
-- the names of ExecuTorch's operators (permute_copy, clone, _to_copy,
-- _clone_dim_order, _to_dim_order_copy, quantize_per_tensor, ...), a delegate's
-- events by the parts copies and layout of `execute_breakdown`.
CREATE MACRO _is_copy(
    kind,  -- kind of the event
    family  -- its family
) AS (
    CASE kind
        WHEN 'kernel' THEN regexp_full_match(
            family,
            '(\w+::)?(clone|contiguous|_clone_dim_order|_to_dim_order|copy|\w+_copy'
            || '|(de)?quantize_per_\w+)(\.\w+)?'
        )
        WHEN 'delegate' THEN _delegate_part(family) <> 'ops'
            OR regexp_matches(family, '(?i)quantize')
        ELSE false
    END
);
