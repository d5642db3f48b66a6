-- One instruction of methods, numbered through the chains of its method.
CREATE MACRO _numbered_instructions(
    target  -- a table of methods: program_id, method
) AS TABLE
SELECT i.*, row_number() OVER (PARTITION BY i.method ORDER BY i.chain_index, i.instruction_id) - 1 AS step
FROM query_table(target) AS a
JOIN instructions AS i USING (program_id, method);

-- The lifetime of one planned tensor of methods of a program, as in `planned_memory`, and whether it outlives a run.
CREATE MACRO _planned_tensors(
    target  -- a table of methods: program_id, method, and last_step, the number of the last instruction
) AS TABLE
WITH steps AS MATERIALIZED (
    SELECT i.method, i.kind, i.arguments, i.instruction_id - i.jump_target AS jump_back, i.step
    FROM _numbered_instructions(target) AS i
),
valued AS MATERIALIZED (
    SELECT v.method, v.value_index, v.kind, v.items, v.memory_id, v.memory_offset, v.size_bytes, v.is_input,
        v.is_output, a.last_step, v.name IS NOT NULL OR v.constant_index IS NOT NULL AS is_kept
    FROM program_values AS v
    JOIN query_table(target) AS a USING (program_id, method)
),
argument_uses AS (SELECT s.method, s.step, unnest(s.arguments) AS value_index FROM steps AS s),
used AS MATERIALIZED (
    SELECT m.method, m.step, m.value_index FROM argument_uses AS m
    UNION ALL
    SELECT m.method, m.step, unnest(v.items) AS value_index
    FROM argument_uses AS m
    JOIN valued AS v USING (method, value_index)
    WHERE v.kind IN ('tensor_list', 'optional_tensor_list')
    UNION ALL
    SELECT v.method, v.last_step, v.value_index FROM valued AS v WHERE v.is_output OR v.is_kept
    UNION
    SELECT v.method, 0, v.value_index FROM valued AS v WHERE v.is_input OR v.is_kept
),
moves AS (
    SELECT s.method, s.step, s.arguments[1] AS from_value, s.arguments[2] AS to_value
    FROM steps AS s
    WHERE s.kind = 'move'
),
moved_uses AS (
    SELECT u.method, u.step, u.value_index FROM used AS u
    UNION ALL
    SELECT u.method, u.step, m.from_value
    FROM used AS u
    JOIN moves AS m ON m.method = u.method AND m.to_value = u.value_index AND m.step <= u.step
),
loops AS (
    SELECT s.method, s.step - s.jump_back AS first_step, s.step AS last_step FROM steps AS s WHERE s.jump_back >= 0
),
spans AS (
    SELECT h.method, h.value_index, min(h.step) AS first_step, max(h.step) AS last_step
    FROM moved_uses AS h
    GROUP BY h.method, h.value_index
),
lifetimes AS MATERIALIZED (
    SELECT v.method, v.value_index, v.memory_id, v.memory_offset, v.size_bytes, v.is_input, v.is_output, v.is_kept,
        s.first_step, greatest(s.last_step, max(l.last_step)) AS last_step
    FROM valued AS v
    LEFT JOIN spans AS s USING (method, value_index)
    LEFT JOIN loops AS l
        ON l.method = s.method
        AND l.first_step > s.first_step
        AND s.last_step BETWEEN l.first_step AND l.last_step
    WHERE v.memory_id IS NOT NULL
    GROUP BY v.method, v.value_index, v.memory_id, v.memory_offset, v.size_bytes, v.is_input, v.is_output, v.is_kept,
        s.first_step, s.last_step
),
-- The tensors that live at the peak, which is at the beginning of a lifetime. They are in the order of memory. Each has
-- the end of the previous tensor in the same buffer.
placed AS (
    SELECT b.method, b.step, l.memory_offset, l.memory_offset + l.size_bytes AS end_offset,
        max(l.memory_offset + l.size_bytes) OVER (
            PARTITION BY b.method, b.step, l.memory_id
            ORDER BY l.memory_offset, l.value_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS end_before
    FROM (SELECT DISTINCT f.method, f.first_step AS step FROM lifetimes AS f) AS b
    JOIN lifetimes AS l ON l.method = b.method AND b.step BETWEEN l.first_step AND l.last_step
),
levels AS (
    SELECT
        p.method, p.step, coalesce(sum(greatest(0, p.end_offset - greatest(p.memory_offset, p.end_before))), 0) AS bytes
    FROM placed AS p
    GROUP BY p.method, p.step
),
peaks AS (
    SELECT l.method, l.step, try_cast(l.bytes AS BIGINT) AS bytes
    FROM levels AS l
    QUALIFY row_number() OVER (PARTITION BY l.method ORDER BY l.bytes DESC, l.step) = 1
)
SELECT l.*, coalesce(p.step BETWEEN l.first_step AND l.last_step, false) AS is_live_at_peak, p.step AS peak_step,
    p.bytes AS peak_bytes
FROM lifetimes AS l
LEFT JOIN peaks AS p USING (method);

-- The lifetime of one planned tensor, as memory planning sees it. Instructions are numbered from 0 through the chains
-- of a method; with one chain, this is their instruction_id. A tensor lives from the first instruction that uses it to
-- the last one. Inputs live from the start, and outputs to the end. Tensors with a name or initial values live
-- throughout, because they outlive a run. A value that is moved into another value lives as long as that other value is
-- used. A value that exists before a loop and is used in the loop lives to the loop's end.
-- Shown: value_index!#, size_bytes! (bytes), first_instruction!#, last_instruction!#, is_live_at_peak!, memory_id#,
--   memory_offset#, is_input, is_output, method, peak_bytes (bytes), peak_instruction#, peak_op, planned_bytes (bytes)
-- Columns:
--   method: the method
--   value_index: the tensor
--   memory_id: buffer that contains it
--   memory_offset: offset of its first byte in that buffer
--   size_bytes: its size in bytes; NULL where unknown
--   first_instruction: first instruction at which it lives; NULL if it is never used
--   last_instruction: last instruction at which it lives; NULL if it is never used
--   is_input: whether it is an input of the method
--   is_output: whether it is an output of the method
--   is_live_at_peak: whether it lives at peak_instruction
--   peak_bytes: largest sum of the sizes of the method's live tensors, in all buffers; memory that several tensors share counts once
--   peak_instruction: first instruction at which that peak is reached
--   peak_op: operator of that instruction, or the backend of its delegate, or its kind; NULL if the method has no instructions
--   planned_bytes: total size of the method's buffers: the peak, and memory that the layout leaves unused
CREATE MACRO planned_memory(
    program,  -- name or hash prefix of a program
    method := NULL  -- name of a method; NULL: all
) AS TABLE
WITH target_of_plan AS MATERIALIZED (
    SELECT m.program_id, m.method, m.last_step FROM _selected_methods(program, method) AS m
),
planned AS (
    SELECT b.program_id, b.method, try_cast(sum(b.size_bytes) AS BIGINT) AS bytes
    FROM planned_buffers AS b
    JOIN target_of_plan AS a USING (program_id, method)
    WHERE b.buffer_index > 0
    GROUP BY b.program_id, b.method
)
SELECT l.method, l.value_index, l.memory_id, l.memory_offset, l.size_bytes, l.first_step AS first_instruction,
    l.last_step AS last_instruction, l.is_input, l.is_output, l.is_live_at_peak, l.peak_bytes,
    l.peak_step AS peak_instruction, coalesce(s.op, d.backend, s.kind) AS peak_op, b.bytes AS planned_bytes
FROM _planned_tensors('target_of_plan') AS l
LEFT JOIN _numbered_instructions('target_of_plan') AS s ON s.method = l.method AND s.step = l.peak_step
LEFT JOIN planned AS b ON b.method = l.method
LEFT JOIN program_delegates AS d
    ON d.program_id = b.program_id AND d.method = s.method AND d.delegate_index = s.delegate_index
ORDER BY l.method, l.memory_id, l.memory_offset, l.first_step, l.value_index;
