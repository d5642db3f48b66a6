-- One capture with its labels as a map: `labels['device']` is its device. It can be joined by capture_id, in place of a
-- join with `labels` for each key.
-- Shown: name!, labels!, format, captured_at! (moment), profiling_level, time_scale, assumed,
--   size_bytes (bytes), uri
-- Columns:
--   capture_id: key of the capture
--   sha256: SHA-256 of the file's bytes
--   name: its name
--   labels: its labels by key, unordered; empty without labels; labels[key] is NULL for a missing key
--   format: format of the file: etdump, prof_result, torch_trace, reference
--   uri: path of the file relative to the folder of the ingest; only its name if it was elsewhere
--   size_bytes: size of the file in bytes
--   captured_at: when it was measured, in UTC; NULL where unknown
--   ingested_at: when it was read, in UTC
--   time_scale: unit of one tick
--   clock_bits: width of the clock's counter: 32 or 64
--   record_id: the ETRecord of its program; NULL if none is linked
--   program_id: the program that ran; NULL if none is linked
--   assumed: for a trace, sizes that its file lacks and that its costs depend on, such as top_k=4,experts=128; NULL if none are given
--   profiling_level: all, method_only, debug; NULL if nothing was executed
--   etq_version: version of etq that read it
CREATE VIEW labelled_captures AS
SELECT c.capture_id, c.sha256, c.name, coalesce(b.labels, MAP {}) AS labels, c.format, c.uri, c.size_bytes,
    c.captured_at, c.ingested_at, c.time_scale, c.clock_bits, c.record_id, c.program_id, c.assumed,
    c.profiling_level, c.etq_version
FROM captures AS c
LEFT JOIN (
    SELECT l.capture_id, map_from_entries(list((l.key, l.value))) AS labels
    FROM labels AS l
    GROUP BY l.capture_id
) AS b ON b.capture_id = c.capture_id;
