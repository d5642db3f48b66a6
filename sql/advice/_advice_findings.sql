-- Rule: one finding of the capture, or of its record, that affects what numbers
-- mean.
CREATE MACRO _advice_findings(capture_key) AS TABLE
WITH
known (rule, severity, remedy) AS (
    VALUES
    (
        'foreign record',
        'high',
        'Link the record that was written with this program: etq link. Until then, '
        || 'the ops, modules and lines shown are wrong.'
    ),
    (
        'foreign program',
        'high',
        'Link the program that ran, by its file: etq ingest --pte.'
    ),
    (
        'failed runs',
        'high',
        'Look for the error of these runs in the runtime''s log. The other runs are '
        || 'complete.'
    ),
    (
        'impossible times',
        'high',
        'If the counter has 32 bits, set --clock-bits 32; if not, the clock differs '
        || 'between cores: pin the thread to one core, or use a steady clock.'
    ),
    (
        'detached events',
        'high',
        'Time one operator at a time, in one thread, with one steady clock: times of '
        || 'parallel events cannot be added.'
    ),
    (
        'detached delegate events',
        'medium',
        'For a breakdown, make the backend finish within its call while it is '
        || 'profiled (wait for its results, one queue, one thread), and log times of '
        || 'the host''s clock. Until then, use the total times of the calls, and '
        || 'compare the events within them only with each other.'
    ),
    (
        'method unknown',
        'medium',
        'Capture each method separately, or give their runs different names: runs of '
        || 'unknown methods have no ops and modules.'
    ),
    (
        'short debug buffer',
        'medium',
        'Give the runtime a larger debug buffer, and use the buffer of this run.'
    ),
    (
        'half-written',
        'medium',
        'Write the record again with generate_etrecord from a complete export: without '
        || 'its graph and maps, events have no ops and modules.'
    ),
    (
        'wrapped clock',
        'low',
        'None, as long as no event lasts longer than the counter''s range (2**32 '
        || 'ticks); otherwise, make the platform count in 64 bits or coarser ticks.'
    )
),
found AS (
    SELECT f.rule, f.detail, 'in findings' AS evidence
    FROM findings AS f
    WHERE f.capture_id = capture_key
    UNION ALL
    SELECT f.rule, 'the record ' || r.name || ' ' || f.detail, 'in record_findings'
    FROM captures AS c
    JOIN records AS r ON r.record_id = c.record_id
    JOIN record_findings AS f ON f.record_id = r.record_id
    WHERE c.capture_id = capture_key
)
SELECT
    f.rule,
    k.severity,
    upper(left(f.detail, 1)) || substr(f.detail, 2) || '.' AS finding,
    f.evidence,
    NULL::DOUBLE AS time_at_stake,
    NULL::DOUBLE AS share_percent,
    k.remedy
FROM found AS f
JOIN known AS k ON k.rule = f.rule;
