-- One metric of a capture, or of one of its runs.
-- Columns:
--   name: name of the metric
--   run_index: the run; NULL for the capture as a whole
--   sample: position among the values of that name and run from the same source, from 0
--   value: the number, in its unit
--   unit: unit of value; NULL if unknown
--   better: lower or higher; NULL for conditions and if unknown
--   meaning: what it measures; NULL if the name isn't known
--   source: first 12 characters of the hash of the file it was read from; NULL if attached by hand
CREATE MACRO metric_values(capture) AS TABLE
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
JOIN metrics AS m USING (capture_id)
LEFT JOIN known_metrics AS k USING (name)
ORDER BY m.name, m.run_index NULLS FIRST, m.source NULLS FIRST, m.sample;

-- Metrics of the generations that ExecuTorch's runner of language models reported,
-- computed as in print_report in its extension/llm/runner/stats.h. A metric that
-- was not measured (a time of zero length, a loading from 0 to 0) has no row.
CREATE MACRO _runner_metrics(
    stats  -- rows of the runner's statistics, as a list; times in ticks, with ticks_per_second
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
                'value': c.prompt_tokens::DOUBLE * c.ticks_per_second
                / nullif(c.prefill_ticks, 0)
            },
            {
                'name': 'decode_tokens_per_second',
                'value': c.generated_tokens::DOUBLE * c.ticks_per_second
                / nullif(c.decode_ticks, 0)
            },
            {
                'name': 'tokens_per_second',
                'value': c.generated_tokens::DOUBLE * c.ticks_per_second
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
