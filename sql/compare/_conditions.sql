-- The conditions of captures: metrics without a better direction in any of them, and the labels of some keys as texts.
CREATE MACRO _condition_values(
    measured,  -- the name of a table with capture_id, whose columns are returned
    keys  -- keys of labels
) AS TABLE
SELECT s.*, m.name, m.value, m.unit, NULL AS text
FROM query_table(measured) AS s
JOIN metrics AS m USING (capture_id)
-- Conditions measured after a capture may be caused by it.
WHERE NOT ends_with(m.name, '_after')
QUALIFY count(m.better) OVER (PARTITION BY m.name, m.unit) = 0
UNION ALL
SELECT s.*, l.key, 0, NULL, l.value
FROM query_table(measured) AS s
JOIN labels AS l USING (capture_id)
WHERE list_contains(keys, l.key);

-- Each condition of captures in each of its units, with the captures and values of all.
CREATE MACRO _conditions(
    measured  -- as in `_condition_values`
) AS TABLE
SELECT v.name, v.unit, v.text, list(v.capture_id)::BIGINT[] AS captures, list(v.value) AS values
FROM _condition_values(measured, ['governor']) AS v
GROUP BY v.name, v.unit, v.text;
