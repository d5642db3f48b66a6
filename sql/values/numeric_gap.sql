-- The difference between the values of two captures for one debug handle. The captures are of two runtimes (portable
-- kernels and a delegate, two builds), or of a reference (`etq ingest --reference`) and a runtime. `base` is assumed to
-- be right. Values that can't be compared have a row with the reason: one side didn't log the value, the value is
-- unknown or wasn't kept, or the sizes differ by more than dimensions of 1. Equal elements differ by 0, even if both
-- are NaN or the same infinity. The largest gaps come first, values that can't be compared last.
-- Shown: base_op!, new_op!, gap!#, problem!, method, debug_handle#, output_index#, metric!, mapping, elements#,
--   base_sizes, new_sizes, module_path, source_file, source_line#
-- Columns:
--   method: the method
--   debug_handle: the handle of the op of the exported program
--   output_index: index of the op's output, from 0
--   base_op: label of the event, or name of the reference's node, that produced the value in base; NULL if base has none
--   new_op: label of the event that produced the value in new; NULL if new has none
--   metric: the requested metric
--   mapping: exact if each side has only one logged value that can be the op's; inferred if a side has several, of which the likeliest is taken; NULL if gap is NULL
--   gap: value of the metric; NULL if it can't be computed, NaN if elements are NaN on one side only
--   problem: why gap is NULL, or what is wrong with it; NULL without a problem
--   elements: number of elements compared
--   base_sizes: sizes in base; NULL for a number
--   new_sizes: sizes in new; NULL for a number
--   module_path: module that contains the op; NULL where unknown
--   source_file: file of the user's line; NULL where unknown
--   source_line: line in that file; NULL where unknown
CREATE MACRO numeric_gap(
    base,  -- the capture assumed to be right: name, hash prefix, @latest or selector
    new,  -- the capture to be judged: name, hash prefix, @latest or selector
    metric := 'mse'  -- mse, l1 (sum), snr (dB), cosine, max_abs, max_rel (share of base's element)
) AS TABLE
WITH one_pair AS MATERIALIZED (FROM _two_with_handles(base, new))
SELECT g.method, g.debug_handle, g.output_index, g.base_op, g.new_op, g.metric, g.mapping, g.gap, g.problem, g.elements,
    g.base_sizes, g.new_sizes, g.module_path, g.source_file, g.source_line
FROM _numeric_gaps('one_pair', metric) AS g
ORDER BY CASE WHEN lower(metric) IN ('snr', 'cosine') THEN -g.gap ELSE g.gap END DESC NULLS LAST, g.method,
    g.debug_handle, g.output_index;
