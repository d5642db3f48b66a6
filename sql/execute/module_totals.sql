-- One module of the methods of captures' records.
CREATE MACRO _record_modules(
    targets  -- a table with the record_id of captures
) AS TABLE
SELECT r.record_id, g.method, m.module_path, min(m.module_class) AS module_class, min(m.depth) AS depth
FROM (SELECT DISTINCT a.record_id FROM query_table(targets) AS a) AS r
JOIN graphs AS g ON g.record_id = r.record_id AND g.stage = 'edge_dialect_exported_program'
JOIN node_modules AS m ON m.record_id = g.record_id AND m.graph_id = g.graph_id
GROUP BY r.record_id, g.method, m.module_path;

-- One method of its record that a capture ran.
CREATE MACRO _methods_of(
    targets  -- a table with the capture_id and record_id of captures
) AS TABLE
SELECT DISTINCT a.capture_id, a.record_id, m.method
FROM query_table(targets) AS a
JOIN linked_methods AS m USING (capture_id)
WHERE m.method IS NOT NULL;

-- A module with nodes that a delegate's call runs. If no event is placed on them, their time is part of the call's, and
-- unknown.
CREATE MACRO _delegated_modules(
    targets  -- a table with the capture_id and record_id of captures
) AS TABLE
SELECT DISTINCT k.capture_id, m.method, p.module_path
FROM query_table(targets) AS k
JOIN signature_nodes AS n ON n.capture_id = k.capture_id AND n.is_own
JOIN signatures AS s
    ON s.capture_id = n.capture_id AND s.signature_index = n.signature_index AND s.kind = 'delegate_call'
JOIN linked_methods AS m ON m.capture_id = s.capture_id AND m.block_index = s.block_index
JOIN op_nodes AS p USING (record_id, graph_id, node_index)
WHERE p.module_path IS NOT NULL;

-- Rows of `module_totals` of captures, with their place.
CREATE MACRO _module_totals(
    targets,  -- a table with rows of `_linked_capture`
    times  -- a table with rows of `_placed_times` of these
) AS TABLE
WITH added_times AS (
    SELECT t.capture_id, t.method, t.module_path, sum(t.calls) AS calls, sum(t.executes) AS executes,
        sum(t.self_ticks) AS ticks,
        CASE WHEN bool_or(t.mapping = 'aligned') THEN 'aligned' ELSE max(t.mapping) END AS mapping
    FROM query_table(times) AS t
    GROUP BY t.capture_id, t.method, t.module_path
),
modules AS MATERIALIZED (
    SELECT m.*, length(m.module_path) AS size, row_number() OVER () AS module_index FROM _record_modules(targets) AS m
),
-- A module and the modules that contain it, as lengths of the beginnings of its path. For all pairs of 23,000 modules,
-- `_is_within` would take 30 s. Paths may be long, so only numbers are kept.
within AS MATERIALIZED (
    SELECT b.module_index AS inner_index, b.outer_size
    FROM (
        SELECT i.record_id, i.method, i.module_index, z.size AS outer_size, left(i.module_path, z.size) AS beginning
        FROM modules AS i
        JOIN (SELECT DISTINCT m.record_id, m.method, m.size FROM modules AS m) AS z
            ON z.record_id = i.record_id AND z.method = i.method AND z.size <= i.size
        WHERE z.size = i.size
            OR (NOT starts_with(i.module_path, '(') AND (z.size = 0 OR substr(i.module_path, z.size + 1, 1) = '.'))
    ) AS b
    JOIN modules AS o ON o.record_id = b.record_id AND o.method = b.method AND o.module_path = b.beginning
),
-- Times, and modules whose time, or the time of modules within them, is unknown if they have no events.
counted AS (
    FROM added_times AS t
    UNION ALL BY NAME
    SELECT u.*, true AS is_hidden FROM _delegated_modules(targets) AS u
),
-- What counts for a module. Each table is read only once, so that a condition on captures is pushed down to it.
parts AS (
    SELECT t.capture_id, t.method, coalesce(left(t.module_path, w.outer_size), t.module_path) AS module_path, t.ticks,
        coalesce(w.outer_size = m.size, true) AS is_own, t.calls, t.executes, t.mapping, t.is_hidden
    FROM counted AS t
    JOIN query_table(targets) AS a USING (capture_id)
    LEFT JOIN modules AS m ON m.record_id = a.record_id AND m.method = t.method AND m.module_path = t.module_path
    LEFT JOIN within AS w ON w.inner_index = m.module_index
    UNION ALL BY NAME
    SELECT d.capture_id, d.method, m.module_path, m.module_class, m.depth
    FROM _methods_of(targets) AS d
    JOIN modules AS m USING (record_id, method)
),
added AS (
    SELECT p.capture_id, p.method, p.module_path, any_value(p.module_class) AS module_class,
        any_value(p.depth) AS depth, sum(p.ticks) AS ticks, sum(p.ticks) FILTER (p.is_own) AS self_ticks,
        sum(p.calls) FILTER (p.is_own) AS calls, sum(p.executes) FILTER (p.is_own) AS executes,
        max(p.mapping) FILTER (p.is_own) AS mapping, coalesce(bool_or(p.is_hidden), false) AS is_hidden,
        coalesce(bool_or(p.is_hidden AND p.is_own), false) AS is_itself
    FROM parts AS p
    GROUP BY p.capture_id, p.method, p.module_path
),
known AS (
    SELECT d.capture_id, d.method, d.module_path, d.module_class, d.depth, d.mapping,
        -- A module without events took no time, unless its time is unknown.
        try_cast(coalesce(d.self_ticks, CASE WHEN NOT d.is_itself THEN 0 END) AS BIGINT) AS self_ticks,
        try_cast(coalesce(d.calls, CASE WHEN NOT d.is_itself THEN 0 END) AS BIGINT) AS calls,
        coalesce(d.ticks, CASE WHEN NOT d.is_hidden THEN 0 END) AS ticks,
        sum(d.executes) OVER (PARTITION BY d.capture_id, d.method) AS executes,
        sum(d.self_ticks) OVER (PARTITION BY d.capture_id)::DOUBLE AS all_ticks
    FROM added AS d
)
SELECT d.capture_id,
    row_number() OVER (
        PARTITION BY d.capture_id ORDER BY d.method, d.depth IS NULL, d.module_path
    )::INTEGER AS place,
    d.method, d.module_path, d.module_class, d.depth, d.calls, _in_unit(d.self_ticks, a.scale) AS self_time,
    _in_unit(try_cast(d.ticks AS BIGINT), a.scale) AS total, 100e0 * d.ticks / nullif(d.all_ticks, 0) AS share_percent,
    d.mapping, a.unit AS unit, d.self_ticks, nullif(d.executes, 0)::BIGINT AS executes,
    self_time / nullif(d.executes, 0)::BIGINT AS self_per_execute, total / nullif(d.executes, 0)::BIGINT AS per_execute
FROM known AS d
JOIN query_table(targets) AS a USING (capture_id)
-- Methods without times did not run.
WHERE d.executes IS NOT NULL;

-- The time of one module of a method's model within Method::execute (or Method::step), over the recorded runs: its self
-- time, and the total with its submodules. The self times add up to the total of the executes exactly; rows in
-- parentheses have the time of no module. The time of a module is unknown if the module has no event and a delegate
-- runs nodes of it, because it is then part of another row's time. Needs a linked record.
-- Needs: dump; else: key_averages by module
-- Shown: method, CASE module_path WHEN '' THEN '(model)' ELSE module_path END AS module!, per_execute!~,
--   share_percent!%, self_per_execute~, module_class, calls!#, mapping, total+~, self_time+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   module_path: path within the model, empty for the model itself; (framework), (delegate layout), (unattributed)
--   module_class: the module's class; NULL for rows in parentheses
--   depth: level, from 0 for the model itself; NULL for rows in parentheses
--   calls: number of its events, without those of submodules; NULL if their time is unknown
--   self_time: time of these events; NULL if unknown
--   total: sum of the known self times of the module and all submodules; NULL if none is known
--   share_percent: total in percent of the executes; NULL if unknown
--   mapping: exact; aligned, if any of its events was matched with a node by order; call, if all are delegates' events with the module of their call; NULL if it has no events
--   unit: unit of times
--   self_ticks: self_time in ticks, a whole number; NULL if unknown
--   executes: number of executes of the method
--   self_per_execute: self_time / executes; NULL if unknown
--   per_execute: total / executes; NULL if unknown
CREATE MACRO module_totals(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH target_of_modules AS MATERIALIZED (
    FROM _linked_capture_with_method(capture, unit, method)
),
times_of_modules AS (
    FROM _attributed_times('target_of_modules', steps, phase, method, runs)
)
SELECT m.method, m.module_path, m.module_class, m.depth, m.calls, m.self_time, m.total, m.share_percent, m.mapping,
    m.unit, m.self_ticks, m.executes, m.self_per_execute, m.per_execute
FROM _module_totals('target_of_modules', 'times_of_modules') AS m
ORDER BY m.place;

-- Whether a module is another one or a submodule of it. A name in parentheses is not a module, and only equal to
-- itself.
CREATE MACRO _is_within(inner_path, outer_path) AS (
    inner_path = outer_path
    OR (
        NOT starts_with(inner_path, '(')
        AND NOT starts_with(outer_path, '(')
        AND (outer_path = '' OR starts_with(inner_path, outer_path || '.'))
    )
);
