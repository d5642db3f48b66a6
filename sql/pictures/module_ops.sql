-- The own time of one op in one module within Method::execute (or Method::step),
-- over the recorded runs: the leaves of a picture of where the time went. They add
-- up to the total of the executes exactly; modules in parentheses take what
-- belongs to none. Needs a linked record; without one, `op_totals` tells ops alone.
-- Columns:
--   method: the method that ran; where that is not known, the name of the runs, numbered where these ran several programs
--   module_path: path within the model, empty for the model itself; (framework), (delegate layout), (unattributed)
--   op: family of the events; for modules in parentheses as there
--   kind: kernel, delegate, delegate_call, operator_call, control, user, framework
--   calls: number of events
--   own: their own time together
--   share_percent: own in percent of the executes
--   unit: unit of own
--   own_ticks: own as written, a whole number
CREATE MACRO module_ops(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    skip_first := 0,  -- runs of each name to leave out at the start, as in `schedule`
    wait := 0,  -- as in `schedule`
    warmup := 0,  -- as in `schedule`
    active := 1,  -- as in `schedule`
    repeat := 0,  -- as in `schedule`
    skip_first_wait := 0,  -- as in `schedule`
    phase := NULL,  -- runs of that phase alone: load, prefill, decode, other; NULL: all
    method := NULL,  -- runs of that method alone, as the column `method` has it; NULL: all
    runs := 'typical'  -- typical: only runs that took about as long as most of their event block, see `typical_runs`; all
) AS TABLE
WITH
asked AS (
    SELECT c.capture_id, c.time_scale, c.unit FROM _capture(capture, unit) AS c
),
times AS (
    SELECT
        t.method,
        t.module_path,
        CASE
            WHEN t.module_path = '(framework)' THEN t.module_path
            WHEN s.kind = 'framework' THEN '(unattributed)'
            ELSE s.family
        END AS op,
        CASE WHEN t.module_path = '(framework)' THEN 'framework' ELSE s.kind END
            AS kind,
        try_cast(sum(t.calls) AS BIGINT) AS calls,
        try_cast(sum(t.self_ticks) AS BIGINT) AS own_ticks
    FROM _attributed_times(
        capture, skip_first, wait, warmup, active, repeat, skip_first_wait, phase,
        method, runs
    ) AS t
    CROSS JOIN asked AS a
    JOIN signatures AS s
        ON s.capture_id = a.capture_id AND s.signature_index = t.signature_index
    GROUP BY ALL
)
SELECT
    t.method,
    t.module_path,
    t.op,
    t.kind,
    t.calls,
    t.own_ticks * _multiplier(a.time_scale, a.unit)
    / _divisor(a.time_scale, a.unit) AS own,
    100 * t.own_ticks / nullif(sum(t.own_ticks::DOUBLE) OVER (), 0) AS share_percent,
    a.unit AS unit,
    t.own_ticks
FROM times AS t
CROSS JOIN asked AS a
ORDER BY t.own_ticks DESC, t.method, t.module_path, t.op, t.kind;
