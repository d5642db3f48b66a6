-- One number beside a capture's events: of the capture, or of one of its runs.
-- Columns:
--   name: what was measured
--   run_index: the run; NULL for the capture as a whole
--   sample: position among the values of that name and run from the same source, from 0
--   value: the number, in its unit
--   unit: what it counts; NULL where unknown
--   better: lower or higher; NULL for conditions and where unknown
--   meaning: what it is, where the name is known
--   source: first 12 letters of the hash of the file it was read from; NULL where it was said by hand
CREATE MACRO metric_values(
    capture  -- name, hash prefix, @latest or selector
) AS TABLE
SELECT
    m.name,
    m.run_index,
    m.sample,
    m.value,
    m.unit,
    m.better,
    k.meaning,
    left(m.source, 12) AS source
FROM (SELECT _any_capture_id(capture) AS capture_id) AS a
JOIN metrics AS m ON m.capture_id = a.capture_id
LEFT JOIN known_metrics AS k ON k.name = m.name
ORDER BY m.name, m.run_index NULLS FIRST, m.source NULLS FIRST, m.sample;

-- The metrics of the generations that ExecuTorch's runner of language models told
-- of, as print_report in its extension/llm/runner/stats.h counts them. What was
-- not measured (a time of no length, a loading from 0 to 0) has no row.
-- Columns:
--   run_index: NULL, as a generation is many runs
--   name: as in `known_metrics`
--   value: in its unit
--   unit: the known one
--   better: the known one
--   sample: which of the generations, from 0
CREATE MACRO _runner_metrics(
    stats  -- rows of what the runner wrote, as a list; times in ticks, ticks_per_second of them
) AS TABLE
WITH
counted AS (
    SELECT
        s.*,
        s.inference_end - s.inference_start AS inference_ticks,
        s.prompt_eval_end - s.inference_start AS prefill_ticks,
        s.inference_end - s.prompt_eval_end AS decode_ticks,
        s.first_token - s.inference_start AS first_token_ticks
    FROM (SELECT unnest(stats, recursive := true)) AS s
),
named AS (
    SELECT
        c.sample,
        unnest([
            {'name': 'prompt_tokens', 'value': c.prompt_tokens::DOUBLE},
            {'name': 'generated_tokens', 'value': c.generated_tokens},
            {
                'name': 'model_load_time',
                'value': CASE
                    WHEN c.model_load_end <> 0
                        THEN (c.model_load_end - c.model_load_start)
                            * 1000.0 / c.ticks_per_second
                END
            },
            {
                'name': 'time_to_first_token',
                'value': c.first_token_ticks * 1000.0 / c.ticks_per_second
            },
            {
                'name': 'inference_time',
                'value': c.inference_ticks * 1000.0 / c.ticks_per_second
            },
            {
                'name': 'sampling_time',
                'value': c.sampling_ticks * 1000.0 / c.ticks_per_second
            },
            {
                'name': 'prefill_tokens_per_second',
                'value': c.prompt_tokens * c.ticks_per_second
                / nullif(c.prefill_ticks, 0)
            },
            {
                'name': 'decode_tokens_per_second',
                'value': c.generated_tokens * c.ticks_per_second
                / nullif(c.decode_ticks, 0)
            },
            {
                'name': 'tokens_per_second',
                'value': c.generated_tokens * c.ticks_per_second
                / nullif(c.inference_ticks, 0)
            },
            {'name': 'gpu_peak_usage', 'value': c.gpu_peak_usage}
        ]) AS metric
    FROM counted AS c
)
SELECT
    NULL::INTEGER AS run_index,
    k.name,
    n.metric.value AS value,
    k.unit,
    k.better,
    n.sample
FROM named AS n
JOIN known_metrics AS k ON k.name = n.metric.name
WHERE n.metric.value IS NOT NULL;
