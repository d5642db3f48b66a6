-- The method that the runs of an event block ran, inferred from the linked record or program. It is the method that
-- most of the block's operators fit; if several fit equally well, the shortest of these. Methods with the same
-- operators are ambiguous, and blocks without operators have no method.
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
