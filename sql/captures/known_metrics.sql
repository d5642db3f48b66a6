-- One metric that is known by its name: its meaning, its unit and which direction is better. A metric of this name gets
-- the known unit and direction if the user gives none, and is converted to the unit. Other metrics are kept as they
-- are.
-- Shown: name!, unit!, better!, meaning!|
-- Columns:
--   name: name of the metric, without the unit that a benchmark app may add, as in avg_inference_latency(ms)
--   unit: unit of its values; MB are 2**20 bytes; NULL if the name alone doesn't determine it
--   better: lower or higher; NULL for conditions
--   meaning: what it measures
CREATE VIEW known_metrics AS
SELECT k.name, k.unit, k.better, k.meaning
FROM (
    VALUES
        ('prompt_tokens', 'tokens', NULL, 'tokens of the prompt'),
        ('generated_tokens', 'tokens', NULL, 'tokens generated'),
        ('model_load_time', 'ms', 'lower', 'from the start to the end of loading'),
        ('llm_model_load_time', 'ms', 'lower', 'the same, of a runner of language models'),
        ('time_to_first_token', 'ms', 'lower', 'from the start of the prompt to the first token'),
        ('prefill_tokens_per_second', 'tokens/s', 'higher', 'tokens of the prompt per second of its time'),
        ('decode_tokens_per_second', 'tokens/s', 'higher', 'tokens generated per second after the prompt'),
        ('tokens_per_second', 'tokens/s', 'higher', 'tokens generated per second, with the prompt''s time'),
        ('token_per_sec', 'tokens/s', 'higher', 'tokens generated per second, as in benchmark apps'),
        ('inference_time', 'ms', 'lower', 'from the start of the prompt to the last token'),
        ('generate_time', 'ms', 'lower', 'the same, as in benchmark apps'),
        ('sampling_time', 'ms', 'lower', 'total time of sampling tokens from the model''s outputs'),
        ('avg_inference_latency', 'ms', 'lower', 'mean over the iterations'),
        ('trimmean_inference_latency', 'ms', 'lower', 'mean without the fastest and slowest tenth'),
        ('inference_latency', 'ms', 'lower', 'of one iteration'),
        ('latency', NULL, 'lower', 'time of one inference'),
        ('requests_per_second', 'requests/s', 'higher', 'requests answered per second'),
        ('median_itl_ms', 'ms', 'lower', 'median time between tokens'),
        ('p99_itl_ms', 'ms', 'lower', '99th percentile of it'),
        ('median_tpot_ms', 'ms', 'lower', 'median time per token after the first'),
        ('p99_tpot_ms', 'ms', 'lower', '99th percentile of it'),
        ('median_ttft_ms', 'ms', 'lower', 'median time to the first token'),
        ('p99_ttft_ms', 'ms', 'lower', '99th percentile of it'),
        ('compilation_time', 's', 'lower', 'compiling the model'),
        ('speedup', NULL, 'higher', 'speed as a multiple of the baseline''s'),
        ('mfu', '%', 'higher', 'operations of a trace''s step, as time at the peaks of its devices, in its time'),
        ('mfu_at_least', '%', 'higher', 'the same, where not all operations are known'),
        ('flops_utilization', NULL, 'higher', 'share of the peak of the device'),
        ('memory_bandwidth', 'GB/s', 'higher', 'bytes moved per second'),
        ('peak_memory', 'MB', 'lower', 'peak memory'),
        ('peak_inference_mem_usage', 'MB', 'lower', 'peak memory during inference'),
        ('peak_load_mem_usage', 'MB', 'lower', 'peak memory during loading'),
        ('ram_pss_usage', 'MB', 'lower', 'memory after the runs less memory before'),
        ('gpu_peak_usage', 'MB', 'lower', 'peak memory of the GPU'),
        ('energy', 'mJ', 'lower', 'energy of the measured work'),
        ('power', 'mW', NULL, 'power while measuring'),
        ('temperature', 'degC', NULL, 'temperature of the device'),
        ('temperature_after', 'degC', NULL, 'the same, after measuring'),
        ('battery_temperature', 'degC', NULL, 'temperature of the battery'),
        ('battery_temperature_after', 'degC', NULL, 'the same, after measuring'),
        ('clock', 'MHz', NULL, 'clock of the processor'),
        ('clock_after', 'MHz', NULL, 'the same, after measuring'),
        ('clock_floor', 'MHz', NULL, 'the lowest clock that the processor''s governor may choose'),
        ('clock_limit', 'MHz', NULL, 'the highest clock that it may choose; heat lowers it'),
        ('clock_limit_after', 'MHz', NULL, 'the same, after measuring'),
        ('load', 'processes', NULL, 'processes that ran or waited to run, mean of a minute'),
        ('load_after', 'processes', NULL, 'the same, after measuring'),
        ('throttling', '%', NULL, 'the processors'' cooling steps that are in use, of all'),
        ('throttling_after', '%', NULL, 'the same, after measuring'),
        ('throttled', 'times', NULL, 'times that heat slowed the processors while measuring'),
        ('thermal_status', NULL, NULL, 'Android''s level of throttling, from 0, none, to 6, shutdown'),
        ('thermal_status_after', NULL, NULL, 'the same, after measuring'),
        ('battery', '%', NULL, 'charge of the battery'),
        ('battery_after', '%', NULL, 'the same, after measuring'),
        ('threads', 'threads', NULL, 'threads that ran the model'),
        ('available_memory', 'MB', NULL, 'memory that was free'),
        ('available_memory_after', 'MB', NULL, 'the same, after measuring'),
        ('peak_flops', 'FLOP/s', NULL, 'peak rate of operations of the device'),
        ('peak_bandwidth', 'B/s', NULL, 'peak bandwidth of its memory'),
        ('load_status', NULL, NULL, 'error code of loading; 0 is success')
) AS k (name, unit, better, meaning)
ORDER BY k.name;

-- Metrics with the units and directions that their names imply. Times and memory are converted to the known unit;
-- values that can't be converted keep their unit.
CREATE MACRO _known_metrics(
    metric_rows  -- rows with these columns, as a list
) AS TABLE
SELECT g.run_index, g.name,
    CASE
        WHEN _unit_size(g.unit) IS NULL OR _unit_size(k.unit) IS NULL
            OR _unit_kind(g.unit) <> _unit_kind(k.unit) THEN g.value
        -- One of the two sizes is a multiple of the other, so the value is rounded only once.
        WHEN _unit_size(g.unit) >= _unit_size(k.unit) THEN g.value * (_unit_size(g.unit) // _unit_size(k.unit))
        ELSE g.value / (_unit_size(k.unit) // _unit_size(g.unit))
    END AS value,
    CASE
        WHEN g.unit IS NULL THEN k.unit
        WHEN _unit_kind(g.unit) = _unit_kind(k.unit) THEN k.unit
        ELSE g.unit
    END AS unit,
    coalesce(g.better, k.better) AS better, g.sample
FROM (SELECT unnest(metric_rows, recursive := true)) AS g
LEFT JOIN known_metrics AS k ON k.name = g.name;

-- Kind of a unit, for conversion: time or memory; NULL for other units.
CREATE MACRO _unit_kind(unit) AS (
    CASE WHEN _nanoseconds(unit) IS NOT NULL THEN 'time' WHEN unit IN ('B', 'kB', 'MB', 'GB') THEN 'memory' END
);

-- Nanoseconds or bytes in a unit; NULL for other units.
CREATE MACRO _unit_size(unit) AS (
    coalesce(
        _nanoseconds(unit),
        CASE unit WHEN 'B' THEN 1 WHEN 'kB' THEN 1024 WHEN 'MB' THEN 1048576 WHEN 'GB' THEN 1073741824 END
    )
);

-- Metrics of the generations that ExecuTorch's runner of language models reported, computed as in print_report in its
-- extension/llm/runner/stats.h. A metric that was not measured (a time of zero length, a loading from 0 to 0) has no
-- row.
CREATE MACRO _runner_metrics(
    stats  -- rows of the runner's statistics, as a list; times in ticks, with ticks_per_second
) AS TABLE
WITH counted AS (
    SELECT s.*, s.inference_end - s.inference_start AS inference_ticks,
        s.prompt_eval_end - s.inference_start AS prefill_ticks, s.inference_end - s.prompt_eval_end AS decode_ticks,
        s.first_token - s.inference_start AS first_token_ticks
    FROM (SELECT unnest(stats, recursive := true)) AS s
),
named AS (
    SELECT c.sample,
        unnest([
            {'name': 'prompt_tokens', 'value': c.prompt_tokens::DOUBLE},
            {'name': 'generated_tokens', 'value': c.generated_tokens},
            {
                'name': 'model_load_time',
                'value': CASE
                    WHEN c.model_load_end <> 0
                        THEN (c.model_load_end - c.model_load_start) * 1000.0 / c.ticks_per_second
                END
            },
            {'name': 'time_to_first_token', 'value': c.first_token_ticks * 1000.0 / c.ticks_per_second},
            {'name': 'inference_time', 'value': c.inference_ticks * 1000.0 / c.ticks_per_second},
            {'name': 'sampling_time', 'value': c.sampling_ticks * 1000.0 / c.ticks_per_second},
            {
                'name': 'prefill_tokens_per_second',
                'value': c.prompt_tokens::DOUBLE * c.ticks_per_second / nullif(c.prefill_ticks, 0)
            },
            {
                'name': 'decode_tokens_per_second',
                'value': c.generated_tokens::DOUBLE * c.ticks_per_second / nullif(c.decode_ticks, 0)
            },
            {
                'name': 'tokens_per_second',
                'value': c.generated_tokens::DOUBLE * c.ticks_per_second / nullif(c.inference_ticks, 0)
            },
            {'name': 'gpu_peak_usage', 'value': c.gpu_peak_usage}
        ]) AS metric
    FROM counted AS c
)
SELECT NULL::INTEGER AS run_index, k.name, n.metric.value AS value, k.unit, k.better, n.sample
FROM named AS n
JOIN known_metrics AS k ON k.name = n.metric.name
WHERE n.metric.value IS NOT NULL;
