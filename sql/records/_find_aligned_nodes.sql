-- The operator class of a delegate's kernel family or of an op. If a delegate has
-- no map, its events are aligned with its nodes by this class. Families are
-- XNNPACK's names of its operators; ops are ATen's. NULL for ops without a class,
-- such as batch norm, which is fused into other kernels.
CREATE MACRO _operator_class(
    name  -- a kernel family (`Convolution (NHWC, F32) IGEMM`) or an op (`convolution`)
) AS (
    CASE
        WHEN regexp_matches(name, '^(?:Transpose |Copy |Convert )') THEN 'layout'
        WHEN regexp_matches(name, '^(?:Convolution |Deconvolution |conv[123]d)')
            OR name = 'convolution' THEN 'convolution'
        WHEN regexp_matches(name, '^(?:Dynamic )?Fully Connected ')
            OR name IN ('linear', 'addmm', 'mm') THEN 'linear'
        WHEN regexp_matches(name, '^(?:Batch Matrix Multiply|Batch Matmul)')
            OR name IN ('bmm', 'matmul') THEN 'matmul'
        WHEN regexp_matches(name, '^(?:Max|Average|ArgMax|Global Average) Pooling')
            OR regexp_matches(name, '^(?:adaptive_)?(?:max|avg)_pool[123]d')
            THEN 'pooling'
        WHEN regexp_matches(name, '^Mean ') OR name = 'mean' THEN 'mean'
        WHEN regexp_matches(name, '^Sum ') OR name = 'sum' THEN 'sum'
        WHEN regexp_matches(name, '^Soft[Mm]ax ') OR name IN ('_softmax', 'softmax')
            THEN 'softmax'
        WHEN regexp_matches(name, '^(?:Static |Copy )?Reshape ')
            OR name IN (
                'view_copy', 'view', 'reshape', 'unsqueeze_copy', 'squeeze_copy'
            ) THEN 'reshape'
        WHEN regexp_matches(name, '^(?:Static )?Slice ') OR name = 'slice_copy'
            THEN 'slice'
        WHEN regexp_matches(name, '^(?:Constant )?Pad ') OR name = 'constant_pad_nd'
            THEN 'pad'
        WHEN regexp_matches(name, '^Concat') OR name = 'cat' THEN 'cat'
        WHEN regexp_matches(name, '^Add ') OR name = 'add' THEN 'add'
        WHEN regexp_matches(name, '^Subtract ') OR name = 'sub' THEN 'sub'
        WHEN regexp_matches(name, '^Multiply ') OR name = 'mul' THEN 'mul'
        WHEN regexp_matches(name, '^Divide ') OR name = 'div' THEN 'div'
        WHEN regexp_matches(name, '^Sigmoid ') OR name = 'sigmoid' THEN 'sigmoid'
        WHEN regexp_matches(name, '^(?:Approx)?G(?:elu|ELU) ') OR name = 'gelu'
            THEN 'gelu'
        ELSE _elementwise_class(string_split(name, ' (')[1])
    END
);

-- The same, of kernels and ops that compute each element by itself, without the
-- types in the kernel's name. An activation that only limits values is a clamp.
CREATE MACRO _elementwise_class(
    name  -- the first part of a kernel family (`HardSwish`), or an op (`hardswish`)
) AS (
    CASE
        WHEN name IN ('Clamp', 'clamp', 'relu', 'relu6', 'hardtanh') THEN 'clamp'
        WHEN name IN ('TanH', 'Tanh', 'tanh') THEN 'tanh'
        WHEN name IN ('Ceiling', 'ceil') THEN 'ceil'
        WHEN name IN ('Negate', 'neg') THEN 'neg'
        WHEN name IN ('Sine', 'sin') THEN 'sin'
        WHEN name IN ('Cosine', 'cos') THEN 'cos'
        WHEN name IN ('Square Root', 'sqrt') THEN 'sqrt'
        WHEN name IN ('Reciprocal Square Root', 'rsqrt') THEN 'rsqrt'
        WHEN name IN ('Square', 'Power', 'pow') THEN 'pow'
        WHEN name IN ('LeakyReLU', 'leaky_relu') THEN 'leaky_relu'
        WHEN name IN ('PReLU', 'prelu', '_prelu_kernel') THEN 'prelu'
        WHEN name IN ('Resize Bilinear', 'upsample_bilinear2d') THEN 'resize'
        WHEN lower(name) IN (
            'abs', 'elu', 'exp', 'floor', 'hardswish', 'log', 'maximum', 'minimum'
        ) THEN lower(name)
    END
);

-- One event of a delegate without a map, aligned with the delegate's node of the
-- same class and the same position in that class. A call counts only if nearly all
-- of its events can be aligned: the numbers of events and nodes of each class are
-- equal, and so is their order. A row of the table `signature_nodes`, computed when
-- a capture is linked to a record with such delegates, after the nodes of their
-- calls.
-- Columns:
--   signature_index: the event
--   position: position of the node among the event's nodes: 0
--   debug_handle: the node's handle
--   graph_id: its graph
--   node_index: the node
--   is_own: always true, as each event has one node
--   mapping: always aligned
--   score: share of the call's events, except those of layout, that have a node
CREATE MACRO _find_aligned_nodes(
    capture_key  -- key of a capture
) AS TABLE
WITH
inner_events AS (
    SELECT
        e.record_id,
        e.method,
        e.block_index,
        e.instruction_id,
        e.signature_index,
        e.slot,
        _operator_class(e.family) AS class,
        row_number() OVER (
            PARTITION BY e.block_index, e.instruction_id, class ORDER BY e.slot
        ) AS place
    FROM _instruction_events(capture_key) AS e
    JOIN delegates AS d
        ON d.record_id = e.record_id
        AND d.method = e.method
        AND d.instruction_id = e.instruction_id
    WHERE e.kind = 'delegate' AND NOT d.is_mapped
),
call_nodes AS (
    SELECT DISTINCT
        e.record_id,
        e.method,
        e.instruction_id,
        n.graph_id,
        n.node_index,
        n.debug_handle,
        _operator_class(p.op) AS class,
        contains(p.op, 'batch_norm') AS is_batch_norm
    FROM _instruction_events(capture_key) AS e
    JOIN signature_nodes AS n
        ON n.capture_id = capture_key AND n.signature_index = e.signature_index
    JOIN op_nodes AS p
        ON p.record_id = e.record_id
        AND p.graph_id = n.graph_id
        AND p.node_index = n.node_index
    WHERE e.kind = 'delegate_call' AND n.is_own
),
-- Clamps of the results of these nodes are fused into their kernels, unless other
-- nodes use the results, too.
clamping_nodes AS (
    SELECT n.record_id, n.method, n.instruction_id, n.graph_id, n.node_index
    FROM call_nodes AS n
    JOIN op_edges AS x
        ON x.record_id = n.record_id
        AND x.graph_id = n.graph_id
        AND x.from_node = n.node_index
    WHERE n.is_batch_norm
        OR n.class IN (
            'convolution', 'linear', 'add', 'sub', 'mul', 'div', 'pooling'
        )
    GROUP BY ALL
    HAVING count(DISTINCT x.to_node) = 1
),
fused_nodes AS (
    SELECT DISTINCT n.record_id, n.method, n.instruction_id, n.graph_id, n.node_index
    FROM call_nodes AS n
    JOIN op_edges AS x
        ON x.record_id = n.record_id
        AND x.graph_id = n.graph_id
        AND x.to_node = n.node_index
    JOIN clamping_nodes AS c
        ON c.record_id = n.record_id
        AND c.method = n.method
        AND c.instruction_id = n.instruction_id
        AND c.graph_id = n.graph_id
        AND c.node_index = x.from_node
    WHERE n.class = 'clamp'
),
placed_nodes AS (
    SELECT
        n.*,
        row_number() OVER (
            PARTITION BY n.record_id, n.method, n.instruction_id, n.class
            ORDER BY n.node_index
        ) AS place
    FROM call_nodes AS n
    ANTI JOIN fused_nodes AS f
        ON f.record_id = n.record_id
        AND f.method = n.method
        AND f.instruction_id = n.instruction_id
        AND f.graph_id = n.graph_id
        AND f.node_index = n.node_index
    WHERE n.class IS NOT NULL
),
matched AS (
    SELECT
        e.block_index,
        e.instruction_id,
        e.signature_index,
        e.slot,
        e.class,
        n.graph_id,
        n.node_index,
        n.debug_handle,
        count(*) OVER same_class = (
            SELECT count(*)
            FROM placed_nodes AS o
            WHERE o.record_id = e.record_id
                AND o.method = e.method
                AND o.instruction_id = e.instruction_id
                AND o.class = e.class
        ) AS is_counted
    FROM inner_events AS e
    LEFT JOIN placed_nodes AS n
        ON n.record_id = e.record_id
        AND n.method = e.method
        AND n.instruction_id = e.instruction_id
        AND n.class = e.class
        AND n.place = e.place
    WHERE coalesce(e.class, '') <> 'layout'
    WINDOW same_class AS (
        PARTITION BY e.block_index, e.instruction_id, e.class
    )
),
ordered AS (
    SELECT
        m.*,
        m.is_counted
        AND m.node_index > coalesce(
            max(CASE WHEN m.is_counted THEN m.node_index END) OVER (
                PARTITION BY m.block_index, m.instruction_id
                ORDER BY m.slot
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            -1
        ) AS is_found
    FROM matched AS m
),
scored AS (
    SELECT
        o.*,
        avg(CASE WHEN o.is_found THEN 1 ELSE 0 END) OVER (
            PARTITION BY o.block_index, o.instruction_id
        ) AS score
    FROM ordered AS o
)
SELECT
    s.signature_index,
    0 AS position,
    s.debug_handle,
    s.graph_id,
    s.node_index,
    true AS is_own,
    'aligned' AS mapping,
    s.score
FROM scored AS s
WHERE s.is_found AND s.score >= 0.8;
