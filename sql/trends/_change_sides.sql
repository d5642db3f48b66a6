-- The two sides to compare at a change, as a struct of selectors: base, all captures between the previous change and
-- this one, and new, all captures from this change to the next, with all captures of the first bad label. For a creep,
-- or if no range separates the two labels, the sides are the captures of the last good label and of the first bad one.
-- NULL if no selector chooses only the series, or none separates the two sides.
CREATE MACRO _change_sides(
    is_within,  -- whether the series' selector also chooses captures of other series
    labels,  -- selector of the series' captures, see `_series_selector`
    is_step, ordered_by,
    bound_key,  -- the key that ranges compare; NULL if its labels have no order
    first,  -- the bound of the series' first capture
    before,  -- the bound of the last capture before the change
    previous,  -- the bound of the first capture after the previous change; NULL for the first change
    bound,
    next,  -- the bound of the first capture after the next change; NULL for the last change
    last_good, first_bad
) AS (
    CASE
        WHEN is_within THEN NULL
        WHEN is_step
            AND bound_key IS NOT NULL
            AND bound <> first
            AND bound IS DISTINCT FROM previous
            AND bound IS DISTINCT FROM next
            AND (bound <> before OR first_bad = last_good)
            THEN {
                'base': concat_ws(',', labels, bound_key || '>=' || previous, bound_key || '<' || bound),
                'new': concat_ws(',', labels, bound_key || '>=' || bound, bound_key || '<' || next)
            }
        WHEN last_good <> first_bad THEN {
            'base': concat_ws(',', labels, _exact_label(ordered_by, last_good)),
            'new': concat_ws(',', labels, _exact_label(ordered_by, first_bad))
        }
    END
);

-- The part of a selector that chooses the captures of one label.
CREATE MACRO _exact_label(key, label) AS (
    CASE key
        WHEN 'captured_at' THEN concat(
            'captured_at>=', _exact_time(label::TIMESTAMP), ',captured_at<=', _exact_time(label::TIMESTAMP)
        )
        ELSE key || '=' || _selector_value(key, label)
    END
);

-- A selector of those captures of a series that another selector chooses, too; NULL for all captures. Names of
-- captures, and @latest and @previous, choose nothing here.
CREATE MACRO _series_selector(selector, series) AS (
    nullif(array_to_string(list_sort(list_distinct(list_concat(
        CASE
            WHEN selector IS NULL
                OR NOT _is_selector(selector)
                OR len(list_filter(_selector_parts(selector), lambda p: p[1] = '@')) > 0
                THEN []
            -- A single label whose value has commas.
            WHEN len(list_filter(_selector_parts(selector), lambda p: NOT regexp_matches(p, '[=<>]'))) > 0
                THEN [
                    split_part(selector, '=', 1) || '=' || _selector_value(
                        split_part(selector, '=', 1), selector[length(split_part(selector, '=', 1)) + 2:]
                    )
                ]
            ELSE _selector_parts(selector)
        END,
        _selector_parts(series)
    ))), ','), '')
);
