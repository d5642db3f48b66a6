-- One module of one of the methods that a capture ran, from its linked record.
CREATE MACRO _capture_modules(capture_key) AS TABLE
SELECT g.method, m.module_path, min(m.module_class) AS module_class, min(m.depth) AS depth
FROM captures AS a
JOIN node_modules AS m USING (record_id)
JOIN graphs AS g ON g.record_id = m.record_id AND g.graph_id = m.graph_id AND g.stage = 'edge_dialect_exported_program'
WHERE a.capture_id = capture_key AND g.method IN (SELECT r.method FROM runs AS r WHERE r.capture_id = a.capture_id)
GROUP BY g.method, m.module_path;

-- A module with nodes that a delegate's call runs. If no event is placed on them, their time is part of the call's, and
-- unknown.
CREATE MACRO _delegated_modules(capture_key) AS TABLE
SELECT DISTINCT m.method, p.module_path
FROM captures AS k
JOIN signature_nodes AS n ON n.capture_id = k.capture_id AND n.is_own
JOIN signatures AS s
    ON s.capture_id = n.capture_id AND s.signature_index = n.signature_index AND s.kind = 'delegate_call'
JOIN linked_methods AS m ON m.capture_id = s.capture_id AND m.block_index = s.block_index
JOIN op_nodes AS p USING (record_id, graph_id, node_index)
WHERE k.capture_id = capture_key AND p.module_path IS NOT NULL;

-- The time of one module of a method's model within Method::execute (or Method::step), over the recorded runs: its self
-- time, and the total with its submodules. The self times add up to the total of the executes exactly; rows in
-- parentheses have the time of no module. The time of a module is unknown if it has no event and a delegate runs nodes
-- of it: then it is part of another row's. Needs a linked record.
-- Needs: dump; else: key_averages by module
-- Shown: method, CASE module_path WHEN '' THEN '(model)' ELSE module_path END AS module!, per_execute!~,
--   share_percent!%, self_per_execute~, module_class, calls!#, mapping, total+~, self_time+~, executes+#, unit
-- Columns:
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   module_path: path within the model, empty for the model itself; (framework), (delegate layout), (unattributed)
--   module_class: the module's class; NULL for rows in parentheses
--   depth: level, from 0 for the model itself; NULL for rows in parentheses
--   calls: number of its events, without those of submodules; NULL if their time is unknown
--   self_time: time of these events; NULL if unknown
--   total: self_time with that of all submodules, as far as known; NULL if none is known
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
WITH target AS MATERIALIZED (
    FROM _linked_capture_with_method(capture, unit, method)
),
times AS MATERIALIZED (
    SELECT t.method, t.module_path, sum(t.calls) AS calls, sum(t.executes) AS executes, sum(t.self_ticks) AS ticks,
        CASE WHEN bool_or(t.mapping = 'aligned') THEN 'aligned' ELSE max(t.mapping) END AS mapping
    FROM _attributed_times((SELECT a.capture_id FROM target AS a), steps, phase, method, runs) AS t
    GROUP BY t.method, t.module_path
),
executes AS MATERIALIZED (
    SELECT t.method, nullif(sum(t.executes), 0)::BIGINT AS number FROM times AS t GROUP BY t.method
),
modules AS (
    FROM _capture_modules((SELECT a.capture_id FROM target AS a)) AS m
    WHERE m.method IN (SELECT x.method FROM executes AS x)
),
paths AS (
    SELECT m.method, m.module_path, m.module_class, m.depth FROM modules AS m
    UNION ALL
    SELECT t.method, t.module_path, NULL, NULL
    FROM times AS t
    LEFT JOIN modules AS m USING (method, module_path)
    WHERE m.module_path IS NULL
),
-- Modules with an unknown time unless they have events: their own, or that of modules within them.
hidden AS (
    SELECT p.method, p.module_path, bool_or(u.module_path = p.module_path) AS is_itself
    FROM modules AS p
    JOIN _delegated_modules((SELECT a.capture_id FROM target AS a)) AS u
        ON u.method = p.method AND _is_within(u.module_path, p.module_path)
    GROUP BY p.method, p.module_path
),
added AS (
    SELECT p.method, p.module_path, p.module_class, p.depth,
        sum(t.ticks) FILTER (WHERE t.module_path = p.module_path) AS self_ticks, sum(t.ticks) AS ticks,
        sum(t.calls) FILTER (WHERE t.module_path = p.module_path) AS calls,
        max(t.mapping) FILTER (WHERE t.module_path = p.module_path) AS mapping
    FROM paths AS p
    LEFT JOIN times AS t ON t.method = p.method AND _is_within(t.module_path, p.module_path)
    GROUP BY p.method, p.module_path, p.module_class, p.depth
),
known AS (
    SELECT d.method, d.module_path, d.module_class, d.depth, d.mapping,
        -- A module without events took no time, unless that is unknown.
        try_cast(coalesce(d.self_ticks, CASE WHEN NOT coalesce(h.is_itself, false) THEN 0 END) AS BIGINT) AS self_ticks,
        try_cast(coalesce(d.calls, CASE WHEN NOT coalesce(h.is_itself, false) THEN 0 END) AS BIGINT) AS calls,
        coalesce(d.ticks, CASE WHEN h.method IS NULL THEN 0 END) AS ticks
    FROM added AS d
    LEFT JOIN hidden AS h USING (method, module_path)
)
SELECT d.method, d.module_path, d.module_class, d.depth, d.calls, _in_unit(d.self_ticks, a.scale) AS self_time,
    _in_unit(try_cast(d.ticks AS BIGINT), a.scale) AS total,
    100e0 * d.ticks / nullif((SELECT sum(t.ticks)::DOUBLE FROM times AS t), 0) AS share_percent, d.mapping,
    a.unit AS unit, d.self_ticks, x.number AS executes, self_time / x.number AS self_per_execute,
    total / x.number AS per_execute
FROM known AS d
JOIN executes AS x USING (method)
CROSS JOIN target AS a
ORDER BY d.method, d.depth IS NULL, d.module_path;

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
