-- Rows of `load_breakdown` of each capture, with columns to order them by.
CREATE MACRO _load_parts(
    times  -- a table with rows of `_timed_events`, of all runs
) AS TABLE
WITH callers AS (
    SELECT t.capture_id, t.run_index, t.event_index, t.parent_index, t.name
    FROM query_table(times) AS t
    WHERE t.name IN ('Program::load_method', 'Method::init')
),
timed AS (
    SELECT t.capture_id, t.time_scale, t.unit, t.run_index, t.scope, t.block_index,
        CASE WHEN t.kind = 'framework' THEN t.name WHEN p.name = 'Method::init' THEN 'delegate init' END AS component,
        -- An execute with an impossible time is in no execute, but its run isn't skipped.
        t.event_index = t.execute_index OR t.name = 'Method::execute' AND t.is_impossible AS is_execute,
        CASE WHEN NOT t.is_impossible THEN t.duration_ticks END AS known_ticks,
        -- A method may be loaded while another one is initialized: its time is in that of the outer load.
        coalesce(t.name IN (p.name, o.name), false) AS is_nested,
        t.name = 'Program::load_method' OR t.name = 'Method::init' AND p.name = 'Program::load_method'
            OR t.kind <> 'framework' AND p.name = 'Method::init' AND o.name = 'Program::load_method' AS is_loading,
        -- Events within a delegate's event are part of its time.
        CASE t.kind WHEN 'framework' THEN t.self_ticks ELSE t.duration_ticks END AS self_ticks
    FROM query_table(times) AS t
    LEFT JOIN callers AS p
        ON p.capture_id = t.capture_id AND p.run_index = t.run_index AND p.event_index = t.parent_index
    LEFT JOIN callers AS o
        ON o.capture_id = p.capture_id AND o.run_index = p.run_index AND o.event_index = p.parent_index
    WHERE t.is_additive AND t.kind IN ('framework', 'delegate', 'delegate_call')
),
loading AS (
    SELECT t.capture_id, t.time_scale, t.unit, t.run_index, t.scope, t.component,
        count(*) FILTER (NOT t.is_nested) AS events,
        -- A sum with unknown times is unknown.
        count(*) = count(t.known_ticks) AS is_known,
        CASE WHEN is_known THEN try_cast(sum(t.known_ticks) FILTER (NOT t.is_nested) AS BIGINT) END AS total_ticks,
        CASE
            WHEN is_known THEN try_cast(sum(t.known_ticks) FILTER (t.is_loading AND NOT t.is_nested) AS BIGINT)
        END AS loading_ticks,
        CASE WHEN is_known THEN try_cast(sum(t.self_ticks) AS BIGINT) END AS self_ticks,
        list_position(['Program::load_method', 'Method::init', 'delegate init'], t.component) AS part
    FROM timed AS t
    WHERE t.component IN ('Program::load_method', 'Method::init', 'delegate init')
    GROUP BY t.capture_id, t.time_scale, t.unit, t.run_index, t.scope, t.component
),
executes AS (
    SELECT t.capture_id, t.time_scale, t.unit, t.run_index, t.scope, t.block_index,
        CASE WHEN count(*) = count(t.known_ticks) THEN try_cast(sum(t.known_ticks) AS BIGINT) END AS ticks,
        row_number() OVER (PARTITION BY t.capture_id, t.block_index ORDER BY t.run_index) = 1 AS is_first
    FROM timed AS t
    WHERE t.is_execute
    GROUP BY t.capture_id, t.time_scale, t.unit, t.run_index, t.scope, t.block_index
),
excess AS (
    SELECT e.capture_id, e.time_scale, e.unit, e.run_index, e.scope, e.is_first,
        e.ticks - median(CASE WHEN NOT e.is_first THEN e.ticks END)
            OVER (PARTITION BY e.capture_id, e.block_index) AS ticks
    FROM executes AS e
),
parts AS (
    SELECT l.capture_id, l.time_scale, l.unit, l.run_index, l.scope, l.part, l.component, l.events,
        l.total_ticks::DOUBLE AS ticks, l.self_ticks,
        100e0 * l.loading_ticks / nullif(
            max(CASE WHEN l.part = 1 THEN l.loading_ticks END) OVER (PARTITION BY l.capture_id, l.run_index), 0
        ) AS share_percent
    FROM loading AS l
    UNION ALL
    SELECT e.capture_id, e.time_scale, e.unit, e.run_index, e.scope, 4, 'first run excess', 1, e.ticks, NULL, NULL
    FROM excess AS e
    WHERE e.is_first
),
scaled AS (
    SELECT p.*, _multiplier(p.time_scale, p.unit) AS multiplier, _divisor(p.time_scale, p.unit) AS divisor
    FROM parts AS p
)
SELECT p.capture_id, p.run_index, p.scope, p.part, p.component, p.events, p.ticks,
    p.ticks * p.multiplier / p.divisor AS total, p.self_ticks * p.multiplier / p.divisor AS self_time,
    p.share_percent, p.unit
FROM scaled AS p;

-- Rows of `load_breakdown` of one capture.
CREATE MACRO _load_breakdown(
    target  -- a table with a row of `_capture`
) AS TABLE
WITH times_of_loads AS (
    FROM _timed_events(
        (SELECT a.capture_id FROM query_table(target) AS a), (SELECT a.unit FROM query_table(target) AS a),
        NULL, NULL, NULL, 'all'
    ) AS t
)
FROM _load_parts('times_of_loads') AS l;

-- One part of the time before runs are steady: loading a method, and the excess of the first execute of a block over
-- later executes.
-- Shown: component!, total!~, share_percent!%, self_time~, events#, run_index#, unit
-- Share: of the run's Program::load_method
-- Columns:
--   run_index: the run that loaded a method, or executed first
--   component: Program::load_method; Method::init, which is within Program::load_method; delegate init, which is within Method::init; first run excess
--   events: number of events in it, without those within another of the component
--   total: end minus start, where events nest that of the outer one; NULL, like self_time and share_percent, if any is impossible; for first run excess, the first execute minus the median of the block's later executes, NULL if there are none
--   self_time: total minus the components nested in it; NULL for first run excess
--   share_percent: part of total that is within Program::load_method, in percent of the run's Program::load_method; NULL without one
--   unit: unit of total and self_time
CREATE MACRO load_breakdown(capture, unit := NULL) AS TABLE
WITH target_of_loads AS MATERIALIZED (FROM _capture(capture, unit))
SELECT l.run_index, l.component, l.events, l.total, l.self_time, l.share_percent, l.unit
FROM _load_breakdown('target_of_loads') AS l
ORDER BY l.run_index, l.part;
