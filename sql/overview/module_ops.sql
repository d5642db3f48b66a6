-- The self time of one op in one module within Method::execute (or Method::step), over the recorded runs: a leaf of a
-- chart of where time is spent. The rows add up to the total of the executes exactly; modules in parentheses have the
-- time of no module. In `module_totals`, a module's time includes its submodules, so rows don't add up, and modules
-- without events have rows, too. Needs a linked record; without one, `op_totals` has the ops alone.
-- Shown: op!, CASE module_path WHEN '' THEN '(model)' ELSE module_path END AS module!, method, kind, per_execute!~,
--   share_percent!%, calls!#, self_time+~, executes+#, unit
-- Share: of the executes
-- Columns:
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   module_path: path within the model, empty for the model itself; (framework), (delegate layout), (unattributed)
--   op: family of the events; in parentheses for time of no op, as in `op_totals`
--   kind: kernel, delegate, delegate_call, operator_call, control, user, framework
--   calls: number of events
--   self_time: sum of their self times
--   share_percent: self_time in percent of the executes
--   unit: unit of times
--   self_ticks: self_time in ticks, a whole number
--   executes: number of executes of the method
--   per_execute: self_time / executes
CREATE MACRO module_ops(capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical') AS TABLE
WITH target AS MATERIALIZED (
    FROM _linked_capture_with_method(capture, unit, method)
),
times AS (
    SELECT t.method, t.module_path,
        CASE
            WHEN t.module_path = '(framework)' THEN t.module_path
            WHEN s.kind = 'framework' THEN '(unattributed)'
            WHEN t.is_unaccounted THEN '(delegate unaccounted)'
            ELSE s.family
        END AS op,
        CASE WHEN t.module_path = '(framework)' THEN 'framework' ELSE s.kind END AS kind,
        try_cast(sum(t.calls) AS BIGINT) AS calls, sum(t.executes) AS executes, sum(t.self_ticks) AS self_ticks
    FROM _attributed_times('target', steps, phase, method, runs) AS t
    JOIN signatures AS s USING (capture_id, signature_index)
    GROUP BY ALL
)
SELECT t.method, t.module_path, t.op, t.kind, t.calls, _in_unit(try_cast(t.self_ticks AS BIGINT), a.scale) AS self_time,
    100e0 * t.self_ticks / nullif(sum(t.self_ticks::DOUBLE) OVER (), 0) AS share_percent, a.unit AS unit,
    try_cast(t.self_ticks AS BIGINT) AS self_ticks,
    nullif(sum(t.executes) OVER (PARTITION BY t.method), 0)::BIGINT AS executes,
    self_time / (sum(t.executes) OVER (PARTITION BY t.method)) AS per_execute
FROM times AS t CROSS JOIN target AS a
ORDER BY t.self_ticks DESC, t.method, t.module_path, t.op, t.kind;
