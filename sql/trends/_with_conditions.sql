-- The changes of series with the conditions that differ between the levels of a step: in that case the machine had two
-- levels, as far as is known.
CREATE MACRO _with_conditions(
    decided,  -- a table with the rows of `needs_etq_to_find_changes`, each with its number as `comparison`
    levels  -- a table with captures at both levels of steps: comparison, is_new, capture_id
) AS TABLE
WITH conditions AS (
    SELECT k.comparison, string_agg(k.name || ' ' || k.detail, '; ' ORDER BY k.name) AS condition
    FROM _conditions_of(levels, ['governor', 'device'], ' before', ' since') AS k
    GROUP BY k.comparison
)
SELECT c.* REPLACE (
        CASE WHEN k.condition IS NULL THEN c.stage ELSE 'one of two levels' END AS stage,
        CASE WHEN k.condition IS NULL THEN c.back END AS back
    ),
    k.condition
FROM query_table(decided) AS c
LEFT JOIN conditions AS k USING (comparison)
WHERE c.kind <> 'stretch';
