-- The ticks of one step in one category; each moment counts for the first category
-- that applies, in the order of `step_breakdown`.
-- Columns:
--   run_index: the run
--   step: number of the step
--   step_ticks: duration of the step in ticks
--   place: number of the category in that order, from 1; 8 is Other
--   ticks: time in that category, in ticks
CREATE MACRO _step_ticks(
    capture_key,  -- key of a capture
    categories  -- as in `step_breakdown`
) AS TABLE
WITH
slices AS MATERIALIZED (
    SELECT s.*
    FROM _trace_slices(capture_key, categories) AS s
    WHERE s.kind NOT IN ('Step', 'Module')
),
steps AS MATERIALIZED (
    SELECT d.* FROM _device_steps(capture_key, categories) AS d
),
owners AS MATERIALIZED (
    SELECT o.event_index, o.op_index, o.owner_index
    FROM _device_owners(capture_key) AS o
    WHERE categories = 'all'
),
-- Kernels of communication, recognized by their names and by the events that
-- launched them. The plug-in uses only shared ids.
communicating AS (
    SELECT s.event_index
    FROM slices AS s
    WHERE s.kind = 'Kernel'
        AND CASE
            WHEN categories = 'all' THEN starts_with(s.label, 'nccl')
            ELSE s.external_id IN (
                SELECT c.external_id FROM slices AS c
                WHERE c.is_communication AND c.external_id IS NOT NULL
            )
        END
    UNION
    SELECT o.event_index
    FROM owners AS o
    JOIN slices AS c ON c.event_index = o.op_index AND c.is_communication
    UNION
    SELECT o.event_index
    FROM owners AS o
    JOIN slices AS c ON c.event_index = o.owner_index AND c.is_communication
),
placed AS (
    SELECT
        s.start_ticks,
        s.end_ticks,
        CASE
            WHEN s.kind = 'Kernel' THEN CASE
                WHEN s.event_index IN (SELECT c.event_index FROM communicating AS c)
                    THEN 4
                ELSE 1
            END
            WHEN s.kind = 'Memcpy' THEN 2
            WHEN s.kind = 'Memset' THEN 3
            WHEN s.kind = 'Runtime' THEN 5
            WHEN s.is_data_loader THEN 6
            WHEN s.is_communication THEN 4
            WHEN s.kind IN ('Operator', 'Python') THEN 7
        END AS place
    FROM slices AS s
),
edges AS (
    SELECT p.start_ticks AS ticks, p.place, 1 AS change FROM placed AS p
    WHERE p.place IS NOT NULL
    UNION ALL
    SELECT p.end_ticks, p.place, -1 FROM placed AS p WHERE p.place IS NOT NULL
    UNION ALL
    SELECT s.start_ticks, 8, 0 FROM steps AS s
    UNION ALL
    SELECT s.end_ticks, 8, 0 FROM steps AS s
),
moments AS (
    SELECT
        e.ticks,
        sum(CASE e.place WHEN 1 THEN e.change ELSE 0 END)::INTEGER AS kernel,
        sum(CASE e.place WHEN 2 THEN e.change ELSE 0 END)::INTEGER AS memcpy,
        sum(CASE e.place WHEN 3 THEN e.change ELSE 0 END)::INTEGER AS memset,
        sum(CASE e.place WHEN 4 THEN e.change ELSE 0 END)::INTEGER AS communication,
        sum(CASE e.place WHEN 5 THEN e.change ELSE 0 END)::INTEGER AS runtime,
        sum(CASE e.place WHEN 6 THEN e.change ELSE 0 END)::INTEGER AS data_loader,
        sum(CASE e.place WHEN 7 THEN e.change ELSE 0 END)::INTEGER AS cpu
    FROM edges AS e
    GROUP BY e.ticks
),
stretches AS (
    SELECT
        m.ticks,
        lead(m.ticks) OVER (ORDER BY m.ticks) - m.ticks AS length,
        CASE
            WHEN sum(m.kernel) OVER so_far > 0 THEN 1
            WHEN sum(m.memcpy) OVER so_far > 0 THEN 2
            WHEN sum(m.memset) OVER so_far > 0 THEN 3
            WHEN sum(m.communication) OVER so_far > 0 THEN 4
            WHEN sum(m.runtime) OVER so_far > 0 THEN 5
            WHEN sum(m.data_loader) OVER so_far > 0 THEN 6
            WHEN sum(m.cpu) OVER so_far > 0 THEN 7
            ELSE 8
        END AS place
    FROM moments AS m
    WINDOW so_far AS (ORDER BY m.ticks ROWS UNBOUNDED PRECEDING)
),
counted AS (
    SELECT s.run_index, t.place, sum(t.length)::BIGINT AS ticks
    FROM stretches AS t
    ASOF JOIN steps AS s ON t.ticks >= s.start_ticks
    WHERE t.ticks < s.end_ticks
    GROUP BY s.run_index, t.place
)
SELECT
    s.run_index,
    s.step,
    s.end_ticks - s.start_ticks AS step_ticks,
    p.place,
    coalesce(c.ticks, 0) AS ticks
FROM steps AS s
CROSS JOIN (SELECT unnest([1, 2, 3, 4, 5, 6, 7, 8]) AS place) AS p
LEFT JOIN counted AS c ON c.run_index = s.run_index AND c.place = p.place;

-- The rows of `step_breakdown`, unordered, for the key of a capture.
-- Columns:
--   run_index: the run
--   step: number of the step in the trace; 0 if the trace has no steps
--   place: position of the category
--   category: Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU Exec or Other
--   time: time of the step in that category
--   share_percent: time in percent of the step; NULL for an empty step
--   unit: the requested unit of time
CREATE MACRO _step_breakdown(
    capture_key,  -- key of a capture
    unit,  -- unit of results: one that `_capture` has checked
    categories  -- as in `step_breakdown`
) AS TABLE
SELECT
    t.run_index,
    t.step,
    t.place,
    [
        'Kernel', 'Memcpy', 'Memset', 'Communication', 'Runtime', 'DataLoader',
        'CPU Exec', 'Other'
    ][t.place] AS category,
    t.ticks * _multiplier(c.time_scale, a.unit) / _divisor(c.time_scale, a.unit)
        AS time,
    100 * t.ticks::DOUBLE / nullif(t.step_ticks, 0) AS share_percent,
    a.unit
FROM (SELECT capture_key AS capture_id, unit AS unit) AS a
JOIN captures AS c ON c.capture_id = a.capture_id
CROSS JOIN _step_ticks(capture_key, categories) AS t;

-- The time of one step of a trace in one category, as in the overview of
-- torch-tb-profiler. Each moment of a step counts once, for the first category that
-- applies of Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU Exec
-- and Other, so that a step's rows add up to it. A step lasts until its last
-- launched device event ends, and the next one begins there; steps at the end of a
-- trace whose kernels were not all recorded are excluded. Differences from the
-- plug-in: runtime calls, DataLoaders and communication are recognized in the form
-- that torch has written since 2021, too (categories := 'older' for only those that
-- the plug-in recognizes); kernels of communication are those that a communication
-- event launched, not those with its external id; a step repeated for a device is
-- not a separate step; if the first category fills all steps, later categories are
-- not counted, too.
-- Columns:
--   run_index: the run
--   step: number of the step in the trace; 0 if the trace has no steps
--   category: Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU Exec or Other
--   time: time of the step in that category
--   share_percent: time in percent of the step; NULL for an empty step
--   unit: the requested unit of time
CREATE MACRO step_breakdown(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    categories := 'all'  -- all: names written by any version of torch; older: only the categories and names that torch-tb-profiler recognizes
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT c.capture_id, c.unit FROM _capture(capture, unit) AS c
)
SELECT
    b.run_index,
    b.step,
    b.category,
    b.time,
    b.share_percent,
    b.unit
FROM _step_breakdown(
    (SELECT a.capture_id FROM target AS a),
    (SELECT a.unit FROM target AS a),
    categories
) AS b
ORDER BY b.run_index, b.place;

-- The rows of `average_step`, unordered, for the key of a capture.
-- Columns:
--   category: a category of `step_breakdown`; Step is the sum of all, the mean step time
--   steps: number of steps
--   time: mean time over the steps
--   share_percent: time in percent of the mean step; NULL if that is empty
--   unit: the requested unit of time
CREATE MACRO _average_step(
    capture_key,  -- key of a capture
    unit,  -- unit of results: one that `_capture` has checked
    categories,  -- as in `step_breakdown`
    steps,  -- as in `op_totals`
    phase  -- only runs of this phase; NULL: all runs
) AS TABLE
WITH
broken AS MATERIALIZED (
    SELECT b.*
    FROM _step_breakdown(capture_key, unit, categories) AS b
    CROSS JOIN (SELECT capture_key AS capture_id) AS a
    JOIN runs AS r ON r.capture_id = a.capture_id AND r.run_index = b.run_index
    WHERE _is_recorded(r.iteration, r.phase, steps, phase)
),
averaged AS (
    SELECT
        coalesce(b.category, 'Step') AS category,
        count(DISTINCT b.run_index) AS steps,
        fsum(b.time) / count(DISTINCT b.run_index) AS time,
        any_value(b.unit) AS unit
    FROM broken AS b
    GROUP BY GROUPING SETS ((b.category), ())
    HAVING count(*) > 0
)
SELECT
    v.category,
    v.steps,
    v.time,
    100 * v.time / nullif(
        max(CASE WHEN v.category = 'Step' THEN v.time END) OVER (), 0
    ) AS share_percent,
    v.unit
FROM averaged AS v;

-- The mean time of one category of `step_breakdown` over the steps of a trace, as
-- in the overview of torch-tb-profiler.
-- Columns:
--   category: a category of `step_breakdown`; Step is the sum of all, the mean step time
--   steps: number of steps
--   time: mean time over the steps
--   share_percent: time in percent of the mean step; NULL if that is empty
--   unit: the requested unit of time
CREATE MACRO average_step(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    categories := 'all',  -- all, or older, as in `step_breakdown`
    steps := NULL,  -- runs to use, as a schedule: skip_first=1,active=3, see `schedule`; NULL: all
    phase := NULL  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT c.capture_id, c.unit FROM _capture(capture, unit) AS c
)
SELECT
    v.category,
    v.steps,
    v.time,
    v.share_percent,
    v.unit
FROM _average_step(
    (SELECT a.capture_id FROM target AS a),
    (SELECT a.unit FROM target AS a),
    categories, steps, phase
) AS v
ORDER BY
    list_position(
        [
            'Step', 'Kernel', 'Memcpy', 'Memset', 'Communication', 'Runtime',
            'DataLoader', 'CPU Exec', 'Other'
        ],
        v.category
    );
