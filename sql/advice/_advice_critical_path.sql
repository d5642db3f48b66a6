-- An op has a fifth or more of the critical path of a trace with device events, from
-- the start of the recording to its end: what it takes there limits what a faster op
-- can save. The calls of the runtime or driver in which the host waits (allocation, free, as
-- in `_call_cause`, but for synchronization) count by their cause, for all ops together.
CREATE MACRO _advice_critical_path(capture_key, time_unit) AS TABLE
WITH
clock AS (
    SELECT DISTINCT c.capture_id, c.time_scale
    FROM captures AS c
    JOIN device_events AS d ON d.capture_id = c.capture_id
    WHERE c.capture_id = capture_key
),
parts AS (
    SELECT
        s.op,
        s.call,
        s.kernel,
        nullif(s.cause, 'synchronization') AS cause,
        s.is_host,
        s.ticks
    FROM clock AS c
    JOIN _path_shares(capture_key, NULL, NULL) AS s ON true
),
by_event AS (
    SELECT
        p.op,
        p.call,
        p.kernel,
        p.cause,
        sum(p.ticks) AS ticks,
        sum(CASE WHEN p.is_host THEN p.ticks ELSE 0 END) AS host_ticks,
        sum(CASE WHEN p.kernel IS NULL THEN 0 ELSE p.ticks END) AS device_ticks,
        count(*) AS parts,
        max(p.ticks) AS longest_ticks
    FROM parts AS p
    GROUP BY p.op, p.call, p.kernel, p.cause
),
totals AS (
    SELECT
        CASE WHEN b.cause IS NULL THEN b.op END AS op,
        b.cause,
        sum(b.ticks) AS ticks,
        sum(b.host_ticks) AS host_ticks,
        sum(b.device_ticks) AS device_ticks,
        arg_max(b.kernel, (b.ticks, b.kernel)) FILTER (WHERE b.kernel IS NOT NULL)
            AS kernel,
        arg_max(b.call, (b.ticks, b.call)) FILTER (WHERE b.call IS NOT NULL) AS call,
        arg_max(b.op, (b.ticks, b.op)) FILTER (WHERE b.op IS NOT NULL) AS main_op,
        sum(b.parts) AS parts,
        max(b.longest_ticks) AS longest_ticks
    FROM by_event AS b
    GROUP BY CASE WHEN b.cause IS NULL THEN b.op END, b.cause
),
shares AS (
    SELECT
        t.*,
        100 * t.ticks::DOUBLE / sum(t.ticks) OVER () AS share,
        _in_unit(t.ticks::BIGINT, c.time_scale, time_unit) AS total,
        _in_unit(t.longest_ticks, c.time_scale, time_unit) AS longest_time,
        t.host_ticks::DOUBLE / t.ticks AS host_part,
        t.device_ticks::DOUBLE / t.ticks AS device_part,
        t.kernel IN (
            SELECT s.label
            FROM signatures AS s
            WHERE s.capture_id = capture_key AND s.kernel_family = 'communication'
        ) AS communicates,
        t.op IN (
            SELECT s.family
            FROM signatures AS s
            WHERE s.capture_id = capture_key AND s.purpose = 'data_loading'
        ) AS loads_data
    FROM clock AS c
    JOIN totals AS t ON true
)
SELECT
    'critical path' AS rule,
    _advice_severity(s.share) AS severity,
    _advice_percent(s.share) || ' of the critical path is '
    || CASE
        WHEN s.cause IS NOT NULL
            THEN s.call || ': the host ' || _advice_call_work(s.cause)
        WHEN s.op = 'ProfilerStep*' THEN 'on the host, between the ops of steps'
        ELSE s.op
    END || '.' AS finding,
    'in ' || _advice_count(s.parts, 'part')
    || CASE
        WHEN s.parts > 1
            THEN ', the longest ' || _advice_time(s.longest_time, time_unit)
        ELSE ''
    END
    || CASE
        WHEN s.cause IS NOT NULL THEN coalesce('; mostly in ' || s.main_op, '')
        ELSE ', ' || _advice_percent(100e0 * s.device_part) || ' of it on devices, '
            || _advice_percent(100e0 * s.host_part) || ' on the host'
            || coalesce('; mostly the kernel ' || s.kernel, '')
    END
    || '; etq critical-path lists the ops' AS evidence,
    s.total AS time_at_stake,
    s.share AS share_percent,
    CASE
        WHEN s.cause IS NOT NULL
            THEN _advice_call_remedy(s.cause)
            || _advice_warm_up('part', s.longest_ticks, s.ticks, s.share)
        WHEN s.loads_data THEN 'Set num_workers and pin_memory of DataLoader.'
        WHEN s.device_part >= 0.5 AND s.communicates
            THEN 'Overlap communication and computation.'
        WHEN s.device_part >= 0.5
            THEN 'Make kernels of this op faster or fewer: smaller types, fusion.'
        WHEN s.host_part >= 0.5
            THEN 'Spend less time of the host in it: larger ops, torch.compile,'
            || ' CUDA graphs.'
            || _advice_warm_up('part', s.longest_ticks, s.ticks, s.share)
        ELSE 'Let it wait less: launch ahead, synchronize less often.'
    END AS remedy,
    time_unit AS unit
FROM shares AS s
WHERE s.share >= 20
    AND (s.op IS NOT NULL OR s.cause IS NOT NULL)
    AND s.cause IS DISTINCT FROM 'call';
