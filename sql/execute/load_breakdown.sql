-- The rows of `load_breakdown`, without their order, of a capture by its key.
CREATE MACRO _load_breakdown(capture_key, unit) AS TABLE
WITH
target AS MATERIALIZED (FROM _scaled_key(capture_key, unit)),
callers AS MATERIALIZED (
    SELECT e.run_index, e.event_index, e.parent_index, s.name
    FROM target AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.name IN ('Program::load_method', 'Method::init')
    JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
),
timed AS (
    SELECT
        t.run_index, s.block_index,
        CASE WHEN s.kind = 'framework' THEN s.name WHEN p.name = 'Method::init' THEN 'delegate init' END AS component,
        t.event_index = t.execute_index AS is_execute,
        t.duration_ticks,
        CASE
            WHEN s.name = 'Program::load_method' AND p.name IS DISTINCT FROM s.name
                OR s.name = 'Method::init' AND p.name = 'Program::load_method'
                OR s.kind <> 'framework' AND p.name = 'Method::init'
                AND o.run_index IS NOT NULL
                THEN t.duration_ticks
        END AS loading_ticks,
        -- Events within a delegate's are of its time.
        CASE s.kind WHEN 'framework' THEN t.self_ticks ELSE t.duration_ticks END
            AS self_ticks
    FROM _self_times((SELECT a.capture_id FROM target AS a), NULL, NULL, NULL, 'all') AS t
    CROSS JOIN target AS a
    JOIN signatures AS s USING (capture_id, signature_index)
    LEFT JOIN callers AS p ON p.run_index = t.run_index AND p.event_index = t.parent_index
    LEFT JOIN callers AS o
        ON o.run_index = p.run_index
        AND o.event_index = p.parent_index
        AND o.name = 'Program::load_method'
    WHERE t.is_additive AND s.kind IN ('framework', 'delegate', 'delegate_call')
),
loading AS (
    SELECT
        t.run_index, t.component, count(*) AS events,
        try_cast(sum(t.duration_ticks) AS BIGINT) AS total_ticks,
        try_cast(sum(t.loading_ticks) AS BIGINT) AS loading_ticks,
        try_cast(sum(t.self_ticks) AS BIGINT) AS self_ticks,
        list_position(['Program::load_method', 'Method::init', 'delegate init'], t.component) AS part
    FROM timed AS t
    WHERE t.component IN ('Program::load_method', 'Method::init', 'delegate init')
    GROUP BY t.run_index, t.component
),
executes AS (
    SELECT
        t.run_index, t.block_index,
        try_cast(sum(t.duration_ticks) AS BIGINT) AS ticks,
        row_number() OVER (PARTITION BY t.block_index ORDER BY t.run_index) = 1 AS is_first
    FROM timed AS t
    WHERE t.is_execute
    GROUP BY t.run_index, t.block_index
),
excess AS (
    SELECT
        e.run_index, e.is_first,
        e.ticks - median(CASE WHEN NOT e.is_first THEN e.ticks END)
            OVER (PARTITION BY e.block_index) AS ticks
    FROM executes AS e
),
parts AS (
    SELECT
        l.run_index, l.part, l.component, l.events, l.total_ticks::DOUBLE AS ticks, l.self_ticks,
        100e0 * l.loading_ticks / nullif(
            max(CASE WHEN l.part = 1 THEN l.loading_ticks END)
                OVER (PARTITION BY l.run_index), 0
        ) AS share_percent
    FROM loading AS l
    UNION ALL
    SELECT e.run_index, 4, 'first run excess', 1, e.ticks, NULL, NULL
    FROM excess AS e
    WHERE e.is_first
)
SELECT
    p.run_index, p.part, p.component, p.events,
    _in_unit(p.ticks, a.scale) AS total,
    _in_unit(p.self_ticks, a.scale) AS self_time,
    p.share_percent, a.unit AS unit
FROM parts AS p
CROSS JOIN target AS a;

-- One part of the time before steady running: loading a method, and the excess of the first execute of a block over
-- later ones.
-- Columns:
--   run_index: the run that loaded a method, or executed first
--   component: Program::load_method; Method::init, within it; delegate init, within that; first run excess
--   events: number of events in it
--   total: end less start; for first run excess, less the median of the block's later executes, NULL if there are none
--   self_time: total less the components nested in it; NULL for first run excess
--   share_percent: part of total within the Program::load_method of the run, in percent of that; NULL if there is none
--   unit: unit of total and self_time
CREATE MACRO load_breakdown(capture, unit := NULL) AS TABLE
WITH
target AS MATERIALIZED (FROM _capture(capture, unit))
SELECT l.run_index, l.component, l.events, l.total, l.self_time, l.share_percent, l.unit
FROM _load_breakdown((SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a)) AS l
ORDER BY l.run_index, l.part;
