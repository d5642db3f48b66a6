-- The value of a parameter `by`; an error if it is not among `words`.
CREATE MACRO _checked_by("by", words) AS (
    CASE
        WHEN list_contains(words, "by") THEN "by"
        ELSE error(
            'by must be ' || array_to_string(words[:-2], ', ') || ' or ' || words[-1]
            || ', not ' || coalesce("by", 'NULL')
        )
    END
);
