-- The times of captures' events, from which, with their names, the answers to default arguments are computed. The alias is one that no macro
-- has: it would hide the argument.
CREATE MACRO _answered_times(first_key, last_key) AS TABLE
SELECT t.*
FROM captures AS _answered, LATERAL (FROM _timed_ticks(_answered.capture_id, NULL, NULL, NULL, NULL, 'all')) AS t
WHERE _answered.capture_id BETWEEN first_key AND last_key AND _answered.format <> 'torch_trace';

-- The rows of the table `all_op_totals`.
CREATE MACRO _find_all_op_totals(
    times  -- a table with rows of `_timed_events`
) AS TABLE
WITH
typical_times AS (
    SELECT t.*, NULL::VARCHAR AS op_type, NULL::VARCHAR AS output_shape
    FROM query_table(times) AS t
    WHERE t.is_typical AND t.execute_index IS NOT NULL
)
FROM _op_totals('typical_times', 'family') AS o
ORDER BY o.capture_id, o.place;

-- The rows of the table `all_execute_breakdown`.
CREATE MACRO _find_all_execute_breakdown(
    times  -- a table with rows of `_timed_events`
) AS TABLE
WITH
typical_times AS (FROM query_table(times) AS t WHERE t.is_typical AND t.execute_index IS NOT NULL)
FROM _execute_breakdown('typical_times') AS b
ORDER BY b.capture_id, b.place;

-- The rows of the table `all_framework_tax`.
CREATE MACRO _find_all_framework_tax(
    taxes  -- a table with rows of `_run_taxes`
) AS TABLE
SELECT
    x.capture_id,
    row_number() OVER (PARTITION BY x.capture_id ORDER BY x.run_index)::INTEGER AS place,
    x.run_index, x.method, x.execute, x.kernels, x.delegates, x.operators, x.tracing, x.tax, x.tax_percent, x.note,
    x.unit
FROM _framework_taxes(taxes) AS x
ORDER BY x.capture_id, x.run_index;

-- The rows of the table `all_headline`.
CREATE MACRO _find_all_headline(
    times,  -- a table with rows of `_timed_events`
    taxes  -- a table with rows of `_run_taxes`
) AS TABLE
FROM _headline(times, taxes, NULL, 'typical') AS h
ORDER BY h.capture_id, h.place;
