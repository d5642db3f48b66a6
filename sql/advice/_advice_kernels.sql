-- What the time of a trace's devices is spent on, if it is not idle: the families of
-- kernels, and the chains of kernels that torch.compile would fuse. A family has advice
-- if it takes a fifth of the time, and chains if fusing them could save a twentieth.
CREATE MACRO _advice_kernels(capture_key, time_unit) AS TABLE
WITH
clock AS (
    SELECT c.time_scale FROM captures AS c WHERE c.capture_id = capture_key
),
families AS (
    SELECT
        coalesce(f.family, 'unknown names') AS family,
        f.ticks,
        f.top_event,
        f.calls,
        100 * f.ticks::DOUBLE / nullif(sum(f.ticks) OVER (), 0) AS share,
        _tensor_percent(f.tensor_ticks, f.unknown_ticks, f.ticks) AS tensor_percent,
        row_number() OVER (ORDER BY f.ticks DESC, f.family) AS place
    FROM _family_ticks(capture_key, NULL, NULL) AS f
),
chains AS MATERIALIZED (
    SELECT
        h.*,
        row_number() OVER (ORDER BY h.saved_ticks DESC, h.sequence) AS place
    FROM _fusable_chains(capture_key) AS h
),
-- What fusion saves is compared with the whole time, from the first event of each device
-- to its last: where a device is idle, shorter kernels save little.
spans AS (
    SELECT sum(p.ticks) AS ticks
    FROM (
        SELECT max(w.end_ticks) - min(w.start_ticks) AS ticks
        FROM _launches(capture_key) AS w
        GROUP BY w.device
    ) AS p
),
fused AS (
    SELECT
        sum(h.kernels * h.calls) AS kernels,
        sum(h.calls) AS calls,
        try_cast(sum(h.saved_ticks) AS BIGINT) AS saved_ticks,
        100 * sum(h.saved_ticks)::DOUBLE
            / nullif((SELECT s.ticks FROM spans AS s), 0) AS share,
        string_agg(
            CASE
                WHEN length(h.sequence) > 160 THEN substr(h.sequence, 1, 160) || '…'
                ELSE h.sequence
            END || ' (' || _advice_count(h.calls, 'time') || ')',
            '; ' ORDER BY h.place
        ) FILTER (WHERE h.place <= 2) AS words
    FROM chains AS h
)
SELECT
    'device time' AS rule,
    'low' AS severity,
    'Time of devices: ' || (
        SELECT
            string_agg(
                _advice_percent(f.share) || ' ' || f.family, ', ' ORDER BY f.place
            )
        FROM families AS f
        WHERE f.place <= 4 AND f.share >= 1
    ) || '.' AS finding,
    _advice_count(t.calls, 'call') || ' of ' || t.family || ', most time in '
    || CASE
        WHEN length(t.top_event) > 120 THEN substr(t.top_event, 1, 120) || '…'
        ELSE t.top_event
    END || '; etq kernels --by family lists them' AS evidence,
    _in_unit(t.ticks, c.time_scale, time_unit) AS time_at_stake,
    t.share AS share_percent,
    CASE
        WHEN t.family = 'GEMM' AND t.tensor_percent >= 90
            THEN 'The products run on tensor cores already: make fewer of them, or use'
            || ' smaller types where accuracy allows.'
        WHEN t.family = 'GEMM' AND t.tensor_percent < 10
            THEN 'Matrix products without tensor cores limit it: use bfloat16, or'
            || ' allow TF32.'
        WHEN t.family = 'communication'
            THEN 'Overlap communication and computation; etq overlap shows how much is'
            || ' exposed.'
        WHEN t.family IN ('elementwise', 'normalization', 'reduction')
            THEN 'These kernels are limited by memory: torch.compile fuses those that'
            || ' follow each other.'
        WHEN t.family IN ('copy', 'memcpy', 'memset')
            THEN 'Copies compute nothing: keep one memory format and type, and avoid'
            || ' contiguous() and cat.'
        ELSE 'The ops with most of it are in etq ops.'
    END AS remedy,
    time_unit AS unit
FROM families AS t
CROSS JOIN clock AS c
WHERE t.place = 1 AND t.share >= 20
UNION ALL
SELECT
    'fusable kernels',
    _advice_severity(f.share),
    'Kernels that compute element by element or reduce follow each other: '
    || _advice_count(f.kernels, 'kernel') || ' in ' || _advice_count(f.calls, 'chain')
    || '.',
    'chains of most time: ' || f.words || '; etq chains lists them',
    _in_unit(f.saved_ticks, c.time_scale, time_unit),
    f.share,
    'torch.compile may fuse each chain into one kernel, which reads and writes memory'
    || ' once. If that takes as long as the chain''s longest, it saves '
    || _advice_time(_in_unit(f.saved_ticks, c.time_scale, time_unit), time_unit) || '.',
    time_unit
FROM fused AS f
CROSS JOIN clock AS c
WHERE f.share >= 5;
