-- The programs or records, with the names and hashes by which arguments match them. Table aliases begin with an
-- underscore in this file. An argument may be a column of the caller; an alias of the same name would hide it.
CREATE MACRO _named(
    kind  -- program or record
) AS TABLE
SELECT _program.program_id AS key, _program.name, _program.sha256 FROM programs AS _program WHERE kind = 'program'
UNION ALL
SELECT _record.record_id, _record.name, _record.sha256 FROM records AS _record WHERE kind = 'record';

-- Whether an argument is a key, not a text. The type of a parameter can't decide this, because DuckDB before 2.0.1
-- can't bind a column in LATERAL to a parameter with a type.
CREATE MACRO _is_key(given) AS (typeof(given) NOT IN ('VARCHAR', '"NULL"'));

-- The result for a capture that lacks something that a view needs. If the capture is named by a text, it is an error.
-- If it is one of a column of keys, as in LATERAL, it is no key, and so no rows; `missing_needs` has the reasons. For a
-- single capture, Python passes the key as a HUGEINT, a type that no column of keys has.
CREATE MACRO _lacking(capture, reason) AS (
    CASE WHEN typeof(capture) IN ('VARCHAR', 'HUGEINT') THEN error(reason)::BIGINT END
);

-- All programs or records, and whether an argument matches them: by key; by name, or else by a prefix of their hash.
CREATE MACRO _named_matches(kind, given) AS TABLE
SELECT _way.key, _way.name, _way.way, min(_way.way) OVER () AS best
FROM (
    SELECT _each.key, _each.name,
        CASE
            WHEN _is_key(given) THEN CASE WHEN _each.key = try_cast(given AS BIGINT) THEN 1 END
            WHEN _each.name = given::VARCHAR THEN 1
            WHEN length(given::VARCHAR) >= 4 AND starts_with(_each.sha256, lower(given::VARCHAR)) THEN 2
        END AS way
    FROM _named(kind) AS _each
) AS _way;

-- Key of the one program or record that an argument matches: a text, or a key. If none or several match, it is an error
-- that lists the nearest names.
CREATE MACRO _key_of(kind, given) AS (
    (
        SELECT
            _one_key(
                kind, given::VARCHAR, _found.keys, _found.names,
                CASE
                    WHEN _is_key(given) THEN 'no ' || kind || ' has the key ' || given::VARCHAR
                    ELSE _none_matches(kind, given::VARCHAR, _found.nearest)
                END
            )
        FROM (
            SELECT list(_way.key) FILTER (WHERE _way.way = _way.best) AS keys,
                list(_way.name ORDER BY _way.name) FILTER (WHERE _way.way = _way.best) AS names,
                _nearest(_way.name, CASE WHEN _way.best IS NULL THEN given::VARCHAR END) AS nearest
            FROM _named_matches(kind, given) AS _way
        ) AS _found
    )
);

-- The key of the one program or record that matches an argument; an error if none or several match.
CREATE MACRO _one_key(
    kind, given, keys,
    names,  -- the names that there are, sorted
    missing  -- the error if there are none
) AS (
    CASE coalesce(len(keys), 0)
        WHEN 1 THEN keys[1]
        WHEN 0 THEN error(missing)
        ELSE error(
            given || ' matches ' || len(keys) || ' ' || kind || 's (' || array_to_string(names[:3], ', ')
            || CASE WHEN len(keys) > 3 THEN ', ...' ELSE '' END || '); name one'
        )
    END
);

-- The edit distance between two texts. Only the first 100 characters are compared, because the time grows with the
-- product of the lengths.
CREATE MACRO _distance(name, given) AS (damerau_levenshtein(left(name, 100), left(given, 100)));

-- The three names that are nearest to a text, how many names are near enough to be the intended one, and how many there
-- are. The text is NULL if none is given.
CREATE MACRO _nearest(name, given) AS ({
    'names': arg_min(name, (_distance(name, given), name), 3),
    'near': count(*) FILTER (
        WHERE _distance(name, given) <= least(greatest(1, length(given) // 3), length(given) - 1)
    ),
    'all': count(*)
});

-- The error if nothing matches a text. It has the nearest names, or some of all names and how to list them.
CREATE MACRO _none_matches(
    kind, given,
    nearest  -- the result of `_nearest`
) AS (
    'no ' || kind || ' matches ' || given || CASE
        WHEN nearest['all'] = 0 THEN '; the warehouse has no ' || replace(kind, 'capture or ', '') || 's'
        WHEN nearest.near > 0 THEN
            '; the nearest ' || CASE WHEN nearest.near = 1 THEN 'is ' ELSE 'are ' END
            || array_to_string(nearest.names[:nearest.near], ', ')
        WHEN nearest['all'] = 1 THEN '; there is ' || nearest.names[1]
        ELSE '; there are ' || array_to_string(nearest.names, ', ') || CASE
            WHEN nearest['all'] > 3 THEN
                ' and ' || (nearest['all'] - 3) || ' more (' || CASE WHEN kind LIKE 'capture%' THEN 'etq captures'
                    ELSE 'FROM ' || kind || 's' END || ' lists all)'
            ELSE ''
        END
    END
);
