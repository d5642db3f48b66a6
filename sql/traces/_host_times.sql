-- The waits of a process from one moment to the next. Its launching threads may wait for input data, for other
-- processes, or in a call of the runtime or driver. A row has a cause of waiting: how long the threads have waited so
-- far, and whether they wait now. Algorithm: +1 at each start, -1 at each end, running sums.
CREATE MACRO _host_times(
    capture_key,
    launching  -- a table of the threads that launch: thread_index, process
) AS TABLE
WITH waits AS MATERIALIZED (
    SELECT p.process,
        CASE
            WHEN s.is_data_loader THEN 'data_loading'
            WHEN s.is_communication THEN 'communication'
            ELSE coalesce(_call_cause(s.purpose, s.waits), s.purpose)
        END AS cause,
        CASE WHEN NOT s.is_data_loader AND NOT s.is_communication THEN s.label END AS call,
        s.kind = 'call' AND coalesce(s.waits, false) AS waits, s.start_ticks, s.end_ticks
    FROM _trace_slices(capture_key) AS s
    JOIN query_table(launching) AS p USING (thread_index)
    WHERE s.is_data_loader OR s.is_communication
        OR s.kind = 'call'
        AND (
            _call_cause(s.purpose, s.waits) IS NOT NULL
            OR s.purpose IN ('launch', 'copy') AND _is_long_call(s.end_ticks - s.start_ticks)
        )
),
-- A row for each wait in its call, and one in its cause.
levels AS (
    SELECT w.process, w.cause, unnest(CASE WHEN w.call IS NULL THEN [NULL] ELSE [w.call, NULL] END) AS call, w.waits,
        [{'at': w.start_ticks, 'change': 1}, {'at': w.end_ticks, 'change': -1}] AS edges
    FROM waits AS w
),
moments AS (
    SELECT b.process, b.cause, b.call, b.edge['at'] AS at_ticks, sum(b.edge['change']) AS change,
        sum(CASE WHEN b.waits THEN b.edge['change'] ELSE 0 END) AS waiting
    FROM (SELECT l.process, l.cause, l.call, l.waits, unnest(l.edges) AS edge FROM levels AS l) AS b
    GROUP BY b.process, b.cause, b.call, b.edge['at']
),
states AS (
    SELECT m.process, m.cause, m.call, m.at_ticks, coalesce(lead(m.at_ticks) OVER so_far - m.at_ticks, 0) AS length,
        (sum(m.change) OVER so_far > 0)::INTEGER AS is_open,
        sum(m.waiting) OVER so_far > 0 AS is_waiting
    FROM moments AS m
    WINDOW so_far AS (PARTITION BY m.process, m.cause, m.call ORDER BY m.at_ticks)
)
SELECT s.process, s.cause, s.call, s.at_ticks, s.is_open, s.is_waiting,
    try_cast((sum(s.is_open * s.length) OVER so_far) AS BIGINT) - s.is_open * s.length AS ticks,
    max(CASE WHEN s.is_open > 0 THEN s.at_ticks END) OVER so_far AS since_ticks
FROM states AS s
WINDOW so_far AS (PARTITION BY s.process, s.cause, s.call ORDER BY s.at_ticks);

-- The innermost op or annotation of a thread that launches work, from one moment to the next. Algorithm: the number of
-- open events after each start and end; the innermost is the last to start at that depth.
CREATE MACRO _innermost_owners(
    capture_key,
    launching  -- a table of the threads that launch: thread_index
) AS TABLE
WITH
-- Without the capture, as in `_trace_slices`.
labels_of_owners AS MATERIALIZED (
    SELECT s.signature_index, s.family AS label
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.activity IN ('op', 'annotation', 'step')
),
owners AS (
    SELECT e.thread_index, e.event_index, s.label, e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN trace_events AS e USING (capture_id)
    JOIN labels_of_owners AS s ON s.signature_index = e.event_signature
    JOIN query_table(launching) AS p USING (thread_index)
    -- Those of graphs' captures have no time of the thread.
    WHERE e.elapsed_ticks > coalesce(e.overlap_ticks, 0)
),
edges AS (
    SELECT o.thread_index, o.start_ticks AS at_ticks, o.event_index, o.label, 1 AS change, o.end_ticks AS other_ticks
    FROM owners AS o
    UNION ALL
    SELECT o.thread_index, o.end_ticks, o.event_index, NULL, -1, o.start_ticks FROM owners AS o
),
numbered AS (
    SELECT e.thread_index, e.at_ticks, e.label, row_number() OVER in_order AS place,
        sum(e.change) OVER in_order AS depth, lead(e.at_ticks) OVER in_order AS next_ticks
    FROM edges AS e
    WINDOW in_order AS (PARTITION BY e.thread_index ORDER BY e.at_ticks, e.change, e.other_ticks DESC, e.event_index)
),
placed AS (
    SELECT n.thread_index, n.at_ticks, n.next_ticks,
        CASE
            WHEN n.depth > 0 THEN last_value(n.label IGNORE NULLS) OVER (
                PARTITION BY n.thread_index, n.depth
                ORDER BY n.place ROWS UNBOUNDED PRECEDING
            )
        END AS label
    FROM numbered AS n
)
SELECT p.thread_index, p.at_ticks, p.label FROM placed AS p WHERE p.next_ticks IS NULL OR p.next_ticks > p.at_ticks;
