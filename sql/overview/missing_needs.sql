-- One thing that views need and a capture lacks. In a query over many captures, with a column of keys as the capture,
-- these views have no rows for the capture. If they are called with the capture's name, they raise an error with the
-- reason.
-- Shown: capture!, need!, views!|, reason!|
-- Columns:
--   capture_id: the capture
--   capture: its name
--   need: events, record, record or program, program, decode (a run of that phase), prof_result (its format) or times (a scale of time)
--   views: names of these views, separated by commas; NULL: all that read events, or, for need times, all that are called with a unit of time
--   reason: what the capture lacks, and what to do
CREATE VIEW missing_needs AS
WITH needs AS (
    SELECT c.capture_id, c.name, f.need,
        CASE f.need
            WHEN 'events' THEN CASE
                WHEN EXISTS (FROM findings AS p WHERE p.capture_id = c.capture_id AND p.rule = 'events pruned')
                    THEN _why_no_events(c.name)
            END
            WHEN 'times' THEN CASE
                WHEN c.time_scale = 'cycles' THEN _why_not_in_unit(c.name, c.time_scale, 'a unit of time')
            END
            WHEN 'record' THEN CASE
                WHEN c.format <> 'torch_trace' THEN _why_no_modules(c.name, r.record_id, r.name, r.is_complete)
            END
            WHEN 'record or program' THEN CASE
                WHEN c.format <> 'torch_trace' AND c.program_id IS NULL
                    THEN _why_no_modules(c.name, r.record_id, r.name, r.is_complete)
            END
            WHEN 'program' THEN CASE
                WHEN c.format <> 'torch_trace' AND c.program_id IS NULL THEN _why_no_program(c.name)
            END
            WHEN 'decode' THEN CASE
                WHEN c.format <> 'torch_trace'
                    AND NOT EXISTS (FROM runs AS p WHERE p.capture_id = c.capture_id AND p.phase = 'decode')
                    THEN _why_no_decoding(c.name)
            END
            ELSE CASE WHEN c.format <> 'prof_result' THEN _why_not_prof_result(c.name, c.format) END
        END AS reason,
        f.views
    FROM captures AS c
    LEFT JOIN records AS r USING (record_id)
    CROSS JOIN (
        VALUES
            ('events', NULL),
            ('times', NULL),
            (
                'record',
                [
                    'find_total_for_module', 'module_ops', 'module_totals', 'node_memory', 'node_roofline',
                    'node_totals', 'source_totals'
                ]
            ),
            ('record or program', ['delegate_coverage']),
            ('program', ['delegate_graph']),
            ('decode', ['decode_trend']),
            ('prof_result', ['prof_result_memory', 'prof_result_profile', 'prof_result_tax'])
    ) AS f (need, views)
)
SELECT n.capture_id, n.name AS capture, n.need, array_to_string(n.views, ', ') AS views, n.reason
FROM needs AS n
WHERE n.reason IS NOT NULL;
