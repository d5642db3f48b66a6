-- The captures that an argument means: the one of that hash or name, else all
-- that a selector chooses, else by prefix of their hash. A selector is a list
-- with commas between: of key=value, which choose captures that have all these
-- labels, and at most one of @latest and @previous, which choose among these the
-- last or the one before it, by when they were captured, then ingested.
-- A value with a comma stands in quotation marks (those in it twice), or alone.
-- Tables are named with an underscore in this file: an argument may be a
-- column of the caller's, as in `LATERAL (FROM op_totals(c.name))`, and must
-- not be taken for one of these.
-- Columns:
--   capture_id: the capture
--   name: its name
CREATE MACRO _matching_captures(
    capture  -- a name, a selector, or at least 4 letters of a hash
) AS TABLE
SELECT _way.capture_id, _way.name
FROM _ways_of_naming(capture) AS _way
WHERE _way.way = _way.best;

-- All captures, and whether an argument means them.
-- Columns:
--   capture_id: the capture
--   name: its name
--   way: how the argument means it: 1 by hash, 2 by name, 3 by selector or prefix; NULL if not
--   best: the least of all captures' ways; NULL if it means none
CREATE MACRO _ways_of_naming(
    capture  -- a name, a selector, or at least 4 letters of a hash
) AS TABLE
SELECT
    _way.capture_id,
    _way.name,
    _way.way,
    min(_way.way) OVER () AS best
FROM (
    SELECT
        _each.capture_id,
        _each.name,
        CASE
            WHEN length(capture::VARCHAR) = 64 AND _each.sha256 = capture::VARCHAR
                THEN 1
            WHEN _each.name = capture::VARCHAR THEN 2
            WHEN contains(capture::VARCHAR, '=') OR starts_with(capture::VARCHAR, '@')
                THEN CASE WHEN _selected.capture_id IS NOT NULL THEN 3 END
            WHEN length(capture::VARCHAR) >= 4
                AND starts_with(_each.sha256, lower(capture::VARCHAR)) THEN 3
        END AS way
    FROM captures AS _each
    LEFT JOIN _selected_captures(capture::VARCHAR) AS _selected
        ON _selected.capture_id = _each.capture_id
) AS _way;

-- What an argument means, in one row.
-- Columns:
--   keys: the captures; empty if it means none
--   names: their names, sorted; NULL if it means none
--   missing: what to say if it means none, with the three names that are spelled most like it
CREATE MACRO _meant_captures(
    capture  -- as everywhere
) AS TABLE
SELECT
    _found.keys,
    _found.names,
    'no capture matches ' || coalesce(capture::VARCHAR, 'NULL') || coalesce(
        '; the nearest are ' || array_to_string(
            list_transform(list_sort(_found.nearest)[:3], lambda n: n.name), ', '
        ),
        '; the warehouse is empty'
    ) AS missing
FROM (
    SELECT
        coalesce(
            list(_way.capture_id) FILTER (WHERE _way.way = _way.best), []
        ) AS keys,
        list(_way.name ORDER BY _way.name)
            FILTER (WHERE _way.way = _way.best) AS names,
        -- Distances take time: only where nothing else is found.
        list(CASE
            WHEN _way.best IS NULL THEN struct_pack(
                distance := levenshtein(_way.name, capture::VARCHAR),
                name := _way.name
            )
        END) FILTER (WHERE _way.best IS NULL) AS nearest
    FROM _ways_of_naming(capture) AS _way
) AS _found;

-- The captures that a selector chooses; none where the text is no selector.
-- Columns:
--   capture_id: the capture
CREATE MACRO _selected_captures(
    selector  -- key=value and @latest or @previous, with commas between
) AS TABLE
SELECT _ranked.capture_id
FROM (
    SELECT
        _each.capture_id,
        row_number() OVER (
            ORDER BY
                _each.captured_at DESC NULLS LAST,
                _each.ingested_at DESC,
                _each.capture_id DESC
        ) AS age
    FROM captures AS _each
    WHERE len(list_filter(_selector_parts(selector), lambda p: left(p, 1) <> '@')) = 0
        OR _each.capture_id IN (
            SELECT _label.capture_id
            FROM labels AS _label
            -- Keys are few: most labels are ruled out by theirs.
            WHERE contains(selector, _label.key)
                AND (
                    _label.key || '=' || _label.value = selector
                    OR list_has_any(_selector_parts(selector), [
                        _label.key || '=' || _label.value,
                        _label.key || '="' || replace(_label.value, '"', '""') || '"'
                    ])
                )
            GROUP BY _label.capture_id
            HAVING bool_or(_label.key || '=' || _label.value = selector)
                OR count(*) = len(list_filter(
                    _selector_parts(selector), lambda p: left(p, 1) <> '@'
                ))
        )
) AS _ranked
WHERE (contains(selector, '=') OR starts_with(selector, '@'))
    AND CASE list_filter(_selector_parts(selector), lambda p: left(p, 1) = '@')
    WHEN [] THEN true
    WHEN ['@latest'] THEN _ranked.age = 1
    WHEN ['@previous'] THEN _ranked.age = 2
    ELSE error(
        selector || ' is no selector: of what begins with @ it may have one of '
        || '@latest and @previous'
    )
END;

-- The parts of a selector, each once: what stands between commas that are not
-- in quotation marks.
CREATE MACRO _selector_parts(
    selector  -- key=value and @latest or @previous, with commas between
) AS (
    list_distinct(
        regexp_extract_all(selector, '[^,="]+="(?:[^"]|"")*"|[^,]+')
    )
);

-- The key of the one capture that an argument means. It is an error, which
-- names the nearest ones, if there is none, or more than one.
CREATE MACRO _any_capture_id(
    capture  -- as everywhere
) AS (
    SELECT CASE len(_meant.keys)
        WHEN 1 THEN _meant.keys[1]
        WHEN 0 THEN error(_meant.missing)
        ELSE error(
            capture::VARCHAR || ' matches ' || len(_meant.keys) || ' captures ('
            || array_to_string(_meant.names[:3], ', ')
            || CASE WHEN len(_meant.keys) > 3 THEN ', ...' ELSE '' END
            || '); name one'
        )
    END
    FROM _meant_captures(capture) AS _meant
);

-- The key of the one capture that an argument means, to be asked about its
-- events: it is an error, too, if these were pruned.
CREATE MACRO _capture_id(
    capture  -- as everywhere
) AS (
    SELECT CASE
        WHEN _meant.capture_id IN (
            SELECT _finding.capture_id
            FROM findings AS _finding
            WHERE _finding.rule = 'events pruned'
        ) THEN error(
            'the events of ' || capture::VARCHAR || ' were pruned, and only its '
            || 'rollups kept, as comparisons need; to ask this, ingest its file again'
        )
        ELSE _meant.capture_id
    END
    FROM (SELECT _any_capture_id(capture) AS capture_id) AS _meant
);

-- The one capture that an argument means, and the unit to answer in.
-- Columns:
--   capture_id: the capture
--   time_scale: what one of its ticks is
--   profiling_level: all, method_only, debug, or NULL
--   name: its name
--   unit: the unit asked for, or us (cycles where ticks are cycles)
CREATE MACRO _capture(
    capture,  -- as everywhere
    unit  -- ns, us, ms, s, cycles, or NULL for us (cycles where ticks are cycles)
) AS TABLE
SELECT
    _asked.capture_id,
    _asked.time_scale,
    _asked.profiling_level,
    _asked.name,
    CASE
        WHEN unit IS NULL
            THEN CASE _asked.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'us' END
        WHEN unit NOT IN ('ns', 'us', 'ms', 's', 'cycles')
            THEN error('no unit ' || unit || '; known are ns, us, ms, s, cycles')
        WHEN (unit = 'cycles') <> (_asked.time_scale = 'cycles') THEN error(
            _asked.name || ' counts ' || _asked.time_scale
            || ', which can''t be told in ' || unit
            || '; ingest it with its true time scale, or ask for '
            || CASE _asked.time_scale
                WHEN 'cycles' THEN 'cycles' ELSE 'a unit of time'
            END
        )
        ELSE unit
    END AS unit
FROM (SELECT _capture_id(capture) AS capture_id) AS _found
JOIN captures AS _asked ON _asked.capture_id = _found.capture_id;
