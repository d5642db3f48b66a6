-- A device of a trace is idle for a cause that takes a twentieth of its time or more:
-- the time from its first event to the end of its last. Causes are those of
-- `device_idle_causes`. There is no advice where it is not known what was waited for
-- (unknown, unknown_wait), nor for calls of no known kind.
CREATE MACRO _advice_idle_devices(capture_key, time_unit) AS TABLE
WITH
clock AS (
    SELECT c.time_scale FROM captures AS c WHERE c.capture_id = capture_key
),
spans AS (
    SELECT w.device, max(w.end_ticks) - min(w.start_ticks) AS ticks
    FROM _launches(capture_key) AS w
    GROUP BY w.device
),
by_op AS (
    SELECT
        i.device,
        i.cause,
        i.host_op,
        i.call,
        count(*) AS gaps,
        try_cast(sum(i.ticks) AS BIGINT) AS ticks,
        max(i.ticks) AS longest
    FROM _idle_causes(capture_key, 'device', NULL, 0) AS i
    GROUP BY i.device, i.cause, i.host_op, i.call
),
summed AS (
    SELECT
        b.*,
        sum(b.ticks) OVER (PARTITION BY b.device, b.cause, b.host_op) AS op_ticks,
        sum(b.ticks) OVER (PARTITION BY b.device, b.cause, b.call) AS of_call_ticks
    FROM by_op AS b
),
causes AS (
    SELECT
        b.device,
        b.cause,
        sum(b.gaps)::BIGINT AS gaps,
        try_cast(sum(b.ticks) AS BIGINT) AS ticks,
        max(b.longest) AS longest,
        arg_max(b.host_op, (b.op_ticks, b.host_op))
            FILTER (WHERE b.host_op IS NOT NULL) AS host_op,
        arg_max(b.call, (b.of_call_ticks, b.call)) FILTER (WHERE b.call IS NOT NULL)
            AS call
    FROM summed AS b
    WHERE b.cause NOT IN ('unknown', 'unknown_wait', 'call')
    GROUP BY b.device, b.cause
),
shares AS (
    SELECT
        c.*,
        100 * c.ticks::DOUBLE / nullif(s.ticks, 0) AS share,
        _in_unit(c.ticks, t.time_scale, time_unit) AS total,
        _in_unit(c.longest, t.time_scale, time_unit) AS longest_time
    FROM causes AS c
    JOIN spans AS s ON s.device IS NOT DISTINCT FROM c.device
    CROSS JOIN clock AS t
)
SELECT
    'device idle' AS rule,
    _advice_severity(s.share) AS severity,
    coalesce('Device ' || s.device, 'The device') || CASE s.cause
        WHEN 'data_loading' THEN ' waits for input data.'
        WHEN 'synchronization'
            THEN ' is idle after the host waited for it, with nothing launched ahead.'
        WHEN 'communication' THEN ' waits for other processes.'
        WHEN 'dependency' THEN ' waits for events of other streams.'
        WHEN 'launch_delay' THEN ' waits for launches to take effect.'
        WHEN 'host' THEN ' waits for the host, which launches too slowly.'
        ELSE ' is idle while the host ' || _advice_call_work(s.cause) || '.'
    END AS finding,
    'in ' || CASE s.gaps
        WHEN 1 THEN '1 gap of '
        ELSE _advice_count(s.gaps, 'gap') || ', the longest '
    END || _advice_time(s.longest_time, time_unit)
    || CASE
        WHEN s.host_op IS NULL AND s.call IS NULL THEN ''
        ELSE '; the host was mostly in ' || concat_ws(' of ', s.call, s.host_op)
    END
    || '; etq gaps lists them' AS evidence,
    s.total AS time_at_stake,
    s.share AS share_percent,
    CASE s.cause
        WHEN 'data_loading' THEN 'Set num_workers and pin_memory of DataLoader.'
        WHEN 'synchronization'
            THEN 'Avoid .item(), .cpu() and printing of tensors within steps.'
        WHEN 'communication' THEN 'Overlap communication and computation.'
        WHEN 'dependency' THEN 'Let streams wait for fewer events of others.'
        WHEN 'launch_delay'
            THEN 'Launch larger kernels, or replay CUDA graphs.'
        WHEN 'host' THEN 'Launch fewer and larger ops: torch.compile, CUDA graphs.'
        ELSE _advice_call_remedy(s.cause)
    END
    || CASE
        WHEN s.cause NOT IN ('data_loading', 'communication', 'dependency')
            THEN _advice_warm_up('gap', s.longest, s.ticks, s.share)
        ELSE ''
    END AS remedy,
    time_unit AS unit
FROM shares AS s
WHERE s.share >= 5;
