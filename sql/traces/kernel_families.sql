-- The kernels, copies and fills whose total the families' shares refer to: those that steps launched, or all if there
-- are none.
CREATE MACRO _counted_launches(
    capture_key,
    launches  -- a table of the rows of `_launches`
) AS TABLE
WITH stepped AS (
    SELECT w AS launch, _is_step_run(r.name) AS is_of_step, bool_or(_is_step_run(r.name)) OVER () AS has_steps
    FROM query_table(launches) AS w
    JOIN runs AS r ON r.capture_id = capture_key AND r.run_index = w.run_index
)
SELECT unnest(s.launch) FROM stepped AS s WHERE s.is_of_step OR NOT s.has_steps;

-- The kernels, copies and fills of a trace by family and name, in ticks; `uses`: whether they use matrix units, NULL if
-- unknown.
CREATE MACRO _label_ticks(
    capture_key,
    work,  -- a table of the rows of `_launches`, or of such of `_trace_slices`
    steps, phase
) AS TABLE
SELECT
    CASE s.kind
        WHEN 'kernel' THEN s.kernel_family
        WHEN 'copy' THEN 'memcpy'
        WHEN 'fill' THEN 'memset'
    END AS family,
    s.label, any_value(s.uses_matrix_units) AS uses, bool_or(s.kind = 'kernel') AS is_kernel, count(*) AS calls,
    try_cast(sum(s.end_ticks - s.start_ticks) AS BIGINT) AS ticks,
    _sum_where(s.end_ticks - s.start_ticks, _is_step_run(r.name)) AS step_ticks
FROM query_table(work) AS s
JOIN runs AS r ON r.capture_id = capture_key AND r.run_index = s.run_index
WHERE _is_recorded(r.iteration, r.phase, steps, phase)
GROUP BY 1, s.label;

-- The time of devices by family of kernels, known from their names; copies and fills are families, too. The family with
-- the most time comes first; in a trace with steps, time in steps counts.
-- Needs: torch_trace, device_events; else: op_totals
-- Empty: {capture} has no device events
-- Shown: coalesce(family, '(unknown)') AS family!, per_step!~, total!+~, share_percent!%, calls!#, names#,
--   tensor_percent%, nullif(outside_steps, 0) AS outside_steps!~, top_event, steps+#, unit
-- Share: of all kernels, copies and fills that steps launched, or of all without steps
-- Columns:
--   family: family of the kernels, as in `signatures`; memcpy for copies and memset for fills by the runtime; NULL for kernels of unknown names
--   names: number of different names
--   calls: number of kernels, copies or fills
--   total: sum of their durations
--   share_percent: time in percent of all kernels, copies and fills that steps launched, or of all without steps
--   tensor_percent: part of the sum in kernels that use tensor cores, in percent; NULL if, for kernels with more than a tenth of the sum, the use of tensor cores is unknown
--   top_event: name of the kernel, copy or fill with most time
--   unit: the requested unit of time
--   steps: number of the trace's steps; NULL without steps
--   per_step: time of the events that steps launched, per step
--   outside_steps: part of total that no step launched, or whose launch the trace lacks; NULL without steps
CREATE MACRO kernel_families(capture, unit := NULL, steps := NULL, phase := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _capture_with_steps(capture, unit, steps, phase)),
device_work AS MATERIALIZED (
    SELECT s.*
    FROM _trace_slices((SELECT a.capture_id FROM target AS a)) AS s
    WHERE s.kind IN ('kernel', 'copy', 'fill')
),
summed AS (
    SELECT b.family, count(*) AS names, sum(b.calls)::BIGINT AS calls, try_cast(sum(b.ticks) AS BIGINT) AS ticks,
        try_cast(sum(b.step_ticks) AS BIGINT) AS step_ticks, _sum_where(b.ticks, b.uses) AS tensor_ticks,
        _sum_where(b.ticks, b.is_kernel AND b.uses IS NULL) AS unknown_ticks,
        arg_max(b.label, (b.ticks, b.label)) AS top_event
    FROM _label_ticks((SELECT a.capture_id FROM target AS a), 'device_work', steps, phase) AS b
    GROUP BY b.family
)
SELECT s.family, s.names, s.calls, _in_unit(s.ticks, a.scale) AS total,
    100 * s.counted_ticks::DOUBLE / nullif(sum(s.counted_ticks) OVER (), 0) AS share_percent,
    _tensor_percent(s.tensor_ticks, s.unknown_ticks, s.ticks) AS tensor_percent, s.top_event, a.unit,
    a.step_count AS steps, _in_unit(s.step_ticks::DOUBLE / a.step_count, a.scale) AS per_step,
    CASE WHEN a.step_count IS NOT NULL THEN _in_unit(s.ticks - s.step_ticks, a.scale) END AS outside_steps
FROM (
    SELECT f.*, CASE WHEN a.step_count IS NULL THEN f.ticks ELSE f.step_ticks END AS counted_ticks
    FROM summed AS f CROSS JOIN target AS a
) AS s
CROSS JOIN target AS a
ORDER BY s.counted_ticks DESC, s.ticks DESC, s.family;
