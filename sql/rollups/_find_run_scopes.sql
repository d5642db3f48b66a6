-- The scope of one run: its method or, if unknown, its name, numbered if runs of one name ran several programs. Two
-- event blocks are of different programs if they call different kernels at the same instruction, because in one program
-- an instruction always calls the same kernel; or if neither jumps and they call different kernels at all, because a
-- program without jumps calls all of its instructions in each Method::execute. A block that jumps is of the program of
-- the first block that it does not differ from. Runs that stopped early are not a separate program: runs count as such
-- if they called the first kernels of another block and no more, and are at most a tenth as many as that block's runs.
CREATE MACRO _find_run_scopes(first_key, last_key) AS TABLE
WITH blocks AS (
    SELECT r.capture_id, r.name, r.block_index, count(*) AS runs
    FROM runs AS r
    WHERE r.capture_id BETWEEN first_key AND last_key AND r.method IS NULL
    GROUP BY r.capture_id, r.name, r.block_index
),
logged AS (
    SELECT b.name AS run_name, s.capture_id, s.block_index, s.kind, s.label, s.chain_index, s.instruction_id
    FROM blocks AS b
    JOIN signatures AS s USING (capture_id, block_index)
    WHERE s.capture_id BETWEEN first_key AND last_key
),
kernel_calls AS (
    SELECT g.capture_id, g.run_name, g.block_index, g.chain_index, g.instruction_id,
        string_agg(DISTINCT g.label, ' ' ORDER BY g.label) AS ops
    FROM logged AS g
    WHERE g.kind IN ('kernel', 'delegate_call') AND g.chain_index <> -1
    GROUP BY g.capture_id, g.run_name, g.block_index, g.chain_index, g.instruction_id
),
different AS (
    SELECT c.capture_id, c.run_name, c.chain_index, c.instruction_id
    FROM kernel_calls AS c
    GROUP BY c.capture_id, c.run_name, c.chain_index, c.instruction_id
    HAVING min(c.ops) <> max(c.ops)
),
-- All instructions that a block called.
programs_called AS (
    SELECT c.capture_id, c.run_name, c.block_index,
        string_agg(
            concat_ws(' ', c.chain_index, c.instruction_id, c.ops), ', '
            ORDER BY c.chain_index, c.instruction_id
        ) AS program
    FROM kernel_calls AS c
    GROUP BY c.capture_id, c.run_name, c.block_index
),
-- The instructions of a block that does not jump are its program.
without_jumps AS (
    SELECT p.capture_id, p.block_index, p.program
    FROM programs_called AS p
    JOIN (
        SELECT g.capture_id, g.block_index
        FROM logged AS g
        WHERE g.label IN ('Method::execute', 'JF_CALL')
        GROUP BY g.capture_id, g.block_index
        HAVING count(DISTINCT g.label) = 1 AND min(g.label) = 'Method::execute'
    ) AS j ON j.capture_id = p.capture_id AND j.block_index = p.block_index
),
-- For blocks that stopped early, the instructions of the block that they belong to.
whole AS (
    SELECT s.capture_id, s.block_index, max(w.program) AS program
    FROM without_jumps AS s
    JOIN blocks AS b USING (capture_id, block_index)
    JOIN blocks AS o ON o.capture_id = b.capture_id AND o.name = b.name AND o.runs >= 10 AND o.runs >= 10 * b.runs
    JOIN without_jumps AS w
        ON w.capture_id = o.capture_id AND w.block_index = o.block_index AND starts_with(w.program, s.program || ', ')
    GROUP BY s.capture_id, s.block_index
),
-- The first blocks of a name that differ in what they call: a few, except in files where nearly every run is of another
-- program.
candidates AS (
    SELECT p.capture_id, p.run_name, min(p.block_index) AS block_index
    FROM programs_called AS p
    GROUP BY p.capture_id, p.run_name, p.program
    QUALIFY row_number() OVER (PARTITION BY p.capture_id, p.run_name ORDER BY min(p.block_index)) <= 100
),
jumping AS (
    SELECT b.capture_id, b.name, b.block_index
    FROM blocks AS b
    LEFT JOIN without_jumps AS s USING (capture_id, block_index)
    WHERE s.capture_id IS NULL
),
conflicts AS (
    SELECT DISTINCT c.capture_id, c.block_index, o.block_index AS other_block
    FROM jumping AS b
    JOIN kernel_calls AS c USING (capture_id, block_index)
    JOIN different AS d USING (capture_id, run_name, chain_index, instruction_id)
    JOIN (SELECT c.* FROM candidates AS f JOIN kernel_calls AS c USING (capture_id, block_index)) AS o
        ON o.capture_id = c.capture_id
        AND o.run_name = c.run_name
        AND o.chain_index = c.chain_index
        AND o.instruction_id = c.instruction_id
        AND o.ops <> c.ops
),
-- For a block that jumps, the first block of its name that calls nothing else at any instruction: branches of one
-- program log different instructions.
like_others AS (
    SELECT b.capture_id, b.block_index, min(o.block_index) AS first_block
    FROM jumping AS b
    JOIN (SELECT DISTINCT d.capture_id, d.run_name FROM different AS d) AS d
        ON d.capture_id = b.capture_id AND d.run_name = b.name
    JOIN candidates AS o ON o.capture_id = b.capture_id AND o.run_name = b.name
    LEFT JOIN conflicts AS f
        ON f.capture_id = b.capture_id AND f.block_index = b.block_index AND f.other_block = o.block_index
    WHERE f.capture_id IS NULL
    GROUP BY b.capture_id, b.block_index
),
block_programs AS (
    SELECT b.capture_id, b.name AS run_name, b.block_index,
        coalesce(w.program, s.program, l.program, j.first_block::VARCHAR) AS program
    FROM blocks AS b
    LEFT JOIN without_jumps AS s USING (capture_id, block_index)
    LEFT JOIN whole AS w USING (capture_id, block_index)
    LEFT JOIN like_others AS j USING (capture_id, block_index)
    LEFT JOIN without_jumps AS l ON l.capture_id = j.capture_id AND l.block_index = j.first_block
),
-- A block without evidence of its program is of the first one of its name.
known AS (
    SELECT t.capture_id, t.run_name, t.block_index,
        coalesce(
            t.program,
            first_value(t.program IGNORE NULLS) OVER (
                PARTITION BY t.capture_id, t.run_name ORDER BY t.block_index
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
            ),
            ''
        ) AS program
    FROM block_programs AS t
),
programs AS (
    SELECT k.capture_id, k.run_name, k.block_index,
        min(k.block_index) OVER (PARTITION BY k.capture_id, k.run_name, k.program) AS first_block
    FROM known AS k
),
numbered AS (
    SELECT p.capture_id, p.block_index,
        p.run_name || CASE
            WHEN min(p.first_block) OVER of_name = max(p.first_block) OVER of_name THEN ''
            ELSE ' #' || dense_rank() OVER (PARTITION BY p.capture_id, p.run_name ORDER BY p.first_block)
        END AS scope
    FROM programs AS p
    WINDOW of_name AS (PARTITION BY p.capture_id, p.run_name)
)
SELECT r.capture_id, r.run_index, coalesce(r.method, n.scope, r.name) AS scope
FROM runs AS r
LEFT JOIN numbered AS n ON r.method IS NULL AND n.capture_id = r.capture_id AND n.block_index = r.block_index
WHERE r.capture_id BETWEEN first_key AND last_key;
