-- The time between two successive moments at which steps of a trace begin or end, if a step contains this time. Steps
-- may overlap.
CREATE MACRO _step_spans(
    host_steps  -- a table of the rows of `_host_steps`
) AS TABLE
WITH bounds AS (
    SELECT b.ticks, sum(b.change) AS change
    FROM (
        SELECT s.start_ticks AS ticks, 1 AS change FROM query_table(host_steps) AS s
        UNION ALL
        SELECT s.end_ticks, -1 FROM query_table(host_steps) AS s
    ) AS b
    GROUP BY b.ticks
),
spans AS (
    SELECT b.ticks AS start_ticks, lead(b.ticks) OVER so_far AS end_ticks, sum(b.change) OVER so_far AS steps
    FROM bounds AS b
    WINDOW so_far AS (ORDER BY b.ticks)
)
SELECT s.start_ticks, s.end_ticks FROM spans AS s WHERE s.steps > 0;

-- The place of a pass in the order in which moments count for passes, from 1.
CREATE MACRO _pass_place(pass) AS (list_position(['backward', 'optimizer', 'data_loading', 'forward', 'other'], pass));

-- The time on the host of one pass in one span of `_step_spans`. Each moment counts once.
CREATE MACRO _host_passes(
    slices,  -- a table of the events of a trace that show passes: start_ticks, end_ticks, and place, as of `_pass_place`
    spans  -- a table of the rows of `_step_spans`
) AS TABLE
WITH edges AS (
    SELECT s.start_ticks AS ticks, s.place, 1 AS change FROM query_table(slices) AS s
    UNION ALL
    SELECT s.end_ticks, s.place, -1 FROM query_table(slices) AS s
    UNION ALL
    SELECT s.start_ticks, 5, 0 FROM query_table(spans) AS s
    UNION ALL
    SELECT s.end_ticks, 5, 0 FROM query_table(spans) AS s
),
moments AS (
    SELECT e.ticks, sum(CASE e.place WHEN 1 THEN e.change ELSE 0 END)::INTEGER AS backward,
        sum(CASE e.place WHEN 2 THEN e.change ELSE 0 END)::INTEGER AS optimizer,
        sum(CASE e.place WHEN 3 THEN e.change ELSE 0 END)::INTEGER AS loading,
        sum(CASE e.place WHEN 4 THEN e.change ELSE 0 END)::INTEGER AS forward
    FROM edges AS e
    GROUP BY e.ticks
),
stretches AS (
    SELECT m.ticks, lead(m.ticks) OVER (ORDER BY m.ticks) - m.ticks AS length,
        CASE
            WHEN sum(m.backward) OVER so_far > 0 THEN 1
            WHEN sum(m.optimizer) OVER so_far > 0 THEN 2
            WHEN sum(m.loading) OVER so_far > 0 THEN 3
            WHEN sum(m.forward) OVER so_far > 0 THEN 4
            ELSE 5
        END AS place
    FROM moments AS m
    WINDOW so_far AS (ORDER BY m.ticks ROWS UNBOUNDED PRECEDING)
)
SELECT b.start_ticks AS span_ticks, t.place, try_cast(sum(t.length) AS BIGINT) AS ticks
FROM stretches AS t
ASOF JOIN query_table(spans) AS b ON row(t.ticks) >= row(b.start_ticks)
WHERE t.ticks < b.end_ticks
GROUP BY b.start_ticks, t.place;

-- The time of one pass of training in a trace, or in one of its steps: forward, backward, optimizer, data_loading, or
-- other. On the host each moment of a step counts once, for the first pass in this order that any thread is in:
-- backward (autograd's functions), optimizer (`Optimizer.step` and `zero_grad`), data_loading, forward (modules, and
-- ops that autograd records; any op, if the trace has no sequence numbers), else other, such as Python between ops.
-- Device time belongs to the pass whose events contain the launch; work that the backward pass repeats, as with
-- activation checkpointing, is of the backward pass. If steps overlap, as steps of several threads do, the time that
-- they share counts for each step, as in `step_breakdown`, and, by trace, only once.
-- Needs: torch_trace; else: execute_breakdown
-- Shown: pass!, step!#, host_time!~, host_percent%, device_time!~, device_percent%, device_events#, unit
-- Columns:
--   run_index: run of the step; NULL by trace
--   step: number of the step, 0 if the trace has no steps; NULL by trace
--   pass: forward, backward, optimizer, data_loading or other
--   host_time: time of the steps on the host in which the pass ran
--   host_percent: that time in percent of the steps
--   device_time: time of the device events that the pass launched in the steps; NULL if the trace has no device events
--   device_percent: that time in percent of all that was launched in the steps; NULL if nothing was
--   device_events: number of these device events
--   unit: the requested unit of time
CREATE MACRO passes(
    capture, unit := NULL,
    "by" := 'trace'  -- trace or step
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.*, _checked_by("by", ['trace', 'step']) = 'step' AS by_step FROM _scaled_capture(capture, unit) AS c
),
steps AS MATERIALIZED (FROM _host_steps((SELECT a.capture_id FROM target AS a))),
spans AS MATERIALIZED (FROM _step_spans('steps')),
slices AS MATERIALIZED (
    SELECT _pass_place(t.pass) AS place, t.start_ticks, t.start_ticks + t.elapsed_ticks AS end_ticks
    FROM target AS a
    JOIN trace_events AS t USING (capture_id)
    WHERE t.pass IS NOT NULL
),
launched AS MATERIALIZED (
    SELECT l.launch_ticks, l.device_ticks AS ticks, _pass_place(coalesce(l.pass, 'other')) AS place
    FROM _launches((SELECT a.capture_id FROM target AS a)) AS l
),
in_spans AS MATERIALIZED (
    SELECT h.span_ticks, h.place, h.ticks AS host_ticks, 0 AS device_ticks, 0 AS events
    FROM _host_passes('slices', 'spans') AS h
    UNION ALL
    SELECT b.start_ticks, d.place, 0, d.ticks, 1
    FROM launched AS d
    ASOF JOIN spans AS b ON row(d.launch_ticks) >= row(b.start_ticks)
    WHERE d.launch_ticks < b.end_ticks
),
places AS (SELECT unnest([1, 2, 3, 4, 5]) AS place),
-- The sums of the spans before a moment: time that several steps share counts for each of them, and once in the trace.
moments AS (
    SELECT m.ticks, m.place, sum(m.host_ticks) AS host, sum(m.device_ticks) AS device, sum(m.events) AS events
    FROM (
        SELECT i.span_ticks AS ticks, i.place, i.host_ticks, i.device_ticks, i.events FROM in_spans AS i
        UNION ALL
        SELECT s.start_ticks, p.place, 0, 0, 0 FROM steps AS s CROSS JOIN places AS p
        UNION ALL
        SELECT s.end_ticks, p.place, 0, 0, 0 FROM steps AS s CROSS JOIN places AS p
    ) AS m
    GROUP BY m.ticks, m.place
),
before AS MATERIALIZED (
    SELECT m.ticks, m.place, sum(m.host) OVER so_far - m.host AS host_ticks,
        sum(m.device) OVER so_far - m.device AS device_ticks, sum(m.events) OVER so_far - m.events AS events
    FROM moments AS m
    WINDOW so_far AS (PARTITION BY m.place ORDER BY m.ticks)
),
summed AS (
    SELECT s.run_index, s.step, b.place, try_cast(e.host_ticks - b.host_ticks AS BIGINT) AS host_ticks,
        try_cast(e.device_ticks - b.device_ticks AS BIGINT) AS device_ticks,
        (e.events - b.events)::BIGINT AS events
    FROM steps AS s
    JOIN before AS b ON b.ticks = s.start_ticks
    JOIN before AS e ON e.ticks = s.end_ticks AND e.place = b.place
    WHERE (SELECT a.by_step FROM target AS a)
    UNION ALL
    SELECT NULL, NULL, p.place, try_cast(coalesce(sum(i.host_ticks), 0) AS BIGINT),
        try_cast(coalesce(sum(i.device_ticks), 0) AS BIGINT), coalesce(sum(i.events), 0)::BIGINT
    FROM places AS p
    LEFT JOIN in_spans AS i USING (place)
    WHERE EXISTS (FROM steps) AND NOT (SELECT a.by_step FROM target AS a)
    GROUP BY p.place
)
SELECT s.run_index, s.step, ['backward', 'optimizer', 'data_loading', 'forward', 'other'][s.place] AS pass,
    _in_unit(s.host_ticks, a.scale) AS host_time,
    100 * s.host_ticks::DOUBLE / nullif(sum(s.host_ticks) OVER (PARTITION BY s.run_index), 0) AS host_percent,
    _in_unit(CASE WHEN (SELECT count(*) FROM launched AS d) > 0 THEN s.device_ticks END, a.scale) AS device_time,
    100 * s.device_ticks::DOUBLE / nullif(sum(s.device_ticks) OVER (PARTITION BY s.run_index), 0) AS device_percent,
    s.events AS device_events, a.unit
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.run_index, [2, 3, 4, 1, 5][s.place];
