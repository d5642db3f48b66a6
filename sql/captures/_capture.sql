-- The captures that an argument matches: the capture with that hash or name; else all captures that the selector
-- chooses; else the captures whose hash begins with the argument. A selector is a list of parts separated by commas; a
-- capture must match all parts. `key=value` matches captures with this label, `key=a|b` those with one of these values,
-- and `key!=value` those with another value. Ranges such as `build>=91` (also >, <=, <) match values in the range;
-- `captured_at>=2026-11-15` and `since=7d` match captures of that time. At most one part is @latest or @previous. Of
-- the captures that match the other parts, it chooses the one that was recorded last according to `_recorded_at`, or
-- the one before that. Captures without a label match no part about this label. A value with a comma or | must be
-- quoted; quotes in it are doubled. Quotes can be left out if the selector has only this part, and no capture matches
-- if the value is split. `since="7d"` means a label named since. Table aliases begin with an underscore in this file.
-- An argument may be a column of the caller, as in `LATERAL (FROM op_totals(c.name))`; an alias of the same name would
-- hide this column.
CREATE MACRO _matching_captures(capture) AS TABLE
SELECT _way.capture_id, _way.name FROM _capture_matches(capture) AS _way WHERE _way.way = _way.best;

-- All captures, and whether an argument matches them.
CREATE MACRO _capture_matches(capture) AS TABLE
SELECT _way.capture_id, _way.name, _way.way, min(_way.way) OVER () AS best
FROM (
    SELECT _each.capture_id, _each.name,
        CASE
            WHEN _is_key(capture) THEN CASE WHEN _each.capture_id = try_cast(capture AS BIGINT) THEN 1 END
            WHEN length(capture::VARCHAR) = 64 AND _each.sha256 = capture::VARCHAR THEN 1
            WHEN _each.name = capture::VARCHAR THEN 2
            WHEN _is_selector(capture::VARCHAR) THEN CASE WHEN _selected.capture_id IS NOT NULL THEN 3 END
            WHEN length(capture::VARCHAR) >= 4 AND starts_with(_each.sha256, lower(capture::VARCHAR)) THEN 3
        END AS way
    FROM captures AS _each
    LEFT JOIN _selected_captures(capture::VARCHAR) AS _selected USING (capture_id)
) AS _way;

-- The captures that an argument matches, in one row.
CREATE MACRO _resolved_captures(capture) AS TABLE
SELECT _found.keys, _found.names,
    _none_matches('capture', coalesce(capture::VARCHAR, 'NULL'), _found.nearest) AS missing
FROM (
    SELECT coalesce(list(_way.capture_id) FILTER (WHERE _way.way = _way.best), []) AS keys,
        list(_way.name ORDER BY _way.name) FILTER (WHERE _way.way = _way.best) AS names,
        _nearest(_way.name, CASE WHEN _way.best IS NULL THEN capture::VARCHAR END) AS nearest
    FROM _capture_matches(capture) AS _way
) AS _found;

-- The captures that a selector chooses; no rows if the text is not a selector.
CREATE MACRO _selected_captures(
    selector  -- labels, times, and @latest or @previous, separated by commas
) AS TABLE
SELECT _ranked.capture_id
FROM (
    SELECT _met.capture_id, _met.score, max(_met.score) OVER () AS best,
        row_number() OVER (
            PARTITION BY _met.score
            ORDER BY
                _recorded_at(_met.captured_at, _met.ingested_at) DESC, _met.ingested_at DESC, _met.capture_id DESC
        ) AS age
    FROM (
        SELECT _each.capture_id, _each.captured_at, _each.ingested_at,
            CASE
                WHEN count(DISTINCT _asked.part) = count(DISTINCT _asked.part) FILTER (WHERE CASE
                    WHEN _asked.part.part[1] = '@' THEN true
                    WHEN _asked.part.is_time AND _is_time(_asked.part.part)
                        THEN _is_recorded_then(_asked.part.part, _each.captured_at, _each.ingested_at)
                    ELSE _label.key = _asked.part.key AND _meets(_label.value, _asked.part)
                END) THEN 2
                -- One label whose value was to be quoted.
                WHEN bool_or(_label.key || '=' || _label.value = selector) THEN 1
            END AS score
        FROM captures AS _each
        LEFT JOIN labels AS _label USING (capture_id)
        CROSS JOIN (
            SELECT unnest(CASE WHEN _is_selector(selector) THEN _selector_terms(selector) END) AS part
        ) AS _asked
        GROUP BY _each.capture_id, _each.captured_at, _each.ingested_at
    ) AS _met
) AS _ranked
WHERE CASE
    WHEN _ranked.score IS NULL OR _ranked.score < _ranked.best THEN false
    ELSE CASE list_filter(_selector_parts(selector), lambda p: p[1] = '@')
        WHEN [] THEN true
        WHEN ['@latest'] THEN _ranked.age = 1
        WHEN ['@previous'] THEN _ranked.age = 2
        ELSE error(
            selector || ' is not a selector: it takes one of @latest, @previous and @NAME, a view that etq db view '
            || 'lists; @NAME stands first, and only outside SQL'
        )
    END
END;

-- Whether a text is a selector: it contains =, or it begins with @, or its first part has < or >.
CREATE MACRO _is_selector(text) AS (contains(text, '=') OR regexp_matches(text, '^(@|[^,<>"]+[<>])'));

-- Whether a label's value matches a part of a selector: it is one of the values, is none of them, or is within the
-- range. Numbers are compared as numbers, and sort before other texts. For <= and >, the last element puts the bound
-- after an equal label.
CREATE MACRO _meets(
    value,
    part  -- as in `_selector_terms`
) AS (
    CASE part.sign
        WHEN '=' THEN list_contains(part.values, value)
        WHEN '!=' THEN NOT list_contains(part.values, value)
        ELSE (
            (try_cast(value AS DOUBLE), value, 0)
            < (try_cast(part.values[1] AS DOUBLE), part.values[1], (part.sign IN ('<=', '>'))::INTEGER)
        ) <> (part.sign[1] = '>')
    END
);

-- The parts of a selector: the texts between commas that are not in quotation marks.
CREATE MACRO _all_parts(
    selector  -- labels, times, and @latest or @previous, separated by commas
) AS (
    regexp_extract_all(selector, '[^,="]+=(?:"(?:[^"]|"")*"|[^,|]*)(?:\|(?:"(?:[^"]|"")*"|[^,|]*))*|[^,]+')
);

-- The distinct parts of a selector.
CREATE MACRO _selector_parts(selector) AS (list_distinct(_all_parts(selector)));

-- The parts of a selector in order, each with its key, its sign (=, !=, <, <=, >, >=) and its values without quotation
-- marks. All are empty for a part without a sign. A range has one value. `is_time` is whether the part is, or was meant
-- to be, a time.
CREATE MACRO _selector_terms(selector) AS (
    list_transform(_all_parts(selector), lambda p: struct_pack(
        part := p, key := _selector_key(p), sign := regexp_extract(p, '^[^=<>]+?(!=|=|[<>]=?)', 1),
        values := CASE
            WHEN NOT regexp_matches(p, '^[^=<>]+=') THEN [regexp_extract(p, '^[^=<>]+[<>]=?(.*)$', 1, 's')]
            ELSE list_transform(
                regexp_extract_all(
                    -- A | is added at the beginning, so that the first value is found like the others.
                    '|' || regexp_extract(p, '^[^=<>]+=(.*)$', 1, 's'), '\|("(?:[^"]|"")*"|[^|]*)', 1
                ), lambda v: CASE
                    WHEN regexp_full_match(v, '"(?:[^"]|"")*"') THEN replace(v[2:-2], '""', '"')
                    ELSE v
                END
            )
        END,
        is_time := regexp_matches(p, '^(since *=([^"]|$)|captured_at *(!=|[<>=]))')
    ))
);

-- The key of a part of a selector; empty for a part without a sign.
CREATE MACRO _selector_key(part) AS (regexp_extract(part, '^([^=<>]+?)(!=|[=<>])', 1));

-- The parts of a selector that are about labels.
CREATE MACRO _label_parts(selector) AS (
    list_filter(_selector_parts(selector), lambda p: p[1] <> '@' AND NOT _is_time(p))
);

-- Whether a part of a selector is a time.
CREATE MACRO _is_time(part) AS (
    regexp_matches(
        part, '^(since=\d{1,6}[hdw]|captured_at[<>]=?\d{4}(-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?)?)?)?)$'
    )
);

-- Whether a part about time matches a capture. A shortened time stands for the whole period that it names: <=2026-11-20
-- includes the 20th, <=2026-12 all of December. Captures without captured_at match no part about captured_at. For since
-- and @latest, their time of ingest is used.
CREATE MACRO _is_recorded_then(
    part,  -- captured_at>=2026-11-15, also with >, <= or <; since=7d, also with h or w
    captured_at,  -- when it was measured; NULL where unknown
    ingested_at  -- when it was read
) AS (
    CASE
        WHEN starts_with(part, 'since=') THEN
            _recorded_at(captured_at, ingested_at)
            >= make_timestamp(epoch_us(now())) - try_cast(part[7:] AS INTERVAL)
        WHEN starts_with(_exact_time(captured_at), _time_of(part)) THEN part[13] = '='
        ELSE (_exact_time(captured_at) > _time_of(part)) = (part[12] = '>')
    END
);

-- A time as a text that sorts like the time.
CREATE MACRO _exact_time(captured_at) AS (strftime(captured_at, '%Y-%m-%d %H:%M:%S.%f'));

-- The time in a part of a selector, in the form of `_exact_time`, or its beginning.
CREATE MACRO _time_of(part) AS (translate(part[12:], 'T<>=Z', ' '));

-- The argument if it is a key; an error if no capture has this key. NULL for a text.
CREATE MACRO _id_of_key(capture) AS (
    (
        SELECT
            CASE
                WHEN _each.capture_id IS NULL THEN error('no capture has the key ' || capture::VARCHAR)
                ELSE _each.capture_id
            END
        FROM (SELECT try_cast(capture AS BIGINT) AS capture_id WHERE _is_key(capture)) AS _asked
        LEFT JOIN captures AS _each USING (capture_id)
    )
);

-- The key of the one capture that a text matches; NULL for a key. If none or several match, it is an error that lists
-- the nearest captures.
CREATE MACRO _id_of_text(capture) AS (
    (
        SELECT _one_key('capture', capture::VARCHAR, _found.keys, _found.names, _found.missing)
        FROM _resolved_captures(capture::VARCHAR) AS _found
        WHERE NOT _is_key(capture)
    )
);

-- Key of the one capture that an argument matches: a text, or a key. Planning the search for a text takes longer than
-- many queries. So etq replaces this macro by one that has a body for each type: DuckDB plans only the body for the
-- argument's type.
CREATE MACRO _any_capture_id(capture) AS (coalesce(_id_of_key(capture), _id_of_text(capture)));

-- Why a capture whose events were pruned has no rows.
CREATE MACRO _why_no_events(capture_name) AS (
    'the events of ' || capture_name || ' were pruned; what is kept serves comparisons only; '
    || 'ingest its file again for this'
);

-- Why the times of a capture can't be shown in a unit.
CREATE MACRO _why_not_in_unit(capture_name, time_scale, unit) AS (
    capture_name || ' counts ' || time_scale
    || ', which cannot be converted to ' || unit || '; ingest it with its true time scale, or request '
    || CASE time_scale WHEN 'cycles' THEN 'cycles' ELSE 'a unit of time' END
);

-- The one capture that an argument matches, for queries about its events, and the unit of results. It is an error if
-- the events were pruned.
CREATE MACRO _capture(capture, unit) AS TABLE
FROM (
    SELECT
        CASE
            WHEN _pruned.rule IS NULL THEN _asked.capture_id
            ELSE _lacking(capture, _why_no_events(_asked.name))::INTEGER
        END AS capture_id,
        _asked.time_scale, _asked.profiling_level, _asked.name, _asked.format, _asked.record_id, _asked.program_id,
        CASE
            WHEN unit IS NULL THEN _default_unit(_asked.time_scale)
            WHEN unit NOT IN ('ns', 'us', 'ms', 's', 'cycles')
                THEN error('unknown unit ' || unit || '; known are ns, us, ms, s, cycles')
            WHEN (unit = 'cycles') <> (_asked.time_scale = 'cycles')
                THEN _lacking(capture, _why_not_in_unit(_asked.name, _asked.time_scale, unit))::VARCHAR
            ELSE unit
        END AS unit
    FROM (SELECT _any_capture_id(capture) AS capture_id) AS _found
    JOIN captures AS _asked USING (capture_id)
    LEFT JOIN findings AS _pruned ON _pruned.capture_id = _asked.capture_id AND _pruned.rule = 'events pruned'
) AS _scaled
-- An unknown unit is an error even if no result uses it.
WHERE _scaled.capture_id IS NOT NULL AND _scaled.unit IS NOT NULL;

-- The key of that capture.
CREATE MACRO _capture_id(capture) AS ((SELECT _meant.capture_id FROM _capture(capture, NULL) AS _meant));

-- The arguments of two sides, and a third one, as texts that can be searched for at once: planning a search takes
-- longer than the search. `meant` is the argument, or, for a key, the capture's hash.
CREATE MACRO _asked_sides(
    base, new,
    history := NULL  -- the third argument, such as a reference; NULL: none
) AS TABLE
SELECT _asked.side, _asked.selector,
    CASE
        WHEN NOT _asked.is_key THEN _asked.selector
        WHEN _each.capture_id IS NULL THEN error('no capture has the key ' || _asked.selector)
        ELSE _each.sha256
    END AS meant
FROM (
    SELECT unnest([
        {'side': 'base', 'selector': base::VARCHAR, 'is_key': _is_key(base)},
        {'side': 'new', 'selector': new::VARCHAR, 'is_key': _is_key(new)}
    ] || CASE
        WHEN history IS NULL THEN [] ELSE [
            {'side': 'history', 'selector': history::VARCHAR, 'is_key': _is_key(history)}
        ]
    END, recursive := true)
) AS _asked
LEFT JOIN captures AS _each ON _asked.is_key AND _each.capture_id = try_cast(_asked.selector AS BIGINT);
