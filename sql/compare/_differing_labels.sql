-- The labels that may be the reason for a difference between two sides, besides the labels that select the sides: all
-- captures have the label, and no value is on both sides. Two kinds of labels are left out: labels of the program
-- (build, version, labels from git), which differ wherever programs are compared, and the governor, which is one of
-- `_conditions_of` the sides. A label that numbers the captures of a side, with a different value for each, is left out,
-- too. `ranks` isn't a label: it is the number of ranks of a job on each side, if one side has several.
CREATE MACRO _differing_labels(
    base,  -- selector of the side
    new,
    sides  -- the name of a table with the captures: columns is_new and capture_id
) AS TABLE
SELECT CASE WHEN _are_ranks(v.key, v.base_values, v.new_values) THEN 'ranks' ELSE v.key END AS name,
    CASE
        WHEN _are_ranks(v.key, v.base_values, v.new_values)
            THEN coalesce(len(v.base_values), 0) || ' in base, ' || coalesce(len(v.new_values), 0) || ' in new'
        ELSE _listed_values(v.base_values) || ' in all of base, ' || _listed_values(v.new_values) || ' in all of new'
    END AS detail
FROM (
    SELECT l.key, list_sort(list_distinct(list(l.value) FILTER (NOT s.is_new))) AS base_values,
        list_sort(list_distinct(list(l.value) FILTER (s.is_new))) AS new_values,
        count(*) FILTER (NOT s.is_new) AS of_base, count(*) FILTER (s.is_new) AS of_new,
        any_value(s.base_captures) AS base_captures, any_value(s.new_captures) AS new_captures
    FROM (
        SELECT t.capture_id, t.is_new, count(CASE WHEN NOT t.is_new THEN 1 END) OVER () AS base_captures,
            count(CASE WHEN t.is_new THEN 1 END) OVER () AS new_captures
        FROM query_table(sides) AS t
    ) AS s
    JOIN labels AS l USING (capture_id)
    WHERE l.key NOT IN ('build', 'version', 'commit', 'commit_time', 'branch', 'dirty', 'governor')
        AND NOT list_contains(
            list_transform(
                _label_parts(base::VARCHAR) || _label_parts(new::VARCHAR), lambda p: _selector_key(p)
            ), l.key
        )
    GROUP BY l.key
) AS v
WHERE _are_ranks(v.key, v.base_values, v.new_values)
    OR (
        v.of_base = v.base_captures
        AND v.of_new = v.new_captures
        AND NOT list_has_any(v.base_values, v.new_values)
        AND (len(v.base_values) = 1 OR len(v.base_values) < v.of_base)
        AND (len(v.new_values) = 1 OR len(v.new_values) < v.of_new)
    )
ORDER BY name;

-- Whether a side has several ranks of a job.
CREATE MACRO _are_ranks(key, base_values, new_values) AS (
    key = 'rank' AND greatest(coalesce(len(base_values), 0), coalesce(len(new_values), 0)) > 1
);

-- The first three of some values as text.
CREATE MACRO _listed_values(texts) AS (
    array_to_string(texts[:3], ', ') || CASE WHEN len(texts) > 3 THEN ', ...' ELSE '' END
);
