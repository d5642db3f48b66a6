-- Whether a capture is selected: it has runs of the requested method, or no method is requested. A capture without such
-- runs is an error. But if it is one of a column of keys, and another capture has such runs, it has no rows. See
-- `_lacking`. Table aliases begin with an underscore, as in _named.sql.
CREATE MACRO _runs_method(capture, capture_key, method) AS (
    CASE
        WHEN method IS NOT NULL THEN (
            -- The error is outside of queries: CASE only evaluates the branch that applies, but it evaluates queries
            -- within all branches.
            SELECT CASE
                WHEN coalesce(_known.is_run, true) THEN true
                WHEN typeof(capture) NOT IN ('VARCHAR', 'HUGEINT')
                    AND EXISTS (FROM runs AS _other WHERE _other.scope = method)
                    THEN false
                ELSE error(
                    'no run is of method ''' || method || '''; the methods are ' || coalesce(_known.methods, 'none')
                )
            END
            FROM (
                SELECT bool_or(_run.scope = method) AS is_run,
                    string_agg(_run.scope, ', ' ORDER BY _run.scope) AS methods
                -- Aggregates of distinct values would be planned as a separate query.
                FROM (SELECT DISTINCT _each.scope FROM runs AS _each WHERE _each.capture_id = capture_key) AS _run
            ) AS _known
        )
        ELSE true
    END
);

-- The selected capture, if it has runs of the method.
CREATE MACRO _capture_with_method(capture, unit, method) AS TABLE
SELECT _asked.*
FROM _capture(capture, unit) AS _asked
WHERE _runs_method(capture, _asked.capture_id, method);

-- The same capture, with the factors from ticks to the unit.
CREATE MACRO _scaled_capture_with_method(capture, unit, method) AS TABLE
SELECT _asked.*
FROM _scaled_capture(capture, unit) AS _asked
WHERE _runs_method(capture, _asked.capture_id, method);
