-- A peak rate: the number given, else the capture's metric of that name in that
-- unit, or in a thousand, a million, ... of it (k, M, G, T). NULL if there is
-- neither.
CREATE MACRO _peak(
    capture_key,  -- key of a capture
    metric_name,  -- peak_flops or peak_bandwidth
    rate_unit,  -- FLOP/s or B/s
    rate  -- a number, or NULL
) AS (
    CASE
        WHEN rate IS NULL THEN (
            SELECT max(
                _metric.value * CASE replace(_metric.unit, rate_unit, '')
                    WHEN '' THEN 1e0
                    WHEN 'k' THEN 1e3
                    WHEN 'M' THEN 1e6
                    WHEN 'G' THEN 1e9
                    WHEN 'T' THEN 1e12
                END
            )
            FROM metrics AS _metric
            WHERE _metric.capture_id = capture_key
                AND _metric.run_index IS NULL
                AND _metric.name = metric_name
                AND _metric.value > 0
        )
        WHEN rate::DOUBLE > 0 AND rate::DOUBLE < 'inf'::DOUBLE THEN rate::DOUBLE
        ELSE error(metric_name || ' must be a number above 0, in ' || rate_unit)
    END
);

-- One measured op with its costs and the limits of the device: no op does more
-- operations per second than the peak, nor than its bytes allow. Costs are those of
-- the nodes of the edge graph that the op runs: a delegate's event has those of its
-- nodes; a call whose events have no nodes has those of all its nodes, without the
-- values that they pass to each other. Ops that a delegate fuses into others, such
-- as relu, cost nothing on their own if its events are separate rows. Needs a
-- linked record; without peaks, there are still rates and intensity.
-- Engines: duckdb (it casts JSON to lists, and lists to text, which Spark casts otherwise)
-- Columns:
--   op: op type of its nodes; for a delegate's call the backend; for events without nodes their label
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   kind: kernel, operator_call (without a kernel), delegate, delegate_call
--   backend: the delegate's backend; NULL for kernels
--   instruction_id: the instruction; NULL with by := 'op_type'
--   module_path: module that contains its nodes; NULL if they differ, and with by := 'op_type'
--   calls: number of calls
--   total: sum of its self times; for delegate calls as a whole, of their total times
--   avg: total / calls
--   share_percent: total in percent of the executes; NULL for values on another clock, or that are not times
--   unit: unit of total, avg and above_roof: the requested one; values that are not times keep theirs
--   flops: operations of one call, the mean if they differ; NULL where unknown
--   bytes: bytes that one call reads and writes, the mean if they differ; NULL where unknown
--   intensity: operations per byte; NULL where unknown, or if no bytes are moved
--   flops_per_second: operations per second; NULL where unknown, and for times in cycles or on another clock
--   bytes_per_second: bytes per second; NULL as flops_per_second
--   attainable_flops_per_second: the smaller of the peak and of intensity times bandwidth, as far as they are known
--   roof_percent: smallest possible time at the peaks in percent of its time; above 100 if the peaks are too low
--   bound: the limit that takes longer: compute or memory; NULL unless both peaks are known
--   above_roof: total less the smallest possible time of all calls: the most that can be saved; 0 if total is less, as for data in caches
--   above_roof_percent: above_roof in percent of the executes
--   reason: why a value is unknown; NULL if all are known
CREATE MACRO roofline(
    capture,  -- name, hash prefix, @latest or selector
    peak_flops := NULL,  -- peak rate of the device, in operations per second; NULL: the capture's metric peak_flops
    peak_bandwidth := NULL,  -- peak bandwidth of its memory, in bytes per second; NULL: the capture's metric peak_bandwidth
    "by" := 'op',  -- op: delegates' events as separate rows, if they have nodes; instruction: delegate calls as a whole; op_type: grouped by what they call
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    steps := NULL,  -- runs to use, as a schedule: skip_first=1,active=3, see `schedule`; NULL: all
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    method := NULL,  -- only runs of this method, as in the column `method`; NULL: all runs
    runs := 'typical'  -- typical (only typical runs, see `typical_runs`) or all
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT
        c.capture_id,
        c.time_scale,
        c.unit,
        k.record_id,
        _peak(c.capture_id, 'peak_flops', 'FLOP/s', peak_flops) AS peak_flops,
        _peak(c.capture_id, 'peak_bandwidth', 'B/s', peak_bandwidth)
            AS peak_bandwidth
    FROM _capture(capture, unit) AS c
    JOIN captures AS k ON k.capture_id = c.capture_id
),
measured AS MATERIALIZED (
    SELECT m.*
    FROM _measured_ops(
        (SELECT a.capture_id FROM target AS a),
        "by", steps, phase, method, runs
    ) AS m
),
costs AS MATERIALIZED (
    SELECT s.*
    FROM _set_costs(
        (SELECT a.record_id FROM target AS a),
        (
            SELECT list({
                'item': m.item,
                'is_additive': m.is_additive,
                'graph_id': m.graph_id,
                'nodes': m.nodes
            })
            FROM measured AS m
        )
    ) AS s
),
executes AS (
    SELECT sum(t.duration_ticks)::DOUBLE AS ticks
    FROM _self_times(
        (SELECT a.capture_id FROM target AS a),
        steps, phase, method, runs
    ) AS t
    WHERE t.event_index = t.execute_index
),
backends AS (
    SELECT o.method, s.instruction_id, min(o.backend) AS backend
    FROM target AS a
    JOIN signature_ops AS o ON o.capture_id = a.capture_id
    JOIN signatures AS s
        ON s.capture_id = o.capture_id AND s.signature_index = o.signature_index
    WHERE o.backend IS NOT NULL
    GROUP BY o.method, s.instruction_id
),
rows_of_ops AS (
    SELECT
        CASE
            WHEN m.kind = 'delegate_call' THEN coalesce(b.backend, m.label)
            ELSE coalesce(c.op_types, m.label)
        END AS op,
        m.method,
        m.kind,
        CASE WHEN m.kind LIKE 'delegate%' THEN b.backend END AS backend,
        CASE
            WHEN "by" IN ('op', 'instruction') THEN m.instruction_id
            WHEN "by" IS NULL OR "by" <> 'op_type' THEN error(
                'by must be ''op'', ''instruction'' or ''op_type'', not '
                || coalesce("by", 'NULL')
            )
        END AS instruction_id,
        CASE WHEN "by" <> 'op_type' THEN c.module_path END AS module_path,
        CASE WHEN "by" <> 'op_type' THEN m.item END AS item,
        m.calls,
        m.ticks,
        m.is_additive,
        _stored_unit(m.value_unit, a.time_scale) AS written,
        CASE WHEN NOT m.is_one_of AND NOT c.is_shared THEN c.flops END AS flops,
        CASE
            WHEN NOT m.is_one_of AND NOT c.is_shared
                THEN c.bytes_read + c.bytes_written
        END AS bytes,
        CASE
            WHEN a.record_id IS NULL THEN 'no record is linked'
            WHEN m.nodes IS NULL AND m.kind = 'delegate_call'
                THEN 'time outside of the delegate''s events'
            WHEN m.nodes IS NULL THEN 'the record maps it to no op'
            WHEN m.is_one_of THEN 'unknown which of several nodes it runs'
            WHEN c.is_shared THEN 'other events run the same nodes'
            WHEN c.unknown > 0 AND c.nodes > 1
                THEN c.unknown || ' of ' || c.nodes || ' nodes: ' || c.reason
            ELSE c.reason
        END AS reason
    FROM target AS a
    CROSS JOIN measured AS m
    LEFT JOIN costs AS c ON c.item = m.item
    LEFT JOIN backends AS b
        ON b.method = m.method AND b.instruction_id = m.instruction_id
),
added AS (
    SELECT
        r.op,
        r.method,
        r.kind,
        r.backend,
        r.instruction_id,
        r.module_path,
        r.item,
        r.is_additive,
        r.written,
        sum(r.calls)::BIGINT AS calls,
        try_cast(sum(r.ticks) AS BIGINT) AS ticks,
        CASE WHEN count(*) = count(r.flops) THEN sum(r.flops::DOUBLE * r.calls) END
            AS flops,
        CASE WHEN count(*) = count(r.bytes) THEN sum(r.bytes::DOUBLE * r.calls) END
            AS bytes,
        min(r.reason) AS reason
    FROM rows_of_ops AS r
    GROUP BY ALL
),
rated AS (
    SELECT
        d.*,
        a.unit,
        a.peak_flops AS most_flops,
        a.peak_bandwidth AS most_bytes,
        CASE
            WHEN d.is_additive AND d.ticks > 0
                THEN d.ticks::DOUBLE * _nanoseconds(d.written)
        END AS nanoseconds,
        -- With one peak, ops without that kind of cost have no roof.
        CASE
            WHEN d.flops + d.bytes > 0
                THEN nullif(greatest(
                    d.flops * 1e9 / a.peak_flops, d.bytes * 1e9 / a.peak_bandwidth
                ), 0)
            WHEN coalesce(a.peak_flops, a.peak_bandwidth) IS NOT NULL
                THEN d.flops + d.bytes
        END AS least_nanoseconds
    FROM added AS d
    CROSS JOIN target AS a
),
judged AS (
    SELECT
        r.*,
        CASE
            WHEN r.nanoseconds > r.least_nanoseconds
                THEN r.nanoseconds - r.least_nanoseconds
            WHEN r.nanoseconds <= r.least_nanoseconds THEN 0
        END AS lost_nanoseconds
    FROM rated AS r
)
SELECT
    r.op,
    r.method,
    r.kind,
    r.backend,
    r.instruction_id,
    r.module_path,
    r.calls,
    r.ticks * _multiplier(r.written, r.unit) / _divisor(r.written, r.unit) AS total,
    r.ticks / r.calls * _multiplier(r.written, r.unit) / _divisor(r.written, r.unit)
        AS avg,
    CASE
        WHEN r.is_additive
            THEN 100 * r.ticks / nullif((SELECT e.ticks FROM executes AS e), 0)
    END AS share_percent,
    _display_unit(r.written, r.unit) AS unit,
    try_cast(r.flops / r.calls AS BIGINT) AS flops,
    try_cast(r.bytes / r.calls AS BIGINT) AS bytes,
    r.flops / nullif(r.bytes, 0) AS intensity,
    r.flops * 1e9 / r.nanoseconds AS flops_per_second,
    r.bytes * 1e9 / r.nanoseconds AS bytes_per_second,
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
    100 * r.lost_nanoseconds
    / nullif((SELECT e.ticks * _nanoseconds(r.written) FROM executes AS e), 0)
        AS above_roof_percent,
    CASE
        WHEN r.reason IS NOT NULL THEN r.reason
        WHEN r.ticks <= 0 THEN 'no time was measured'
        WHEN NOT r.is_additive THEN 'its time is on another clock, or not a time'
        WHEN r.nanoseconds IS NULL THEN 'its time is in ' || r.written
        WHEN r.least_nanoseconds IS NULL AND r.most_flops IS NOT NULL
            THEN 'its roof needs peak_bandwidth'
        WHEN r.least_nanoseconds IS NULL AND r.most_bytes IS NOT NULL
            THEN 'its roof needs peak_flops'
    END AS reason
FROM judged AS r
ORDER BY
    r.is_additive DESC, r.ticks DESC, r.op, r.method, r.kind, r.instruction_id, r.item;
