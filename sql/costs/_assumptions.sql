-- Sizes that a trace lacks, by name, as texts; NULL without any, an error for unknown names or invalid numbers.
CREATE MACRO _assumptions(
    assume  -- such as top_k=4,experts=128
) AS (
    list_transform(
        [{
            'text': assume,
            'words': list_transform(string_split(assume, ','), lambda pair: trim(string_split(pair, '=')[1])),
            'numbers': list_transform(string_split(assume, ','), lambda pair: trim(string_split(pair, '=')[2])),
            'known': ['top_k', 'experts', 'expert_width', 'matrices', 'weight_bytes', 'used_experts', 'seen_keys']
        }],
        lambda t: CASE
            WHEN t.text IS NULL THEN NULL
            WHEN NOT regexp_full_match(',' || t.text, '(, *\w+ *= *\d{1,12}(\.\d{1,6})? *)+')
                OR list_contains(list_transform(t.numbers, lambda n: try_cast(n AS DOUBLE) > 0), false)
                THEN error(
                    'assume: ''' || t.text || ''' is not a list of name=number with numbers above 0; write it as in '
                    || '''top_k=4,experts=128'', with the names ' || array_to_string(t.known, ', ')
                )
            WHEN NOT list_has_all(t.known, t.words) THEN error(
                'assume: nothing is called ' || list_filter(t.words, lambda w: NOT list_contains(t.known, w))[1]
                || '; the names are ' || array_to_string(t.known, ', ')
            )
            WHEN len(list_distinct(t.words)) < len(t.words)
                THEN error('assume: ''' || t.text || ''' has a name twice; give each once')
            ELSE map_from_entries(list_transform(t.words, lambda w, i: (w, t.numbers[i])))
        END
    )[1]
);

-- The assumed sizes from which a cost was computed, such as top_k=4 matrices=3; NULL if there are none.
CREATE MACRO _assumed_text(
    assumed,  -- as `_assumptions` has it
    names
) AS (
    nullif(
        array_to_string(
            list_transform(
                list_filter(names, lambda name: assumed[name] IS NOT NULL), lambda name: name || '=' || assumed[name]
            ),
            ' '
        ),
        ''
    )
);
