-- One trace of a rank: a capture with the label rank. Raises if several traces of one rank have no label job: they
-- are not of one job.
CREATE MACRO _job_ranks(
    selector,  -- name, hash prefix or selector of captures; NULL: all captures
    unit
) AS TABLE
SELECT k.capture_id, k.name, k.rank, k.job, k.unit, _scale(k.time_scale, k.unit) AS scale
FROM (
    SELECT c.capture_id, c.name, c.time_scale, try_cast(r.value AS BIGINT) AS rank, j.value AS job,
        CASE
            WHEN unit IS NULL THEN CASE c.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'us' END
            WHEN unit NOT IN ('ns', 'us', 'ms', 's', 'cycles')
                THEN error('unit must be ns, us, ms, s or cycles, not ''' || unit || '''')
            ELSE unit
        END AS unit,
        CASE WHEN j.value IS NULL AND count(*) OVER same > 1 THEN string_agg(c.name, ', ' ORDER BY c.name) OVER same
        END AS names
    FROM _matching_or_all(selector) AS c
    JOIN labels AS r ON r.capture_id = c.capture_id AND r.key = 'rank'
    LEFT JOIN labels AS j ON j.capture_id = c.capture_id AND j.key = 'job'
    WHERE c.format = 'torch_trace'
        AND try_cast(r.value AS BIGINT) IS NOT NULL
    WINDOW same AS (PARTITION BY j.value, try_cast(r.value AS BIGINT))
) AS k
-- Of several such ranks, the error is about the first.
QUALIFY CASE WHEN count(k.names) OVER () > 0
    THEN error(
        'several traces without a label job are of rank '
        || min(k.rank) FILTER (WHERE k.names IS NOT NULL) OVER () || ': '
        || arg_min(k.names, k.rank) OVER ()
        || '; choose those of one job by a selector, or label them: etq label CAPTURE job=NAME'
    )
    ELSE true
END;
