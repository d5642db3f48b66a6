-- One metric of a capture, or of one of its runs.
-- Shown: name!, value! (time), unit!, better, run_index#, sample#, source, meaning
-- Columns:
--   name: name of the metric
--   run_index: the run; NULL for the capture as a whole
--   sample: position among the values of that name and run from the same source, from 0
--   value: the number, in its unit
--   unit: unit of value; NULL if unknown
--   better: lower or higher; NULL for conditions and if unknown
--   meaning: what it measures; NULL if the name isn't known
--   source: first 12 characters of the hash of the file it was read from; NULL if attached by hand
CREATE MACRO metric_values(capture) AS TABLE
SELECT m.name, m.run_index, m.sample, m.value, m.unit, m.better, k.meaning, left(m.source, 12) AS source
FROM (SELECT _any_capture_id(capture) AS capture_id) AS a
JOIN _measured_metrics AS m USING (capture_id)
LEFT JOIN known_metrics AS k USING (name)
ORDER BY m.name, m.run_index NULLS FIRST, m.source NULLS FIRST, m.sample;
