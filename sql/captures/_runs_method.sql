-- The methods of the runs of each capture, and whether the requested one is among them; no rows if none is requested.
-- Table aliases begin with an underscore in this file, as in _named.sql.
CREATE MACRO _ran_methods(method) AS TABLE
SELECT _run.capture_id, bool_or(_run.scope = method) AS is_run,
    string_agg(_run.scope, ', ' ORDER BY _run.scope) AS methods
-- Aggregates of distinct values would be planned as a separate query.
FROM (SELECT DISTINCT _each.capture_id, _each.scope FROM runs AS _each WHERE method IS NOT NULL) AS _run
GROUP BY _run.capture_id;

-- Whether a capture is selected: it has runs of the requested method, or no method is requested. A capture without such
-- runs is an error. But if it is one of a column of keys, and another capture has such runs, it has no rows. See
-- `_lacking`. The columns of `_ran_methods` are joined: planning a query for the capture would take twice as long.
CREATE MACRO _runs_method(capture, is_run, methods, method) AS (
    CASE
        WHEN coalesce(is_run, true) THEN true
        WHEN typeof(capture) NOT IN ('VARCHAR', 'HUGEINT') AND EXISTS (FROM runs AS _other WHERE _other.scope = method)
            THEN false
        ELSE error(
            'no run is of method ''' || method || '''; the '
            || coalesce(_listed('method', string_split(methods, ', ')), 'methods are none')
        )
    END
);

-- The selected capture, if it has runs of the method.
CREATE MACRO _capture_with_method(capture, unit, method) AS TABLE
SELECT _asked.*
FROM _capture(capture, unit) AS _asked
LEFT JOIN _ran_methods(method) AS _ran USING (capture_id)
WHERE _runs_method(capture, _ran.is_run, _ran.methods, method);

-- The same capture, with the factors from ticks to the unit.
CREATE MACRO _scaled_capture_with_method(capture, unit, method) AS TABLE
SELECT _asked.*, _scale(_asked.time_scale, _asked.unit) AS scale
FROM _capture_with_method(capture, unit, method) AS _asked;
