-- Bytes of an element of a tensor of a trace, by the name that C++ gives its type;
-- NULL for an argument that is not a tensor.
CREATE MACRO _bytes_of_traced_type(dtype) AS (
    CASE
        WHEN dtype IN ('bool', 'unsigned char', 'signed char', 'char')
            OR starts_with(dtype, 'c10::Float8') THEN 1
        WHEN dtype IN (
            'c10::BFloat16', 'c10::Half', 'short', 'short int', 'unsigned short',
            'short unsigned int'
        ) THEN 2
        WHEN dtype IN ('float', 'int', 'unsigned int', 'c10::complex<c10::Half>') THEN 4
        WHEN dtype IN (
            'double', 'long', 'long int', 'unsigned long', 'long unsigned int',
            'c10::complex<float>'
        ) THEN 8
        WHEN dtype = 'c10::complex<double>' THEN 16
    END
);

-- Bytes of an element by the number of its type in c10's ScalarType, as an argument
-- dtype is written; NULL for another number.
CREATE MACRO _bytes_of_type_number(number) AS (
    CASE
        WHEN number IN ('0', '1', '11', '23', '24', '25', '26') THEN 1
        WHEN number IN ('2', '5', '15') THEN 2
        WHEN number IN ('3', '6', '8') THEN 4
        WHEN number IN ('4', '7', '9') THEN 8
        WHEN number = '10' THEN 16
    END
);

-- Number of elements of a tensor in memory: dimensions of stride 0 repeat theirs, and
-- windows that overlap share theirs.
CREATE MACRO _stored_elements(
    sizes,  -- sizes by dimension
    strides  -- distances by dimension, in elements; NULL where not written: none repeats
) AS (
    CASE
        WHEN strides IS NULL OR len(strides) <> len(sizes) OR list_contains(sizes, 0)
            THEN _elements(sizes)
        ELSE least(
            _elements(list_transform(
                sizes, lambda size, i: CASE WHEN strides[i] = 0 THEN 1 ELSE size END
            )),
            1e0 + coalesce(list_sum(list_transform(
                sizes, lambda size, i: (size - 1)::DOUBLE * strides[i]
            )), 0)
        )
    END
);

-- The sizes that tensors have together by broadcasting: dimension by dimension from
-- the last, the size that isn't 1.
CREATE MACRO _broadcast_sizes(
    shapes  -- the tensors' sizes, as a list of lists
) AS (
    list_transform(
        range(1 - coalesce(list_max(list_transform(shapes, lambda s: len(s))), 0), 1),
        lambda back: list_reduce(
            list_transform(
                list_filter(shapes, lambda s: len(s) + back >= 1),
                lambda s: s[len(s) + back]
            ),
            lambda a, b: CASE WHEN a = 1 THEN b ELSE a END
        )
    )
);

-- The sizes of the output of a convolution or pooling in its last dimensions. A list
-- of one value is that of each dimension.
CREATE MACRO _window_sizes(
    sizes,  -- sizes of the input in these dimensions
    kernel,  -- sizes of the window
    stride, padding, dilation,
    rounding  -- added before the division: stride - 1 to round up, else 0
) AS (
    list_transform(
        sizes,
        lambda size, i: (
            size + 2 * padding[least(i, len(padding))]
            - dilation[least(i, len(dilation))] * (kernel[least(i, len(kernel))] - 1)
            - 1 + rounding * (stride[least(i, len(stride))] - 1)
        ) // stride[least(i, len(stride))] + 1
    )
);
