-- The type of a device event: memory (a copy or fill), communication (a kernel of that family), else computation.
CREATE MACRO _work_type(
    kind,  -- kernel, copy, fill
    kernel_family
) AS (
    CASE
        WHEN kind <> 'kernel' THEN 'memory'
        WHEN kernel_family = 'communication' THEN 'communication'
        ELSE 'computation'
    END
);

-- One interval between two successive moments of a device: starts and ends of its events and of steps. Algorithm: +1 at
-- each start, -1 at each end, running sums.
CREATE MACRO _device_activity(
    capture_key,
    "by"  -- device: from the first event to the last; step: the steps of `step_breakdown`
) AS TABLE
WITH work AS MATERIALIZED (
    SELECT l.start_ticks, l.end_ticks, l.device, _work_type(l.kind, l.kernel_family) AS type
    FROM _launches(capture_key) AS l
    WHERE _checked_by("by", ['device', 'step']) IS NOT NULL
),
steps AS MATERIALIZED (
    SELECT s.run_index, s.step, s.start_ticks, s.end_ticks
    FROM trace_steps AS s
    WHERE "by" = 'step' AND s.capture_id = capture_key AND s.start_ticks IS NOT NULL
),
edges AS (
    SELECT w.device, w.start_ticks AS at_ticks, w.type, 1 AS change FROM work AS w
    UNION ALL
    SELECT w.device, w.end_ticks, w.type, -1 FROM work AS w
    UNION ALL
    SELECT d.device, b.at_ticks, NULL, 0
    FROM (SELECT DISTINCT w.device FROM work AS w) AS d
    CROSS JOIN (SELECT s.start_ticks AS at_ticks FROM steps AS s UNION SELECT s.end_ticks FROM steps AS s) AS b
),
moments AS (
    SELECT e.device, e.at_ticks, sum(CASE e.type WHEN 'computation' THEN e.change ELSE 0 END) AS computes,
        sum(CASE e.type WHEN 'communication' THEN e.change ELSE 0 END) AS communicates,
        sum(CASE e.type WHEN 'memory' THEN e.change ELSE 0 END) AS copies
    FROM edges AS e
    GROUP BY e.device, e.at_ticks
),
stretches AS (
    SELECT m.device, m.at_ticks, lead(m.at_ticks) OVER so_far - m.at_ticks AS ticks,
        sum(m.computes) OVER so_far > 0 AS computes, sum(m.communicates) OVER so_far > 0 AS communicates,
        sum(m.copies) OVER so_far > 0 AS copies
    FROM moments AS m
    WINDOW so_far AS (PARTITION BY m.device ORDER BY m.at_ticks)
)
SELECT t.device, s.run_index, s.step, t.ticks, t.computes, t.communicates, t.copies
FROM stretches AS t
ASOF LEFT JOIN steps AS s ON row(t.at_ticks) >= row(s.start_ticks)
WHERE t.ticks > 0 AND ("by" = 'device' OR t.at_ticks >= s.start_ticks AND t.at_ticks < s.end_ticks);
