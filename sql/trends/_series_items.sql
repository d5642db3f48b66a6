-- The totals and ops of series of captures with their times, one row of an item of a series. Cycles and
-- times are different items. Values are logarithms; the values of ops are without the common shift. `captures` lists
-- the captures in order: the position, the time, and the common shift as a factor.
CREATE MACRO _series_items(
    ordered,  -- the name of a table with the rows of `_series_factors`
    phase
) AS TABLE
SELECT i.* EXCLUDE (times, shifts), list_sort(list_zip(i.positions, i.times, i.shifts)) AS captures,
    CASE WHEN i.is_total THEN 'total' ELSE 'op' END AS what, i.is_total AND i.kind <> 'device_total' AS is_of_all,
    CASE WHEN i.is_total THEN i.scope ELSE i.op || coalesce('@' || i.instruction_id, '') END AS name
FROM (
    SELECT d.series, o.item, o.op_index = 0 AS is_total, o.scope,
        arg_max(coalesce(o.op_type, o.family), d.position) AS op, arg_max(o.module_path, d.position) AS module_path,
        arg_max(o.instruction_id, d.position) AS instruction_id, median(o.p25 * d.scale) AS ticks,
        d.is_cycles, any_value(o.kind) AS kind,
        -- As in comparisons, ops that at least half of the captures have.
        CASE
            WHEN 2 * count(*) FILTER (WHERE _is_clock_coarse(o.p25, o.resolution)) >= count(*)
                THEN max(o.resolution * d.scale) FILTER (WHERE _is_clock_coarse(o.p25, o.resolution))
            ELSE 0
        END AS resolution,
        list(d.position) AS positions, list(d.build) AS builds, list(o.p25 * d.scale) AS times,
        list(CASE WHEN o.op_index = 0 OR _is_device_time(o.kind) THEN 1 ELSE exp(d.factor) END) AS shifts,
        list(
            ln(o.p25 * d.scale) - CASE WHEN o.op_index = 0 OR _is_device_time(o.kind) THEN 0 ELSE d.factor END
        ) AS values
    FROM query_table(ordered) AS d
    JOIN op_times AS o USING (capture_id)
    WHERE o.phase IS NOT DISTINCT FROM _checked_phase(phase) AND o.p25 > 0
    GROUP BY d.series, d.is_cycles, o.op_index = 0, o.scope, o.item
) AS i;
