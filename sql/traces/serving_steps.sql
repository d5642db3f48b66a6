-- One step of a server of language models, vLLM or SGLang, in the order of time. What it computes is read from the name
-- of its annotation; what the name doesn't state is NULL. Its time is the longer one of the time on the host and the
-- time on devices, because servers prepare a step while devices run the one before.
-- Needs: torch_trace
-- Empty: {capture} has no steps of vLLM or SGLang, such as execute_context_1(512)_generation_8(8) and step[DECODE bs=8]
-- Shown: step!#, phase!, sequences#, tokens_in#, tokens_out#, tokens_per_second AS tokens_s!#, host_time (time),
--   device_time (time), time! (time), events#, unit
-- Columns:
--   step: number of the step, from 0
--   name: name of the annotation
--   phase: prefill, decode or mixed; NULL if not known
--   sequences: number of sequences in the batch; NULL if not known
--   tokens_in: number of tokens of prompts; NULL if not known
--   tokens_out: number of generated tokens, one per generating sequence; NULL if not known, as when sequences try several at once
--   host_time: duration of the annotation on the host
--   device_time: time in which devices ran what was launched in it; NULL if nothing was
--   time: the longer of both
--   tokens_per_second: prompt and generated tokens per second of time; NULL if not known
--   time_per_output_token: time divided by the tokens that each generating sequence gets; NULL if not known, and without such sequences
--   events: number of kernels, copies and fills that were launched in it
--   unit: the requested unit of time
CREATE MACRO serving_steps(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit))
SELECT s.step, s.label AS name, s.phase, s.sequences, s.tokens_in, s.tokens_out,
    _in_unit(s.host_ticks, a.scale) AS host_time, _in_unit(s.device_ticks, a.scale) AS device_time,
    _in_unit(s.ticks, a.scale) AS time,
    1e9 * (s.tokens_in::DOUBLE + s.tokens_out) / nullif(s.ticks, 0) AS tokens_per_second,
    CASE WHEN s.tokens_out > 0 THEN _in_unit(s.ticks, a.scale) END AS time_per_output_token, s.events, a.unit
FROM target AS a CROSS JOIN _timed_serving_steps((SELECT a.capture_id FROM target AS a)) AS s
ORDER BY s.step;

-- The steps of `serving_steps` by phase.
-- Needs: torch_trace
-- Empty: {capture} has no steps of vLLM or SGLang, such as execute_context_1(512)_generation_8(8) and step[DECODE bs=8]
-- Shown: coalesce(phase, '(unknown)') AS phase!, steps!#, tokens_per_second AS tokens_s!#, time_per_output_token AS
--   per_token!~, per_step~, sequences#, share_percent%, time~, host_time~, device_time~, tokens_in#, tokens_out#, unit
-- Share: of all steps
-- Columns:
--   phase: prefill, decode or mixed; NULL for steps whose names don't state it
--   steps: number of steps
--   sequences: mean number of sequences in a step; NULL if not known
--   tokens_in: tokens of prompts in all steps; NULL if a step's name doesn't state them
--   tokens_out: tokens generated in all steps; NULL if a step's name doesn't state them
--   host_time: sum of the durations on the host
--   device_time: sum of the times on devices; NULL if nothing was launched
--   time: sum of the longer of both
--   share_percent: that in percent of all steps
--   per_step: time / steps
--   tokens_per_second: tokens_in and tokens_out per second of time; NULL if not known
--   time_per_output_token: mean time of the steps in which sequences get a token each; NULL if none is known
--   unit: the requested unit of time
CREATE MACRO serving_phases(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
summed AS (
    SELECT s.phase, count(*) AS steps, avg(s.sequences) AS sequences,
        CASE WHEN count(*) = count(s.tokens_in) THEN sum(s.tokens_in::DOUBLE) END AS tokens_in,
        CASE WHEN count(*) = count(s.tokens_out) THEN sum(s.tokens_out::DOUBLE) END AS tokens_out,
        sum(s.host_ticks)::BIGINT AS host_ticks, sum(s.device_ticks)::BIGINT AS device_ticks,
        sum(s.ticks)::BIGINT AS ticks, avg(s.ticks) FILTER (s.tokens_out > 0) AS token_ticks
    FROM _timed_serving_steps((SELECT a.capture_id FROM target AS a)) AS s
    GROUP BY s.phase
)
SELECT s.phase, s.steps, s.sequences, try_cast(s.tokens_in AS BIGINT) AS tokens_in,
    try_cast(s.tokens_out AS BIGINT) AS tokens_out, _in_unit(s.host_ticks, a.scale) AS host_time,
    _in_unit(s.device_ticks, a.scale) AS device_time, _in_unit(s.ticks, a.scale) AS time,
    100 * s.ticks::DOUBLE / nullif(sum(s.ticks) OVER (), 0) AS share_percent,
    _in_unit(s.ticks::DOUBLE / s.steps, a.scale) AS per_step,
    1e9 * (s.tokens_in + s.tokens_out) / nullif(s.ticks, 0) AS tokens_per_second,
    _in_unit(s.token_ticks, a.scale) AS time_per_output_token, a.unit
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.ticks DESC, s.phase;
