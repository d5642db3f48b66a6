-- The method of a program with the requested name, or all methods. If no method has that name, it is an error that
-- lists the methods. Table aliases begin with an underscore, as in _named.sql.
CREATE MACRO _selected_methods(
    program,
    method  -- a method's name; NULL: all
) AS TABLE
SELECT _each.program_id, _each.method,
    greatest((
        SELECT count(*)
        FROM instructions AS _instruction
        WHERE _instruction.program_id = _each.program_id AND _instruction.method = _each.method
    ) - 1, 0) AS last_step
FROM (SELECT _key_of('program', program) AS program_id) AS _found
JOIN methods AS _each USING (program_id)
WHERE CASE
    WHEN method IS NULL THEN true
    WHEN EXISTS (
        FROM methods AS _named WHERE _named.program_id = _found.program_id AND _named.method = method::VARCHAR
    ) THEN _each.method = method::VARCHAR
    ELSE error(
        'unknown method ' || method::VARCHAR || '; there are ' || (
            SELECT string_agg(_other.method, ', ' ORDER BY _other.method_index)
            FROM methods AS _other
            WHERE _other.program_id = _found.program_id
        )
    )
END;
