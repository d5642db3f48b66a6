-- Evidence for the rules of advice about dumps; the rules are in `etq/advice`. Each macro is for all captures whose
-- times are in a table with rows of `_timed_events`. The first column is the capture.

-- The clocks of dumps, like `Clock` of `etq/advice/evidence.py`.
CREATE MACRO _advised_clocks(first_key, last_key) AS TABLE
SELECT k.capture_id, k.clock = 'delegate', k.events, k.zeros, k.median_ticks, k.step_ticks
FROM capture_clocks AS k
WHERE k.capture_id BETWEEN first_key AND last_key;

-- The dumps in a range of keys, and whether a record of their program maps their events to ops.
CREATE MACRO _advised_captures(first_key, last_key) AS TABLE
SELECT c.capture_id, c.time_scale, c.profiling_level,
    c.record_id IS NOT NULL AND NOT EXISTS (
        FROM findings AS f WHERE f.capture_id = c.capture_id AND f.rule = 'foreign record'
    ) AS is_mapped
FROM captures AS c
WHERE c.capture_id BETWEEN first_key AND last_key
    AND c.format NOT IN ('torch_trace', 'reference')
    AND NOT EXISTS (FROM findings AS f WHERE f.capture_id = c.capture_id AND f.rule = 'events pruned');

-- The findings about these captures and their records.
CREATE MACRO _advised_findings(first_key, last_key) AS TABLE
SELECT f.capture_id, f.rule, f.detail, 'in findings' AS place
FROM findings AS f
WHERE f.capture_id BETWEEN first_key AND last_key
UNION ALL
SELECT c.capture_id, f.rule, 'the record ' || r.name || ' ' || f.detail, 'in record_findings'
FROM captures AS c
JOIN records AS r USING (record_id)
JOIN record_findings AS f USING (record_id)
WHERE c.capture_id BETWEEN first_key AND last_key;

-- One run that executed, and the number of events of the runtime itself in its executes.
CREATE MACRO _advised_runs(
    times,
    taxes  -- a table with rows of `_run_taxes`
) AS TABLE
WITH logged AS (
    SELECT t.capture_id, t.run_index,
        count(*) FILTER (t.event_index <> t.execute_index AND t.kind <> 'delegate') AS events
    FROM query_table(times) AS t
    WHERE t.execute_index IS NOT NULL
    GROUP BY t.capture_id, t.run_index
),
placed AS (
    SELECT r.*, min(r.run_index) OVER (PARTITION BY r.capture_id, r.scope) AS first_run
    FROM runs AS r
    WHERE r.capture_id BETWEEN (SELECT min(x.capture_id) FROM query_table(taxes) AS x)
        AND (SELECT max(x.capture_id) FROM query_table(taxes) AS x)
)
SELECT x.capture_id, x.run_index, r.block_index, r.phase, r.first_run, r.is_typical, x.execute_ticks, x.tax_ticks,
    l.events
FROM query_table(taxes) AS x
JOIN placed AS r USING (capture_id, run_index)
JOIN logged AS l USING (capture_id, run_index);

-- The events of a signature within executes. A kernel within the call of a delegate is an op that the delegate runs.
-- For a delegate's event, `moves` is the event's part (see `_delegate_part`); for other events, it is ops.
CREATE MACRO _advised_ops(
    times  -- a table with rows of `_answered_times` of the runs that count, and their `scope`
) AS TABLE
WITH of_calls AS (
    SELECT s.capture_id, s.signature_index, c.signature_index AS call_index
    FROM signatures AS s
    JOIN signatures AS c USING (capture_id, block_index, chain_index, instruction_id)
    WHERE s.kind = 'kernel' AND c.kind = 'delegate_call'
),
of_delegates AS (
    SELECT DISTINCT o.capture_id, o.signature_index, 'delegate' AS kind
    FROM of_calls AS o
    JOIN query_table(times) AS t USING (capture_id, signature_index)
    JOIN query_table(times) AS p
        ON p.capture_id = t.capture_id
        AND p.run_index = t.run_index
        AND p.event_index = t.parent_index
        AND p.signature_index = o.call_index
)
SELECT o.capture_id, o.scope, o.signature_index, o.has_children, coalesce(d.kind, s.kind) AS kind, s.family,
    CASE WHEN coalesce(d.kind, s.kind) = 'delegate' THEN _delegate_part(s.family) ELSE 'ops' END AS moves,
    s.instruction_id, o.calls, o.ticks
FROM (
    SELECT t.capture_id, t.scope, t.signature_index, t.children > 0 AS has_children, count(*) AS calls,
        sum(t.self_ticks) AS ticks
    FROM query_table(times) AS t
    WHERE t.is_additive AND t.execute_index IS NOT NULL
    GROUP BY ALL
) AS o
JOIN signatures AS s USING (capture_id, signature_index)
LEFT JOIN of_delegates AS d USING (capture_id, signature_index);

-- The module and line of a signature, from the record, and whether all nodes that it reads are weights or inputs.
CREATE MACRO _advised_nodes(first_key, last_key) AS TABLE
WITH readers AS (
    SELECT n.capture_id, n.signature_index, bool_and(e.to_node IS NULL) AS is_of_constant
    FROM signature_nodes AS n
    JOIN captures AS c USING (capture_id)
    LEFT JOIN op_edges AS e ON e.record_id = c.record_id AND e.graph_id = n.graph_id AND e.to_node = n.node_index
    WHERE n.capture_id BETWEEN first_key AND last_key AND n.is_own
    GROUP BY n.capture_id, n.signature_index
)
SELECT coalesce(m.capture_id, r.capture_id), coalesce(m.signature_index, r.signature_index), m.module_path,
    m.source_file || coalesce(':' || m.source_line, '') AS source, r.is_of_constant
FROM (FROM signature_ops AS o WHERE o.capture_id BETWEEN first_key AND last_key) AS m
FULL JOIN readers AS r USING (capture_id, signature_index);
