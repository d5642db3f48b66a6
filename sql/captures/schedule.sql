-- The action of a profiler at a step: NONE, WARMUP, RECORD, or RECORD_AND_SAVE at the last step of a cycle of wait,
-- warmup and active steps. The rules are those of `schedule` in PyTorch 2.13's torch/profiler/profiler.py.
CREATE MACRO schedule(
    step,  -- number of the step, from 0
    wait := 0,  -- steps at the start of a cycle that are not profiled
    warmup := 0,  -- steps after the wait that only warm up
    active := 1,  -- steps after the warm-up that are recorded; at least 1
    repeat := 0,  -- number of cycles; 0: to the end
    skip_first := 0,  -- steps before the first cycle
    skip_first_wait := 0  -- if not 0, the first cycle has no wait
) AS (
    list_transform(
        [[wait, warmup, active, repeat, skip_first, skip_first_wait]],
        lambda s: list_transform(
            [_position_in_cycle(step, s)],
            lambda p: CASE
                WHEN p < s[1] THEN 'NONE'
                WHEN p < s[1] + s[2] THEN 'WARMUP'
                WHEN p < s[1] + s[2] + s[3] - 1 THEN 'RECORD'
                ELSE 'RECORD_AND_SAVE'
            END
        )[1]
    )[1]
);

-- Position of a step in a cycle of wait, warmup and active steps, from 0; -1 before the first and after the last cycle.
CREATE MACRO _position_in_cycle(
    step,
    s  -- the other arguments of `schedule`, in its order, in a list
) AS (
    CASE
        WHEN least(step, s[1], s[2], s[3] - 1, s[4], s[5]) < 0
            THEN error(
                'a schedule needs step, wait, warmup, repeat and skip_first of at least 0 and active of at least 1'
            )
        WHEN step < s[5] THEN -1
        WHEN s[4] > 0 AND _step_of_cycles(step, s) >= s[4] * (s[1] + s[2] + s[3]) THEN -1
        ELSE _step_of_cycles(step, s) % (s[1] + s[2] + s[3])
    END
);

-- Number of a step, counted from the start of the first cycle.
CREATE MACRO _step_of_cycles(step, s) AS (step - s[5] + CASE WHEN s[6] <> 0 THEN s[1] ELSE 0 END);

-- Whether a schedule records a run, and the run has the requested phase. Without schedule and phase, all runs are
-- recorded. The steps of a schedule are the runs of one name, in file order, of all phases.
CREATE MACRO _is_recorded(
    iteration,  -- position of the run among the runs of its name
    run_phase, steps, phase
) AS (
    CASE
        WHEN steps IS NULL THEN true
        WHEN NOT regexp_full_match(
            ',' || steps, '(, *(wait|warmup|active|repeat|skip_first(_wait)?) *= *-?\d{1,9} *)+'
        ) THEN error(
            'steps: ''' || steps || ''' is not a list of key=number pairs; write them as in ''skip_first=1,active=3'', '
            || 'with the keys skip_first, wait, warmup, active, repeat, skip_first_wait'
        )
        WHEN len(regexp_extract_all(',' || steps, '[a-z_]+'))
            > len(list_distinct(regexp_extract_all(',' || steps, '[a-z_]+')))
            THEN error('steps: ''' || steps || ''' repeats a key; write each key once')
        -- A list in a list, so that the text is parsed at only one place of the expression. Each further place would
        -- make planning longer.
        ELSE list_transform([_step_options(steps)], lambda s: _position_in_cycle(iteration, s) >= s[1] + s[2])[1]
    END
    AND (phase IS NULL OR coalesce(run_phase = _known_phase(phase), false))
);

-- The numbers of a text of key=number pairs, in the order of the parameters of `schedule`, with its defaults for
-- missing keys.
CREATE MACRO _step_options(steps) AS (
    list_transform(
        ['wait', 'warmup', 'active', 'repeat', 'skip_first', 'skip_first_wait'],
        lambda k: coalesce(
            try_cast(regexp_extract(',' || steps, ', *' || k || ' *= *(-?\d+)', 1) AS BIGINT),
            (k = 'active')::BIGINT
        )
    )
);

-- Whether a run is selected: recorded by the schedule, of the requested phase and method, and, if requested, typical.
CREATE MACRO _is_selected_run(
    iteration,  -- position of the run among the runs of its name
    run_phase, run_scope, is_typical, steps, phase, method, runs
) AS (
    _is_recorded(iteration, run_phase, steps, phase)
    AND run_scope IS NOT DISTINCT FROM coalesce(method, run_scope)
    AND CASE
        WHEN runs = 'typical' THEN is_typical
        WHEN runs = 'all' THEN true
        ELSE error('runs is ''typical'' or ''all'', not ' || coalesce('''' || runs || '''', 'NULL'))
    END
);

-- One run of a capture that these options select.
CREATE MACRO _selected_runs(capture_key, steps, phase, method, runs) AS TABLE
FROM runs AS r
WHERE r.capture_id = capture_key
    AND _is_selected_run(
        r.iteration, r.phase, r.scope, r.is_typical, steps, phase, method, runs
    );

-- A phase, or NULL for all runs; an error for any other value.
CREATE MACRO _checked_phase(phase) AS (CASE WHEN phase IS NOT NULL THEN _known_phase(phase) END);

-- A phase; an error for any other value.
CREATE MACRO _known_phase(phase) AS (
    CASE
        WHEN phase IN ('load', 'prefill', 'decode', 'mixed', 'other') THEN phase
        ELSE error(
            'unknown phase '  || coalesce('''' || phase || '''', 'NULL')
            || '; known are load, prefill, decode, mixed, other'
        )
    END
);

-- Whether a run is a step of a trace: a profiler step, or a step of a server. A step's run has the host's events that
-- begin in it, and the work of devices that is launched in it. Steps without recorded work don't count, see
-- `trace_steps`.
CREATE MACRO _is_step_run(run_name) AS (run_name IN ('ProfilerStep', 'ServingStep'));

-- Whether a run has the events outside of a trace's steps.
CREATE MACRO _is_outside_steps(run_name) AS (run_name IN ('Outside of steps', 'Incomplete step'));
