-- The phase of one run of a language model, derived from the tokens that its runner counted. It is an error, which
-- states the reason, if the tokens don't fit the runs in exactly one way. A runner may process the prompt in one run or
-- in one run per token. It may produce the first token in the last run of the prompt or in a separate run. Each way
-- determines the number of runs that execute, and which of them process the prompt. Runs that load but don't execute
-- are of phase load.
CREATE MACRO _runner_phases(capture) AS TABLE
WITH target AS MATERIALIZED (SELECT c.capture_id, c.name FROM _capture(capture, NULL) AS c),
timed AS (
    SELECT t.run_index, count(*) FILTER (WHERE t.event_index = t.execute_index) AS executes,
        bool_or(s.name IN ('Program::load_method', 'Method::init')) AS loads
    FROM target AS a
    JOIN event_ticks AS t USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    GROUP BY t.run_index
),
executing AS (
    SELECT t.run_index, t.executes, row_number() OVER (ORDER BY t.run_index) - 1 AS place, count(*) OVER () AS number
    FROM timed AS t
    WHERE t.executes > 0
),
generations AS (
    SELECT p.sample, p.value AS prompt, g.value AS generated, p.source
    FROM target AS a
    JOIN metrics AS p ON p.capture_id = a.capture_id AND p.name = 'prompt_tokens'
    JOIN metrics AS g
        ON g.capture_id = a.capture_id
        AND g.name = 'generated_tokens'
        AND g.sample = p.sample
        AND g.source IS NOT DISTINCT FROM p.source
),
ways AS (
    SELECT w.way, g.sample, CASE WHEN w.way IN (0, 1) THEN 1 ELSE g.prompt END AS prefills,
        g.generated - w.way % 2 AS decodes, sum(prefills + decodes) OVER (PARTITION BY w.way) AS number,
        sum(prefills + decodes) OVER (PARTITION BY w.way ORDER BY g.sample) - prefills - decodes AS start
    FROM generations AS g CROSS JOIN range(4) AS w (way)
),
run_phases AS (
    SELECT w.way, x.run_index, CASE WHEN x.place < w.start + w.prefills THEN 'prefill' ELSE 'decode' END AS phase
    FROM ways AS w
    JOIN executing AS x ON x.number = w.number AND x.place >= w.start AND x.place < w.start + w.prefills + w.decodes
),
fitting AS (
    SELECT f.way, hash(list((f.run_index, f.phase) ORDER BY f.run_index)) AS phases FROM run_phases AS f GROUP BY f.way
),
checked AS (
    SELECT CASE
        WHEN (SELECT count(*) FROM generations AS g) = 0 THEN error(
            a.name || ' has no prompt_tokens and generated_tokens; read them from the '
            || 'log of its runner: etq label ' || a.name || ' --metrics LOG'
        )
        WHEN (
            SELECT count(DISTINCT coalesce(g.source, '')) FROM generations AS g
        ) > 1 THEN error(
            a.name || ' has token counts from more than one file; '
            || 'set the phases: etq label ' || a.name || ' --phase decode --runs FIRST-LAST'
        )
        WHEN (SELECT max(x.executes) FROM executing AS x) > 1 THEN error(
            'runs of ' || a.name || ' execute more than once, so they have no single phase'
        )
        WHEN (SELECT count(DISTINCT f.phases) FROM fitting AS f) <> 1 THEN error(
            (SELECT count(*) FROM executing AS x) || ' runs of ' || a.name
            || ' execute, which ' || CASE (SELECT count(*) FROM fitting AS f)
                WHEN 0 THEN 'doesn''t fit' ELSE 'fits in more than one way' END
            || ' the ' || (SELECT printf('%.0f', sum(g.prompt)) FROM generations AS g) || ' tokens of prompts and '
            || (SELECT printf('%.0f', sum(g.generated)) FROM generations AS g)
            || ' generated in ' || (SELECT count(*) FROM generations AS g) || ' generations, which take '
            || (
                SELECT array_to_string(list_transform(
                    list(DISTINCT w.number ORDER BY w.number), lambda n: printf('%.0f', n)
                ), ', ')
                FROM ways AS w
            ) || ' runs; set the phases: etq label ' || a.name
            || ' --phase decode --runs FIRST-LAST'
        )
        ELSE (SELECT min(f.way) FROM fitting AS f)
    END AS way
    FROM target AS a
)
SELECT f.run_index, f.phase FROM checked AS k JOIN run_phases AS f USING (way)
UNION ALL
SELECT t.run_index, 'load' AS phase
FROM timed AS t
WHERE t.executes = 0 AND t.loads AND (SELECT k.way FROM checked AS k) IS NOT NULL;
