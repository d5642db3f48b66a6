-- The mean time of a module in an execute of its method, in one row. With match := 'exact', it is the time of the
-- module and its submodules, as in `module_totals`. With 'substring', it is computed as by the Inspector: the sum of
-- the averages of all events that have a node whose module hierarchy has a key with this text; both calls and their
-- children count. Needs a linked record.
-- Shown: module!, total!~, events!#, unit
-- Columns:
--   module: the module requested
--   total: the time; NULL if unknown, as in `module_totals`
--   events: number of events of a block in it; NULL if unknown
--   unit: unit of total
CREATE MACRO find_total_for_module(
    capture,
    module,  -- a path of a module; with match := 'substring', a part of a module's key
    unit := NULL,
    match := 'exact',  -- exact: the module of that path; substring: as in the Inspector
    steps := NULL, phase := NULL, method := NULL, runs := 'all'
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.capture_id, c.record_id,
        CASE
            WHEN match = 'exact' THEN _linked_key(capture, c.capture_id, c.name, r.record_id, r.name, r.is_complete)
        END AS linked_key,
        c.record_id, c.unit, c.scale
    FROM _scaled_capture_with_method(capture, unit, method) AS c
    LEFT JOIN records AS r USING (record_id)
),
linked_target AS (SELECT a.linked_key AS capture_id, a.record_id FROM target AS a),
times AS (
    FROM _attributed_times('linked_target', steps, phase, method, runs) AS t
    WHERE match = 'exact'
),
executes AS (SELECT t.method, sum(t.executes) AS number FROM times AS t GROUP BY t.method),
of_methods AS (
    SELECT t.method, sum(t.self_ticks) AS ticks, count(DISTINCT t.signature_index) AS events
    FROM times AS t
    WHERE _is_within(t.module_path, module)
    GROUP BY t.method
),
-- The time is divided by the executes of the methods that have the module.
exactly AS (
    SELECT try_cast(sum(m.ticks) AS BIGINT) / sum(x.number)::BIGINT AS ticks, sum(m.events)::BIGINT AS events
    FROM of_methods AS m
    JOIN executes AS x USING (method)
),
-- 0 if a module without events took no time; NULL if its time is unknown.
without_events AS (
    SELECT CASE WHEN count(*) = 0 THEN 0 END AS ticks
    FROM _delegated_modules('linked_target') AS u
    WHERE _is_within(u.module_path, module) AND u.method IN (SELECT t.method FROM times AS t)
),
nodes AS (
    SELECT DISTINCT n.signature_index
    FROM target AS a
    JOIN signature_nodes AS n USING (capture_id)
    JOIN node_modules AS m USING (record_id, graph_id, node_index)
    WHERE match = 'substring' AND n.mapping = 'exact' AND contains(m.module_key, module)
),
averages AS (
    SELECT s.signature_index, any_value(i.avg) AS avg
    FROM _inspector_events(
        (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a), 'last', steps, phase, method, runs
    ) AS i
    CROSS JOIN target AS a
    JOIN signatures AS s USING (capture_id, block_index, slot)
    JOIN nodes AS n USING (signature_index)
    WHERE i.kind <> 'operator_call'
    GROUP BY s.signature_index
)
SELECT module AS module,
    CASE match
        WHEN 'exact' THEN coalesce(
            (SELECT _in_unit(e.ticks, a.scale) FROM exactly AS e), (SELECT w.ticks FROM without_events AS w)
        )
        WHEN 'substring' THEN coalesce((SELECT fsum(v.avg) FROM averages AS v), 0)
        ELSE error('match must be ''exact'' or ''substring'', not ' || match)
    END AS total,
    CASE match
        WHEN 'exact' THEN coalesce((SELECT e.events FROM exactly AS e), (SELECT w.ticks FROM without_events AS w))
        ELSE (SELECT count(*) FROM averages AS v)
    END AS events,
    a.unit AS unit
FROM target AS a
ORDER BY a.capture_id;
