-- A method of a capture's runs, or NULL for all; an error for any other value.
CREATE MACRO _known_method(capture_key, method) AS (
    CASE
        WHEN method IS NOT NULL THEN (
            SELECT CASE
                -- Views for two kinds of captures pass no key for the kind that was not requested.
                WHEN bool_or(_run.scope = method) OR count(*) = 0 THEN method
                ELSE error(
                    'no run is of method ''' || method || '''; the methods are '
                    || coalesce(string_agg(_run.scope, ', ' ORDER BY _run.scope), 'none')
                )
            END
            -- Aggregates of distinct values would be planned as a query of their own.
            FROM (SELECT DISTINCT _each.scope FROM runs AS _each WHERE _each.capture_id = capture_key) AS _run
        )
    END
);
