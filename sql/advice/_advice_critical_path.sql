-- An op has a fifth or more of the critical path of a trace with device events, from
-- the start of the recording to its end: what it takes there limits what a faster op
-- can save.
-- Columns:
--   rule: critical path
--   severity: as in `advice`, by the share of the path
--   finding: as in `advice`
--   evidence: as in `advice`
--   time_at_stake: as in `advice`
--   share_percent: as in `advice`
--   remedy: as in `advice`
--   unit: as in `advice`
CREATE MACRO _advice_critical_path(
    capture_key,  -- key of a capture
    time_unit  -- unit of time
) AS TABLE
WITH
clock AS (
    SELECT DISTINCT c.capture_id, c.time_scale
    FROM captures AS c
    JOIN device_events AS d ON d.capture_id = c.capture_id
    WHERE c.capture_id = capture_key
),
shares AS (
    SELECT
        t.*,
        100 * t.ticks::DOUBLE / sum(t.ticks) OVER () AS share,
        _in_unit(t.ticks, c.time_scale, time_unit) AS total,
        _in_unit(t.longest_ticks, c.time_scale, time_unit) AS longest_time,
        t.host_ticks::DOUBLE / t.ticks AS host_part,
        t.device_ticks::DOUBLE / t.ticks AS device_part
    FROM clock AS c
    JOIN _path_totals(capture_key, NULL, NULL) AS t ON true
)
SELECT
    'critical path' AS rule,
    _advice_severity(s.share) AS severity,
    _advice_percent(s.share) || ' of the critical path is '
    || CASE s.op
        WHEN 'ProfilerStep*' THEN 'on the host, between the ops of steps'
        ELSE s.op
    END || '.' AS finding,
    'in ' || _advice_count(s.parts, 'part')
    || CASE
        WHEN s.parts > 1
            THEN ', the longest ' || _advice_time(s.longest_time, time_unit)
        ELSE ''
    END || ', '
    || _advice_percent(100e0 * s.device_part) || ' of it on devices, '
    || _advice_percent(100e0 * s.host_part) || ' on the host'
    || coalesce('; mostly the kernel ' || s.kernel, '')
    || '; etq critical-path lists the ops' AS evidence,
    s.total AS time_at_stake,
    s.share AS share_percent,
    CASE
        WHEN _is_data_loader(s.op) THEN 'Set num_workers and pin_memory of DataLoader.'
        WHEN s.device_part >= 0.5 AND starts_with(s.kernel, 'nccl')
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
WHERE s.share >= 20 AND s.op IS NOT NULL;
