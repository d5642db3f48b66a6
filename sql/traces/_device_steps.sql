-- One step of a trace as in torch-tb-profiler, a step that several threads wrote as
-- one: from the end of the previous step to
-- the end of the last device event that the step launched. A trace without steps
-- has one step, from the first op to the last. Steps at the end whose kernels were
-- not all recorded are excluded: those that launched nothing, and the last if it
-- launched less than 0.8 of the previous one.
CREATE MACRO _device_steps(capture_key) AS TABLE
WITH
slices AS MATERIALIZED (
    SELECT s.* FROM _trace_slices(capture_key) AS s
),
launches AS MATERIALIZED (
    SELECT l.* FROM _launches(capture_key) AS l
    WHERE l.call_index IS NOT NULL
),
written AS (
    SELECT
        s.run_index,
        min(_step_number(s.label)) AS step,
        min(s.start_ticks) AS start_ticks,
        max(s.end_ticks) AS end_ticks
    FROM slices AS s
    WHERE s.kind = 'step'
    GROUP BY s.run_index
    UNION ALL
    SELECT min(s.run_index), 0, min(s.start_ticks), max(s.end_ticks)
    FROM slices AS s
    WHERE s.kind IN ('op', 'python')
        AND NOT EXISTS (FROM slices AS w WHERE w.kind = 'step')
    HAVING count(*) > 0
),
launched AS (
    SELECT
        l.*,
        CASE WHEN l.call_end_ticks <= w.end_ticks THEN w.run_index END AS step_run_index
    FROM launches AS l
    ASOF LEFT JOIN written AS w ON l.call_start_ticks >= w.start_ticks
),
by_step AS (
    SELECT
        l.step_run_index,
        count(*) AS launched,
        min(l.start_ticks) AS first_ticks,
        max(l.end_ticks) AS last_ticks
    FROM launched AS l
    WHERE l.step_run_index IS NOT NULL
    GROUP BY l.step_run_index
),
-- Device events that were launched before the steps and still ran when these began.
before AS (
    SELECT max(s.end_ticks) AS ticks
    FROM slices AS s
    WHERE s.kind IN ('kernel', 'copy', 'fill')
        AND s.event_index NOT IN (
            SELECT l.event_index FROM launched AS l WHERE l.step_run_index IS NOT NULL
        )
        AND s.end_ticks < (
            SELECT b.first_ticks
            FROM by_step AS b
            WHERE b.step_run_index = (
                SELECT arg_min(w.run_index, w.start_ticks) FROM written AS w
            )
        )
),
joined AS (
    SELECT
        w.*,
        coalesce(b.launched, 0) AS launched,
        greatest(w.start_ticks, w.end_ticks, b.last_ticks, f.ticks) AS reached_ticks,
        coalesce(f.ticks, w.start_ticks) AS before_ticks,
        EXISTS (FROM by_step) AS has_device,
        row_number() OVER in_order AS place
    FROM written AS w
    CROSS JOIN before AS f
    LEFT JOIN by_step AS b ON b.step_run_index = w.run_index
    WINDOW in_order AS (ORDER BY w.start_ticks, w.run_index)
),
moved AS (
    SELECT
        j.*,
        greatest(
            j.start_ticks,
            j.before_ticks,
            max(j.reached_ticks) OVER (
                ORDER BY j.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS moved_start_ticks,
        max(j.reached_ticks) OVER (ORDER BY j.place) AS moved_end_ticks,
        lag(j.launched) OVER (ORDER BY j.place) AS launched_before
    FROM joined AS j
),
last_step AS (
    SELECT
        max(m.place) AS place,
        arg_max(m.place > 1 AND m.launched_before * 0.8 > m.launched, m.place)
            AS is_cut
    FROM moved AS m
    WHERE m.launched > 0
)
SELECT
    m.run_index,
    m.step,
    CASE WHEN m.has_device THEN m.moved_start_ticks ELSE m.start_ticks END
        AS start_ticks,
    CASE WHEN m.has_device THEN m.moved_end_ticks ELSE m.end_ticks END AS end_ticks
FROM moved AS m
CROSS JOIN last_step AS l
WHERE NOT m.has_device OR m.place <= l.place - l.is_cut::INTEGER;
