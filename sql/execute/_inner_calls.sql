-- A DELEGATE_CALL of a capture that is nested in another one of the same instruction, whose time includes it. This
-- happens because a nested program's instructions have the same numbers, and because the profiler before ETDump times
-- the delegate within its call.
CREATE MACRO _inner_calls(
    target  -- a table with the capture_id of the capture
) AS TABLE
WITH RECURSIVE calls AS MATERIALIZED (
    SELECT t.capture_id, s.chain_index, s.instruction_id, t.run_index, t.event_index, t.parent_index, t.execute_index
    FROM query_table(target) AS k
    JOIN signatures AS s USING (capture_id)
    JOIN event_ticks AS t USING (capture_id, signature_index)
    WHERE s.kind = 'delegate_call'
),
-- This is outside of the recursion, because DuckDB would read the events of all captures there.
parents AS MATERIALIZED (
    SELECT i.run_index, i.event_index, i.parent_index
    FROM (
        SELECT DISTINCT c.capture_id, c.run_index FROM calls AS c WHERE c.parent_index <> c.execute_index
    ) AS r
    JOIN event_ticks AS i USING (capture_id, run_index)
    WHERE i.parent_index IS NOT NULL
),
-- Calls that no execute contains directly, with all events around them.
ancestors AS (
    SELECT c.run_index, c.event_index, c.chain_index, c.instruction_id, c.parent_index AS above
    FROM calls AS c
    WHERE c.parent_index <> c.execute_index
    UNION ALL
    SELECT k.run_index, k.event_index, k.chain_index, k.instruction_id, t.parent_index
    FROM ancestors AS k
    JOIN parents AS t ON t.run_index = k.run_index AND t.event_index = k.above
)
SELECT DISTINCT k.run_index, k.event_index
FROM ancestors AS k
JOIN calls AS c
    ON c.run_index = k.run_index
    AND c.event_index = k.above
    AND c.chain_index = k.chain_index
    AND c.instruction_id IS NOT DISTINCT FROM k.instruction_id;
