-- The programs that an argument matches: the one with that name, else those with that prefix of their hash. Table
-- aliases begin with an underscore in this file: an argument may be a column of the caller's, and must not be captured
-- by one of these.
CREATE MACRO _matching_programs(program) AS TABLE
SELECT _each.program_id, _each.name
FROM programs AS _each
WHERE CASE
    WHEN EXISTS (FROM programs AS _named WHERE _named.name = program::VARCHAR) THEN _each.name = program::VARCHAR
    ELSE length(program::VARCHAR) >= 4
        AND starts_with(_each.sha256, lower(program::VARCHAR))
END;

-- Key of the one program that an argument matches. If none or several match, it is an error that lists the nearest
-- ones.
CREATE MACRO _program_id(program) AS (
    SELECT CASE _found.number
        WHEN 1 THEN _found.program_id
        WHEN 0 THEN error(
            'no program matches ' || program::VARCHAR || coalesce(
                '; the nearest are ' || _nearest_programs(program),
                '; the warehouse has no programs'
            )
        )
        ELSE error(
            program::VARCHAR || ' matches ' || _found.number || ' programs ('
            || array_to_string(_found.names[:3], ', ')
            || CASE WHEN _found.number > 3 THEN ', ...' ELSE '' END
            || '); name one'
        )
    END
    FROM (
        SELECT
            count(*) AS number, max(_match.program_id) AS program_id,
            list(_match.name ORDER BY _match.name) AS names
        FROM _matching_programs(program) AS _match
    ) AS _found
);

-- The three program names most similar to an argument, as text; NULL if there are none.
CREATE MACRO _nearest_programs(program) AS (
    SELECT string_agg(_near.name, ', ' ORDER BY _near.distance, _near.name)
    FROM (
        SELECT
            _each.name,
            levenshtein(left(_each.name, 100), left(program::VARCHAR, 100)) AS distance
        FROM programs AS _each
        ORDER BY 2, 1
        LIMIT 3
    ) AS _near
);

-- The methods of a program with the requested name, or all. If there is none of that name, it is an error that lists
-- the methods.
CREATE MACRO _selected_methods(
    program,
    method  -- a method's name; NULL: all
) AS TABLE
SELECT
    _each.program_id, _each.method,
    greatest((
        SELECT count(*)
        FROM instructions AS _instruction
        WHERE _instruction.program_id = _each.program_id AND _instruction.method = _each.method
    ) - 1, 0) AS last_step
FROM (SELECT _program_id(program) AS program_id) AS _found
JOIN methods AS _each USING (program_id)
WHERE CASE
    WHEN method IS NULL THEN true
    WHEN EXISTS (
        FROM methods AS _named
        WHERE _named.program_id = _found.program_id AND _named.method = method::VARCHAR
    ) THEN _each.method = method::VARCHAR
    ELSE error(
        'unknown method ' || method::VARCHAR || '; there are ' || (
            SELECT string_agg(_other.method, ', ' ORDER BY _other.method_index)
            FROM methods AS _other
            WHERE _other.program_id = _found.program_id
        )
    )
END;
