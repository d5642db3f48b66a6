-- One metric of a capture, as in the table `metrics`. A trace also has the MFU of each step, see `step_efficiency`,
-- unless a metric of that name is attached. If the MFU is a lower bound in any step, it has another name, because
-- bounds can only be compared with bounds.
-- Columns:
--   capture_id: the capture
--   run_index: the run it is about; NULL for the capture as a whole
--   name: name of the metric
--   value: the value, in unit
--   unit: unit, as text; NULL where unknown
--   better: better direction: lower, higher; NULL for conditions and where unknown
--   sample: position among the values of that name and run from the same source, from 0
--   source: SHA-256 of the file from which it was read; NULL if attached by hand, and for the MFU of steps
CREATE VIEW _measured_metrics AS
SELECT m.capture_id, m.run_index, m.name, m.value, m.unit, m.better, m.sample, m.source FROM metrics AS m
UNION ALL
SELECT e.capture_id, e.run_index, e.name, e.mfu_percent, '%', 'higher', 0, NULL
FROM (
    SELECT s.capture_id, s.run_index, s.mfu_percent,
        CASE WHEN bool_or(s.is_least) OVER (PARTITION BY s.capture_id) THEN 'mfu_at_least' ELSE 'mfu' END AS name
    FROM all_step_efficiency AS s
    WHERE s.mfu_percent IS NOT NULL
) AS e
WHERE {'capture_id': e.capture_id, 'name': e.name} NOT IN (
    SELECT {'capture_id': g.capture_id, 'name': g.name} FROM metrics AS g
);
