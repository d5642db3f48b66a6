-- A peak rate, as an aggregate of rows of `metrics`: the number given, else the metric of that name in that unit or a
-- multiple of it (k, M, G, T). NULL if there is neither.
CREATE MACRO _peak(
    metric,  -- row of `metrics`
    metric_name,  -- peak_flops or peak_bandwidth
    rate_unit,  -- FLOP/s or B/s
    rate  -- a number, or NULL
) AS (
    CASE
        WHEN rate IS NULL THEN max(
            CASE
                WHEN metric.name = metric_name AND metric.run_index IS NULL AND metric.value > 0
                    THEN metric.value * CASE replace(metric.unit, rate_unit, '')
                        WHEN '' THEN 1e0
                        WHEN 'k' THEN 1e3
                        WHEN 'M' THEN 1e6
                        WHEN 'G' THEN 1e9
                        WHEN 'T' THEN 1e12
                    END
            END
        )
        WHEN rate::DOUBLE > 0 AND rate::DOUBLE < 'inf'::DOUBLE THEN rate::DOUBLE
        ELSE error(metric_name || ' must be a number above 0, in ' || rate_unit)
    END
);

-- One measured op as in `roofline`, with its nodes.
CREATE MACRO _rated_ops(
    target,  -- a table with a row of `_capture`
    peak_flops, peak_bandwidth, "by", steps, phase, method, runs
) AS TABLE
WITH peaks AS MATERIALIZED (
    SELECT c.capture_id, c.time_scale, c.unit, c.record_id,
        _peak(m, 'peak_flops', 'FLOP/s', peak_flops) AS peak_flops,
        _peak(m, 'peak_bandwidth', 'B/s', peak_bandwidth) AS peak_bandwidth
    FROM query_table(target) AS c
    LEFT JOIN metrics AS m USING (capture_id)
    GROUP BY c.capture_id, c.time_scale, c.unit, c.record_id
),
measured AS MATERIALIZED (FROM _measured_ops(target, "by", steps, phase, method, runs)),
costs AS (
    SELECT c.signature_index, c.flops, c.bytes, c.unknown, c.reason, c.op_types, c.module_path
    FROM peaks AS a
    JOIN signature_costs AS c USING (capture_id)
),
shared AS (
    SELECT DISTINCT s.item
    FROM (
        SELECT m.item, count(*) OVER (PARTITION BY m.is_additive, m.graph_id, m.node_index) AS items
        FROM (SELECT m.item, m.is_additive, m.graph_id, unnest(m.nodes) AS node_index FROM measured AS m) AS m
    ) AS s
    WHERE s.items > 1
),
executes AS MATERIALIZED (
    SELECT t.scope AS method, count(*) FILTER (t.is_execute) AS number,
        sum(sum(t.execute_ticks)) OVER ()::DOUBLE AS ticks
    FROM _run_events('peaks', steps, phase, method, runs) AS t
    WHERE t.execute_ticks IS NOT NULL
    GROUP BY t.scope
),
backends AS (
    SELECT o.method, s.instruction_id, min(o.backend) AS backend
    FROM peaks AS a
    JOIN signature_ops AS o ON o.capture_id = a.capture_id
    JOIN signatures AS s ON s.capture_id = o.capture_id AND s.signature_index = o.signature_index
    WHERE o.backend IS NOT NULL
    GROUP BY o.method, s.instruction_id
),
rows_of_ops AS (
    SELECT
        CASE
            WHEN m.kind = 'delegate_call' AND m.label <> '(delegate unaccounted)' THEN coalesce(b.backend, m.label)
            ELSE coalesce(c.op_types, m.label)
        END AS op,
        m.method, m.kind, CASE WHEN m.kind LIKE 'delegate%' THEN b.backend END AS backend,
        CASE
            WHEN "by" IN ('op', 'instruction') THEN m.instruction_id
            WHEN "by" IS NULL OR "by" <> 'op_type' THEN error(
                'by must be ''op'', ''instruction'' or ''op_type'', not ' || coalesce("by", 'NULL')
            )
        END AS instruction_id,
        CASE WHEN "by" <> 'op_type' THEN c.module_path END AS module_path,
        CASE WHEN "by" <> 'op_type' THEN m.item END AS item,
        CASE WHEN "by" <> 'op_type' THEN m.graph_id END AS graph_id,
        CASE WHEN "by" <> 'op_type' THEN m.nodes END AS nodes,
        CASE WHEN "by" <> 'op_type' THEN m.is_one_of END AS is_one_of, m.calls, m.ticks, m.is_additive,
        _stored_unit(m.value_unit, a.time_scale) AS written,
        CASE WHEN NOT m.is_one_of AND h.item IS NULL THEN c.flops END AS flops,
        CASE WHEN NOT m.is_one_of AND h.item IS NULL THEN c.bytes END AS bytes,
        CASE
            WHEN a.record_id IS NULL THEN 'no record is linked'
            WHEN m.nodes IS NULL AND m.kind = 'delegate_call' THEN 'time outside of the delegate''s events'
            WHEN m.nodes IS NULL THEN 'the record maps it to no op'
            WHEN m.is_one_of THEN 'unknown which of several nodes it runs'
            WHEN h.item IS NOT NULL THEN 'other events run the same nodes'
            WHEN c.unknown > 0 AND len(m.nodes) > 1 THEN c.unknown || ' of ' || len(m.nodes) || ' nodes: ' || c.reason
            ELSE c.reason
        END AS reason
    FROM peaks AS a CROSS JOIN measured AS m
    LEFT JOIN costs AS c ON c.signature_index = m.cost_signature
    LEFT JOIN shared AS h ON h.item = m.item
    LEFT JOIN backends AS b ON b.method = m.method AND b.instruction_id = m.instruction_id
),
added AS (
    SELECT r.op, r.method, r.kind, r.backend, r.instruction_id, r.module_path, r.item, r.graph_id, r.nodes, r.is_one_of,
        r.is_additive, r.written, sum(r.calls)::BIGINT AS calls, try_cast(sum(r.ticks) AS BIGINT) AS ticks,
        CASE WHEN count(*) = count(r.flops) THEN sum(r.flops::DOUBLE * r.calls) END AS flops,
        CASE WHEN count(*) = count(r.bytes) THEN sum(r.bytes::DOUBLE * r.calls) END AS bytes, min(r.reason) AS reason
    FROM rows_of_ops AS r
    GROUP BY ALL
),
rated AS (
    SELECT d.*, a.unit, _scale(d.written, a.unit) AS scale, a.peak_flops AS most_flops, a.peak_bandwidth AS most_bytes,
        CASE WHEN d.is_additive AND d.ticks > 0 THEN d.ticks::DOUBLE * _nanoseconds(d.written) END AS nanoseconds,
        -- With one peak, ops without that kind of cost have no roof.
        CASE
            WHEN d.flops + d.bytes > 0
                THEN nullif(greatest(d.flops * 1e9 / a.peak_flops, d.bytes * 1e9 / a.peak_bandwidth), 0)
            WHEN coalesce(a.peak_flops, a.peak_bandwidth) IS NOT NULL THEN d.flops + d.bytes
        END AS least_nanoseconds
    FROM added AS d CROSS JOIN peaks AS a
),
judged AS (
    SELECT r.*,
        CASE
            WHEN r.nanoseconds > r.least_nanoseconds THEN r.nanoseconds - r.least_nanoseconds
            WHEN r.nanoseconds <= r.least_nanoseconds THEN 0
        END AS lost_nanoseconds
    FROM rated AS r
)
SELECT r.op, r.method, r.kind, r.backend, r.instruction_id, r.module_path, r.calls, _in_unit(r.ticks, r.scale) AS total,
    _in_unit(r.ticks / r.calls, r.scale) AS per_call,
    CASE WHEN r.is_additive THEN 100e0 * r.ticks / nullif(x.ticks, 0) END AS share_percent,
    _display_unit(r.written, r.unit) AS unit, try_cast(r.flops / r.calls AS BIGINT) AS flops,
    try_cast(r.bytes / r.calls AS BIGINT) AS bytes, r.flops / nullif(r.bytes, 0) AS intensity,
    r.flops * 1e9 / r.nanoseconds AS flops_per_second, r.bytes * 1e9 / r.nanoseconds AS bytes_per_second,
    CASE
        WHEN r.flops IS NOT NULL AND r.bytes IS NOT NULL
            THEN least(r.most_flops, r.flops / nullif(r.bytes, 0) * r.most_bytes)
    END AS attainable_flops_per_second,
    100 * nullif(r.least_nanoseconds, 0) / r.nanoseconds AS roof_percent,
    CASE
        WHEN r.flops + r.bytes = 0 THEN NULL
        WHEN r.flops / r.most_flops >= r.bytes / r.most_bytes THEN 'compute'
        WHEN r.flops / r.most_flops < r.bytes / r.most_bytes THEN 'memory'
    END AS bound,
    r.lost_nanoseconds / _nanoseconds(r.unit) AS above_roof,
    100 * r.lost_nanoseconds / nullif(x.ticks * _nanoseconds(r.written), 0) AS above_roof_percent,
    CASE
        WHEN r.reason IS NOT NULL THEN r.reason
        WHEN r.ticks <= 0 THEN 'no time was measured'
        WHEN NOT r.is_additive THEN 'its time is on another clock, or not a time'
        WHEN r.nanoseconds IS NULL THEN 'its time is in ' || r.written
        WHEN r.least_nanoseconds IS NULL AND r.most_flops IS NOT NULL THEN 'its roof needs peak_bandwidth'
        WHEN r.least_nanoseconds IS NULL AND r.most_bytes IS NOT NULL THEN 'its roof needs peak_flops'
    END AS reason,
    r.item, r.graph_id, r.nodes, r.is_one_of, r.is_additive, r.ticks, x.number AS executes,
    total / x.number AS per_execute, above_roof / x.number AS above_roof_per_execute
FROM judged AS r
LEFT JOIN executes AS x ON x.method = r.method;
