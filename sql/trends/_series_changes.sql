-- The changes of items of series, and the stretches between accepted changes, as `etq.verdicts.series` finds them.
CREATE MACRO _series_changes(
    items,  -- the name of a table: number, series, measure, name, identity, scope, is_of_all, family, positions, series_positions (of the same captures in the series), builds, values, resolution, total
    parts,  -- a list of such items, whose accepted changes may explain changes of totals; NULL: the items themselves
    ordered,  -- the name of a table with the rows of `_series_factors`
    comments,  -- the name of a table with the rows of `_series_comments`
    alpha, min_effect
) AS TABLE
WITH series_places AS (SELECT d.series, d.position, d.capture_id FROM query_table(ordered) AS d),
conditions AS (
    SELECT v.series, v.name, v.unit, v.text, list(v.position) AS captures, list(v.value) AS values
    FROM _condition_values('series_places', ['governor', 'device']) AS v
    GROUP BY v.series, v.name, v.unit, v.text
)
SELECT unnest(
    needs_etq_to_find_changes(
        (SELECT list(i) FROM query_table(items) AS i), parts, (SELECT list(c) FROM query_table(comments) AS c),
        (SELECT list(k) FROM conditions AS k), ln(1 + min_effect), alpha::DOUBLE
    ),
    recursive := true
);
