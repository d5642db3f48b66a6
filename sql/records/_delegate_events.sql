-- The kind of an op of XNNPACK's graphs, of an event of its profiler, or of an edge op. These are aligned by their
-- kinds: the kind of `Conv2d`, `Convolution (NHWC, F32) IGEMM` and `convolution` is convolution. The kind of any other
-- name is the name in lower case.
CREATE MACRO _delegate_op_class(
    name  -- an op of `delegate_ops`, a family of a delegate's events, or an op of `op_nodes` without overload
) AS (
    _delegate_op_alias(
        regexp_replace(
            regexp_replace(
                lower(replace(string_split(name, ' (')[1], ' ', '')), '^(?:static|dynamic)|_copy$|_with_indices$',
                '', 'g'
            ),
            '[123]d$', ''
        )
    )
);

-- The common name of a kind that has several names; else the name itself.
CREATE MACRO _delegate_op_alias(
    name  -- in lower case, without parts that only show layout, dimensions or a copy
) AS (
    CASE
        WHEN name IN ('conv', 'depthwiseconv') THEN 'convolution'
        WHEN name = 'convtranspose' THEN 'deconvolution'
        WHEN name IN ('linear', 'addmm', 'mm') THEN 'fullyconnected'
        WHEN name IN ('bmm', 'matmul', 'batchmatmul') THEN 'batchmatrixmultiply'
        WHEN name IN ('globalavgpooling', 'globalaveragepooling', 'adaptive_avg_pool') THEN 'mean'
        WHEN name IN ('avgpooling', 'avg_pool') THEN 'averagepooling'
        WHEN name IN ('max_pool', 'adaptive_max_pool') THEN 'maxpooling'
        WHEN name = 'mul' THEN 'multiply'
        WHEN name = 'sub' THEN 'subtract'
        WHEN name = 'div' THEN 'divide'
        WHEN name = 'sin' THEN 'sine'
        WHEN name = 'cos' THEN 'cosine'
        WHEN name = 'ceil' THEN 'ceiling'
        WHEN name = 'neg' THEN 'negate'
        WHEN name IN ('pow', 'power') THEN 'square'
        WHEN name = 'sqrt' THEN 'squareroot'
        WHEN name = 'rsqrt' THEN 'reciprocalsquareroot'
        WHEN name = 'approxgelu' THEN 'gelu'
        WHEN name = 'leaky_relu' THEN 'leakyrelu'
        WHEN name = '_prelu_kernel' THEN 'prelu'
        WHEN name = '_softmax' THEN 'softmax'
        WHEN name IN ('relu', 'relu6', 'hardtanh') THEN 'clamp'
        WHEN name = 'upsample_bilinear' THEN 'resizebilinear'
        WHEN name IN ('constant_pad_nd', 'pad') THEN 'constantpad'
        WHEN name IN (
            'view', 'unsqueeze', 'squeeze', 'copyreshape', 'fusedims', 'splitdims', 'expanddims'
        ) THEN 'reshape'
        WHEN name IN ('permute', 't') THEN 'transpose'
        -- A concatenation copies its inputs.
        WHEN name IN ('cat', 'clone', '_clone_dim_order') OR starts_with(name, 'concatenate') THEN 'copy'
        WHEN name LIKE '%quantize_per_%' OR name = 'quantize_affine' THEN 'convert'
        ELSE name
    END
);

-- One call of a delegate, in a method that a capture ran.
CREATE MACRO _delegate_calls(capture_key) AS TABLE
SELECT d.method, i.chain_index, i.instruction_id, d.backend, d.byte_offset AS blob_offset
FROM captures AS k
JOIN program_delegates AS d USING (program_id)
JOIN instructions AS i USING (program_id, method, delegate_index)
WHERE k.capture_id = capture_key
    AND d.method IN (SELECT m.method FROM linked_methods AS m WHERE m.capture_id = capture_key);

-- One event of a delegate, in the order in which a call ran them. Linking aligns them with the ops of the delegate's
-- graph and with nodes, by their kinds.
CREATE MACRO _delegate_events(capture_key) AS TABLE
SELECT e.block_index, e.method, e.instruction_id, e.signature_index, e.family, c.blob_offset,
    coalesce(NOT d.is_mapped, false) AS is_unmapped
FROM _instruction_events(capture_key) AS e
LEFT JOIN _delegate_calls(capture_key) AS c USING (method, chain_index, instruction_id)
LEFT JOIN delegates AS d USING (record_id, method, instruction_id)
WHERE e.kind = 'delegate'
ORDER BY e.block_index, e.instruction_id, e.slot;

-- One op of the graphs in the blobs of a capture's program, in order. It has one row, even if a blob has several calls.
CREATE MACRO _classified_delegate_ops(capture_key) AS TABLE
SELECT o.blob_offset, o.op_index, o.op, _delegate_op_class(o.op) AS class,
    list_transform(
        range(CASE WHEN starts_with(o.op, 'Concatenate') THEN len(o.inputs) ELSE 1 END),
        lambda i: _delegate_op_class(o.op)
    )
    || CASE WHEN json_exists(o.parameters, 'output_min') THEN ['clamp'] ELSE [] END AS events,
    o.debug_handle
FROM captures AS k
JOIN delegate_ops AS o USING (program_id)
WHERE k.capture_id = capture_key
ORDER BY o.blob_offset, o.op_index;

-- One node that a delegate's call runs, in the order of the graph.
CREATE MACRO _delegate_call_nodes(capture_key) AS TABLE
SELECT DISTINCT e.method, e.instruction_id, n.graph_id, n.node_index, n.debug_handle,
    string_split(p.op, '.')[1] AS op
FROM _instruction_events(capture_key) AS e
JOIN signature_nodes AS n ON n.capture_id = capture_key AND n.signature_index = e.signature_index
JOIN op_nodes AS p USING (record_id, graph_id, node_index)
WHERE e.kind = 'delegate_call' AND n.is_own
ORDER BY ALL;
