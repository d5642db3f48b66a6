-- Causes of devices waiting for the host: what the host does then (after "while the host" in a sentence), and the
-- remedy. `_call_cause` gives the cause of a call.
CREATE MACRO _advised_calls() AS TABLE
SELECT k.*
FROM (
    VALUES
    (
        'allocation', 'allocates memory',
        'Reuse memory by the caching allocator: unset PYTORCH_NO_CUDA_MEMORY_CACHING, and record steps after a warm-up.'
    ),
    (
        'free', 'frees memory',
        'Keep memory in the caching allocator: unset PYTORCH_NO_CUDA_MEMORY_CACHING, '
        || 'no torch.cuda.empty_cache() within steps.'
    ),
    (
        'pinned_memory', 'allocates, releases or registers pinned memory',
        'Reuse pinned buffers: a pool, or pin_memory of DataLoader.'
    ),
    (
        'module_load', 'loads kernels',
        'Record steps after a warm-up: the first use of a kernel loads it; '
        || 'CUDA_MODULE_LOADING=EAGER loads all at the start.'
    ),
    (
        'graph_instantiation', 'captures or instantiates graphs',
        'Capture and instantiate graphs once, before the steps.'
    ),
    (
        'creation', 'creates streams, events or contexts',
        'Create streams, events and contexts once, before the steps; record steps after a warm-up.'
    )
) AS k (cause, work, remedy);

-- A sentence for times that are mostly one long part, a tenth of the whole or more, such as the first use of a device,
-- which initializes it, or a compilation; '' for others.
CREATE MACRO _advice_warm_up(word, longest, total, share_percent) AS (
    CASE
        WHEN longest > 0.5 * total AND share_percent * longest / total >= 10
            THEN ' Most of it is one ' || word || ': if that is initialization or'
            || ' compilation, record steps after a warm-up.'
        ELSE ''
    END
);

-- The remedy where a device or the critical path waits for the host in an op.
CREATE MACRO _advised_host(
    op,  -- name of the op, annotation or function; NULL: none
    is_compiled  -- whether torch.compile made code that the trace ran
) AS (
    CASE
        WHEN op <> 'ProfilerStep*' AND NOT contains(op, '::')
            AND NOT starts_with(op, 'Optimizer.')
            THEN 'Not an op of torch: run it in other processes or threads, or before the steps.'
        WHEN is_compiled
            THEN 'Launch fewer and larger ops: CUDA graphs; torch.compile makes them with mode="reduce-overhead".'
        ELSE 'Launch fewer and larger ops: torch.compile, CUDA graphs.'
    END
);

-- The part of a peak rate that good kernels reach: clocks fall under load, and memory is refreshed. Time at stake is
-- the time beyond that; for kernels too small to fill the device, beyond that of the shortest kernels.
CREATE MACRO _achievable_part(bound) AS (CASE WHEN bound = 'latency' THEN 1 ELSE 0.8 END);

-- The rule about calls above the roof, by family and what limits them, in percent of the devices' time: only for devices
-- with known peaks, and traces with shapes.
CREATE MACRO _roof_findings(
    capture_key,
    unit,
    is_compiled  -- whether torch.compile made code that the trace ran
) AS TABLE
WITH rated AS MATERIALIZED (
    FROM _rated_calls(capture_key, NULL, NULL, NULL, NULL, NULL, false) AS r
    WHERE EXISTS (FROM device_events AS d WHERE d.capture_id = capture_key)
),
by_op AS (
    SELECT r.family, r.bound, r.label, sum(r.calls) AS calls, sum(r.ticks) AS ticks, sum(r.least_ticks) AS least_ticks,
        sum(r.bytes::DOUBLE * r.calls) AS bytes, any_value(r.bandwidth) AS bandwidth, any_value(r.device) AS device,
        sum(r.ticks) FILTER (
            WHERE contains(r.type, 'Float4') OR regexp_matches(r.top_event, 'fp4|int4|e2m1', 'i')
        ) AS four_bit_ticks
    FROM rated AS r
    WHERE r.bound IS NOT NULL AND NOT r.is_least
    GROUP BY r.family, r.bound, r.label
),
above_roof AS (
    SELECT o.family, o.bound, any_value(o.device) AS device,
        100 * sum(o.ticks)::DOUBLE / (SELECT sum(r.ticks) FROM rated AS r) AS time_share,
        sum(o.ticks) - sum(o.least_ticks) / _achievable_part(o.bound) AS ticks,
        100 * (sum(o.ticks) - sum(o.least_ticks) / _achievable_part(o.bound))
            / (SELECT sum(r.ticks) FROM rated AS r) AS share,
        arg_max(o.label, o.ticks) AS main_op,
        2 * coalesce(sum(o.four_bit_ticks), 0) > sum(o.ticks) AS is_four_bit,
        100 * sum(o.least_ticks) / sum(o.ticks) AS roof_percent, sum(o.bytes) / sum(o.ticks) / 1e3 AS tb_per_second,
        any_value(o.bandwidth) / 1e12 AS most_tb_per_second,
        array_to_string(
            list(_advice_count(o.calls, 'call') || ' of ' || o.label ORDER BY o.ticks DESC, o.label)[:3], ', '
        ) AS words
    FROM by_op AS o
    GROUP BY o.family, o.bound
)
SELECT 'below the roof' AS rule, _advice_severity(r.share) AS severity,
    _advice_percent(r.time_share) || ' of the devices'' time is ' || r.family
    || CASE r.bound
        WHEN 'memory' THEN ' at ' || format('{:.2f}', r.tb_per_second) || ' of '
            || format('{:.2f}', r.most_tb_per_second) || ' TB/s'
        WHEN 'compute' THEN ' at ' || _advice_percent(r.roof_percent) || ' of the peak rate'
        ELSE ' in kernels that are too small to fill the device'
    END || '.' AS finding,
    r.words || ', on ' || r.device
    || CASE
        WHEN r.bound = 'latency' THEN ''
        ELSE '; at stake is the time beyond '
            || _advice_percent(100e0 * _achievable_part(r.bound)) || ' of the peak, which good kernels reach'
    END
    || '; etq roofline lists them' AS evidence,
    _in_unit(r.ticks::BIGINT, c.scale) AS time_at_stake, r.share AS share_percent,
    CASE
        WHEN r.bound = 'latency'
            THEN 'Batch small ops, '
            || CASE WHEN is_compiled THEN '' ELSE 'let torch.compile fuse them, ' END || 'or replay CUDA graphs.'
        WHEN r.bound = 'compute' AND r.is_four_bit THEN 'Use sizes that are multiples of the tiles, or larger products.'
        WHEN r.bound = 'compute'
            THEN 'Use sizes that are multiples of the tiles, larger products, or smaller types where accuracy allows.'
        -- Both operands are read once for each element of the batch.
        WHEN r.family = 'attention' OR r.main_op IN ('aten::bmm', 'aten::baddbmm')
            THEN 'A larger batch reads more of both operands: fuse the products with'
            || ' what is between them, or share an operand'
            || CASE WHEN r.is_four_bit THEN '.' ELSE '; smaller types read less.' END
        WHEN r.family IN ('GEMM', 'convolution', 'MoE')
            THEN 'Use a larger batch, which uses what is read more often'
            || CASE WHEN r.is_four_bit THEN '.' ELSE '; smaller types read less.' END
        WHEN is_compiled THEN 'Read and write memory less often: fewer passes, or smaller types.'
        ELSE 'torch.compile fuses ops that follow each other, which then read and write memory once.'
    END AS remedy,
    c.unit,
    CASE
        WHEN r.bound = 'latency' THEN 'host'
        WHEN r.bound = 'memory' AND r.family NOT IN ('GEMM', 'attention', 'convolution', 'MoE') THEN 'fusion'
    END AS cause
FROM above_roof AS r CROSS JOIN _scaled_key(capture_key, unit) AS c
WHERE r.share >= 5;

-- Rules about the time of devices, as rows of `_trace_findings`, from the causes of idle devices, the ops of the critical
-- path, the families of kernels and rated calls. Each rule is a branch of the union, with its thresholds; columns that it
-- lacks are NULL.
CREATE MACRO _device_findings(
    capture_key,
    unit,
    is_known  -- whether the time of devices is known; some rules need it
) AS TABLE
WITH clock AS MATERIALIZED (FROM _scaled_key(capture_key, unit)),
compiled AS MATERIALIZED (
    SELECT EXISTS (
        FROM signatures AS s
        WHERE s.capture_id = capture_key
            AND (
                s.activity = 'kernel'
                AND regexp_matches(s.label, '^triton_(poi|red|per|mix|for|unk|tem|mm)_')
                OR regexp_matches(s.label, '^(## Call CompiledFx|Torch-Compiled)')
            )
    ) AS is_compiled
),
spans AS MATERIALIZED (FROM _device_spans(capture_key, 'device')),
-- Idle time is known only if all times of work are known.
idle AS (
    SELECT i.*, c.unit, 100 * i.ticks::DOUBLE / nullif(s.span_ticks, 0) AS share, _in_unit(i.ticks, c.scale) AS total,
        _in_unit(i.longest, c.scale) AS longest_time
    FROM _idle_totals(capture_key, 'device', NULL) AS i
    JOIN spans AS s ON s.device IS NOT DISTINCT FROM i.device
    CROSS JOIN clock AS c
    WHERE NOT EXISTS (FROM findings AS f WHERE f.capture_id = capture_key AND f.rule = 'unknown times')
),
-- Calls of the runtime or driver in which the host waits (but for synchronization) count by their cause, for all ops
-- together.
path_parts AS (
    SELECT nullif(s.cause, 'synchronization') AS wait_cause, CASE WHEN wait_cause IS NULL THEN s.op END AS outer_op,
        s.op, s.call, s.kernel, sum(s.ticks) AS ticks, sum(CASE WHEN s.is_host THEN s.ticks ELSE 0 END) AS host_ticks,
        count(*) AS parts, max(s.ticks) AS longest_ticks
    FROM _path_shares(capture_key, NULL, NULL) AS s
    WHERE EXISTS (FROM device_events AS d WHERE d.capture_id = capture_key)
    GROUP BY ALL
),
path_totals AS (
    SELECT p.outer_op AS op, p.wait_cause AS cause, sum(p.ticks) AS ticks,
        sum(p.host_ticks) / sum(p.ticks)::DOUBLE AS host_part,
        sum(CASE WHEN p.kernel IS NULL THEN 0 ELSE p.ticks END) / sum(p.ticks)::DOUBLE AS device_part,
        arg_max(p.kernel, (p.ticks, p.kernel)) FILTER (WHERE p.kernel IS NOT NULL) AS kernel,
        arg_max(p.call, (p.ticks, p.call)) FILTER (WHERE p.call IS NOT NULL) AS call,
        arg_max(p.op, (p.ticks, p.op)) FILTER (WHERE p.op IS NOT NULL) AS main_op, sum(p.parts) AS parts,
        max(p.longest_ticks) AS longest_ticks, 100 * sum(p.ticks)::DOUBLE / sum(sum(p.ticks)) OVER () AS share
    FROM path_parts AS p
    GROUP BY p.outer_op, p.wait_cause
),
critical AS (
    SELECT t.*, c.unit, _in_unit(t.ticks::BIGINT, c.scale) AS total, _in_unit(t.longest_ticks, c.scale) AS longest_time,
        EXISTS (
            FROM signatures AS s
            WHERE s.capture_id = c.capture_id AND s.kernel_family = 'communication' AND s.label = t.kernel
        ) AS communicates,
        EXISTS (
            FROM signatures AS s WHERE s.capture_id = c.capture_id AND s.purpose = 'data_loading' AND s.family = t.op
        ) AS loads_data
    FROM path_totals AS t CROSS JOIN clock AS c
    WHERE t.share >= 20 AND (t.op IS NOT NULL OR t.cause IS NOT NULL) AND t.cause IS DISTINCT FROM 'call'
),
families AS MATERIALIZED (
    SELECT f.*, coalesce(f.family, 'unknown names') AS name,
        100 * f.ticks::DOUBLE / nullif(sum(f.ticks) OVER (), 0) AS share,
        _tensor_percent(f.tensor_ticks, f.unknown_ticks, f.ticks) AS tensor_percent,
        row_number() OVER (ORDER BY f.ticks DESC, name) AS place
    FROM _family_ticks(capture_key, NULL, NULL) AS f
),
-- What fusion saves is compared with the whole time: where a device is idle, shorter kernels save little.
fused AS (
    SELECT sum(h.kernels * h.calls) AS kernels, sum(h.calls) AS calls,
        try_cast(sum(h.saved_ticks) AS BIGINT) AS saved_ticks,
        100 * sum(h.saved_ticks)::DOUBLE / nullif(
            (
                SELECT sum(s.span_ticks) FROM spans AS s
                -- Annotations of streams have no device.
                WHERE EXISTS (FROM _launches(capture_key) AS w WHERE w.device IS NOT DISTINCT FROM s.device)
            ),
            0
        ) AS share,
        array_to_string(
            list(
                _shortened(h.sequence, 160) || ' (' || _advice_count(h.calls, 'time')
                || ')' ORDER BY h.saved_ticks DESC, h.sequence
            )[:2], '; '
        ) AS words
    FROM _fusable_chains(capture_key) AS h
),
-- The kernels of a stream, to find a softmax (or, backward, its gradient) between two batches of products, with the
-- kernels that prepare the scores.
ordered AS (
    SELECT w.event_index, w.device, w.stream, w.end_ticks - w.start_ticks AS ticks,
        CASE
            WHEN regexp_matches(g.label, '^aten::(bmm|baddbmm)') THEN 'product'
            WHEN regexp_matches(g.label, '^aten::_(safe_)?softmax') THEN 'softmax'
            WHEN w.kernel_family IN ('elementwise', 'copy', 'reduction') THEN 'between'
            ELSE 'other'
        END AS part,
        row_number() OVER in_stream AS place
    FROM _launches(capture_key) AS w
    LEFT JOIN _event_labels(capture_key) AS g ON g.event_index = w.op_index
    WINDOW in_stream AS (PARTITION BY w.device, w.stream ORDER BY w.start_ticks, w.event_index)
),
-- Each with the nearest products and other work before and after it.
numbered AS (
    SELECT o.*, max(CASE WHEN o.part = 'product' THEN o.place END) OVER so_far AS product_before,
        min(CASE WHEN o.part = 'product' THEN o.place END) OVER from_here AS product_after,
        max(CASE WHEN o.part = 'other' THEN o.place END) OVER so_far AS other_before,
        min(CASE WHEN o.part = 'other' THEN o.place END) OVER from_here AS other_after
    FROM ordered AS o
    WINDOW
        so_far AS (PARTITION BY o.device, o.stream ORDER BY o.place ROWS UNBOUNDED PRECEDING),
        from_here AS (PARTITION BY o.device, o.stream ORDER BY o.place ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
),
scores AS (
    SELECT n.device, n.stream, n.product_before, n.product_after
    FROM numbered AS n
    WHERE n.part = 'softmax'
        AND n.product_before > coalesce(n.other_before, 0)
        AND n.product_after < coalesce(n.other_after, n.product_after + 1)
),
unfused AS (
    SELECT sum(t.ticks)::BIGINT AS ticks, count(*) AS kernels,
        (SELECT count(*) FROM scores AS s) AS parts,
        100 * sum(t.ticks)::DOUBLE / (SELECT sum(f.ticks) FROM families AS f) AS share
    FROM (
        SELECT DISTINCT n.event_index, n.ticks
        FROM scores AS s
        JOIN numbered AS n
            ON n.device IS NOT DISTINCT FROM s.device
            AND n.stream IS NOT DISTINCT FROM s.stream
            AND n.place BETWEEN s.product_before AND s.product_after
    ) AS t
),
-- Kernels of products that read one element at a time, or two. Those without tensor cores always read one.
odd AS (
    SELECT count(*) AS calls, sum(w.end_ticks - w.start_ticks)::BIGINT AS ticks,
        arg_max(w.label, w.end_ticks - w.start_ticks) AS kernel,
        100 * sum(w.end_ticks - w.start_ticks)::DOUBLE / (SELECT sum(f.ticks) FROM families AS f) AS share
    FROM _launches(capture_key) AS w
    WHERE w.kernel_family IN ('GEMM', 'convolution')
        AND regexp_matches(w.label, 'align[12]($|[^0-9])')
        AND NOT contains(w.label, 'simt')
)
-- No advice for unknown causes, nor for calls of an unknown kind.
SELECT 'device idle' AS rule, _advice_severity(s.share) AS severity,
    coalesce('Device ' || s.device, 'The device') || CASE s.cause
        WHEN 'data_loading' THEN ' waits for input data.'
        WHEN 'synchronization' THEN ' idles after synchronizations: the host launched nothing ahead.'
        WHEN 'communication' THEN ' waits for other processes.'
        WHEN 'dependency' THEN ' waits for events of other streams.'
        WHEN 'launch_delay' THEN ' waits for launched kernels to start.'
        WHEN 'host' THEN ' idles: the host launches kernels too slowly.'
        ELSE ' idles while the host ' || k.work || '.'
    END AS finding,
    'in ' || CASE s.gaps
        WHEN 1 THEN '1 gap of '
        ELSE _advice_count(s.gaps, 'gap') || ', the longest '
    END || _advice_time(s.longest_time, s.unit)
    || CASE
        WHEN s.host_op IS NULL AND s.call IS NULL THEN ''
        ELSE '; the host was mostly in ' || concat_ws(' of ', s.call, s.host_op)
    END
    || '; etq idle --each lists them' AS evidence,
    s.total AS time_at_stake, s.share AS share_percent,
    CASE s.cause
        WHEN 'data_loading' THEN 'Set num_workers and pin_memory of DataLoader.'
        WHEN 'synchronization' THEN 'Avoid .item(), .cpu() and printing of tensors within steps.'
        WHEN 'communication' THEN 'Overlap communication and computation.'
        WHEN 'dependency' THEN 'Let streams wait for fewer events of others.'
        WHEN 'launch_delay' THEN 'Launch larger kernels, or replay CUDA graphs.'
        WHEN 'host' THEN _advised_host(s.host_op, (SELECT d.is_compiled FROM compiled AS d))
        ELSE k.remedy
    END
    || CASE
        WHEN s.cause NOT IN ('data_loading', 'communication', 'dependency')
            THEN _advice_warm_up('gap', s.longest, s.ticks, s.share)
        ELSE ''
    END AS remedy,
    s.unit, s.cause
FROM idle AS s
LEFT JOIN _advised_calls() AS k USING (cause)
WHERE s.share >= 5 AND s.cause NOT IN ('unknown', 'unknown_wait', 'call') AND is_known
UNION ALL BY NAME
-- An op's share of the critical path, from the start of the recording to its end, limits what a faster op can save.
SELECT 'critical path' AS rule, _advice_severity(s.share) AS severity,
    _advice_percent(s.share) || ' of the critical path is '
    || CASE
        WHEN s.cause IS NOT NULL THEN s.call || ': the host ' || k.work
        WHEN s.op = 'ProfilerStep*' THEN 'on the host, between the ops of steps'
        ELSE s.op
    END || '.' AS finding,
    'in ' || _advice_count(s.parts, 'part')
    || CASE WHEN s.parts > 1 THEN ', the longest ' || _advice_time(s.longest_time, s.unit) ELSE '' END
    || CASE
        WHEN s.cause IS NOT NULL THEN coalesce('; mostly in ' || s.main_op, '')
        ELSE ', ' || _advice_percent(100e0 * s.device_part) || ' of it on devices, '
            || _advice_percent(100e0 * s.host_part) || ' on the host'
            || coalesce('; mostly the kernel ' || s.kernel, '')
    END
    || '; etq critical-path lists the ops' AS evidence,
    s.total AS time_at_stake, s.share AS share_percent,
    CASE
        WHEN s.cause IS NOT NULL THEN k.remedy || _advice_warm_up('part', s.longest_ticks, s.ticks, s.share)
        WHEN s.loads_data THEN 'Set num_workers and pin_memory of DataLoader.'
        WHEN s.device_part >= 0.5 AND s.communicates THEN 'Overlap communication and computation.'
        WHEN s.device_part >= 0.5
            THEN 'Make kernels of this op faster or fewer: '
            || CASE WHEN regexp_matches(s.kernel, 'fp4|int4|e2m1', 'i') THEN 'fusion.' ELSE 'smaller types, fusion.' END
        WHEN s.host_part >= 0.5
            THEN _advised_host(s.op, (SELECT d.is_compiled FROM compiled AS d))
            || _advice_warm_up('part', s.longest_ticks, s.ticks, s.share)
        ELSE 'Let it wait less: launch ahead, synchronize less often.'
    END AS remedy,
    s.unit,
    CASE
        WHEN s.cause IS NOT NULL THEN s.cause
        WHEN s.loads_data THEN 'data_loading'
        WHEN s.device_part >= 0.5 AND s.communicates THEN 'communication'
        WHEN s.device_part < 0.5 AND s.host_part >= 0.5 THEN 'host'
    END AS cause
FROM critical AS s
LEFT JOIN _advised_calls() AS k USING (cause)
WHERE is_known
UNION ALL BY NAME
SELECT 'device time' AS rule, 'low' AS severity,
    'Time of devices: ' || (
        SELECT string_agg(_advice_percent(f.share) || ' ' || f.name, ', ' ORDER BY f.place)
        FROM families AS f
        WHERE f.place <= 4 AND f.share >= 1
    ) || '.' AS finding,
    _advice_count(t.calls, 'call') || ' of ' || t.name || ', most time in '
    || _shortened(t.top_event, 120) || '; etq kernels --by family lists them' AS evidence,
    _in_unit(t.ticks, c.scale) AS time_at_stake, t.share AS share_percent,
    CASE
        WHEN t.family = 'GEMM' AND t.tensor_percent >= 90
            THEN 'The products run on tensor cores already: make fewer of them'
            || CASE
                WHEN regexp_matches(t.top_event, 'fp4|int4|e2m1', 'i') THEN '.'
                ELSE ', or use smaller types where accuracy allows.'
            END
        WHEN t.family = 'GEMM' AND t.tensor_percent < 10
            THEN 'Matrix products run without tensor cores: use bfloat16, or allow TF32.'
        WHEN t.family = 'communication'
            THEN 'Overlap communication and computation; etq show device_breakdown shows how much is exposed.'
        WHEN t.family IN ('elementwise', 'normalization', 'reduction')
            THEN 'These kernels are limited by memory: '
            || CASE
                WHEN (SELECT d.is_compiled FROM compiled AS d) THEN 'fewer passes over it, or smaller types.'
                ELSE 'torch.compile fuses those that follow each other.'
            END
        WHEN t.family IN ('copy', 'memcpy', 'memset')
            THEN 'Copies compute nothing: keep one memory format and type, and avoid contiguous() and cat.'
        ELSE 'etq ops lists the ops with most of it.'
    END AS remedy,
    c.unit
FROM families AS t CROSS JOIN clock AS c
WHERE t.place = 1 AND t.share >= 20 AND is_known
UNION ALL BY NAME
SELECT 'fusable kernels' AS rule, _advice_severity(f.share) AS severity,
    'Kernels that compute element by element or reduce follow each other: '
    || _advice_count(f.kernels, 'kernel') || ' in ' || _advice_count(f.calls, 'chain') || '.' AS finding,
    'chains of most time: ' || f.words || '; etq show fusable_chains lists them' AS evidence,
    _in_unit(f.saved_ticks, c.scale) AS time_at_stake, f.share AS share_percent,
    'torch.compile may fuse each chain into one kernel, which reads and writes memory'
    || ' once. If that takes as long as the chain''s longest, it saves '
    || _advice_time(_in_unit(f.saved_ticks, c.scale), c.unit) || '.' AS remedy,
    c.unit, 'fusion' AS cause
FROM fused AS f CROSS JOIN clock AS c
WHERE f.share >= 5
UNION ALL BY NAME
SELECT 'unfused attention' AS rule, _advice_severity(u.share) AS severity,
    _advice_percent(u.share) || ' of the devices'' time is unfused attention: product, softmax, product.' AS finding,
    _advice_count(u.parts, 'softmax kernel') || ' between batches of products, '
    || _advice_count(u.kernels, 'kernel') || '; etq kernels lists them' AS evidence,
    _in_unit(u.ticks, c.scale) AS time_at_stake, u.share AS share_percent,
    'Call scaled_dot_product_attention, which keeps the scores out of memory.' AS remedy, c.unit
FROM unfused AS u CROSS JOIN clock AS c
WHERE u.share >= 5
UNION ALL BY NAME
SELECT 'odd sizes' AS rule, _advice_severity(o.share) AS severity, _advice_percent(o.share)
    || ' of the devices'' time is in products whose sizes are not aligned.' AS finding,
    _advice_count(o.calls, 'call') || ' of kernels such as ' || _shortened(o.kernel, 120) AS evidence,
    _in_unit(o.ticks, c.scale) AS time_at_stake, o.share AS share_percent,
    'Make matrix sizes multiples of 8, for example by padding: their kernels read 16 bytes at once.' AS remedy, c.unit
FROM odd AS o CROSS JOIN clock AS c
WHERE o.share >= 5
UNION ALL BY NAME
FROM _roof_findings(capture_key, unit, (SELECT d.is_compiled FROM compiled AS d));

-- Rows of `advice` of a trace, unordered, from `trace_recommendations` and the rules about devices. `cause` is equal in
-- rules that may find the same thing.
CREATE MACRO _trace_findings(capture_key, unit) AS TABLE
WITH
-- Launches of kernels that have no event of a device, if there are any.
lost AS MATERIALIZED (
    SELECT count(t.lost_launches) AS lost, count(*) AS launches, arg_max(s.label, t.lost_launches) AS call,
        20 * count(t.lost_launches) >= count(*) AS are_many
    FROM findings AS f
    JOIN signatures AS s
        ON s.capture_id = f.capture_id
        AND s.activity = 'call'
        AND s.purpose = 'launch'
        AND NOT contains(s.label, 'HostFunc')
    JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    JOIN trace_events AS t ON t.capture_id = e.capture_id AND t.event_index = e.event_index
    WHERE f.capture_id = capture_key AND f.rule = 'lost kernels'
    HAVING count(t.lost_launches) > 0
),
-- Whether the time of devices is known: not too many launches are lost.
known AS MATERIALIZED (SELECT NOT EXISTS (FROM lost AS l WHERE l.are_many) AS is_known)
SELECT replace(r.rule, '_', ' ') AS rule, 'medium' AS severity, r.finding, r.evidence, NULL::DOUBLE AS time_at_stake,
    NULL::DOUBLE AS share_percent, r.remedy, NULL::VARCHAR AS unit,
    CASE r.rule WHEN 'data_loader' THEN 'data_loading' WHEN 'communication' THEN r.rule END AS cause
FROM _trace_recommendations(capture_key) AS r
WHERE r.rule <> 'gpu_utilization' OR (SELECT k.is_known FROM known AS k)
UNION ALL BY NAME
-- Rules about the time of devices don't apply if a twentieth or more of the launches have no event: too much is
-- missing.
SELECT 'lost kernels' AS rule, 'high' AS severity,
    CASE l.lost WHEN 1 THEN '1 launch' ELSE format('{:,} launches', l.lost) END
    || ' of ' || format('{:,}', l.launches) || ' have no event of a device: their kernels are missing.' AS finding,
    'calls of ' || l.call || '; etq ops has means over the calls whose kernels are known' AS evidence,
    NULL::DOUBLE AS time_at_stake, NULL::DOUBLE AS share_percent,
    'Record fewer steps at once, after a warm-up step, and without another profiler.' AS remedy, NULL::VARCHAR AS unit
FROM lost AS l
UNION ALL BY NAME
FROM _device_findings(capture_key, unit, (SELECT k.is_known FROM known AS k));
