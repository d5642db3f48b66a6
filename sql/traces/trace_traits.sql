-- The kind of program that a trace is of, from its names, with times in ticks; see `trace_traits`.
CREATE MACRO _trace_traits(
    capture_key,
    tool_steps  -- a table of the trace's rows of `tool_steps`
) AS TABLE
WITH names AS MATERIALIZED (
    SELECT s.label, s.activity, s.on_device
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
),
told AS (
    SELECT
        coalesce(
            bool_or(
                NOT n.on_device
                AND regexp_matches(n.label, 'Backward\d*$|^autograd::engine|^Optimizer\.(step|zero)|## backward')
            ),
            false
        ) AS trains,
        coalesce(
            bool_or(
                NOT n.on_device
                AND n.activity IN ('annotation', 'step')
                AND (
                    _serving_name(n.label) IS NOT NULL
                    OR regexp_matches(n.label, '^execute_|denois|inference', 'i')
                )
            ),
            false
        ) AS infers,
        -- Calls that run a graph or a buffer of commands that was recorded before.
        coalesce(
            bool_or(n.activity = 'call' AND regexp_matches(n.label, 'GraphLaunch|CommandBuffer')), false
        ) AS replays,
        CASE
            WHEN bool_or(n.activity = 'call' AND starts_with(n.label, 'hip')) THEN 'HIP'
            WHEN bool_or(n.activity = 'call' AND regexp_matches(n.label, '^cu(da)?[A-Z]')) THEN 'CUDA'
        END AS runtime,
        coalesce(
            bool_or(
                n.activity = 'kernel'
                AND regexp_matches(n.label, '^triton_(poi|red|per|mix|for|unk|tem|mm)_')
                OR regexp_matches(n.label, '^(## Call CompiledFx|Torch-Compiled|CompiledFunction)')
            ),
            false
        ) AS is_compiled,
        -- If only some DataLoaders have workers, it is unknown in which of them time is spent.
        CASE
            WHEN bool_or(contains(n.label, '_MultiProcessingDataLoaderIter'))
                THEN CASE WHEN NOT bool_or(contains(n.label, '_SingleProcessDataLoaderIter')) THEN true END
            ELSE false
        END AS has_workers
    FROM names AS n
),
stepped AS (
    SELECT (SELECT count(*) FROM query_table(tool_steps) AS t) AS steps,
        sum(s.end_ticks - s.start_ticks)::BIGINT AS ticks
    FROM _merged_steps(tool_steps) AS s
)
SELECT CASE WHEN t.trains THEN true WHEN t.infers THEN false END AS is_training, t.is_compiled, t.has_workers, p.steps,
    p.ticks AS step_ticks, r.end_ticks - r.start_ticks AS ticks, r.start_ticks, t.replays, t.runtime
FROM told AS t CROSS JOIN stepped AS p CROSS JOIN _recording(capture_key) AS r;

-- The kind of program that a trace is of, from the names in it; remedies depend on it. One row.
-- Needs: torch_trace
-- Shown: is_training!, is_compiled!, has_workers!, steps#, step_time (time), duration (time), unit
-- Columns:
--   is_training: whether it trains: autograd's backward ops or an optimizer; false for steps of servers and of diffusion models without those; NULL if neither is seen
--   is_compiled: whether torch.compile made code that ran
--   has_workers: whether DataLoaders have worker processes; NULL if only some have
--   steps: number of steps, of any tool: the profiler's, a server's, a diffusion model's, or annotations that repeat and launch most of what is launched
--   step_time: time of these steps on the host; NULL without steps
--   duration: time of the recording
--   unit: the requested unit of time
CREATE MACRO trace_traits(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
all_steps AS MATERIALIZED (FROM tool_steps AS t WHERE t.capture_id = (SELECT a.capture_id FROM target AS a))
SELECT t.is_training, t.is_compiled, t.has_workers, t.steps, _in_unit(t.step_ticks, a.scale) AS step_time,
    _in_unit(t.ticks, a.scale) AS duration, a.unit
FROM _trace_traits((SELECT a.capture_id FROM target AS a), 'all_steps') AS t CROSS JOIN target AS a
ORDER BY t.steps;
