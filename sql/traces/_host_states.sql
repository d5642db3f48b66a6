-- One name of what a thread of the host runs in a trace. `kind` is what it is a name of: op, step, annotation, module,
-- function or call. `pattern` is the name without its numbers.
CREATE MACRO _host_names(capture_key) AS TABLE
SELECT s.signature_index, s.label, s.family, regexp_replace(s.label, '\d+', '*', 'g') AS pattern,
    CASE
        WHEN s.activity = 'module' OR s.purpose = 'module' THEN 'module'
        WHEN s.activity IN ('python', 'python_function', 'other') THEN 'function'
        ELSE s.activity
    END AS kind,
    coalesce(s.purpose = 'data_loading', false) AS loads_data,
    coalesce(s.purpose = 'communication', false) AS communicates,
    _is_compilation(s.purpose) AS compiles,
    s.activity = 'call' AND s.purpose = 'launch' AS launches,
    CASE
        WHEN s.activity <> 'call' THEN 0
        ELSE contains(s.label, 'BeginCapture')::INTEGER - contains(s.label, 'EndCapture')::INTEGER
    END AS captures,
    s.call_cause, CASE WHEN s.purpose IN ('launch', 'copy') THEN s.purpose ELSE 'call' END AS long_cause,
    s.activity = 'call' AND coalesce(s.waits, false) AS waits
FROM (SELECT capture_key AS capture_id) AS a
JOIN signatures AS s USING (capture_id)
WHERE NOT s.on_device AND (s.purpose IS DISTINCT FROM 'profiler');

-- Whether a call takes a millisecond or more: calls that launch, copy without waiting, or ask for something return
-- within microseconds, so a longer call waits in the runtime or driver for what a trace doesn't show.
CREATE MACRO _is_long_call(ticks) AS (ticks >= 'LONG_CALL');

-- One state of a thread of the host, which lasts until the thread's next state: the innermost open event, NULL if none
-- is open, and whether around this event data is loaded, another process is waited for, code is compiled or a graph is
-- captured. Launches, and other calls that take some microseconds, are no states of their own, unless they are long
-- (`_is_long_call`). Launches are counted: `launched` is how many began before. `place` numbers the states of all
-- threads, one after the other. Algorithm: as in `_path_elements`, after each start the innermost event is that which
-- starts, after each end its parent. In the threads before this one, as many events have ended as have begun.
CREATE MACRO _host_moments(
    capture_key,
    names,  -- a table of the rows of `_host_names`
    host_launches  -- a table of the rows of `_host_launches`
) AS TABLE
WITH events AS MATERIALIZED (
    SELECT i.event_index, i.event_signature, i.thread_index, i.parent_index, i.op_index, i.start_ticks, i.elapsed_ticks,
        i.elapsed_ticks - coalesce(i.overlap_ticks, 0) AS counted_ticks
    FROM trace_events AS i
    WHERE i.capture_id = capture_key
),
hosts AS MATERIALIZED (
    SELECT e.thread_index, e.event_index, e.parent_index, n.signature_index, e.start_ticks,
        CASE WHEN n.kind = 'op' THEN n.signature_index ELSE coalesce(o.event_signature, n.signature_index) END AS owner,
        o.event_signature IS NOT NULL AS is_in_op,
        e.start_ticks + e.counted_ticks AS end_ticks, n.kind,
        n.kind <> 'call' OR n.call_cause IS NOT NULL OR _is_long_call(e.counted_ticks) AS is_state, n.captures,
        n.loads_data::INTEGER AS loads_data, n.communicates::INTEGER AS communicates, n.compiles::INTEGER AS compiles
    FROM events AS e
    JOIN query_table(names) AS n ON n.signature_index = e.event_signature
    LEFT JOIN events AS o ON o.event_index = e.op_index
    WHERE e.counted_ticks >= 0 AND e.elapsed_ticks >= 0
),
-- With a coarse clock, it is unclear whether a launch is in a function that begins in the same tick: it counts as in
-- the function if its op does.
launching AS (
    SELECT h.thread_index, h.start_ticks,
        CASE WHEN p.kind = 'op' AND p.start_ticks = h.start_ticks AND p.end_ticks > p.start_ticks THEN 3 ELSE 1
        END AS place
    FROM hosts AS h
    JOIN query_table(host_launches) AS l USING (event_index)
    LEFT JOIN hosts AS p ON p.event_index = h.parent_index
),
moments AS (
    SELECT h.thread_index, h.start_ticks AS at_ticks, 2 AS place, h.end_ticks AS other_ticks, h.event_index,
        h.event_index AS innermost, h.signature_index AS own_name, 1 AS change, 0 AS launches, h.loads_data,
        h.communicates, h.compiles, 0 AS captures
    FROM hosts AS h
    WHERE h.is_state AND h.end_ticks > h.start_ticks
    UNION ALL
    SELECT h.thread_index, h.end_ticks, 0, h.start_ticks, -h.event_index, h.parent_index, h.signature_index, -1, 0,
        -h.loads_data, -h.communicates, -h.compiles, 0
    FROM hosts AS h
    WHERE h.is_state AND h.end_ticks > h.start_ticks
    UNION ALL
    SELECT c.thread_index, c.start_ticks, c.place, NULL, NULL, NULL, NULL, 0, 1, 0, 0, 0, 0
    FROM launching AS c
    UNION ALL
    SELECT h.thread_index, h.start_ticks, 1, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, h.captures
    FROM hosts AS h
    WHERE h.captures <> 0
        -- Elsewhere a capture's begin or end isn't recorded, or is another thread's.
        AND h.thread_index IN (SELECT b.thread_index FROM hosts AS b GROUP BY b.thread_index HAVING sum(b.captures) = 0)
),
summed AS (
    SELECT m.thread_index, m.at_ticks, m.innermost, m.own_name, m.change,
        sum(m.launches) OVER in_order AS launched, sum(m.loads_data) OVER in_order > 0 AS loads_data,
        sum(m.communicates) OVER in_order > 0 AS communicates, sum(m.compiles) OVER in_order > 0 AS compiles,
        sum(m.captures) OVER in_order > 0 AS captures,
        row_number() OVER in_order AS place
    FROM moments AS m
    WINDOW in_order AS (
        ORDER BY m.thread_index, m.at_ticks, m.place, m.other_ticks DESC, m.event_index ROWS UNBOUNDED PRECEDING
    )
)
SELECT s.*, h.signature_index, h.owner, h.is_in_op, h.end_ticks - h.start_ticks AS length, h.start_ticks, h.end_ticks
FROM summed AS s
LEFT JOIN hosts AS h ON h.event_index = s.innermost
WHERE s.change <> 0;

-- One state of a thread of the host, as in `_host_moments`, with the cause of its time, `cause`, as in
-- `idle_parts`; NULL where nothing is open, or where it waits in a function for what other threads launch. `name` is
-- the `signature_index` of the innermost event; `owner` is the `signature_index` of the op around this event, or of the
-- event itself.
CREATE MACRO _host_states(
    capture_key,
    names,  -- a table of the rows of `_host_names`
    host_launches,  -- a table of the rows of `_host_launches`
    tool_steps  -- a table of the trace's rows of `tool_steps`
) AS TABLE
WITH moments AS MATERIALIZED (FROM _host_moments(capture_key, names, host_launches)),
-- Patterns of the names within which anything is launched.
launching AS MATERIALIZED (
    SELECT n.pattern
    FROM (
        SELECT m.own_name, sum(-m.change * m.launched) AS launched FROM moments AS m GROUP BY m.own_name
    ) AS m
    JOIN query_table(names) AS n ON n.signature_index = m.own_name
    GROUP BY n.pattern
    HAVING sum(m.launched) > 0
),
described AS MATERIALIZED (
    SELECT n.signature_index, n.kind, n.call_cause, n.long_cause,
        n.pattern IN (SELECT l.pattern FROM launching AS l)
        OR n.kind IN ('step', 'call')
        OR n.pattern IN (SELECT t.pattern FROM query_table(tool_steps) AS t) AS launches
    FROM query_table(names) AS n
),
processes AS MATERIALIZED (SELECT t.thread_index, t.process FROM threads AS t WHERE t.capture_id = capture_key),
all_launches AS MATERIALIZED (
    SELECT m.process, m.at_ticks, count(*) OVER (PARTITION BY m.process ORDER BY m.at_ticks) AS launched
    FROM query_table(host_launches) AS m
),
-- Functions of 20 us and more that launch nothing while other threads of their process do.
waiting AS (
    SELECT f.event_index
    FROM (
        SELECT DISTINCT m.innermost AS event_index, p.process, m.start_ticks, m.end_ticks
        FROM moments AS m
        JOIN described AS d USING (signature_index)
        JOIN processes AS p USING (thread_index)
        WHERE NOT d.launches AND d.kind <> 'op' AND m.length >= 20000
    ) AS f
    ASOF LEFT JOIN all_launches AS b ON b.process = f.process AND row(f.start_ticks) >= row(b.at_ticks)
    ASOF LEFT JOIN all_launches AS u ON u.process = f.process AND row(f.end_ticks) > row(u.at_ticks)
    WHERE u.launched > coalesce(b.launched, 0)
)
SELECT m.thread_index, m.at_ticks, m.place, m.owner, m.signature_index AS name,
    CASE
        WHEN m.loads_data THEN 'data_loading'
        WHEN m.communicates THEN 'communication'
        WHEN m.compiles THEN 'compilation'
        WHEN d.call_cause IS NOT NULL THEN d.call_cause
        WHEN d.kind = 'call' AND _is_long_call(m.length) THEN d.long_cause
        WHEN m.captures AND d.kind IS NOT NULL THEN 'graph_instantiation'
        WHEN d.kind = 'op'
            -- An op within a launching op is part of it, unless it takes a millisecond or more.
            THEN CASE
                WHEN d.launches OR m.length < 20000 OR m.is_in_launch AND NOT _is_long_call(m.length) THEN 'host'
                ELSE 'cpu_op'
            END
        -- Short functions are part of the function around them, if there are many of them.
        WHEN d.launches OR d.kind = 'function' AND m.length < 20000
            THEN CASE WHEN m.is_in_op THEN 'op_function' ELSE 'step' END
        WHEN d.kind IS NOT NULL AND w.event_index IS NULL THEN 'function'
    END AS cause
FROM (
    SELECT m.*,
        sum(CASE WHEN o.kind = 'op' AND o.launches THEN m.change END) OVER (
            ORDER BY m.place ROWS UNBOUNDED PRECEDING
        ) > 0 AS is_in_launch
    FROM moments AS m
    LEFT JOIN described AS o ON o.signature_index = m.own_name
) AS m
LEFT JOIN described AS d ON d.signature_index = m.signature_index
LEFT JOIN waiting AS w ON w.event_index = m.innermost;

-- The label of a state by the family and kind of its name, and its cause.
CREATE MACRO _state_label(label, kind, cause) AS (
    CASE WHEN cause = 'graph_instantiation' AND kind <> 'call' THEN 'graph capture' ELSE label END
);

-- One launch of the host in a trace.
CREATE MACRO _host_launches(capture_key) AS TABLE
SELECT t.event_index, t.thread_index, h.process, t.start_ticks AS at_ticks
FROM (
    SELECT s.capture_id, s.signature_index, s.purpose = 'launch' AS launches
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.activity = 'call'
) AS n
JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t ON t.event_signature = n.signature_index
JOIN threads AS h ON h.capture_id = n.capture_id AND h.thread_index = t.thread_index
LEFT JOIN (SELECT DISTINCT i.call_index FROM device_events AS i WHERE i.capture_id = capture_key) AS d
    ON d.call_index = t.event_index
WHERE n.launches OR d.call_index IS NOT NULL;
