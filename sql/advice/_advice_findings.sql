-- Rule: what was found of the file when it was read and linked, as far as it
-- changes what numbers mean.
-- Columns:
--   rule: as in `advice`
--   severity: as in `advice`
--   finding: as in `advice`
--   evidence: as in `advice`
--   time_at_stake: as in `advice`
--   share_percent: as in `advice`
--   remedy: as in `advice`
CREATE MACRO _advice_findings(
    capture_key  -- key of the capture
) AS TABLE
WITH
known (rule, severity, remedy) AS (
    VALUES
    (
        'foreign record',
        'high',
        'Link the record that was written with this very program: etq link. Until '
        || 'then believe no op, module or line.'
    ),
    (
        'foreign program',
        'high',
        'Link the program that ran, by its file: etq ingest --pte.'
    ),
    (
        'impossible times',
        'high',
        'If the counter has 32 bits, say so (--clock-bits 32); if not, the clock '
        || 'differs between cores: pin the thread to one, or use a steady clock.'
    ),
    (
        'detached events',
        'high',
        'Time one operator at a time, in one thread, by one steady clock: what runs '
        || 'beside others can''t be added to them.'
    ),
    (
        'detached delegate events',
        'medium',
        'For a breakdown, have the backend finish within its call while it is '
        || 'profiled (wait for its results, one queue, one thread), and log times of '
        || 'the host''s clock. Until then, believe the calls'' own times, and '
        || 'compare what is within them only among itself.'
    ),
    (
        'method unknown',
        'medium',
        'Capture the methods one by one, or give their runs names of their own: what '
        || 'belongs to neither has no ops and modules.'
    ),
    (
        'short debug buffer',
        'medium',
        'Give the runtime a larger debug buffer, and take the buffer of this very run.'
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
        'Nothing, as long as no event lasts longer than the counter runs (2**32 '
        || 'ticks): else have the platform count in 64 bits or coarser ticks.'
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
