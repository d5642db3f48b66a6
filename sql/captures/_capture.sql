-- The captures that an argument means: the one of that name, else @latest,
-- else all that have the labels of a selector, else by prefix of their hash.
-- Columns:
--   capture_id: the capture
--   name: its name
CREATE MACRO _matching_captures(
    capture  -- a name, @latest, key=value,key=value, or at least 4 letters of a hash
) AS TABLE
SELECT c.capture_id, c.name
FROM captures AS c
WHERE CASE
    WHEN EXISTS (
        FROM captures AS named WHERE named.name = capture::VARCHAR
    ) THEN c.name = capture::VARCHAR
    WHEN capture::VARCHAR = '@latest' THEN c.capture_id = (
        SELECT latest.capture_id
        FROM captures AS latest
        ORDER BY
            latest.captured_at DESC NULLS LAST,
            latest.ingested_at DESC,
            latest.capture_id DESC
        LIMIT 1
    )
    WHEN contains(capture::VARCHAR, '=') THEN (
        SELECT count(*)
        FROM labels AS l
        WHERE l.capture_id = c.capture_id
            AND list_contains(
                string_split(capture::VARCHAR, ','), l.key || '=' || l.value
            )
    ) = len(list_distinct(string_split(capture::VARCHAR, ',')))
    ELSE length(capture::VARCHAR) >= 4
        AND starts_with(c.sha256, lower(capture::VARCHAR))
END;

-- The key of the one capture that an argument means. It is an error, which
-- names the nearest ones, if there is none, or more than one.
CREATE MACRO _capture_id(
    capture  -- as everywhere
) AS (
    SELECT CASE found.number
        WHEN 1 THEN found.capture_id
        WHEN 0 THEN error(
            'no capture matches ' || capture::VARCHAR || coalesce(
                '; the nearest are ' || _nearest_captures(capture),
                '; the warehouse is empty'
            )
        )
        ELSE error(
            capture::VARCHAR || ' matches ' || found.number || ' captures ('
            || array_to_string(found.names[:3], ', ')
            || CASE WHEN found.number > 3 THEN ', ...' ELSE '' END
            || '); name one'
        )
    END
    FROM (
        SELECT
            count(*) AS number,
            max(m.capture_id) AS capture_id,
            list(m.name ORDER BY m.name) AS names
        FROM _matching_captures(capture) AS m
    ) AS found
);

-- The names of the three captures that are spelled most like an argument, in
-- one text; NULL where there are no captures.
CREATE MACRO _nearest_captures(
    capture  -- as everywhere
) AS (
    SELECT string_agg(near.name, ', ' ORDER BY near.distance, near.name)
    FROM (
        SELECT
            c.name,
            levenshtein(c.name, capture::VARCHAR) AS distance
        FROM captures AS c
        ORDER BY 2, 1
        LIMIT 3
    ) AS near
);

-- The one capture that an argument means, and the unit to answer in.
-- Columns:
--   capture_id: the capture
--   time_scale: what one of its ticks is
--   unit: the unit asked for, or us (cycles where ticks are cycles)
CREATE MACRO _capture(
    capture,  -- as everywhere
    unit  -- ns, us, ms, s, cycles, or NULL for us (cycles where ticks are cycles)
) AS TABLE
SELECT
    c.capture_id,
    c.time_scale,
    CASE
        WHEN unit IS NULL
            THEN CASE c.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'us' END
        WHEN unit NOT IN ('ns', 'us', 'ms', 's', 'cycles')
            THEN error('no unit ' || unit || '; known are ns, us, ms, s, cycles')
        WHEN (unit = 'cycles') <> (c.time_scale = 'cycles') THEN error(
            c.name || ' counts ' || c.time_scale || ', which can''t be told in '
            || unit || '; ingest it with its true time scale, or ask for '
            || CASE c.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'a unit of time' END
        )
        ELSE unit
    END AS unit
FROM captures AS c
WHERE c.capture_id = _capture_id(capture);
