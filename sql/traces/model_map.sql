-- One op of a model that was run by ExecuTorch and by PyTorch, compared, to show where the device is slower than
-- expected. Ops with the same name and module path are the same op (an `addmm` of a Linear is one row for both runs).
-- An op that only one side has, because the other fused, decomposed or delegated it, has a separate row; for the trace,
-- only ops that no other op called. Needs a linked record, and a trace with modules (with_modules or with_stack).
-- Shown: module_path!, op!, etdump_calls#, etdump_time! (time), trace_calls#, trace_time! (time), ratio!#, excess!
--   (time), unit
-- Columns:
--   module_path: path of the module, '' for the model itself
--   op: the op without namespace and overload: addmm
--   etdump_calls: calls per run of Method::execute; NULL if the ETDump has none
--   etdump_time: mean self time per run of Method::execute
--   trace_calls: calls per call of the whole model; NULL if the trace has none
--   trace_time: mean total time per call of the whole model
--   ratio: etdump_time as a multiple of trace_time
--   excess: etdump_time minus trace_time; NULL if one side has none
--   unit: unit of times
CREATE MACRO model_map(
    etdump,  -- capture of an ETDump: name, hash prefix, @latest or selector
    trace,  -- capture of a PyTorch trace of the same model
    unit := NULL  -- ns, us, ms, s; NULL: us
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT a.capture_id, a.record_id, a.unit, a.scale, greatest(count(r.run_index), 1) AS runs
    FROM _scaled_capture(etdump, unit) AS a
    LEFT JOIN runs AS r ON r.capture_id = a.capture_id AND r.name IN ('Execute', 'Step')
    GROUP BY a.capture_id, a.record_id, a.unit, a.scale
),
device AS (
    SELECT o.module_path, string_split(t.family, '.')[1] AS op, count(*) AS calls, sum(t.self_ticks)::DOUBLE AS ticks
    FROM _timed_events((SELECT a.capture_id FROM target AS a), NULL, NULL, NULL, NULL, 'all') AS t
    JOIN signature_ops AS o USING (capture_id, signature_index)
    WHERE t.kind IN ('kernel', 'delegate_call')
    GROUP BY o.module_path, op
),
-- torch numbers the modules of a class in the order of their first call, which is also their order in the record.
first_nodes AS (
    SELECT m.module_path, string_split(m.module_class, '.')[-1] AS class, min(m.node_index) AS first_node
    FROM target AS a
    JOIN graphs AS g ON g.record_id = a.record_id AND g.stage = 'edge_dialect_exported_program'
    JOIN node_modules AS m ON m.record_id = g.record_id AND m.graph_id = g.graph_id
    GROUP BY m.module_path, class
),
paths AS MATERIALIZED (
    SELECT n.module_path,
        n.class || '_' || (row_number() OVER (PARTITION BY n.class ORDER BY n.first_node, n.module_path) - 1) AS module
    FROM first_nodes AS n
),
traced AS MATERIALIZED (
    SELECT
        CASE c.format
            WHEN 'torch_trace' THEN c.capture_id
            ELSE error(
                c.name || ' is of format ' || c.format || '; name a PyTorch trace of the same model after the ETDump'
            )
        END AS capture_id
    FROM _capture(trace, NULL) AS c
),
-- The trace's ops, each with the module that contains it.
first_calls AS MATERIALIZED (
    SELECT e.label, e.category,
        -- An op that calls itself counts once.
        e.duration_ticks - _part_before(
            e.start_ticks, e.end_ticks, max(e.end_ticks) OVER (
                PARTITION BY e.label, p.module_path, h.thread_index
                ORDER BY e.start_ticks, e.end_ticks DESC, e.event_index
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS counted_ticks,
        p.module_path, o.event_index IS NULL AS is_outermost
    FROM traced AS b
    JOIN events AS e ON e.capture_id = b.capture_id AND e.category IS NOT NULL
    JOIN trace_events AS h
        ON h.capture_id = e.capture_id AND h.run_index = e.run_index AND h.event_index = e.event_index
    JOIN _trace_event_modules((SELECT k.capture_id FROM traced AS k)) AS m
        ON m.run_index = e.run_index AND m.event_index = e.event_index
    JOIN paths AS p USING (module)
    LEFT JOIN events AS o
        ON o.capture_id = b.capture_id
        AND o.run_index = e.parent_run_index
        AND o.event_index = e.parent_index
        AND starts_with(o.label, 'aten::')
),
-- Number of calls of the whole model in the trace.
passes AS (
    SELECT greatest(count(*), 1) AS passes
    FROM first_calls AS c
    WHERE c.module_path = '' AND starts_with(c.label, 'nn.Module: ')
),
torch AS (
    SELECT c.module_path, string_split(string_split(c.label, '::')[2], '.')[1] AS op, count(*) AS calls,
        sum(c.counted_ticks)::DOUBLE AS ticks, bool_or(c.is_outermost) AS is_outermost
    FROM first_calls AS c
    WHERE starts_with(c.label, 'aten::')
    GROUP BY c.module_path, op
),
paired AS (
    SELECT coalesce(d.module_path, t.module_path) AS module_path, coalesce(d.op, t.op) AS op,
        d.calls / k.runs AS etdump_calls, _in_unit(d.ticks / k.runs, k.scale) AS etdump_time,
        t.calls / n.passes AS trace_calls, _in_unit(t.ticks / n.passes, _scale('ns', k.unit)) AS trace_time, k.unit
    FROM device AS d
    FULL JOIN torch AS t USING (module_path, op)
    CROSS JOIN target AS k CROSS JOIN passes AS n CROSS JOIN traced AS b
    WHERE (d.op IS NOT NULL OR t.is_outermost)
        -- Evaluated first: another format is an error even if the ETDump has no modules.
        AND b.capture_id IS NOT NULL
)
SELECT p.module_path, p.op, p.etdump_calls, p.etdump_time, p.trace_calls, p.trace_time,
    p.etdump_time / nullif(p.trace_time, 0) AS ratio, p.etdump_time - p.trace_time AS excess, p.unit
FROM paired AS p
ORDER BY p.etdump_time DESC NULLS LAST, p.trace_time DESC, p.module_path, p.op;
