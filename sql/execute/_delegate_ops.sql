-- The class of an op of XNNPACK's graphs, of an event of its profiler, or of an edge
-- op, by which they are aligned: `Conv2d`, `Convolution (NHWC, F32) IGEMM` and
-- `convolution` are convolution.
CREATE MACRO _delegate_op_class(
    name  -- an op of `delegate_ops`, a family of a delegate's events, or an op of `op_nodes` without overload
) AS (
    _delegate_op_alias(
        regexp_replace(
            lower(replace(string_split(name, ' (')[1], ' ', '')),
            '^(?:static|dynamic)|_copy$|2d$',
            '',
            'g'
        )
    )
);

-- The common name of a class that has several names; else the name itself.
CREATE MACRO _delegate_op_alias(
    name  -- in lower case, without what shows only layout, dimensions or a copy
) AS (
    CASE
        WHEN name IN ('conv', 'depthwiseconv') THEN 'convolution'
        WHEN name = 'convtranspose' THEN 'deconvolution'
        WHEN name IN ('linear', 'addmm', 'mm') THEN 'fullyconnected'
        WHEN name IN ('bmm', 'matmul') THEN 'batchmatrixmultiply'
        WHEN name IN ('globalavgpooling', 'globalaveragepooling') THEN 'mean'
        WHEN name IN ('avgpooling', 'avg_pool') THEN 'averagepooling'
        WHEN name = 'max_pool' THEN 'maxpooling'
        WHEN name = 'mul' THEN 'multiply'
        WHEN name = 'sub' THEN 'subtract'
        WHEN name = 'div' THEN 'divide'
        WHEN name = 'sin' THEN 'sine'
        WHEN name = 'cos' THEN 'cosine'
        WHEN name = 'sqrt' THEN 'squareroot'
        WHEN name = 'rsqrt' THEN 'reciprocalsquareroot'
        WHEN name = '_softmax' THEN 'softmax'
        WHEN name IN ('relu', 'hardtanh') THEN 'clamp'
        WHEN name IN ('view', 'unsqueeze', 'squeeze') THEN 'reshape'
        WHEN name IN ('permute', 't') THEN 'transpose'
        -- A concatenation copies its inputs.
        WHEN name = 'cat' OR starts_with(name, 'concatenate') THEN 'copy'
        WHEN name LIKE '%quantize_per_%' THEN 'convert'
        ELSE name
    END
);

-- One call of a delegate, in a method that a capture ran.
-- Columns:
--   method: the method
--   instruction_id: the instruction that calls the delegate
--   backend: name of the backend
--   blob_offset: its blob, which calls may share
CREATE MACRO _delegate_calls(
    capture_key  -- key of a capture that has a program
) AS TABLE
SELECT d.method, i.instruction_id, d.backend, d.byte_offset AS blob_offset
FROM captures AS k
JOIN program_delegates AS d ON d.program_id = k.program_id
JOIN instructions AS i
    ON i.program_id = d.program_id
    AND i.method = d.method
    AND i.delegate_index = d.delegate_index
WHERE k.capture_id = capture_key
    AND d.method IN (
        SELECT m.method FROM linked_methods AS m WHERE m.capture_id = capture_key
    );

-- One op of the graphs in the blobs of a capture's program, whatever number of calls
-- the blob has.
-- Columns:
--   blob_offset: the blob
--   op_index: position in the blob's graph
--   op: name of the op
--   class: as in `_delegate_op_class`
--   debug_handle: debug handle of the edge nodes that it was made from; NULL if there is none
--   place: its number among the ops of its class in the graph, from 1
--   places: number of ops of its class in the graph
CREATE MACRO _classified_delegate_ops(
    capture_key  -- key of a capture that has a program
) AS TABLE
WITH
ops AS (
    SELECT
        o.blob_offset,
        o.op_index,
        o.op,
        _delegate_op_class(o.op) AS class,
        o.debug_handle
    FROM captures AS k
    JOIN delegate_ops AS o ON o.program_id = k.program_id
    WHERE k.capture_id = capture_key
)
SELECT
    o.*,
    row_number() OVER (
        PARTITION BY o.blob_offset, o.class ORDER BY o.op_index
    ) AS place,
    count(*) OVER (PARTITION BY o.blob_offset, o.class) AS places
FROM ops AS o;

-- One event of a delegate, aligned with an op of the delegate's graph. Algorithm:
-- events and ops of a call are numbered within their class, if both have equally
-- many of it; those with equal numbers belong together, unless that would exchange
-- the order of two classes. XNNPACK runs ops in the order of the graph, but fuses
-- some and gives others no event.
-- Columns:
--   method: the method
--   instruction_id: the instruction that calls the delegate
--   op_index: the op
--   signature_index: the event
--   score: share of the call's events that have an op
CREATE MACRO _aligned_delegate_ops(
    capture_key  -- key of a capture that has a program
) AS TABLE
WITH
inner_events AS (
    SELECT
        e.method,
        e.block_index,
        e.instruction_id,
        e.signature_index,
        e.slot,
        _delegate_op_class(e.family) AS class,
        row_number() OVER (
            PARTITION BY e.block_index, e.instruction_id, class ORDER BY e.slot
        ) AS place,
        count(*) OVER (PARTITION BY e.block_index, e.instruction_id, class) AS places
    FROM _instruction_events(capture_key) AS e
    WHERE e.kind = 'delegate'
),
matched AS (
    SELECT
        e.*,
        o.op_index,
        max(o.op_index) OVER (
            PARTITION BY e.block_index, e.instruction_id
            ORDER BY e.slot
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS latest
    FROM inner_events AS e
    LEFT JOIN _delegate_calls(capture_key) AS c
        ON c.method = e.method AND c.instruction_id = e.instruction_id
    LEFT JOIN _classified_delegate_ops(capture_key) AS o
        ON o.blob_offset = c.blob_offset
        AND o.class = e.class
        AND o.place = e.place
        AND o.places = e.places
),
scored AS (
    SELECT
        m.*,
        coalesce(m.op_index > coalesce(m.latest, -1), false) AS is_found,
        avg(
            CASE WHEN m.op_index > coalesce(m.latest, -1) THEN 1 ELSE 0 END
        ) OVER (PARTITION BY m.block_index, m.instruction_id) AS score
    FROM matched AS m
)
SELECT s.method, s.instruction_id, s.op_index, s.signature_index, s.score
FROM scored AS s
WHERE s.is_found;

-- Whether a capture has events of XNNPACK with graphs, and none could be aligned with
-- an op: then its program may be another one than that which ran.
CREATE MACRO _has_unaligned_delegates(
    capture_key  -- key of a capture that has a program
) AS (
    EXISTS (
        SELECT 1
        FROM _instruction_events(capture_key) AS e
        JOIN _delegate_calls(capture_key) AS c
            ON c.method = e.method AND c.instruction_id = e.instruction_id
        WHERE e.kind = 'delegate'
            AND c.backend = 'XnnpackBackend'
            AND c.blob_offset IN (
                SELECT o.blob_offset
                FROM captures AS k
                JOIN delegate_ops AS o ON o.program_id = k.program_id
                WHERE k.capture_id = capture_key
            )
    )
    AND NOT EXISTS (SELECT 1 FROM _aligned_delegate_ops(capture_key) AS a)
);
