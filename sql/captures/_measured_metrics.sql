-- Metrics of captures, and of traces the MFU of each step as one, see `step_efficiency`. If it is a lower bound in any of
-- them, it has another name: a bound is comparable with bounds alone. One that is attached by that name counts instead.
-- Columns as those of the table `metrics`.
CREATE VIEW _measured_metrics AS
SELECT m.capture_id, m.run_index, m.name, m.value, m.unit, m.better, m.sample, m.source FROM metrics AS m
UNION ALL
SELECT e.capture_id, e.run_index, k.name, e.mfu_percent, k.unit, k.better, 0, NULL
FROM (
    SELECT s.capture_id, s.run_index, s.mfu_percent,
        CASE WHEN bool_or(s.is_least) OVER (PARTITION BY s.capture_id) THEN 'mfu_at_least' ELSE 'mfu' END AS name
    FROM all_step_efficiency AS s
    WHERE s.mfu_percent IS NOT NULL
) AS e
JOIN known_metrics AS k ON k.name = e.name
WHERE {'capture_id': e.capture_id, 'name': e.name} NOT IN (
    SELECT {'capture_id': g.capture_id, 'name': g.name} FROM metrics AS g
);
