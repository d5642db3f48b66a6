-- Needs etq: in DuckDB alone, it is an error.
-- The change of one module of the model, with its submodules, from base to new, judged as ops in `compare_ops`. The
-- common shift is that of all ops. All captures need linked records; PyTorch traces need Python functions, and have a
-- row for the time on the host and one for that on devices.
-- Shown: CASE module_path WHEN '' THEN '(model)' ELSE module_path END AS module!, method, verdict! (verdict),
--   change_percent AS own_change_percent! (change), low_percent (interval), high_percent%, base! (time), new! (time),
--   difference! (time), unit, note
-- Share: of base's total
-- Columns:
--   module_path: the module's path; empty for the model itself; of traces the name of the module's call
--   method: the method that ran; of traces as in `compare_captures`
--   verdict: as in `compare_ops`
--   change_percent: change of its time in percent, without the common shift
--   low_percent: lower end of its 95 % interval, which covers changes of the machine between the sides only if they were measured in turns; NULL with fewer than 3 captures in all, and where noise may change times by a factor of 10
--   high_percent: upper end of that interval
--   base: time in base, median over captures; NULL if the item is added
--   new: time in new, median over captures; NULL if the item is removed
--   difference: new minus base, common shift included
--   common_percent: common shift of all ops in percent, included in difference and removed from change_percent; NULL if unknown
--   unit: unit of base, new and difference; NULL if one side counts cycles and the other time
--   share_percent: base in percent of base's total
--   q: as in `compare_ops`
--   note: why no verdict is possible, or what is needed for one
--   base_captures: number of captures of base used; disturbed captures are excluded
--   new_captures: number of captures of new used
CREATE MACRO compare_modules(
    base, new,
    unit := NULL,  -- ns, us, ms, s; NULL: us (cycles where ticks are cycles)
    quantile := 0.25, phase := NULL, history := NULL, alpha := 0.05, min_effect := NULL, allow_mismatch := false
) AS TABLE
WITH comparison AS MATERIALIZED (FROM _comparison(
    base, new, unit, quantile, phase, history, alpha, min_effect, allow_mismatch
)),
-- Captures without records have no modules.
linked AS (
    SELECT bool_and(CASE
        WHEN k.format <> 'torch_trace' AND k.record_id IS NULL THEN error(
            k.name || ' has no record, so its events have no modules; link one: '
            || 'etq link ' || k.name || ' RECORD, or for files --etrecord'
        )
        ELSE true
    END) AS are_linked
    FROM comparison AS c
    JOIN captures AS k USING (capture_id)
    WHERE c.side <> 'history'
)
SELECT c.module_path, c.scope AS method, c.verdict, c.change_percent, c.low_percent, c.high_percent, c.base, c.new,
    c.difference, s.change_percent AS common_percent, c.unit, c.share_percent, c.q, c.note, c.base_captures,
    c.new_captures
FROM linked AS l
LEFT JOIN comparison AS c ON c.level = 'module'
LEFT JOIN comparison AS s ON s.level = 'common shift' AND s.comparison = c.comparison
WHERE l.are_linked AND c.level IS NOT NULL
ORDER BY abs(c.difference) DESC, c.module_path, c.scope;
