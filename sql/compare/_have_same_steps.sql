-- True; an error for traces that are compared with other captures, or whose steps
-- are not the same.
CREATE MACRO _have_same_steps(
    trace,  -- name of a trace
    other,  -- name of a capture that is not a trace; NULL if there is none
    first_scope,  -- first name of what the steps are
    last_scope  -- last name of what the steps are
) AS (
    CASE
        WHEN other IS NOT NULL THEN error(
            trace || ' is a PyTorch trace and ' || other || ' is not: only traces can '
            || 'be compared with traces; etq map shows an ETDump next to a trace of '
            || 'its model'
        )
        WHEN first_scope < last_scope THEN error(
            'the traces have different steps, ' || first_scope || ' and ' || last_scope
            || ' (Trace: no profiler steps): compare the calls of an annotation that '
            || 'all of them have, with --step-name NAME'
        )
        ELSE true
    END
);
