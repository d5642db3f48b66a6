-- One capture, as in a list of captures, in the order of ingest.
-- Shown: name!, format, execute! (time), low (time), high (time), unit, runs#, events#, profiling_level, time_scale,
--   assumed, labels!, captured_at! (moment), size_bytes (bytes), findings#, sha256, uri
-- Columns:
--   name: its name
--   format: format of the file: etdump, prof_result, torch_trace, reference
--   execute: median time of an execute over runs, or of a trace's step on the host; with several methods, the sum of the methods' medians; NULL without executes and steps
--   low: 25th percentile over runs
--   high: 90th percentile over runs
--   unit: unit of execute, low and high: us, or cycles where ticks are cycles
--   runs: number of its runs
--   events: number of its timed events
--   profiling_level: all, method_only, debug; NULL if nothing was executed
--   time_scale: unit of one tick
--   assumed: for a trace, sizes that its file lacks and that its costs depend on, such as top_k=4,experts=128; NULL if none are given
--   labels: its labels as key=value, ordered by key, in the syntax of selectors; NULL if there is none
--   captured_at: when it was measured, in UTC; NULL where unknown
--   size_bytes: size of the file in bytes
--   findings: number of rows in `findings`
--   sha256: the first 12 characters of its hash
--   uri: path of the file relative to the folder of the ingest; only its name if it was elsewhere
CREATE VIEW capture_summary AS
SELECT c.name, c.format, _in_unit(t.p50, _scale(c.time_scale, t.unit)) AS execute,
    _in_unit(t.p25, _scale(c.time_scale, t.unit)) AS low, _in_unit(t.p90, _scale(c.time_scale, t.unit)) AS high, t.unit,
    (SELECT count(*) FROM runs AS r WHERE r.capture_id = c.capture_id) AS runs,
    (SELECT count(*) FROM event_ticks AS t WHERE t.capture_id = c.capture_id) AS events,
    c.profiling_level, c.time_scale, c.assumed,
    (
        SELECT string_agg(l.key || '=' || _selector_value(l.key, l.value), ', ' ORDER BY l.key)
        FROM labels AS l
        WHERE l.capture_id = c.capture_id
    ) AS labels,
    c.captured_at, c.size_bytes,
    (SELECT count(*) FROM findings AS f WHERE f.capture_id = c.capture_id) AS findings,
    left(c.sha256, 12) AS sha256, c.uri
FROM captures AS c
LEFT JOIN (
    SELECT o.capture_id, sum(o.p50) AS p50, sum(o.p25) AS p25, sum(o.p90) AS p90,
        _default_unit(any_value(k.time_scale)) AS unit
    FROM op_times AS o
    JOIN captures AS k USING (capture_id)
    WHERE o.op_index = 0 AND o.phase IS NULL AND o.kind <> 'device_total'
    GROUP BY o.capture_id
) AS t USING (capture_id)
ORDER BY c.ingested_at, c.capture_id;
