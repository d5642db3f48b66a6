-- The own time of a capture's events within its executes, and where in the
-- model it belongs. What no module has is put in parentheses: the cost of
-- OPERATOR_CALLs beside their kernels, what an unmapped delegate spends on
-- layout, and what no event covers.
-- Columns:
--   module_path: the module's path; (framework), (delegate layout) or (unattributed)
--   source_file: file of the user's line; NULL for what belongs to no line, or to several
--   source_line: that line; NULL for what belongs to no line, or to several
--   lines: number of lines that it belongs to
--   signature_index: the event
--   mapping: exact or aligned; NULL for what belongs to no module
--   calls: number of events
--   self_ticks: their own time together
CREATE MACRO _attributed_times(
    capture,  -- as everywhere
    skip_first,  -- as in `schedule`
    wait,  -- as in `schedule`
    warmup,  -- as in `schedule`
    active,  -- as in `schedule`
    repeat,  -- as in `schedule`
    skip_first_wait,  -- as in `schedule`
    phase  -- as everywhere
) AS TABLE
WITH
asked AS (
    SELECT
        c.capture_id,
        CASE
            WHEN k.record_id IS NULL THEN error(
                c.name || ' has no record, so that its events have no modules or '
                || 'lines; give it one: etq link ' || c.name || ' RECORD'
            )
            WHEN NOT r.is_complete THEN error(
                'the record ' || r.name || ' of ' || c.name || ' is half-written: '
                || 'without its edge graph and maps, events have no modules or lines'
            )
            ELSE true
        END AS is_linked
    FROM _capture(capture, NULL) AS c
    JOIN captures AS k ON k.capture_id = c.capture_id
    LEFT JOIN records AS r ON r.record_id = k.record_id
),
modules AS (
    SELECT m.*
    FROM asked AS a
    JOIN signature_ops AS m ON m.capture_id = a.capture_id
),
owned AS (
    SELECT
        t.signature_index,
        s.kind,
        s.family,
        s.kind = 'operator_call' AND t.children > 0 AS is_framework,
        count(*) AS calls,
        try_cast(sum(t.self_ticks) AS BIGINT) AS self_ticks
    FROM _self_times(
        _capture_id(capture),
        skip_first, wait, warmup, active, repeat, skip_first_wait, phase
    ) AS t
    CROSS JOIN asked AS a
    JOIN signatures AS s
        ON s.capture_id = a.capture_id
        AND s.signature_index = t.signature_index
    WHERE t.execute_index IS NOT NULL AND t.is_added AND a.is_linked
    GROUP BY t.signature_index, s.kind, s.family, is_framework
)
SELECT
    CASE
        WHEN o.is_framework THEN '(framework)'
        WHEN m.module_path IS NOT NULL THEN m.module_path
        WHEN o.kind = 'delegate' AND _delegate_part(o.family) = 'layout'
            THEN '(delegate layout)'
        ELSE '(unattributed)'
    END AS module_path,
    m.source_file,
    m.source_line,
    coalesce(m.lines, 0) AS lines,
    o.signature_index,
    m.mapping,
    o.calls,
    o.self_ticks
FROM owned AS o
LEFT JOIN modules AS m
    ON m.signature_index = o.signature_index AND NOT o.is_framework;

-- The time of one module of the model within Method::execute (or Method::step),
-- over the recorded runs: its own, and with the modules within it. The own times
-- add up to the total of the executes exactly; rows in parentheses take what
-- belongs to no module. Needs a linked record.
-- Columns:
--   module_path: path within the model, empty for the model itself; (framework), (delegate layout), (unattributed)
--   module_class: the module's class; NULL for rows in parentheses
--   depth: level, from 0 for the model itself; NULL for rows in parentheses
--   calls: number of events of its own
--   own: time of events of its own
--   total: time of its own and of all modules within it
--   share_percent: total in percent of the executes
--   mapping: exact; aligned, where the time of a delegate was told apart by order; NULL for what has no events of its own
--   unit: unit of own and total
--   own_ticks: own as written, a whole number
CREATE MACRO module_totals(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    skip_first := 0,  -- runs of each name to leave out at the start, as in `schedule`
    wait := 0,  -- as in `schedule`
    warmup := 0,  -- as in `schedule`
    active := 1,  -- as in `schedule`
    repeat := 0,  -- as in `schedule`
    skip_first_wait := 0,  -- as in `schedule`
    phase := NULL  -- runs of that phase alone: load, prefill, decode, other; NULL: all
) AS TABLE
WITH
asked AS (
    SELECT c.capture_id, c.time_scale, c.unit, k.record_id
    FROM _capture(capture, unit) AS c
    JOIN captures AS k ON k.capture_id = c.capture_id
),
times AS MATERIALIZED (
    SELECT
        t.module_path,
        try_cast(sum(t.calls) AS BIGINT) AS calls,
        try_cast(sum(t.self_ticks) AS BIGINT) AS ticks,
        CASE
            WHEN bool_or(t.mapping = 'aligned') THEN 'aligned' ELSE max(t.mapping)
        END AS mapping
    FROM _attributed_times(
        capture, skip_first, wait, warmup, active, repeat, skip_first_wait, phase
    ) AS t
    GROUP BY t.module_path
),
modules AS (
    SELECT
        m.module_path,
        min(m.module_class) AS module_class,
        min(m.depth) AS depth
    FROM asked AS a
    JOIN node_modules AS m ON m.record_id = a.record_id
    JOIN graphs AS g
        ON g.record_id = m.record_id
        AND g.graph_id = m.graph_id
        AND g.stage = 'edge_dialect_exported_program'
    WHERE g.method IN (
        SELECT r.method FROM runs AS r WHERE r.capture_id = a.capture_id
    )
    GROUP BY m.module_path
),
paths AS (
    SELECT m.module_path, m.module_class, m.depth FROM modules AS m
    UNION ALL
    SELECT t.module_path, NULL, NULL
    FROM times AS t
    WHERE t.module_path NOT IN (SELECT m.module_path FROM modules AS m)
),
added AS (
    SELECT
        p.module_path,
        p.module_class,
        p.depth,
        coalesce(sum(t.ticks) FILTER (
            WHERE t.module_path = p.module_path
        ), 0)::BIGINT AS own_ticks,
        coalesce(sum(t.ticks), 0)::BIGINT AS total_ticks,
        coalesce(sum(t.calls) FILTER (
            WHERE t.module_path = p.module_path
        ), 0)::BIGINT AS calls,
        max(t.mapping) FILTER (WHERE t.module_path = p.module_path) AS mapping
    FROM paths AS p
    LEFT JOIN times AS t ON _is_within(t.module_path, p.module_path)
    GROUP BY p.module_path, p.module_class, p.depth
)
SELECT
    d.module_path,
    d.module_class,
    d.depth,
    d.calls,
    d.own_ticks * _multiplier(a.time_scale, a.unit)
    / _divisor(a.time_scale, a.unit) AS own,
    d.total_ticks * _multiplier(a.time_scale, a.unit)
    / _divisor(a.time_scale, a.unit) AS total,
    100 * d.total_ticks / nullif(
        (SELECT sum(t.ticks)::DOUBLE FROM times AS t), 0
    ) AS share_percent,
    d.mapping,
    a.unit AS unit,
    d.own_ticks
FROM added AS d
CROSS JOIN asked AS a
ORDER BY d.depth IS NULL, d.module_path;

-- Whether a module is another one or within it. What stands in parentheses is
-- no module, and within itself alone.
CREATE MACRO _is_within(
    inner_path,  -- a module's path
    outer_path  -- a module's path
) AS (
    inner_path = outer_path
    OR (
        NOT starts_with(inner_path, '(')
        AND NOT starts_with(outer_path, '(')
        AND (outer_path = '' OR starts_with(inner_path, outer_path || '.'))
    )
);
