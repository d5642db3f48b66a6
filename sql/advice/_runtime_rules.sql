-- The capture, if a runtime on a device wrote it. Traces have other rules, references none.
CREATE MACRO _advice_capture(capture_key, unit) AS TABLE
SELECT k.capture_id, k.record_id, k.profiling_level, k.unit, k.scale
FROM _scaled_key(capture_key, unit) AS k
WHERE k.format NOT IN ('torch_trace', 'reference');

-- Evidence: one clock of a capture (the runtime's, or that of its delegates' events) and its step: the largest power of
-- ten or two, of at least 8 ticks, of which at least 90 % of five or more durations above zero are multiples. By
-- chance, 10 % are multiples of ten and 12.5 % of eight. A step is too large for the durations that it times if half of
-- these are shorter than ten steps (one step is 10 % of them), or a quarter are zero.
CREATE MACRO _advice_clocks(capture_key, unit) AS TABLE
WITH durations AS (
    SELECT e.kind = 'delegate' AS is_delegate, e.duration_ticks AS ticks, count(*) AS number
    FROM _advice_capture(capture_key, unit) AS a
    JOIN (FROM events AS i WHERE i.capture_id = capture_key) AS e USING (capture_id)
    WHERE e.value_unit = 'ticks'
        AND e.clock <> 'synthetic'
        -- Events that are in no total need no precise clock.
        AND NOT e.is_detached
        AND e.duration_ticks IS NOT NULL
    GROUP BY ALL
),
steps AS (SELECT unnest([8, 16, 32, 64, 128, 256, 512, 1024, 10, 100, 1000, 10000, 100000, 1000000, 10000000]) AS step),
stepped AS (
    SELECT d.is_delegate, s.step
    FROM durations AS d CROSS JOIN steps AS s
    WHERE d.ticks > 0
    GROUP BY d.is_delegate, s.step
    HAVING sum(d.number) >= 5
        AND 100e0 * sum(d.number) FILTER (WHERE d.ticks % s.step = 0)
        >= 90 * sum(d.number)
),
ordered AS (
    SELECT d.*, sum(d.number) OVER (PARTITION BY d.is_delegate ORDER BY d.ticks) AS up_to,
        sum(d.number) OVER (PARTITION BY d.is_delegate) AS events
    FROM durations AS d
),
counted AS (
    SELECT o.is_delegate, sum(o.number)::BIGINT AS events,
        coalesce(sum(o.number) FILTER (WHERE o.ticks = 0), 0)::BIGINT AS zeros,
        min(o.ticks) FILTER (WHERE 2 * o.up_to >= o.events) AS middle,
        (SELECT max(s.step) FROM stepped AS s WHERE s.is_delegate = o.is_delegate) AS step
    FROM ordered AS o
    GROUP BY o.is_delegate
)
SELECT
    c.is_delegate, c.events, c.zeros, coalesce(c.middle < 10 * c.step, false) OR 4 * c.zeros >= c.events AS is_coarse,
    _in_unit(c.step, a.scale) AS step, _in_unit(c.middle, a.scale) AS middle, a.unit
FROM _advice_capture(capture_key, unit) AS a CROSS JOIN counted AS c;

-- The events within delegates whose mean time is below a step of their clock: each time is 0, or a step.
CREATE MACRO _delegates_below_clock(capture_key, unit) AS TABLE
SELECT count(*) AS events, d.step, d.unit
FROM (
    SELECT e.signature_index, c.step, c.unit
    FROM _advice_clocks(capture_key, unit) AS c
    JOIN captures AS a ON a.capture_id = capture_key
    JOIN events AS e
        ON e.capture_id = a.capture_id AND e.kind = 'delegate' AND e.value_unit = 'ticks' AND e.clock <> 'synthetic'
    WHERE c.is_delegate
    GROUP BY e.signature_index, c.step, c.unit, a.time_scale
    HAVING sum(e.duration_ticks) = 0
        OR sum(e.duration_ticks) * _multiplier(a.time_scale, c.unit)
        < c.step * count(e.duration_ticks) * _divisor(a.time_scale, c.unit)
) AS d
GROUP BY d.step, d.unit;

-- Whether an op computes nothing, but moves, copies or converts data: kernels by the names of ExecuTorch's operators
-- (permute_copy, clone, _to_copy, _clone_dim_order, _to_dim_order_copy, quantize_per_tensor, ...), a delegate's events
-- by the parts copies and layout of `execute_breakdown`.
CREATE MACRO _is_copy(kind, family) AS (
    CASE kind
        WHEN 'kernel' THEN regexp_full_match(
            family,
            '(\w+::)?(clone|contiguous|_clone_dim_order|_to_dim_order|copy|\w+_copy|(de)?quantize_per_\w+)(\.\w+)?'
        )
        WHEN 'delegate' THEN _delegate_part(family) <> 'ops' OR regexp_matches(family, '(?i)quantize')
        ELSE false
    END
);

-- The severity and remedy of findings of a capture or its record that make numbers misleading.
CREATE MACRO _advised_findings() AS TABLE
SELECT k.*
FROM (
    VALUES
    (
        'foreign record', 'high',
        'Link the record that was written with this program: etq link. Until then, '
        || 'the ops, modules and lines shown are wrong.'
    ),
    ('foreign program', 'high', 'Link the file of the program that ran: etq ingest --pte.'),
    ('failed runs', 'high', 'Look for the error of these runs in the runtime''s log. The other runs are complete.'),
    (
        'impossible times', 'high',
        'If the counter has 32 bits, set --clock-bits 32; if not, the clock differs '
        || 'between cores: pin the thread to one core, or use a steady clock.'
    ),
    (
        'detached events', 'high',
        'Time one operator at a time, in one thread, with one steady clock: times of parallel events cannot be added.'
    ),
    (
        'detached delegate events', 'medium',
        'For a breakdown, make the backend finish within its call while it is profiled (wait for its results, one '
        || 'queue, one thread), and log times of the host''s clock. Until then, use the total times of the calls, and '
        || 'compare the events within them only with each other.'
    ),
    (
        'method unknown', 'medium',
        'Capture each method separately, or give their runs different names: runs of '
        || 'unknown methods have no ops and modules.'
    ),
    (
        'short debug buffer', 'medium',
        'Give the runtime a larger debug buffer, and pass the debug buffer that the same run wrote as the dump.'
    ),
    (
        'half-written', 'medium',
        'Write the record again with generate_etrecord from a complete export: without '
        || 'its graph and maps, events have no ops and modules.'
    ),
    (
        'wrapped clock', 'low',
        'None, as long as no event lasts longer than the counter''s range (2**32 '
        || 'ticks); otherwise, make the platform count in 64 bits or coarser ticks.'
    )
) AS k (rule, severity, remedy);

-- Rows of `advice`, unordered, of a capture that a runtime on a device wrote; none for others. Each rule is a branch of
-- the union at the end, with its thresholds and their reasons; columns that it lacks are NULL. Evidence that rules
-- share is computed once.
CREATE MACRO _runtime_advice(capture_key, unit, steps, phase, method, runs) AS TABLE
WITH advised AS MATERIALIZED (FROM _advice_capture(capture_key, unit)),
logged AS (
    SELECT t.run_index, count(*) FILTER (WHERE t.event_index <> t.execute_index AND s.kind <> 'delegate') AS events
    FROM advised AS a
    JOIN event_ticks AS t USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE t.execute_index IS NOT NULL
    GROUP BY t.run_index
),
-- Evidence: one run with an execute, as in `framework_tax`; none if values were logged, as all times then include
-- copying them. Shares are of steady runs: by default the typical ones, see `typical_runs`.
timed_runs AS MATERIALIZED (
    SELECT j.*, l.events, runs = 'all' OR j.is_typical AS is_steady
    FROM _classified_runs(capture_key, unit, steps, phase, method, 'all') AS j CROSS JOIN advised AS a
    JOIN logged AS l USING (run_index)
    WHERE a.profiling_level IS DISTINCT FROM 'debug'
),
classified_times AS (
    SELECT t.scope AS method, t.signature_index, t.kind, t.family, t.instruction_id,
        t.kind = 'operator_call' AND t.children > 0 AS is_framework,
        t.kind = 'delegate_call' AND t.children > 0 AS is_opened, count(*) AS calls, sum(t.self_ticks) AS ticks
    FROM _execute_times(capture_key, NULL, NULL, NULL, NULL, 'all') AS t
    JOIN timed_runs AS g ON g.run_index = t.run_index AND g.is_steady
    WHERE t.is_additive
    GROUP BY ALL
),
readers AS (
    SELECT n.signature_index, bool_and(e.to_node IS NULL) AS is_of_constant
    FROM advised AS a
    JOIN signature_nodes AS n ON n.capture_id = a.capture_id AND n.is_own
    LEFT JOIN op_edges AS e ON e.record_id = a.record_id AND e.graph_id = n.graph_id AND e.to_node = n.node_index
    GROUP BY n.signature_index
),
-- Evidence: one event of a capture's blocks within its executes, with its self time as in `op_totals` and
-- `module_totals`, over steady runs.
times AS MATERIALIZED (
    SELECT
        o.method, CASE WHEN o.is_framework THEN 'framework' ELSE o.kind END AS kind, o.family AS op, o.instruction_id,
        _is_copy(o.kind, o.family) AS is_copy, CASE WHEN a.is_mapped THEN r.is_of_constant END AS is_of_constant,
        CASE WHEN a.is_mapped AND NOT o.is_framework THEN m.module_path END AS module_path,
        CASE WHEN a.is_mapped THEN m.source_file || coalesce(':' || m.source_line, '') END AS source, o.is_opened,
        o.calls / n.runs AS calls, _in_unit(o.ticks::DOUBLE / n.runs, a.scale) AS per_run,
        100 * o.ticks::DOUBLE / nullif(sum(o.ticks) OVER (), 0) AS share_percent
    FROM (
        SELECT c.*,
            -- Whether a record of the capture's program maps its events to ops.
            c.record_id IS NOT NULL AND NOT EXISTS (
                FROM findings AS f WHERE f.capture_id = c.capture_id AND f.rule = 'foreign record'
            ) AS is_mapped
        FROM advised AS c
    ) AS a
    CROSS JOIN (SELECT count(*) AS runs FROM timed_runs AS g WHERE g.is_steady) AS n CROSS JOIN classified_times AS o
    LEFT JOIN signature_ops AS m USING (capture_id, signature_index)
    LEFT JOIN readers AS r USING (signature_index)
),
placed_ops AS (
    SELECT g.method, g.kind, g.op, g.is_copy, g.instruction_id, max_by(g.source, (g.per_run, g.source)) AS source,
        sum(g.calls) AS calls, fsum(g.per_run) AS per_run,
        sum(CASE WHEN g.is_opened THEN g.per_run ELSE 0 END) AS opened, fsum(g.share_percent) AS share_percent,
        sum(CASE WHEN g.is_of_constant THEN g.per_run ELSE 0 END)
            FILTER (WHERE g.is_of_constant IS NOT NULL) AS of_constants
    FROM times AS g
    GROUP BY ALL
),
ranked_ops AS (
    SELECT
        p.*, row_number() OVER (PARTITION BY p.kind, p.op ORDER BY p.per_run DESC, p.method, p.instruction_id) AS place,
        min(p.method) OVER () <> max(p.method) OVER () AS has_methods
    FROM placed_ops AS p
),
summed_ops AS (
    SELECT r.kind, r.op, r.is_copy, sum(r.of_constants) AS of_constants, count(r.instruction_id) AS instructions,
        sum(r.calls) AS calls, sum(r.per_run) AS per_run, sum(r.opened) AS opened,
        sum(r.share_percent) AS share_percent,
        -- Different methods use the same numbers for their instructions.
        string_agg(
            CASE WHEN r.has_methods THEN r.method || ' ' ELSE '' END || r.instruction_id, ', ' ORDER BY r.place
        ) FILTER (WHERE r.place <= 3) AS worst_instructions,
        min_by(r.source, r.place) FILTER (WHERE r.source IS NOT NULL) AS worst_source
    FROM ranked_ops AS r
    GROUP BY ALL
),
-- Evidence: one op of a capture by name, described in `words`.
ops AS MATERIALIZED (
    SELECT d.*,
        d.kind = 'kernel' AND regexp_full_match(
            d.op,
            '(\w+::)?(\w*convolution|conv[123]d|addmm|baddbmm|bmm|mm|\w+_mm|matmul'
            || '|linear|\w+_linear|scaled_dot_product\w+|\w*sdpa\w*)(\.\w+)?'
        ) AS is_heavy,
        row_number() OVER (PARTITION BY d.kind = 'kernel' ORDER BY d.per_run DESC, d.op) AS kernel_place,
        row_number() OVER (PARTITION BY d.is_copy ORDER BY d.per_run DESC, d.op) AS copy_place,
        d.op || ' ' || _advice_time(d.per_run, a.unit) || ' in '
        || _advice_count(d.calls, 'call') || coalesce(
            ' (' || CASE
                WHEN d.instructions = 1 THEN 'instruction '
                WHEN d.instructions <= 3 THEN 'instructions '
                ELSE 'most in instructions '
            END || d.worst_instructions || coalesce('; ' || d.worst_source, '') || ')',
            ''
        ) AS words
    FROM summed_ops AS d CROSS JOIN advised AS a
),
clocks AS MATERIALIZED (FROM _advice_clocks(capture_key, unit)),
loading AS MATERIALIZED (FROM _load_breakdown(capture_key, unit)),
all_runs AS MATERIALIZED (
    SELECT count(*) AS runs, fsum(g.execute) AS execute, median(g.execute) AS middle, min(g.run_index) AS first_index,
        max(g.run_index) AS last_index
    FROM timed_runs AS g
),
-- Findings of the capture or its record that make numbers misleading.
found AS (
    SELECT f.rule, f.detail, 'in findings' AS evidence FROM advised AS a JOIN findings AS f USING (capture_id)
    UNION ALL
    SELECT f.rule, 'the record ' || r.name || ' ' || f.detail, 'in record_findings'
    FROM advised AS a
    JOIN records AS r USING (record_id)
    JOIN record_findings AS f ON f.record_id = r.record_id
),
-- A run spends much of its time outside of kernels and delegates: a tenth, half of which is worth a comparison. A
-- traced run's tax includes tracing. Logging one event took 0.29 us on the machine of the captures in tests/
-- (transformer: 114 events, 223 us traced, 190 us not), so a tax of this order per event (up to 1 us) comes from
-- tracing rather than from the framework; severity is then never high.
taxes AS (
    SELECT median(g.execute) AS execute, median(g.tax) AS tax, median(g.tax_percent) AS share_percent,
        median(g.events) AS events, count(*) AS runs, median(g.tax) / nullif(median(g.events), 0) AS each_event,
        each_event * _nanoseconds(any_value(g.unit)) <= 1000 AS is_tracing
    FROM timed_runs AS g
    WHERE g.is_steady AND g.tax IS NOT NULL
    HAVING median(g.tax_percent) >= 10
),
heavy AS (
    SELECT string_agg(DISTINCT string_split(g.op, '.')[1], ', ' ORDER BY string_split(g.op, '.')[1]) AS names,
        fsum(g.per_run) AS per_run, fsum(g.share_percent) AS share_percent,
        string_agg(g.words, ', ' ORDER BY g.per_run DESC, g.op) AS words
    FROM ops AS g
    WHERE g.is_heavy
),
fallbacks AS (
    SELECT sum(k.calls) AS calls, sum(k.per_run) AS per_run, sum(k.share_percent) AS share_percent,
        max(k.op) FILTER (WHERE k.kernel_place = 1) AS worst,
        -- An op that a delegate takes includes the copies of its weights.
        coalesce(
            string_agg(k.op, ', ' ORDER BY k.kernel_place) FILTER (WHERE NOT k.is_copy AND k.kernel_place <= 3), worst
        ) AS to_delegate,
        string_agg(k.words, ', ' ORDER BY k.kernel_place) FILTER (WHERE k.kernel_place <= 3) AS words,
        (SELECT sum(g.calls) FROM ops AS g WHERE g.kind = 'delegate_call') AS delegate_calls
    FROM ops AS k
    WHERE k.kind = 'kernel'
),
copied AS (
    SELECT sum(c.per_run) AS per_run, sum(c.share_percent) AS share_percent,
        100e0 * sum(c.of_constants) / nullif(sum(c.per_run), 0) AS constant_percent,
        string_agg(c.words, ', ' ORDER BY c.copy_place) FILTER (WHERE c.copy_place <= 4) AS words,
        bool_or(c.kind = 'delegate') AS is_within_delegates,
        bool_or(regexp_matches(c.op, '(?i)quantize')) AS is_quantized,
        bool_or(regexp_matches(c.op, 'dim_order|clone|contiguous')) AS is_of_format
    FROM ops AS c
    WHERE c.is_copy
),
-- One op or one module takes more than all others together.
dominating AS (
    SELECT 'op' AS what, g.op AS name, g.per_run, g.share_percent, g.words, count(*) OVER () - 1 AS others
    FROM ops AS g
    WHERE g.kind IN ('kernel', 'delegate') AND NOT g.is_copy
    UNION ALL
    SELECT 'module', p.module_path, sum(p.per_run), sum(p.share_percent),
        'events: ' || string_agg(DISTINCT p.op, ', ' ORDER BY p.op), count(*) OVER () - 1
    FROM times AS p
    WHERE p.module_path IS NOT NULL
    GROUP BY p.module_path
),
delegated AS (
    SELECT sum(g.calls) FILTER (WHERE g.kind = 'delegate_call') AS calls, fsum(g.per_run) AS total,
        fsum(g.share_percent) AS share_percent,
        coalesce(fsum(g.per_run) FILTER (WHERE g.kind = 'delegate' AND g.is_copy), 0) AS copies,
        sum(g.opened) FILTER (WHERE g.kind = 'delegate_call') AS unaccounted,
        bool_or(g.kind = 'delegate') AND NOT EXISTS (
            FROM clocks AS c WHERE c.is_delegate AND c.is_coarse
        ) AS is_explained,
        string_agg(g.words, ', ' ORDER BY g.per_run DESC) FILTER (WHERE g.kind = 'delegate_call' OR g.is_copy) AS words
    FROM ops AS g
    WHERE g.kind IN ('delegate', 'delegate_call')
),
-- A run calls delegates often (a graph in one piece has one call), and each call is short compared with its overhead:
-- copies and layout, and time that the delegate's events leave unaccounted, a quarter of it. If the clock of these
-- events is too coarse, and for calls without events or with detached ones, unaccounted time is not counted as
-- overhead; such calls are reported if they are short: a call's fixed cost is some microseconds.
small_calls AS (
    SELECT d.*, d.copies + CASE WHEN d.is_explained THEN d.unaccounted ELSE 0 END AS costs,
        100e0 * costs >= 25 * d.total AS is_costly, d.share_percent * costs / d.total AS costs_percent,
        NOT d.is_explained AND d.total / d.calls * _nanoseconds(a.unit) < 50000 AS is_short
    FROM delegated AS d CROSS JOIN advised AS a
    WHERE d.calls >= 5
),
later_runs AS (
    SELECT g.block_index, count(*) AS runs, quantile_cont(g.execute, 0.9) AS p90
    FROM timed_runs AS g
    WHERE NOT g.is_first
    GROUP BY g.block_index
),
-- The first run is an outlier: caches, pages and clocks are cold. Its excess is a fifth of the median of the later runs
-- or more, which is more than their usual spread.
first_runs AS (
    SELECT g.execute, g.middle, l.runs, r.runs AS all_runs, r.execute AS all_time, sum(p.total) OVER () AS all_excess,
        row_number() OVER (ORDER BY p.total DESC, g.run_index) AS place,
        string_agg('run ' || g.run_index, ', ') OVER () AS words
    FROM timed_runs AS g
    JOIN loading AS p ON p.run_index = g.run_index AND p.component = 'first run excess'
    JOIN later_runs AS l USING (block_index)
    CROSS JOIN all_runs AS r
    WHERE g.is_first AND g.execute > l.p90 AND 100e0 * p.total >= 20 * g.middle
),
slow AS (
    SELECT count(*) AS outliers, sum(g.execute - g.middle) AS excess, max(g.execute) AS slowest,
        max_by(g.middle, (g.execute, -g.run_index)) AS middle,
        array_to_string(
            list('run ' || g.run_index || ' ' || _advice_time(g.execute, g.unit)
                ORDER BY g.execute DESC, g.run_index)[:5], ', '
        ) AS words
    FROM timed_runs AS g
    WHERE g.is_outlier AND g.execute > g.middle
),
blocks AS (
    SELECT g.block_index, count(*) AS runs, fsum(g.execute) AS total, quantile_cont(g.execute, 0.1) AS p10,
        median(g.execute) AS p50, quantile_cont(g.execute, 0.9) AS p90,
        (p90 - p10) / nullif(p50, 0) AS spread
    FROM timed_runs AS g
    WHERE NOT g.is_first AND g.execute IS NOT NULL
    GROUP BY g.block_index
    HAVING count(*) >= 10
),
-- Runs of the same events vary much, (p90 - p10) / p50: by a fifth or more. Captures on a quiet machine have 5 to 11 %,
-- one in ten over 20. The number of captures per side that show a change of 5 % is n = 2 (1.96 + 0.84)^2 s^2 /
-- ln(1.05)^2, the usual sample size for 5 % false alarms and 80 % power, where a capture's p25 is the sample and s its
-- spread between captures. In 60 real captures of 3 models on a shared machine, s was 0.15 of the spread within a
-- capture (0.13 to 0.15 by model, robustly); 5 per side is the smallest number that detected 94 % or more there.
varying AS (
    SELECT s.*, greatest(5, ceil(2 * (1.96 + 0.84) ** 2 * (0.15 * s.spread / ln(1.05)) ** 2))::BIGINT AS captures
    FROM blocks AS s
    WHERE 100e0 * s.spread >= 20
    QUALIFY row_number() OVER (ORDER BY s.total DESC, s.block_index) = 1
),
load_times AS (
    SELECT sum(p.total) FILTER (WHERE p.component = 'Program::load_method') AS load,
        coalesce(sum(p.total) FILTER (WHERE p.component = 'Method::init'), 0) AS init,
        coalesce(sum(p.total) FILTER (WHERE p.component = 'delegate init'), 0) AS delegate_init,
        count(*) FILTER (WHERE p.component = 'Program::load_method') AS loads
    FROM loading AS p
),
results AS (
    SELECT f.rule, k.severity, upper(left(f.detail, 1)) || substr(f.detail, 2) || '.' AS finding, f.evidence, k.remedy,
        NULL::DOUBLE AS time_at_stake, NULL::DOUBLE AS share_percent
    FROM found AS f
    JOIN _advised_findings() AS k USING (rule)
    UNION ALL BY NAME
    SELECT 'logged values' AS rule, 'medium' AS severity,
        'The runtime logged values. The times of this capture include copying them and are not judged here.' AS finding,
        'profiling_level debug in captures' AS evidence,
        'Take times from a capture that logs only events, and values from this one.' AS remedy
    FROM advised AS a
    WHERE a.profiling_level = 'debug'
    UNION ALL BY NAME
    SELECT 'framework tax' AS rule,
        CASE
            WHEN t.is_tracing AND t.share_percent >= 20 THEN 'medium'
            ELSE _advice_severity(t.share_percent)
        END AS severity,
        'Outside of kernels and delegates, the median run takes '
        || _advice_time(t.tax, a.unit) || ' of ' || _advice_time(t.execute, a.unit)
        || ' (' || _advice_percent(t.share_percent) || '), tracing included'
        || CASE
            WHEN t.each_event IS NULL THEN '.'
            ELSE ': ' || _advice_time(t.each_event, a.unit) || ' for each of its '
                || _advice_count(t.events, 'event') || ', ' || CASE
                    WHEN t.is_tracing THEN 'about the cost of logging one: tracing is the likely reason.'
                    WHEN t.is_tracing IS NULL THEN 'and this clock does not show how much of it is tracing.'
                    ELSE 'more than the cost of logging one: tracing alone does not explain it.'
                END
        END AS finding,
        'framework_tax over ' || _advice_count(t.runs, 'run') || '; '
        || 'operator-call overhead and rest in execute_breakdown' AS evidence,
        t.tax AS time_at_stake, t.share_percent,
        'Capture the program at level method_only too, and give it to etq show framework_tax as --baseline: the rest '
        || 'is the framework itself. Fewer and larger ops (delegating, fusing) lower both.' AS remedy
    FROM taxes AS t CROSS JOIN advised AS a
    UNION ALL BY NAME
    -- No delegate runs anything, though much of the time (the limit of high severity) is spent in ops that backends are
    -- made for. Names don't show whether the kernels are the portable ones.
    SELECT 'nothing delegated' AS rule, _advice_severity(h.share_percent) AS severity,
        'No delegate runs anything: convolutions and matrix products ('
        || h.names || '), which backends are made for, take '
        || _advice_time(h.per_run, a.unit) || ' of the average run ('
        || _advice_percent(h.share_percent) || ') in kernels.' AS finding,
        h.words AS evidence, h.per_run AS time_at_stake, h.share_percent,
        'Lower the model with a partitioner for the device (XnnpackPartitioner on CPUs) by '
        || 'to_edge_transform_and_lower. If none fits, link optimized kernels if these are the portable ones.' AS remedy
    FROM heavy AS h CROSS JOIN advised AS a
    WHERE h.share_percent >= 20 AND NOT EXISTS (FROM ops AS g WHERE g.kind IN ('delegate_call', 'delegate'))
    UNION ALL BY NAME
    -- Some ops run as kernels although there are delegates. Each such op also splits the graph, so that delegates are
    -- called more often: reported from 2 % on.
    SELECT 'fallback kernels' AS rule, _advice_severity(f.share_percent) AS severity,
        'Next to ' || _advice_count(f.delegate_calls, 'delegate call')
        || ', the average run has ' || _advice_count(f.calls, 'kernel')
        || ' for ops that no delegate took: ' || _advice_time(f.per_run, a.unit)
        || ' (' || _advice_percent(f.share_percent) || '), most of it in ' || f.worst || '.' AS finding,
        f.words AS evidence, f.per_run AS time_at_stake, f.share_percent,
        'List the nodes left over: etq coverage. Have the partitioner take '
        || f.to_delegate || ' (needs a supported data type, a static shape or a newer '
        || 'backend), or rewrite it with ops that the backend supports.' AS remedy
    FROM fallbacks AS f CROSS JOIN advised AS a
    WHERE f.delegate_calls > 0 AND f.share_percent >= 2
    UNION ALL BY NAME
    -- Much of the time (the limit of medium severity) is spent in ops that compute nothing: changes of layout, type
    -- conversions and copies, in kernels and delegates.
    SELECT 'copies' AS rule, _advice_severity(c.share_percent) AS severity,
        'Ops that compute nothing, but move or convert data, take '
        || _advice_time(c.per_run, a.unit) || ' of the average run ('
        || _advice_percent(c.share_percent) || ')' || CASE
            WHEN c.constant_percent >= 1
                THEN ', ' || _advice_percent(c.constant_percent) || ' of it on weights or inputs of the model.'
            ELSE '.'
        END AS finding,
        c.words AS evidence, c.per_run AS time_at_stake, c.share_percent,
        concat_ws(
            ' ',
            CASE
                WHEN c.constant_percent >= 1 THEN 'Work on a weight is the same in every run: fold it before lowering '
                    || 'ends (constant_prop_pass), or delegate the whole op, such as linear, to a backend that packs '
                    || 'weights when loading. Inputs can be given in the layout that the model needs.'
            END,
            CASE
                WHEN c.is_quantized THEN 'Remaining quantize and dequantize pairs are parts of patterns that no '
                    || 'backend took as a whole: quantize with the quantizer of the backend that runs the model.'
            END,
            CASE
                WHEN c.is_of_format THEN 'Export with inputs in the memory format that '
                    || 'the ops need, so that dim orders do not change between ops.'
            END,
            CASE
                WHEN c.is_within_delegates THEN 'Give the delegate its inputs in the '
                    || 'layout that it computes in (channels last for convolutions of XNNPACK).'
            END,
            'Look for permute, transpose, expand and contiguous in the lines named, '
            || 'and for ops that can be delegated together with their neighbours.'
        ) AS remedy
    FROM copied AS c CROSS JOIN advised AS a
    WHERE c.share_percent >= 5
    UNION ALL BY NAME
    -- The place to optimize rather than a fault, so severity is at most medium. Copies have their own rule; a model of
    -- one or two ops is not reported.
    SELECT 'dominating ' || n.what AS rule, 'medium' AS severity,
        'The ' || n.what || ' ' || n.name || ' takes '
        || _advice_time(n.per_run, a.unit) || ' of the average run (' || _advice_percent(n.share_percent)
        || '): making all else faster gains at most ' || _advice_percent(100 - n.share_percent) || '.' AS finding,
        n.words AS evidence, n.per_run AS time_at_stake, n.share_percent,
        'Optimize this first: etq ops --by instance lists its instructions'
        || CASE n.what WHEN 'module' THEN ', etq ops --by module its parts' ELSE '' END
        || '; a smaller shape or type, a backend, or a faster kernel saves most here.' AS remedy
    FROM dominating AS n CROSS JOIN advised AS a
    WHERE n.share_percent >= 50 AND n.others >= 2 AND n.name <> ''
    UNION ALL BY NAME
    SELECT 'small delegate calls' AS rule,
        CASE WHEN t.is_costly THEN _advice_severity(t.costs_percent) ELSE 'low' END AS severity,
        'The average run calls delegates ' || _advice_count(t.calls, 'time') || ', '
        || _advice_time(t.total / t.calls, a.unit) || ' each, '
        || CASE
            WHEN t.is_costly THEN _advice_percent(100e0 * t.costs / t.total)
                || ' of it copies, layout and time that the delegates'' events leave unaccounted.'
            ELSE 'and the delegates'' events do not show how much of it is overhead.'
        END AS finding,
        t.words AS evidence, CASE WHEN t.is_costly THEN t.costs END AS time_at_stake,
        CASE WHEN t.is_costly THEN t.costs_percent END AS share_percent,
        'Join the parts: etq coverage lists the ops between them that were not delegated. Have the partitioner take '
        || 'these, or leave out parts that are too small to save time.' AS remedy
    FROM small_calls AS t CROSS JOIN advised AS a
    WHERE t.is_costly OR t.is_short
    UNION ALL BY NAME
    -- The share is the first run's excess in the time of all runs. A slow first run is normal: severity is at most
    -- medium.
    SELECT
        'first run' AS rule, CASE WHEN 100e0 * t.all_excess < 5 * t.all_time THEN 'low' ELSE 'medium' END AS severity,
        'The first run takes ' || _advice_time(t.execute, a.unit) || ', '
        || _advice_number(t.execute / t.middle) || ' times the median of the '
        || _advice_count(t.runs, 'run') || ' after it ('
        || _advice_time(t.middle, a.unit) || '): it is a warm-up.' AS finding,
        t.words || '; first run excess in load_breakdown' AS evidence, t.all_excess / t.all_runs AS time_at_stake,
        100e0 * t.all_excess / t.all_time AS share_percent,
        'Leave it out of averages and totals, as shares here do: --skip-first 1 (steps := ''skip_first=1'').' AS remedy
    FROM first_runs AS t CROSS JOIN advised AS a
    WHERE t.place = 1
    UNION ALL BY NAME
    -- Slow runs took so much longer than typical ones (the limit of medium severity) that totals and averages over all
    -- runs represent neither.
    SELECT 'slow runs' AS rule, _advice_severity(100e0 * t.excess / r.execute) AS severity,
        'Without the first, ' || t.outliers || ' of ' || _advice_count(r.runs, 'run')
        || ' took longer than typical, the slowest ' || _advice_time(t.slowest, a.unit)
        || ' against ' || _advice_time(t.middle, a.unit) || ': this excess is '
        || _advice_percent(100e0 * t.excess / r.execute) || ' of the time of all runs.' AS finding,
        t.words AS evidence, t.excess / r.runs AS time_at_stake, 100e0 * t.excess / r.execute AS share_percent,
        'See whether some ops or all of them grow in the slow runs: '
        || 'etq show slow_runs. If all grow equally, measure again with nothing else on the device.' AS remedy
    FROM slow AS t CROSS JOIN all_runs AS r CROSS JOIN advised AS a
    WHERE 100e0 * t.excess / r.execute >= 5
    UNION ALL BY NAME
    -- From 50 captures on, the estimate is not meaningful.
    SELECT 'variance' AS rule,
        CASE WHEN t.spread >= 1 THEN 'high' WHEN t.spread >= 0.5 THEN 'medium' ELSE 'low' END AS severity,
        'Runs that log the same events, without the first, take '
        || _advice_time(t.p10, a.unit) || ' (p10) to ' || _advice_time(t.p90, a.unit) || ' (p90), a spread of '
        || _advice_percent(100e0 * t.spread) || ' around the median of '
        || _advice_time(t.p50, a.unit) || ': to detect a change of 5 %, '
        || CASE WHEN t.captures > 50 THEN 'more than 50' ELSE 'about ' || t.captures END
        || ' captures per side are needed.' AS finding,
        _advice_count(t.runs, 'run') || ' of block ' || t.block_index || ', without the first run' AS evidence,
        'Check that these runs had the same method and inputs. Fix the clock and pin '
        || 'the threads to cores, let the device cool and rest, and compare '
        || 'percentiles of several captures taken in turns, not averages of one.' AS remedy
    FROM varying AS t CROSS JOIN advised AS a
    UNION ALL BY NAME
    -- With fewer than ten runs, p10 and p90 are the fastest and the slowest.
    SELECT 'few runs' AS rule, 'low' AS severity,
        'The capture has ' || _advice_count(r.runs, 'run') || ', warm-up included: too '
        || 'few for percentiles, or to separate noise from change.' AS finding,
        'runs ' || r.first_index || ' to ' || r.last_index AS evidence,
        'Record about 40 runs in a capture, and at least five captures of each build '
        || 'if builds are to be compared.' AS remedy
    FROM all_runs AS r
    WHERE r.runs BETWEEN 1 AND 9
    UNION ALL BY NAME
    -- Loading took longer than all runs of the capture together. A capture is not a
    -- user's session, so severity is low; medium if it takes longer than a hundred runs.
    SELECT 'loading' AS rule, CASE WHEN t.load > 100e0 * r.middle THEN 'medium' ELSE 'low' END AS severity,
        'Loading took ' || _advice_time(t.load, a.unit) || ', as much as '
        || _advice_number(t.load / r.middle) || ' median runs: '
        || _advice_percent(100e0 * t.load / (t.load + r.execute)) || ' of the time in this capture.' AS finding,
        _advice_count(t.loads, 'Program::load_method') || ', of it Method::init '
        || _advice_time(t.init, a.unit) || CASE
            WHEN t.delegate_init > 0 THEN ', in it delegates ' || _advice_time(t.delegate_init, a.unit)
            ELSE ''
        END AS evidence,
        100e0 * t.load / (t.load + r.execute) AS share_percent,
        'Where sessions are short, load a method once and keep it for all runs; the '
        || 'delegates'' work at init, such as packing weights, can often be cached or done ahead.' AS remedy
    FROM load_times AS t CROSS JOIN all_runs AS r CROSS JOIN advised AS a
    WHERE r.runs > 0 AND 100e0 * t.load / (t.load + r.execute) >= 50
    UNION ALL BY NAME
    -- A clock's step is too large for the times that it measures, 20 events or more. Severity is high for the runtime's
    -- clock, as it makes all times unreliable; for the clock of delegates' events it is medium if a quarter of them
    -- have duration zero.
    SELECT 'coarse clock' AS rule,
        CASE
            WHEN NOT t.is_delegate THEN 'high'
            WHEN 100e0 * t.zeros / t.events >= 25 THEN 'medium'
            ELSE 'low'
        END AS severity,
        CASE WHEN t.is_delegate THEN 'Events within delegates are timed ' ELSE 'Events are timed ' END || CASE
            WHEN t.step IS NULL THEN 'too coarsely'
            ELSE 'in steps of ' || _advice_time(t.step, t.unit)
        END || CASE
            WHEN t.middle > 0 THEN ', and half of them take at most ' || _advice_time(t.middle, t.unit)
            ELSE ''
        END || ': ' || _advice_percent(100e0 * t.zeros / t.events)
        || ' have a time of 0.' AS finding,
        _advice_count(t.events, 'event') || ' over all runs, ' || format('{:,}', t.zeros) || ' of them 0' AS evidence,
        CASE
            WHEN t.is_delegate THEN 'Use the time of each DELEGATE_CALL as a whole: more runs do not restore the lost '
                || 'precision. Use the backend''s own profiler for more detail.'
            ELSE 'Make the platform''s clock finer (et_pal_current_ticks), or measure several runs as one event.'
        END AS remedy
    FROM clocks AS t
    WHERE t.events >= 20 AND t.is_coarse
)
SELECT t.rule, t.severity, t.finding, t.evidence, t.time_at_stake, t.share_percent, t.remedy,
    CASE WHEN t.time_at_stake IS NOT NULL THEN a.unit END AS unit
FROM results AS t CROSS JOIN advised AS a;
