-- How well one method fits an event block: the number of the block's distinct kernels and delegate calls that the
-- method has, too: at the same instruction, with a node of the kernel's op or with a delegate. The methods are the
-- linked record's; without a complete record, those of the linked program, whose kernels have the same names as the
-- events.
CREATE MACRO _method_scores(capture_key) AS TABLE
WITH target AS (
    SELECT k.capture_id, r.record_id, CASE WHEN r.record_id IS NULL THEN k.program_id END AS program_id
    FROM captures AS k
    LEFT JOIN records AS r ON r.record_id = k.record_id AND r.is_complete
    WHERE k.capture_id = capture_key
),
operators AS (
    SELECT DISTINCT s.block_index, s.chain_index, s.instruction_id, s.kind, s.name, string_split(s.family, '.')[1] AS op
    FROM target AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.kind IN ('kernel', 'delegate_call')
),
counted AS (SELECT o.block_index, count(*) AS events FROM operators AS o GROUP BY o.block_index),
fitting AS (
    SELECT DISTINCT o.block_index, h.method, o.instruction_id, o.kind, o.name
    FROM target AS a
    JOIN debug_handles AS h USING (record_id)
    JOIN operators AS o ON o.instruction_id = h.instruction_id AND o.kind = 'kernel'
    JOIN graphs AS g ON g.record_id = a.record_id AND g.method = h.method AND g.stage = 'edge_dialect_exported_program'
    JOIN node_debug_handles AS n USING (record_id, graph_id, debug_handle)
    JOIN op_nodes AS p
        ON p.record_id = a.record_id
        AND p.graph_id = n.graph_id
        AND p.node_index = n.node_index
        AND string_split(p.op, '.')[1] = o.op
    UNION ALL
    SELECT o.block_index, d.method, o.instruction_id, o.kind, o.name
    FROM target AS a
    JOIN delegates AS d USING (record_id)
    JOIN operators AS o ON o.instruction_id = d.instruction_id AND o.kind = 'delegate_call'
    UNION ALL
    SELECT o.block_index, i.method, o.instruction_id, o.kind, o.name
    FROM target AS a
    JOIN instructions AS i USING (program_id)
    JOIN operators AS o USING (chain_index, instruction_id)
    WHERE CASE o.kind
        WHEN 'kernel' THEN i.kind = 'kernel' AND o.name = 'native_call_'
            || string_split(i.op, '::')[2] || coalesce('.' || i.overload, '')
        ELSE i.kind = 'delegate'
    END
)
SELECT f.block_index, f.method, any_value(c.events) AS events, count(*) AS fitting,
    (
        SELECT count(DISTINCT h.instruction_id)
        FROM debug_handles AS h
        JOIN target AS a USING (record_id)
        WHERE h.method = f.method
    ) + (
        SELECT count(*) FROM instructions AS i JOIN target AS a USING (program_id) WHERE i.method = f.method
    ) AS instructions
FROM fitting AS f
JOIN counted AS c USING (block_index)
GROUP BY f.block_index, f.method;

-- The rows of the table `linked_methods`, as `block_methods` documents them, computed when a capture is linked.
CREATE MACRO _find_methods(capture_key) AS TABLE
WITH ranked AS (
    SELECT m.block_index, m.method, m.fitting / m.events AS score,
        rank() OVER (PARTITION BY m.block_index ORDER BY m.fitting DESC, m.instructions) AS place
    FROM _method_scores(capture_key) AS m
)
SELECT r.block_index, CASE WHEN count(*) = 1 AND max(r.score) >= 0.5 THEN max(r.method) END AS method,
    max(r.score) AS score, string_agg(r.method, ', ' ORDER BY r.method) AS candidates
FROM ranked AS r
WHERE r.place = 1
GROUP BY r.block_index;

-- The method that the runs of an event block ran, inferred from the linked record or program: the one that most of the
-- block's operators fit; of those that fit equally well, the shortest. Methods with the same operators are ambiguous,
-- and blocks without operators have no method.
-- Shown: block_index!#, method!, score!#, candidates
-- Columns:
--   block_index: the event block
--   method: the method; NULL if less than half of the operators fit, or two methods fit equally well
--   score: share of the block's distinct kernels and delegate calls that fit the best method
--   candidates: the methods that fit equally well, as text
CREATE MACRO block_methods(capture) AS TABLE
SELECT m.block_index, m.method, m.score, m.candidates
FROM (SELECT _any_capture_id(capture) AS capture_id) AS a
JOIN linked_methods AS m USING (capture_id)
ORDER BY m.block_index;

-- One finding about a capture and the record or program it is linked to.
CREATE MACRO _link_findings(
    capture_key,
    fitting  -- share of the operators below which a record is of another program
) AS TABLE
WITH target AS (
    SELECT k.capture_id, coalesce(r.name, p.name) AS name,
        CASE WHEN r.name IS NULL THEN 'program' ELSE 'record' END AS what
    FROM captures AS k
    LEFT JOIN records AS r ON r.record_id = k.record_id AND r.is_complete
    LEFT JOIN programs AS p USING (program_id)
    WHERE k.capture_id = capture_key AND (r.name IS NOT NULL OR p.name IS NOT NULL)
),
operated AS (
    SELECT DISTINCT s.block_index, a.name AS linked, a.what
    FROM target AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.kind IN ('kernel', 'delegate_call')
),
scored_blocks AS (
    SELECT o.block_index, o.linked, o.what, b.method, coalesce(b.score, 0) AS score, b.candidates
    FROM operated AS o
    LEFT JOIN linked_methods AS b ON b.capture_id = capture_key AND b.block_index = o.block_index
)
SELECT CASE WHEN t.score < fitting THEN 'foreign ' || t.what ELSE 'method unknown' END AS rule,
    CASE
        WHEN t.score < fitting THEN
            'the ' || t.what || ' ' || t.linked || ' is of another program: it fits '
            || round(100 * t.score)::INTEGER || ' % of the operators of block '
            || t.block_index || ', so its methods, ops and modules do not apply here'
        ELSE
            'the methods ' || t.candidates || ' of ' || t.linked
            || ' fit the operators of block ' || t.block_index || ' equally well: the method of its events is unknown'
    END AS detail
FROM scored_blocks AS t
WHERE t.score < fitting OR t.method IS NULL;
