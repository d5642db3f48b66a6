-- One op or total of one capture of a series, in order, with the capture's common
-- shift.
-- Columns:
--   series: the series
--   capture_id: the capture
--   label: its position in order, as text
--   position: position in the series
--   level: total or op
--   scope: the method that ran; if unknown, the name of its runs
--   item: identity of the op in all captures: method, module, op and order among equal ones
--   op: op type if a record has it, else family
--   module_path: its module; NULL if no record has it
--   instruction_id: the instruction; NULL where none is named
--   ticks: 25th percentile over runs, in ns, or cycles
--   is_cycles: whether ticks are cycles
--   factor: common shift of all ops of the capture, as a logarithm; 0 for times of traces on devices
CREATE MACRO _op_series(
    selector,  -- as in `trend`
    over,  -- as in `trend`
    "by",  -- as in `trend`
    phase  -- as in `trend`
) AS TABLE
SELECT
    d.series,
    d.capture_id,
    d.label,
    d.position,
    CASE o.op_index WHEN 0 THEN 'total' ELSE 'op' END AS level,
    o.scope,
    o.item,
    coalesce(o.op_type, o.family) AS op,
    o.module_path,
    o.instruction_id,
    o.p25 * d.scale AS ticks,
    d.is_cycles,
    CASE WHEN _is_device_time(o.kind) THEN 0 ELSE d.factor END AS factor
FROM _series_factors(selector, over, "by", phase) AS d
JOIN op_times AS o ON o.capture_id = d.capture_id
WHERE o.phase IS NOT DISTINCT FROM _checked_phase(phase);
