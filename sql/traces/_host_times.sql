-- Whether a runtime or driver call returns only when work of a device has ended: a
-- synchronization, a copy that waits, or the release of memory, which waits, too.
CREATE MACRO _is_synchronization(
    label  -- name of the call
) AS (
    contains(label, 'Synchronize') OR label IN (
        'cudaMemcpy', 'cudaMemcpy2D', 'cudaMemset', 'cudaFree', 'cuMemcpyDtoH_v2',
        'cuMemcpyHtoD_v2', 'cuMemFree_v2', 'hipMemcpy', 'hipMemcpyWithStream',
        'hipMemset', 'hipFree', 'urEventWait', 'urQueueFinish', 'piEventsWait',
        'piQueueFinish'
    )
);

-- One thread that launched work on a device.
-- Columns:
--   thread_index: the thread
--   process: its process as in the file
CREATE MACRO _launching_threads(
    capture_key  -- key of a capture
) AS TABLE
SELECT DISTINCT t.thread_index, h.process
FROM _launches(capture_key, 'all') AS l
JOIN (
    SELECT i.* FROM trace_events AS i WHERE i.capture_id = capture_key
) AS t
    ON t.event_index = l.call_index
JOIN threads AS h
    ON h.capture_id = t.capture_id AND h.thread_index = t.thread_index;

-- The state of a process from one moment to the next: whether a thread that
-- launches work waits for input data, for other processes or for a device, and for
-- how long threads did so until then. Algorithm: +1 at each start, -1 at each end,
-- running sums.
-- Columns:
--   process: the process as in the file
--   at_ticks: clock at the moment
--   loads: 1 if a thread waits for input data from then on, else 0
--   communicates: 1 if a thread communicates with other processes, else 0
--   synchronizes: 1 if a thread waits for a device, else 0
--   loading_ticks: time until the moment in which a thread waited for input data, in ticks
--   communication_ticks: time until the moment in which a thread communicated, in ticks
--   synchronization_ticks: time until the moment in which a thread waited for a device, in ticks
--   loading_at: clock when a thread last began to wait for input data; NULL if none did
--   communication_at: clock when a thread last began to communicate; NULL if none did
--   synchronization_at: clock when a thread last began to wait for a device; NULL if none did
CREATE MACRO _host_times(
    capture_key  -- key of a capture
) AS TABLE
WITH
waits AS (
    SELECT
        p.process,
        s.start_ticks,
        s.end_ticks,
        s.is_data_loader,
        NOT s.is_data_loader AND s.is_communication AS is_communication
    FROM _trace_slices(capture_key, 'all') AS s
    JOIN _launching_threads(capture_key) AS p ON p.thread_index = s.thread_index
    WHERE s.is_data_loader
        OR s.is_communication
        OR s.kind = 'Runtime' AND _is_synchronization(s.label)
),
edges AS (
    SELECT
        w.process, w.start_ticks AS at_ticks, w.is_data_loader, w.is_communication,
        1 AS change
    FROM waits AS w
    UNION ALL
    SELECT w.process, w.end_ticks, w.is_data_loader, w.is_communication, -1
    FROM waits AS w
),
moments AS (
    SELECT
        e.process,
        e.at_ticks,
        sum(CASE WHEN e.is_data_loader THEN e.change ELSE 0 END) AS loads,
        sum(CASE WHEN e.is_communication THEN e.change ELSE 0 END) AS communicates,
        sum(
            CASE WHEN e.is_data_loader OR e.is_communication THEN 0 ELSE e.change END
        ) AS synchronizes
    FROM edges AS e
    GROUP BY e.process, e.at_ticks
),
states AS (
    SELECT
        m.process,
        m.at_ticks,
        coalesce(lead(m.at_ticks) OVER so_far - m.at_ticks, 0) AS ticks,
        (sum(m.loads) OVER so_far > 0)::INTEGER AS loads,
        (sum(m.communicates) OVER so_far > 0)::INTEGER AS communicates,
        (sum(m.synchronizes) OVER so_far > 0)::INTEGER AS synchronizes
    FROM moments AS m
    WINDOW so_far AS (PARTITION BY m.process ORDER BY m.at_ticks)
)
SELECT
    s.process,
    s.at_ticks,
    s.loads,
    s.communicates,
    s.synchronizes,
    try_cast((sum(s.loads * s.ticks) OVER so_far) AS BIGINT) - s.loads * s.ticks
        AS loading_ticks,
    try_cast(
        (sum(s.communicates * s.ticks) OVER so_far) AS BIGINT
    ) - s.communicates * s.ticks
        AS communication_ticks,
    try_cast(
        (sum(s.synchronizes * s.ticks) OVER so_far) AS BIGINT
    ) - s.synchronizes * s.ticks
        AS synchronization_ticks,
    max(CASE WHEN s.loads > 0 THEN s.at_ticks END) OVER so_far AS loading_at,
    max(CASE WHEN s.communicates > 0 THEN s.at_ticks END) OVER so_far
        AS communication_at,
    max(CASE WHEN s.synchronizes > 0 THEN s.at_ticks END) OVER so_far
        AS synchronization_at
FROM states AS s
WINDOW so_far AS (PARTITION BY s.process ORDER BY s.at_ticks);

-- The innermost op or annotation of a thread that launches work, from one moment to
-- the next. Algorithm: the number of open events after each start and end; the
-- innermost is the last to start at that depth.
-- Columns:
--   thread_index: the thread
--   at_ticks: clock at the moment
--   label: label of the op or annotation from then on, ProfilerStep* for steps; NULL if the thread is in none
CREATE MACRO _innermost_owners(
    capture_key  -- key of a capture
) AS TABLE
WITH
-- Without the capture, as in `_trace_slices`.
labels_of_owners AS MATERIALIZED (
    SELECT s.signature_index, s.family AS label
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s
        ON s.capture_id = a.capture_id
        AND s.category IN ('cpu_op', 'Operator', 'user_annotation')
),
owners AS (
    SELECT
        t.thread_index,
        e.event_index,
        s.label,
        e.start_ticks,
        e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN event_ticks AS e ON e.capture_id = a.capture_id
    JOIN labels_of_owners AS s ON s.signature_index = e.signature_index
    JOIN trace_events AS t
        ON t.capture_id = e.capture_id AND t.event_index = e.event_index
    JOIN _launching_threads(capture_key) AS p ON p.thread_index = t.thread_index
    WHERE e.elapsed_ticks > 0
),
edges AS (
    SELECT
        o.thread_index, o.start_ticks AS at_ticks, o.event_index, o.label,
        1 AS change, o.end_ticks AS other_ticks
    FROM owners AS o
    UNION ALL
    SELECT
        o.thread_index, o.end_ticks, o.event_index, NULL, -1, o.start_ticks
    FROM owners AS o
),
numbered AS (
    SELECT
        e.*,
        row_number() OVER in_order AS place,
        sum(e.change) OVER in_order AS depth,
        lead(e.at_ticks) OVER in_order AS next_ticks
    FROM edges AS e
    WINDOW in_order AS (
        PARTITION BY e.thread_index
        ORDER BY e.at_ticks, e.change, e.other_ticks DESC, e.event_index
    )
),
placed AS (
    SELECT
        n.thread_index,
        n.at_ticks,
        n.next_ticks,
        n.depth,
        max(CASE WHEN n.change > 0 THEN n.place END) OVER (
            PARTITION BY n.thread_index, n.depth
            ORDER BY n.place ROWS UNBOUNDED PRECEDING
        ) AS owner_place
    FROM numbered AS n
)
SELECT p.thread_index, p.at_ticks, n.label
FROM placed AS p
LEFT JOIN numbered AS n
    ON n.thread_index = p.thread_index
    AND n.place = p.owner_place
    AND p.depth > 0
WHERE p.next_ticks IS NULL OR p.next_ticks > p.at_ticks;
