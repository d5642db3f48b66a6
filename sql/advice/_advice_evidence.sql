-- What rules are told of: captures that a runtime on a device wrote. Traces and
-- references have rules of their own, or none.
-- Columns:
--   capture_id: the capture
--   profiling_level: all, method_only, debug, or NULL
--   time_scale: what one of its ticks is
--   unit: the unit to answer in
--   is_told: whether a record that is this program's tells its ops and modules
CREATE MACRO _advised_capture(
    capture,  -- as everywhere
    unit  -- as everywhere
) AS TABLE
SELECT
    a.capture_id,
    a.profiling_level,
    a.time_scale,
    a.unit,
    k.record_id IS NOT NULL AND NOT EXISTS (
        FROM findings AS f
        WHERE f.capture_id = a.capture_id AND f.rule = 'foreign record'
    ) AS is_told
FROM _capture(capture, unit) AS a
JOIN captures AS k ON k.capture_id = a.capture_id
WHERE k.format NOT IN ('torch_trace', 'reference');

-- Evidence: the runs of a capture that executed, as `framework_tax` has them;
-- none where values were logged, as copying these is in all times then. Shares
-- are those of the runs asked for: by default of typical runs, see `typical_runs`.
-- Columns:
--   run_index: the run
--   block_index: its event block
--   execute: time of its executes
--   tax: what is left of it beside the work; NULL where that can't be told
--   tax_percent: tax in percent of execute
--   events: number of timed events within its executes, but those within delegates
--   is_first: whether it is the first run of its name, with enough runs of its block behind it
--   is_outlier: whether it is another one that is not typical
--   is_steady: whether shares are taken of it
--   middle: median of the typical runs of its block
--   unit: unit of execute, tax and middle
CREATE MACRO _advice_runs(
    capture,  -- as everywhere
    unit,  -- as everywhere
    skip_first,  -- as in `schedule`
    wait,  -- as in `schedule`
    warmup,  -- as in `schedule`
    active,  -- as in `schedule`
    repeat,  -- as in `schedule`
    skip_first_wait,  -- as in `schedule`
    phase,  -- as everywhere
    method,  -- as everywhere
    runs  -- as everywhere
) AS TABLE
WITH
asked AS (
    SELECT c.* FROM _advised_capture(capture, unit) AS c
),
logged AS (
    SELECT
        t.run_index,
        count(*) FILTER (
            WHERE t.event_index <> t.execute_index AND s.kind <> 'delegate'
        ) AS events
    FROM asked AS a
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
FROM _judged_runs(
    capture, unit, skip_first, wait, warmup, active, repeat, skip_first_wait, phase,
    method, 'all'
) AS j
CROSS JOIN asked AS a
JOIN logged AS l ON l.run_index = j.run_index
WHERE a.profiling_level IS DISTINCT FROM 'debug';

-- Evidence: the own times of each event of a capture's blocks within its
-- executes, as `op_totals` and `module_totals` add them up, over steady runs.
-- Columns:
--   method: scope of the runs
--   kind: kernel, delegate, delegate_call, operator_call, control, user, framework
--   op: the event's family
--   instruction_id: its instruction; NULL where none is named
--   is_copy: whether it computes nothing: moves, copies or converts data
--   is_of_constant: whether it reads no other op's result, but a weight or an input of the model; NULL where no record tells
--   module_path: path of its module; NULL where none is told
--   source: file and line; NULL where none is told
--   is_opened: of a DELEGATE_CALL, whether events within it tell what of it is overhead
--   calls: number of them in one run, on average
--   per_run: own time in one run, on average
--   share_percent: that in percent of the executes
--   unit: unit of per_run
CREATE MACRO _advice_times(
    capture,  -- as everywhere
    unit,  -- as everywhere
    runs  -- rows of `_advice_runs` as a list
) AS TABLE
WITH
asked AS (
    SELECT c.* FROM _advised_capture(capture, unit) AS c
),
given AS (
    SELECT unnest(runs, recursive := true)
),
owned AS (
    SELECT
        r.scope AS method,
        t.signature_index,
        s.kind,
        s.family,
        s.instruction_id,
        s.kind = 'operator_call' AND t.children > 0 AS is_framework,
        s.kind = 'delegate_call' AND t.children > 0 AS is_opened,
        count(*) AS calls,
        sum(t.self_ticks) AS ticks
    FROM _self_times(
        _capture_id(capture), 0, 0, 0, 1, 0, 0, NULL, NULL, 'all'
    ) AS t
    CROSS JOIN asked AS a
    JOIN given AS g ON g.run_index = t.run_index AND g.is_steady
    JOIN runs AS r ON r.capture_id = a.capture_id AND r.run_index = t.run_index
    JOIN signatures AS s
        ON s.capture_id = a.capture_id
        AND s.signature_index = t.signature_index
    WHERE t.execute_index IS NOT NULL AND t.is_added
    GROUP BY
        r.scope, t.signature_index, s.kind, s.family, s.instruction_id, is_framework,
        is_opened
),
readers AS (
    SELECT n.signature_index, bool_and(e.to_node IS NULL) AS is_of_constant
    FROM asked AS a
    JOIN captures AS k ON k.capture_id = a.capture_id
    JOIN signature_nodes AS n ON n.capture_id = a.capture_id AND n.is_own
    LEFT JOIN op_edges AS e
        ON e.record_id = k.record_id
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
    CASE WHEN a.is_told THEN r.is_of_constant END AS is_of_constant,
    CASE WHEN a.is_told AND NOT o.is_framework THEN m.module_path END AS module_path,
    CASE
        WHEN a.is_told THEN m.source_file || coalesce(':' || m.source_line, '')
    END AS source,
    o.is_opened,
    o.calls / n.runs AS calls,
    o.ticks::DOUBLE / n.runs
    * _multiplier(a.time_scale, a.unit) / _divisor(a.time_scale, a.unit)
        AS per_run,
    100 * o.ticks::DOUBLE / nullif(sum(o.ticks) OVER (), 0) AS share_percent,
    a.unit AS unit
FROM asked AS a
CROSS JOIN (SELECT count(*) AS runs FROM given AS g WHERE g.is_steady) AS n
CROSS JOIN owned AS o
LEFT JOIN signature_ops AS m
    ON m.capture_id = a.capture_id AND m.signature_index = o.signature_index
LEFT JOIN readers AS r ON r.signature_index = o.signature_index;

-- Whether an op computes nothing, but moves, copies or converts data: kernels
-- by the names of ExecuTorch's operators (permute_copy, clone, _to_copy,
-- _clone_dim_order, _to_dim_order_copy, quantize_per_tensor, ...), a delegate's
-- events as `execute_breakdown` tells copies and layout.
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
