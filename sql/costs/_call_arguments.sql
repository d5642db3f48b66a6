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

-- The values of an argument that is a number or a list of numbers; NULL where not
-- written.
CREATE MACRO _numbers(argument) AS (
    CASE
        WHEN try_cast(argument.value AS BIGINT) IS NOT NULL
            THEN [try_cast(argument.value AS BIGINT)]
        ELSE try_cast(argument.value AS BIGINT[])
    END
);

-- The highest of the ranks of types, which are 0 for bool, 100 for integers, 200 for
-- floats and 300 for complex numbers, and the bytes of the type.
CREATE MACRO _highest_rank(tensors) AS (
    list_max(list_transform(tensors, lambda _t: _t.rank))
);

-- A type of a trace as people write it: bf16; other names as they are.
CREATE MACRO _short_type(dtype) AS (
    CASE dtype
        WHEN 'float' THEN 'f32'
        WHEN 'double' THEN 'f64'
        WHEN 'c10::BFloat16' THEN 'bf16'
        WHEN 'c10::Half' THEN 'f16'
        WHEN 'long int' THEN 'i64'
        WHEN 'long' THEN 'i64'
        WHEN 'int' THEN 'i32'
        WHEN 'short' THEN 'i16'
        WHEN 'signed char' THEN 'i8'
        WHEN 'unsigned char' THEN 'u8'
        WHEN 'c10::complex<float>' THEN 'c64'
        WHEN 'c10::complex<double>' THEN 'c128'
        ELSE lower(replace(replace(dtype, 'c10::', ''), 'Float', 'f'))
    END
);

-- Those tensors that have dimensions.
CREATE MACRO _with_dimensions(tensors) AS (
    list_filter(tensors, lambda _t: len(_t.sizes) > 0)
);

-- The bytes of the type that an elementwise op returns, by torch's rules of promotion:
-- that of its tensors with dimensions, unless one without is of a higher kind. A
-- number in Python is written as a double without dimensions; it counts as a float.
CREATE MACRO _promoted_bytes(tensors) AS (
    CASE
        WHEN _highest_rank(tensors) // 100
            = _highest_rank(_with_dimensions(tensors)) // 100
            THEN _highest_rank(_with_dimensions(tensors))
        WHEN _highest_rank(tensors) = 208 AND len(_with_dimensions(tensors)) > 0
            THEN 204
        ELSE _highest_rank(tensors)
    END % 100
);

-- The arguments of one call of an op of a trace, of which costs are computed: `named`
-- by name, `tensors` as they stand.
CREATE MACRO _call_arguments(
    calls  -- rows of call, op, shapes, dtypes, strides and inputs, as a list
) AS TABLE
WITH
given AS (
    SELECT
        g.held.call,
        g.held.op,
        n.names,
        try(from_json(g.held.shapes, '["JSON"]')) AS shapes,
        try(from_json(g.held.dtypes, '["VARCHAR"]')) AS dtypes,
        try(from_json(g.held.strides, '["JSON"]')) AS strides,
        try(from_json(g.held.inputs, '["VARCHAR"]')) AS inputs
    FROM (SELECT unnest(calls) AS held) AS g
    LEFT JOIN _argument_names AS n ON n.op = g.held.op
),
read AS (
    SELECT
        g.call,
        g.op,
        g.dtypes IS NOT NULL AS has_types,
        list_transform(
            g.shapes,
            lambda shape, place: {
                'name': ltrim(g.names[place], '!'),
                'is_read': coalesce(
                    g.names[place] <> 'out' AND g.names[place][1] <> '!', true
                ),
                'sizes': try_cast(shape AS BIGINT[]),
                'strides': try_cast(g.strides[place] AS BIGINT[]),
                'lists': try_cast(shape AS BIGINT[][]),
                'value': nullif(g.inputs[place], ''),
                'type': g.dtypes[place],
                'bytes': _bytes_of_traced_type(g.dtypes[place]),
                'rank': _bytes_of_traced_type(g.dtypes[place]) + CASE
                    WHEN g.dtypes[place] = 'bool' THEN 0
                    WHEN contains(g.dtypes[place], 'complex') THEN 300
                    WHEN g.dtypes[place] IN ('float', 'double')
                        OR starts_with(g.dtypes[place], 'c10::') THEN 200
                    ELSE 100
                END
            }
        ) AS arguments
    FROM given AS g
),
parted AS (
    SELECT
        r.*,
        list_filter(
            r.arguments,
            lambda a: CASE
                WHEN r.has_types THEN a.bytes IS NOT NULL
                ELSE len(a.sizes) > 0 AND a.sizes[1] IS NOT NULL
            END
        ) AS tensors,
        list_filter(
            r.arguments, lambda a: len(a.lists) > 0 AND a.lists[1] IS NOT NULL
        )[1].lists AS listed,
        map_from_entries(list_transform(
            r.arguments, lambda a, place: (coalesce(a.name, place::VARCHAR), a)
        )) AS named
    FROM read AS r
),
firsts AS (
    SELECT
        p.*,
        list_filter(p.tensors, lambda t: t.name IS DISTINCT FROM 'out')[1]
            AS first_tensor
    FROM parted AS p
)
SELECT
    f.call,
    f.op,
    f.has_types,
    f.named,
    f.tensors,
    f.listed,
    f.first_tensor,
    len(f.arguments) AS given,
    coalesce(f.named['query'], f.named['self'], f.first_tensor) AS main
FROM firsts AS f;
