-- The programs or records, with the names and hashes that arguments match. Table aliases begin with an underscore in
-- this file: an argument may be a column of the caller's, and must not be captured by one of these.
CREATE MACRO _named(
    kind  -- program or record
) AS TABLE
SELECT _program.program_id AS key, _program.name, _program.sha256 FROM programs AS _program WHERE kind = 'program'
UNION ALL
SELECT _record.record_id, _record.name, _record.sha256 FROM records AS _record WHERE kind = 'record';

-- All of them, and whether an argument matches them: by name, or else by a prefix of their hash.
CREATE MACRO _named_matches(kind, given) AS TABLE
SELECT _way.key, _way.name, _way.way, min(_way.way) OVER () AS best
FROM (
    SELECT _each.key, _each.name,
        CASE
            WHEN _each.name = given::VARCHAR THEN 1
            WHEN length(given::VARCHAR) >= 4 AND starts_with(_each.sha256, lower(given::VARCHAR)) THEN 2
        END AS way
    FROM _named(kind) AS _each
) AS _way;

-- Key of the one program or record that an argument matches: a text, or a key. If none or several match, it is an error
-- that lists the nearest ones.
CREATE MACRO _key_of(kind, given VARCHAR) AS (
    SELECT _one_key(kind, given, _found.keys, _found.names, _none_matches(kind, given, _found.nearest))
    FROM (
        SELECT list(_way.key) FILTER (WHERE _way.way = _way.best) AS keys,
            list(_way.name ORDER BY _way.name) FILTER (WHERE _way.way = _way.best) AS names,
            list(_distance(_way.name, given)) FILTER (WHERE _way.best IS NULL) AS nearest
        FROM _named_matches(kind, given) AS _way
    ) AS _found
), (kind, given) AS (
    CASE
        WHEN EXISTS (FROM _named(kind) AS _each WHERE _each.key = given) THEN given
        ELSE error('no ' || kind || ' has the key ' || given)
    END
);

-- The one key of those that match an argument; an error for none or several.
CREATE MACRO _one_key(
    kind, given, keys,
    names,  -- those that they have, sorted
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

-- The distance of a name from a text, and whether it is too far for the name to be what was meant; of the first 100
-- characters, as the time grows with the product of the lengths.
CREATE MACRO _distance(name, given) AS (
    struct_pack(
        is_far := damerau_levenshtein(left(name, 100), left(given, 100))
            > least(greatest(1, length(given) // 3), length(given) - 1),
        distance := damerau_levenshtein(left(name, 100), left(given, 100)), name := name
    )
);

-- The three nearest names, by their distances.
CREATE MACRO _first_names(nearest) AS (array_to_string(list_transform(list_sort(nearest)[:3], lambda n: n.name), ', '));

-- The error if nothing matches a text, with the nearest names, or some of all and how to list them.
CREATE MACRO _none_matches(
    kind, given,
    nearest  -- distances of all names; NULL if there are none
) AS (
    'no ' || kind || ' matches ' || given || CASE
        WHEN nearest IS NULL THEN '; the warehouse has no ' || replace(kind, 'capture or ', '') || 's'
        WHEN NOT list_min(nearest).is_far
            THEN '; the nearest are ' || _first_names(list_filter(nearest, lambda n: NOT n.is_far))
        ELSE '; there are ' || _first_names(nearest) || CASE
            WHEN len(nearest) > 3
                THEN ' and ' || (len(nearest) - 3) || ' more (' || CASE WHEN kind LIKE 'capture%' THEN 'etq captures'
                    ELSE 'FROM ' || kind || 's' END || ' lists all)'
            ELSE ''
        END
    END
);
