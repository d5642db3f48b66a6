-- The innermost lines of Python that called an op, without those that torch leaves out: the entries to its backward
-- pass and its tests.
CREATE MACRO _called_from(
    call_stack,  -- stack of the trace, the innermost line first, separated by semicolons
    stack_depth
) AS (
    array_to_string(
        list_slice(
            list_filter(
                string_split(call_stack, ';'),
                lambda n: n <> '' AND NOT regexp_matches(
                    n,
                    'autograd/__init__.*(_make_grads|backward)|torch/tensor.*backward|'
                    || '_internal/common_utils.*prof_(callable|func_call|meth_call)'
                )
            ),
            1, stack_depth
        ),
        ';'
    )
);

-- The `source` of an event of a trace for people: file and line, or a text for a stack without a line, or for no stack.
CREATE MACRO _shown_line(source) AS (
    CASE
        WHEN source IS NULL THEN '(no stack)'
        WHEN source = '' THEN '(no line of the user''s)'
        ELSE regexp_replace(source, '^(.*)\((\d+)\): .*$', '\1:\2')
    END
);

-- Whether an activity is an annotation, of a step or another part, on the host or a device.
CREATE MACRO _is_annotation(activity) AS (coalesce(activity IN ('annotation', 'step', 'device_annotation'), false));

-- Whether an activity is a call of a Python function, or of a module by its function.
CREATE MACRO _is_python_function(activity) AS (coalesce(activity IN ('python_function', 'module'), false));

-- One event of the recorded runs with its call, that call's row of `key_averages` by name, and the values that it adds
-- to the row. As in torch, an event that only calls another event of its own name is one call together with it, and the
-- profiler's helper events are not calls.
CREATE MACRO _call_times(capture_key, steps, phase, method, runs) AS TABLE
WITH named AS MATERIALIZED (
    SELECT s.signature_index, coalesce(s.purpose = 'profiler', false) AS is_helper,
        coalesce(s.on_device, false) AS is_on_device,
        -- A number takes less memory than a text.
        min(s.signature_index) OVER (PARTITION BY s.family) AS family_index,
        min(s.signature_index) OVER (
            PARTITION BY
                s.family, s.value_unit, coalesce(s.on_device, false),
                _is_annotation(s.activity), _is_python_function(s.activity)
        ) AS row_index
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
),
timed AS MATERIALIZED (
    SELECT t.run_index, t.event_index, t.parent_run_index, t.parent_index, t.start_ticks, t.duration_ticks,
        NOT t.is_impossible AS has_time, t.self_ticks, coalesce(t.torch_self_ticks, t.self_ticks) AS torch_self_ticks,
        t.children, e.thread_index, e.call_index AS stored_index, e.covers_own, e.lost_launches, e.device_self_ticks,
        e.device_ticks, e.device_before_ticks, n.is_helper, n.is_on_device, n.family_index, n.row_index AS own_row
    FROM _timed_events(capture_key, NULL, steps, phase, method, runs) AS t
    JOIN named AS n USING (signature_index)
    LEFT JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS e USING (run_index, event_index)
),
-- Events that are not calls, each with its call. The self time and self memory of such an event belong to its call.
-- Events of a dump have no thread.
others AS (
    SELECT t.run_index, t.event_index, c.event_index AS call_index, c.own_row AS row_index
    FROM timed AS t
    JOIN timed AS c ON c.event_index = t.stored_index
    UNION ALL
    SELECT t.run_index, t.event_index, p.event_index, p.own_row
    FROM timed AS t
    JOIN timed AS p ON p.run_index = t.parent_run_index AND p.event_index = t.parent_index
    WHERE t.thread_index IS NULL AND p.children = 1 AND p.family_index = t.family_index
),
-- An event whose call is in none of the runs is a call itself, unless it is a helper.
calls AS (
    SELECT t.*, o.event_index IS NULL AND NOT t.is_helper AS is_call,
        coalesce(o.call_index, CASE WHEN NOT t.is_helper THEN t.event_index END) AS call_index,
        CASE WHEN o.event_index IS NOT NULL THEN o.row_index WHEN NOT t.is_helper THEN t.own_row END AS row_index
    FROM timed AS t
    LEFT JOIN others AS o USING (run_index, event_index)
)
SELECT c.run_index, c.event_index, c.row_index, c.call_index, c.thread_index, c.is_call,
    c.covers_own,
    c.has_time, c.has_time AND c.lost_launches IS NULL AS has_work, c.start_ticks,
    c.start_ticks + c.duration_ticks AS end_ticks, c.duration_ticks,
    c.self_ticks, c.torch_self_ticks,
    CASE WHEN v.has_work THEN coalesce(c.device_self_ticks, 0) END AS self_device_ticks,
    CASE WHEN v.has_work THEN coalesce(c.device_ticks, 0) END AS device_ticks, c.device_before_ticks AS before_ticks,
    c.device_before_ticks + c.device_ticks AS after_ticks,
    CASE WHEN c.is_on_device OR c.call_index IS NULL THEN c.device_self_ticks END AS unowned_ticks,
    CASE WHEN m.event_index IS NULL THEN r.no_bytes ELSE m.self_cpu_bytes END AS self_memory,
    CASE WHEN m.event_index IS NULL THEN r.no_bytes ELSE m.cpu_bytes END AS memory,
    CASE WHEN m.event_index IS NULL THEN r.no_bytes ELSE m.self_device_bytes END AS self_device_memory,
    CASE WHEN m.event_index IS NULL THEN r.no_bytes ELSE m.device_bytes END AS device_memory
FROM calls AS c CROSS JOIN _has_device_work(capture_key) AS v
CROSS JOIN (
    SELECT CASE WHEN count(*) > 0 THEN 0 END AS no_bytes FROM (FROM trace_memory AS i WHERE i.capture_id = capture_key)
) AS r
LEFT JOIN (FROM event_memory AS i WHERE i.capture_id = capture_key) AS m USING (run_index, event_index);
