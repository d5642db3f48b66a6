-- The name of an op of a trace in `cost_formulas`; an in-place op with a formula of its own keeps its name. Of kernels
-- that Inductor wrote, those that choose elements by numbers have none: they read only part of their tensors.
CREATE MACRO _traced_op(label) AS (
    CASE
        WHEN regexp_matches(label, '^triton_.*(embedding|gather|index|scatter)') THEN NULL
        WHEN regexp_matches(label, '^triton_tem_fused_.*flex_attention_backward')
            THEN 'inductor.flex_attention_backward'
        WHEN regexp_matches(label, '^triton_tem_fused_.*flex_attention') THEN 'inductor.flex_attention'
        WHEN starts_with(label, 'triton_poi_fused') THEN 'inductor.pointwise'
        WHEN regexp_matches(label, '^triton_(red|per)_fused') THEN 'inductor.reduction'
        ELSE regexp_replace(label, '^(\w+)::(\w+?)_*$', '\1.\2')
    END
);

-- Why an op without a formula has no cost.
CREATE MACRO _why_uncounted(label) AS (
    CASE
        WHEN regexp_matches(label, '^(record_param_comms$|nccl:|c10d::|_c10d_functional::|symm_mem::)')
            THEN 'it moves data between devices: see collectives'
        WHEN starts_with(label, 'Torch-Compiled Region') THEN 'the ops of the compiled code are not written'
        ELSE 'no formula for ' || label
    END
);

-- The lengths of the sequences of a step in the name that vLLM and SGLang for ROCm give it: numbers of queries and of
-- keys, and of the pairs that causal attention computes; and these of the generation alone. The name has their sums (sq,
-- sk), and those of the squares and products of each sequence (sqsq, sqsk), for prompts and for the generation. NULL for
-- other names.
CREATE MACRO _told_lengths(label) AS (
    list_transform(
        [
            try_cast(regexp_extract(
                label,
                'context_\d+\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)_generation_\d+\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)',
                ['q', 'k', 'qq', 'qk', 'more_q', 'more_k', 'more_qq', 'more_qk']
            ) AS STRUCT(
                q DOUBLE, k DOUBLE, qq DOUBLE, qk DOUBLE, more_q DOUBLE, more_k DOUBLE, more_qq DOUBLE, more_qk DOUBLE
            ))
        ],
        lambda t: {
            'queries': t.q + t.more_q, 'keys': t.k + t.more_k,
            'seen': t.qk - t.qq / 2 + t.more_qk - (t.more_qq - t.more_q) / 2, 'generated': t.more_q,
            'generated_keys': t.more_k, 'generated_seen': t.more_qk - (t.more_qq - t.more_q) / 2
        }
    )[1]
);

-- One kernel, copy or fill of a trace as work that an op may have launched, in ticks.
CREATE MACRO _device_work(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    steps, phase,
    is_compared  -- as in `_costed_calls`
) AS TABLE
SELECT l.run_index, l.op_index, l.device_ticks AS ticks,
    CASE WHEN _is_step_run(r.name) THEN l.device_ticks ELSE 0 END AS step_ticks, l.kind, l.label, l.kernel_family,
    l.uses_matrix_units
FROM query_table(launches) AS l
JOIN runs AS r ON r.capture_id = capture_key AND r.run_index = l.run_index
WHERE _is_recorded(r.iteration, r.phase, steps, phase) AND NOT (is_compared AND _is_outside_steps(r.name));

-- One op of a trace without device events as work, as in `_device_work`: its own time on the host.
CREATE MACRO _host_work(capture_key, steps, phase, is_compared) AS TABLE
-- Empty for other traces, so that nothing else is read.
WITH target AS MATERIALIZED (
    SELECT capture_key AS capture_id
    WHERE NOT EXISTS (FROM device_events AS d WHERE d.capture_id = capture_key AND d.is_inferred IS NOT NULL)
)
SELECT s.run_index, s.event_index AS op_index, s.operator_ticks AS ticks,
    CASE WHEN _is_step_run(r.name) THEN s.operator_ticks ELSE 0 END AS step_ticks, 'op' AS kind,
    NULL::VARCHAR AS label, NULL::VARCHAR AS kernel_family, NULL::BOOLEAN AS uses_matrix_units
FROM target AS a CROSS JOIN _trace_slices((SELECT a.capture_id FROM target AS a)) AS s
JOIN runs AS r ON r.capture_id = a.capture_id AND r.run_index = s.run_index
WHERE s.operator_ticks IS NOT NULL
    AND _is_operator(s.kind, s.label, s.is_data_loader)
    AND _is_recorded(r.iteration, r.phase, steps, phase)
    AND NOT (is_compared AND _is_outside_steps(r.name));

-- One op of a trace by the shapes, types and strides of its inputs, as in `op_efficiency`, in ticks: the device time of
-- what it launched, or, in a trace without device events, its own time on the host. Work of ops without a formula counts
-- for the innermost op around them that has one, if nothing else in it has a cost: aten::_flash_attention_forward for
-- the attention that called it. `is_bytes_alone`: its bytes determine its smallest possible time, as its operations are
-- not known and need less. `is_least`: its bytes are a lower bound. `parts`: its calls one by one, each with its run; of
-- what no op launched, all of a run.
CREATE MACRO _costed_calls(
    capture_key,
    work,  -- a table of the rows of `_device_work`, or `_host_work`
    is_compared,  -- for comparisons: of steps alone, where there are any, and calls of ops of `_equal_ops` have all that is launched within them
    assumed  -- sizes that the trace lacks, as `_assumptions` has them
) AS TABLE
WITH formulas AS MATERIALIZED (FROM cost_formulas),
ops AS (
    SELECT w.op_index, sum(w.ticks) AS ticks, sum(w.step_ticks) AS step_ticks,
        sum(CASE WHEN w.kind IN ('copy', 'fill') THEN w.ticks ELSE 0 END) AS copy_ticks, count(*) AS events,
        count(*) FILTER (w.kind = 'kernel') AS kernels,
        count(*) FILTER (w.kernel_family = 'GEMM' AND NOT contains(w.label, 'splitKreduce')) AS products,
        arg_max(w.label, w.ticks) AS top_event,
        arg_max(w.kernel_family, w.ticks) AS kernel_family, bool_or(w.uses_matrix_units) AS uses,
        bool_or(w.kind = 'kernel' AND w.uses_matrix_units IS NULL) AS may_use, min(w.run_index) AS run_index
    FROM query_table(work) AS w
    GROUP BY w.op_index, CASE WHEN w.op_index IS NULL THEN {'label': w.label, 'run_index': w.run_index} END
),
named AS MATERIALIZED (
    SELECT s.signature_index, s.label, coalesce(f.op, p.op) AS op,
        coalesce(f.moves, p.moves) IN ('paged', 'latent') AS is_paged
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.activity = 'op'
    LEFT JOIN formulas AS f ON f.op = replace(s.label, '::', '.')
    LEFT JOIN formulas AS p ON p.op = _traced_op(s.label)
),
placed AS MATERIALIZED (
    SELECT t.event_index, t.op_index AS parent_index, n.signature_index, n.label, n.op, n.is_paged, t.thread_index,
        t.start_ticks, t.start_ticks + t.elapsed_ticks AS end_ticks, t.sequence_number
    FROM (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
    JOIN named AS n ON n.signature_index = t.event_signature
),
-- Backward passes of TransformerEngine's functions name no weight: the forward call has it.
forward_calls AS (
    SELECT b.event_index, min(f.event_index) AS forward_index
    FROM placed AS b
    JOIN placed AS f ON f.sequence_number = b.sequence_number AND f.op || 'Backward' = b.op
    GROUP BY b.event_index
    HAVING count(*) = 1
),
chains AS (
    SELECT o.*,
        -- The attention that chose this one counts.
        CASE
            WHEN starts_with(b.op, 'aten._scaled_dot_product') AND a.op IN (
                'aten._flash_attention_forward', 'aten._flash_attention_backward', 'aten._efficient_attention_forward',
                'aten._efficient_attention_backward', 'aten._cudnn_attention_forward', 'aten._cudnn_attention_backward'
            ) THEN NULL
            ELSE a.op
        END AS op,
        a.label, a.thread_index, a.start_ticks, b.event_index AS parent, b.op AS parent_op,
        c.event_index AS grandparent, c.op AS grandparent_op
    FROM ops AS o
    LEFT JOIN placed AS a ON a.event_index = o.op_index
    LEFT JOIN placed AS b ON b.event_index = a.parent_index
    LEFT JOIN placed AS c ON c.event_index = b.parent_index
),
-- Ops that contain others which have costs of their own.
composite AS (SELECT DISTINCT unnest([c.parent, c.grandparent]) AS event_index FROM chains AS c WHERE c.op IS NOT NULL),
dispatchers AS (
    SELECT p.event_index, p.thread_index, p.start_ticks, p.end_ticks
    FROM placed AS p
    JOIN _equal_ops AS e ON e.has_all AND e.op = _traced_op(p.label)
    WHERE is_compared
),
told AS MATERIALIZED (
    SELECT t.thread_index, t.start_ticks, t.start_ticks + t.elapsed_ticks AS end_ticks, s.lengths
    FROM (
        SELECT i.signature_index, _told_lengths(i.label) AS lengths
        FROM signatures AS i
        WHERE i.capture_id = capture_key AND NOT i.on_device AND contains(i.label, 'sqsk')
    ) AS s
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t ON t.event_signature = s.signature_index
),
paged AS (
    SELECT p.event_index, t.lengths
    FROM placed AS p
    ASOF JOIN told AS t ON t.thread_index = p.thread_index AND row(t.start_ticks) <= row(p.start_ticks)
    WHERE p.is_paged AND p.start_ticks < t.end_ticks
),
owned AS (
    SELECT c.*,
        CASE
            WHEN c.start_ticks < d.end_ticks THEN d.event_index
            WHEN c.op IS NOT NULL THEN c.op_index
            WHEN c.parent_op IS NOT NULL AND p.event_index IS NULL THEN c.parent
            WHEN c.parent_op IS NULL AND c.grandparent_op IS NOT NULL AND g.event_index IS NULL THEN c.grandparent
            ELSE c.op_index
        END AS owner
    FROM chains AS c
    LEFT JOIN composite AS p ON p.event_index = c.parent
    LEFT JOIN composite AS g ON g.event_index = c.grandparent
    ASOF LEFT JOIN dispatchers AS d ON d.thread_index = c.thread_index AND row(d.start_ticks) <= row(c.start_ticks)
),
working AS MATERIALIZED (
    SELECT o.owner, any_value(n.label) AS label, any_value(n.op) AS op,
        arg_max(o.kernel_family, o.ticks) AS kernel_family, sum(o.ticks)::BIGINT AS ticks,
        sum(o.step_ticks)::BIGINT AS step_ticks, sum(o.copy_ticks)::BIGINT AS copy_ticks,
        sum(o.events)::BIGINT AS events, sum(o.kernels)::BIGINT AS kernels, sum(o.products)::BIGINT AS products,
        arg_max(o.top_event, o.ticks) AS top_event,
        bool_or(o.uses) AS uses, bool_or(o.may_use) AS may_use, any_value(p.lengths) AS lengths,
        min(o.run_index) AS run_index
    FROM owned AS o
    LEFT JOIN placed AS n ON n.event_index = o.owner
    LEFT JOIN paged AS p ON p.event_index = o.owner
    GROUP BY o.owner, CASE WHEN o.owner IS NULL THEN {'event': o.top_event, 'run_index': o.run_index} END
),
grouped AS (
    SELECT w.label, w.op, w.lengths, CASE WHEN w.op LIKE '%LinearBackward' THEN w.products END AS products,
        o.shapes, o.dtypes, o.strides, o.inputs,
        CASE WHEN contains(o.dtypes, '"TensorList"') THEN _listed_types(w.top_event) END AS listed,
        CASE WHEN w.owner IS NULL THEN w.top_event END AS event, arg_max(w.kernel_family, w.ticks) AS kernel_family,
        count(w.owner) AS calls, sum(w.ticks) AS ticks, sum(w.step_ticks) AS step_ticks,
        sum(w.copy_ticks) AS copy_ticks, sum(w.events) AS events, sum(w.kernels) AS kernels,
        arg_max(w.top_event, w.ticks) AS top_event, bool_or(w.uses) AS uses, bool_or(w.may_use) AS may_use,
        list({
            'run_index': w.run_index, 'op_index': w.owner, 'ticks': w.ticks, 'copy_ticks': w.copy_ticks
        }) AS parts
    FROM working AS w
    LEFT JOIN forward_calls AS f ON f.event_index = w.owner
    LEFT JOIN (FROM op_arguments AS i WHERE i.capture_id = capture_key) AS o
        ON o.event_index = CASE WHEN w.op LIKE '%LinearBackward' THEN f.forward_index ELSE w.owner END
    GROUP BY ALL
),
called AS MATERIALIZED (
    SELECT g.*, f AS formula, row_number() OVER () AS call FROM grouped AS g LEFT JOIN formulas AS f USING (op)
),
costs AS MATERIALIZED (
    FROM _call_costs((
        SELECT list({
            'call': c.call, 'op': c.op, 'label': c.label, 'formula': c.formula, 'shapes': c.shapes, 'dtypes': c.dtypes,
            'strides': c.strides, 'inputs': c.inputs, 'listed': c.listed, 'lengths': c.lengths,
            'assumed': assumed, 'products': c.products
        })
        FROM called AS c
        WHERE c.shapes IS NOT NULL
    ))
)
SELECT c.label, coalesce(c.formula.family, c.kernel_family) AS family, c.shapes, c.dtypes, c.strides, s.inputs,
    -- Products whose kernel names 8 bits convert what they take.
    CASE
        WHEN c.formula.family IN ('GEMM', 'MoE') AND s.type IN ('c10::BFloat16', 'c10::Half', 'float')
            AND regexp_matches(c.top_event, '(?i)e4m3|e5m2') THEN 'c10::Float8_e4m3fn'
        ELSE s.type
    END AS type,
    s.flops, s.bytes_read + s.bytes_written AS bytes, s.most_bytes,
    s.flops_at_most, s.flops_at_least, s.assumed,
    coalesce(c.formula.moves = 'named', false) AS is_bytes_alone, coalesce(s.is_least, false) AS is_least,
    CASE
        WHEN c.label IS NULL THEN 'no op launched it'
        WHEN c.op IS NULL THEN _why_uncounted(c.label)
        WHEN c.op LIKE '%LinearBackward' AND c.shapes IS NULL
            THEN 'its forward call, which has its weight, is not in the trace, or was recorded without shapes'
        WHEN c.shapes IS NULL THEN 'recorded without shapes: profile(record_shapes=True) writes them'
        ELSE s.reason
    END AS reason,
    sum(c.calls)::BIGINT AS calls, sum(c.ticks)::BIGINT AS ticks, sum(c.step_ticks)::BIGINT AS step_ticks,
    sum(c.copy_ticks)::BIGINT AS copy_ticks, sum(c.events)::BIGINT AS events, sum(c.kernels)::BIGINT AS kernels,
    arg_max(c.top_event, c.ticks) AS top_event, flatten(list(c.parts)) AS parts,
    CASE WHEN bool_or(c.uses) THEN true WHEN bool_or(c.may_use) THEN NULL ELSE false END AS uses
FROM called AS c
LEFT JOIN costs AS s ON s.call = c.call
GROUP BY ALL;
