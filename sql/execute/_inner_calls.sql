-- A DELEGATE_CALL of a capture that is nested in another one of the same instruction, whose time includes it. This
-- happens because a nested program's instructions have the same numbers, and because the profiler before ETDump times
-- the delegate within its call.
CREATE MACRO _inner_calls(capture_key) AS TABLE
WITH RECURSIVE calls AS (
    SELECT s.chain_index, s.instruction_id, t.run_index, t.event_index, t.parent_index, t.execute_index
    FROM (SELECT i.* FROM signatures AS i WHERE i.capture_id = capture_key AND i.kind = 'delegate_call') AS s
    JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS t USING (signature_index)
),
-- This is outside of the recursion, because DuckDB would read the events of all captures there.
parents AS MATERIALIZED (
    SELECT i.run_index, i.event_index, i.parent_index
    FROM event_ticks AS i
    WHERE i.capture_id = capture_key
        AND i.parent_index IS NOT NULL
        AND EXISTS (FROM calls AS c WHERE c.parent_index <> c.execute_index)
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
