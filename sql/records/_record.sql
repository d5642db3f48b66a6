-- The records that an argument matches: the one with that name, else those with that prefix of their hash. Table
-- aliases begin with an underscore in this file, as in captures/_capture.sql.
CREATE MACRO _matching_records(record) AS TABLE
SELECT _each.record_id, _each.name
FROM records AS _each
WHERE CASE
    WHEN EXISTS (FROM records AS _named WHERE _named.name = record::VARCHAR) THEN _each.name = record::VARCHAR
    ELSE length(record::VARCHAR) >= 4
        AND starts_with(_each.sha256, lower(record::VARCHAR))
END;

-- Key of the one record that an argument matches. If none or several match, it is an error that lists the nearest ones.
CREATE MACRO _record_id(record) AS (
    SELECT CASE _found.number
        WHEN 1 THEN _found.record_id
        WHEN 0 THEN error(
            'no record matches ' || record::VARCHAR || coalesce(
                '; there are ' || (
                    SELECT string_agg(_each.name, ', ' ORDER BY _each.record_id)
                    FROM (FROM records AS _all LIMIT 5) AS _each
                ),
                '; the warehouse has no records'
            )
        )
        ELSE error(
            record::VARCHAR || ' matches ' || _found.number || ' records ('
            || array_to_string(_found.names[:3], ', ') || '); name one'
        )
    END
    FROM (
        SELECT
            count(*) AS number, max(_match.record_id) AS record_id,
            list(_match.name ORDER BY _match.name) AS names
        FROM _matching_records(record) AS _match
    ) AS _found
);
