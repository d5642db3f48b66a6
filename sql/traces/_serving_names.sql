-- Whole number of a text of digits; 0 for an empty one, NULL for one that can't be a number of tokens.
CREATE MACRO _told_number(digits) AS (CASE WHEN digits = '' THEN 0 WHEN length(digits) <= 12 THEN digits::BIGINT END);

-- What the annotation of a step of a server of language models tells in its name; NULL for other names. vLLM writes
-- execute_context_2(512)_generation_30(30): for prompts and for generation, the number of sequences and, in
-- parentheses, of tokens. Some names also have the squares, as in (888_788544). For ROCm, the parentheses have several
-- numbers, as in (sq512sk512sqsq131328sqsk131328); the one after sq, of the queries, is the number of tokens. Older
-- versions write execute_new_2_cached_30: the number of new sequences, and of other sequences in any phase. SGLang
-- writes step[EXTEND bs=2 toks=512], step[DECODE bs=30] and other modes.
CREATE MACRO _serving_name(label) AS (
    CASE
        WHEN regexp_full_match(label, '(execute_)?(\d+_)?context_\d+\((sq)?\d+\w*\)_generation_\d+\((sq)?\d+\w*\)')
            THEN {
                'kind': 'requests',
                'parts': regexp_extract(
                    label, 'context_(\d+)\((?:sq)?(\d+)\w*\)_generation_(\d+)\((?:sq)?(\d+)',
                    ['contexts', 'context_tokens', 'generations', 'generation_tokens']
                )
            }
        WHEN regexp_full_match(label, 'execute_new_\d+_cached_\d+')
            THEN {
                'kind': 'new',
                'parts': regexp_extract(
                    label, 'new_(\d+)()_cached_(\d+)()',
                    ['contexts', 'context_tokens', 'generations', 'generation_tokens']
                )
            }
        WHEN regexp_full_match(label, 'step\[\w+ bs=\d+( toks=\d+)?\]')
            THEN {
                'kind': regexp_extract(label, 'step\[(\w+) ', 1),
                'parts': regexp_extract(
                    label, 'bs=(\d+)(?: toks=(\d+))?()()',
                    ['contexts', 'context_tokens', 'generations', 'generation_tokens']
                )
            }
    END
);

-- One step of a server in a trace, by its annotation on the host. If one annotation is within another on the same
-- thread, the outer one counts.
CREATE MACRO _serving_steps(capture_key) AS TABLE
WITH named AS MATERIALIZED (
    SELECT s.signature_index, s.label, _serving_name(s.label) AS told
    FROM signatures AS s
    WHERE s.capture_id = capture_key
        AND NOT s.on_device
        AND s.activity IN ('annotation', 'step')
        AND (contains(s.label, 'context_') OR starts_with(s.label, 'execute_new_') OR starts_with(s.label, 'step['))
),
counted AS (
    SELECT n.signature_index, n.label, n.told.kind AS kind, _told_number(n.told.parts.contexts) AS contexts,
        _told_number(n.told.parts.context_tokens) AS context_tokens,
        _told_number(n.told.parts.generations) AS generations,
        _told_number(n.told.parts.generation_tokens) AS generation_tokens,
        n.told.parts.context_tokens <> '' AS has_tokens
    FROM named AS n
    WHERE n.told IS NOT NULL
),
placed AS (
    SELECT e.thread_index, c.*, e.event_index, e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks,
        max(e.start_ticks + e.elapsed_ticks) OVER (
            PARTITION BY e.thread_index
            ORDER BY e.start_ticks, e.elapsed_ticks DESC, e.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM counted AS c
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS e ON e.event_signature = c.signature_index
    WHERE e.elapsed_ticks >= 0
)
SELECT
    (row_number() OVER (ORDER BY p.start_ticks, p.event_index) - 1)::INTEGER AS step,
    p.label, p.thread_index, p.start_ticks, p.end_ticks,
    CASE p.kind
        WHEN 'requests' THEN CASE
            WHEN p.contexts + p.generations IS NULL THEN NULL
            WHEN p.contexts > 0 AND p.generations > 0 THEN 'mixed'
            WHEN p.contexts > 0 THEN 'prefill'
            WHEN p.generations > 0 THEN 'decode'
        END
        WHEN 'new' THEN CASE WHEN p.contexts > 0 AND p.generations = 0 THEN 'prefill' END
        WHEN 'EXTEND' THEN 'prefill'
        WHEN 'DECODE' THEN 'decode'
        WHEN 'MIXED' THEN 'mixed'
    END AS phase,
    p.contexts + p.generations AS sequences,
    CASE
        WHEN p.kind = 'requests' THEN p.context_tokens
        WHEN p.kind = 'EXTEND' AND p.has_tokens THEN p.context_tokens
        WHEN p.kind = 'DECODE' THEN 0
    END AS tokens_in,
    -- A sequence with several tokens in a step tries them; the name doesn't state how many of the tokens are kept.
    CASE
        WHEN p.kind = 'requests' AND p.generation_tokens = p.generations THEN p.generations
        WHEN p.kind = 'EXTEND' THEN 0
        WHEN p.kind = 'DECODE' THEN p.contexts
    END AS tokens_out
FROM placed AS p
WHERE p.before_ticks IS NULL OR p.start_ticks >= p.before_ticks;

-- One step of `_serving_steps` with the time in which devices ran what its thread launched in it.
CREATE MACRO _timed_serving_steps(capture_key) AS TABLE
WITH steps AS MATERIALIZED (FROM _serving_steps(capture_key)),
launched AS (
    SELECT s.step, l.start_ticks, l.end_ticks
    FROM _launches(capture_key) AS l
    ASOF JOIN steps AS s ON s.thread_index = l.call_thread AND row(l.call_start_ticks) >= row(s.start_ticks)
    WHERE l.call_start_ticks < s.end_ticks
),
reached AS (
    SELECT l.*,
        max(l.end_ticks) OVER (
            PARTITION BY l.step
            ORDER BY l.start_ticks, l.end_ticks
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM launched AS l
),
busy AS (
    SELECT r.step,
        sum(
            greatest(r.end_ticks - greatest(r.start_ticks, coalesce(r.before_ticks, r.start_ticks)), 0)
        )::BIGINT AS ticks,
        count(*) AS events
    FROM reached AS r
    GROUP BY r.step
)
SELECT s.*, s.end_ticks - s.start_ticks AS host_ticks, b.ticks AS device_ticks, coalesce(b.events, 0) AS events,
    greatest(s.end_ticks - s.start_ticks, b.ticks) AS ticks
FROM steps AS s
LEFT JOIN busy AS b ON b.step = s.step;
