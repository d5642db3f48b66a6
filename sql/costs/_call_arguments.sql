-- Bytes of an element of a tensor of a trace, by the name that C++ gives its type; NULL for an argument that is not a
-- tensor.
CREATE MACRO _bytes_of_traced_type(dtype) AS (
    CASE
        WHEN dtype IN ('bool', 'unsigned char', 'signed char', 'char') OR starts_with(dtype, 'c10::Float8') THEN 1
        WHEN dtype IN (
            'c10::BFloat16', 'c10::Half', 'short', 'short int', 'unsigned short', 'short unsigned int'
        ) THEN 2
        WHEN dtype IN ('float', 'int', 'unsigned int', 'c10::complex<c10::Half>') THEN 4
        WHEN dtype IN ('double', 'long', 'long int', 'unsigned long', 'long unsigned int', 'c10::complex<float>') THEN 8
        WHEN dtype = 'c10::complex<double>' THEN 16
        WHEN starts_with(dtype, 'OpaqueType<') THEN regexp_extract(dtype, '\d+')::BIGINT
    END
);

-- The kind of a type of a trace, in hundreds, and the bytes of an element.
CREATE MACRO _rank_of_traced_type(dtype, bytes) AS (
    bytes + CASE
        WHEN dtype = 'bool' THEN 0
        WHEN contains(dtype, 'complex') THEN 300
        WHEN dtype IN ('float', 'double') OR starts_with(dtype, 'c10::') THEN 200
        ELSE 100
    END
);

-- The types of the lists of tensors that an op takes, of the first list and of the others. Traces lack them, but some
-- kernels that the op launches have them in their names, one for each list: kernels that concatenate (only the bytes of
-- an element) and those of _foreach ops. NULL for other kernels.
CREATE MACRO _listed_types(kernel) AS (
    CASE
        WHEN contains(kernel, 'CatArrayBatchedCopy') THEN [
            regexp_replace(
                regexp_extract(kernel, 'CatArrayBatchedCopy\w*<([^,<>]*(<[^<>]*>)?)', 1),
                '^.*::(OpaqueType<\d+).*$', '\1>'
            )
        ]
        WHEN contains(kernel, 'multi_tensor_apply_kernel<') THEN [
            regexp_extract(kernel, 'Functor<([^,<>]*(<[^<>]*>)?)', 1),
            CASE
                WHEN contains(kernel, 'CopyFunctor<') THEN regexp_extract(
                    kernel, 'CopyFunctor<[^,<>]*(<[^<>]*>)?, ([^,<>]*(<[^<>]*>)?)', 2
                )
                ELSE regexp_extract(kernel, 'Functor<([^,<>]*(<[^<>]*>)?)', 1)
            END
        ]
    END
);

-- The name of an argument of an op of a trace: out for the first that it writes into, out2 and so on for further ones.
CREATE MACRO _argument_name(
    place,
    names,  -- of `_argument_names`
    first_out  -- place of the first that it writes into, by `_out_arguments`
) AS (
    CASE
        WHEN place > first_out THEN 'out' || (place - first_out + 1)
        WHEN place = first_out THEN 'out'
        ELSE names[place]
    END
);

-- Number of elements of a tensor in memory: dimensions of stride 0 repeat theirs, and windows that overlap share
-- theirs.
CREATE MACRO _stored_elements(
    sizes,  -- sizes by dimension
    strides  -- distances by dimension, in elements; NULL where not written: none repeats
) AS (
    CASE
        WHEN strides IS NULL OR len(strides) <> len(sizes) OR list_contains(sizes, 0) THEN _elements(sizes)
        ELSE least(
            _elements(list_transform(sizes, lambda size, i: CASE WHEN strides[i] = 0 THEN 1 ELSE size END)),
            1e0 + coalesce(list_sum(list_transform(sizes, lambda size, i: (size - 1)::DOUBLE * strides[i])), 0)
        )
    END
);

-- One argument of an op of a trace, or one tensor of a list, as it is written. They sort by their places.
CREATE MACRO _written_argument(
    place,  -- of the argument, from 1
    part,  -- in the list, from 1; 0 without a list
    name, sizes, strides, value, dtype,
    bytes  -- of an element
) AS (
    {
        'place': place, 'part': part, 'name': name, 'sizes': sizes, 'strides': strides, 'value': value, 'type': dtype,
        'bytes': bytes::BIGINT
    }
);

-- One tensor that an op of a trace takes. They sort by their places. `row_elements`: of each index of the first dimension;
-- `held_bytes`: in memory.
CREATE MACRO _traced_tensor(
    argument  -- as `_written_argument` has it
) AS (
    {
        'place': argument.place, 'part': argument.part, 'name': ltrim(argument.name, '!'),
        'is_out': coalesce(regexp_full_match(argument.name, 'out\d?'), false),
        'is_read': coalesce(argument.name[1] <> '!', true), 'sizes': argument.sizes, 'strides': argument.strides,
        'value': argument.value, 'type': argument.type, 'bytes': argument.bytes,
        'rank': _rank_of_traced_type(argument.type, argument.bytes), 'elements': _elements(argument.sizes),
        'row_elements': _elements(argument.sizes[2:]),
        'held_bytes': _stored_elements(argument.sizes, argument.strides) * argument.bytes
    }
);

-- The values of an argument that is a number or a list of numbers; NULL if not written.
CREATE MACRO _numbers(argument) AS (
    CASE
        WHEN try_cast(argument.value AS BIGINT) IS NOT NULL THEN [try_cast(argument.value AS BIGINT)]
        ELSE try_cast(argument.value AS BIGINT[])
    END
);

-- The highest of the ranks of types, which are 0 for bool, 100 for integers, 200 for floats and 300 for complex
-- numbers, and the bytes of the type.
CREATE MACRO _highest_rank(tensors) AS (list_max(list_transform(tensors, lambda _t: _t.rank)));

-- The short name of a type of a trace, such as bf16; other names are unchanged.
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
        ELSE CASE
            WHEN starts_with(dtype, 'OpaqueType<') THEN 8 * _bytes_of_traced_type(dtype) || 'bit'
            ELSE lower(replace(replace(dtype, 'c10::', ''), 'Float', 'f'))
        END
    END
);

-- Tensors that have dimensions.
CREATE MACRO _with_dimensions(tensors) AS (list_filter(tensors, lambda _t: len(_t.sizes) > 0));

-- The bytes of the type that an elementwise op returns, by torch's rules of promotion: that of its tensors with
-- dimensions, unless one without is of a higher kind. A number in Python is written as a double without dimensions; it
-- counts as a float.
CREATE MACRO _promoted_bytes(tensors) AS (
    CASE
        WHEN _highest_rank(tensors) // 100
            = _highest_rank(_with_dimensions(tensors)) // 100
            THEN _highest_rank(_with_dimensions(tensors))
        WHEN _highest_rank(tensors) = 208 AND len(_with_dimensions(tensors)) > 0 THEN 204
        ELSE _highest_rank(tensors)
    END % 100
);

-- The arguments from which the cost of one call of an op of a trace is computed: `named` by name, `tensors` in their
-- order, those of lists one by one, and `outs`, the tensors that it writes into, likewise.
CREATE MACRO _call_arguments(
    calls  -- rows of call, op, its label in the trace, formula, shapes, dtypes, strides, inputs, listed, the types of lists, lengths, those of the step's sequences, assumed, what `_assumptions` has, and products, how many a backward pass computes, as a list
) AS TABLE
WITH given AS (
    SELECT g.held.call, g.held.op, g.held.label, g.held.formula, g.held.listed AS types, g.held.lengths,
        g.held.assumed, g.held.products, n.names,
        try(from_json(g.held.shapes, '["JSON"]')) AS shapes, try(from_json(g.held.dtypes, '["VARCHAR"]')) AS dtypes,
        try(from_json(g.held.strides, '["JSON"]')) AS strides, try(from_json(g.held.inputs, '["VARCHAR"]')) AS inputs
    FROM (SELECT unnest(calls) AS held) AS g
    LEFT JOIN _argument_names AS n ON n.op = g.held.op
),
typed AS (
    -- Some versions of torch write an empty list of types.
    SELECT g.*, coalesce(len(g.dtypes), 0) > 0 OR len(g.shapes) = 0 AS has_types,
        list_transform(g.dtypes, lambda dtype: _bytes_of_traced_type(dtype)) AS type_bytes,
        list_transform(g.types, lambda dtype: _bytes_of_traced_type(dtype)) AS listed_bytes
    FROM given AS g
),
counted AS (
    SELECT g.*,
        -- Without types, an argument without dimensions isn't known to be a tensor.
        CASE
            WHEN CASE
                WHEN g.has_types THEN g.dtypes[-1] = 'TensorList' OR g.type_bytes[-1] IS NOT NULL
                ELSE g.shapes[-1]::VARCHAR <> '[]'
            END THEN o.given - o.outs + 1
        END AS first_out
    FROM typed AS g
    LEFT JOIN _out_arguments AS o ON o.op = g.op AND o.given = len(g.shapes)
),
read AS (
    SELECT g.call, g.op, g.label, g.formula, g.lengths, g.assumed, g.products, g.has_types,
        coalesce(g.first_out - 1, len(g.shapes)) AS given,
        list_transform(
            g.shapes,
            lambda shape, place: _written_argument(
                place, 0, _argument_name(place, g.names, g.first_out), try_cast(shape AS BIGINT[]),
                try_cast(g.strides[place] AS BIGINT[]), nullif(g.inputs[place], ''), g.dtypes[place],
                g.type_bytes[place]
            )
        ) AS arguments,
        list_filter(
            list_transform(g.shapes, lambda shape, place: {
                'place': place, 'name': _argument_name(place, g.names, g.first_out),
                'sizes': try_cast(shape AS BIGINT[][]), 'strides': try_cast(g.strides[place] AS BIGINT[][]),
                'is_typed': g.dtypes[place] = 'TensorList'
            }),
            lambda a: a.is_typed OR len(a.sizes) > 0 AND a.sizes[1] IS NOT NULL
        ) AS lists,
        g.types, g.listed_bytes
    FROM counted AS g
),
told AS (
    SELECT r.* EXCLUDE (arguments, types, listed_bytes),
        list_transform(
            r.arguments || flatten(list_transform(
                r.lists,
                lambda a, number: list_transform(
                    a.sizes,
                    lambda sizes, part: _written_argument(
                        a.place, part, a.name, sizes, a.strides[part], NULL,
                        r.types[least(number, len(r.types))], r.listed_bytes[least(number, len(r.types))]
                    )
                )
            )),
            lambda a: _traced_tensor(a)
        ) AS every
    FROM read AS r
),
split AS (
    SELECT t.* EXCLUDE (every), list_filter(t.every, lambda a: a.part = 0) AS arguments,
        list_filter(t.every, lambda a: a.part > 0) AS listed
    FROM told AS t
),
parted AS (
    SELECT r.*,
        list_filter(
            r.arguments,
            lambda a: CASE
                WHEN r.has_types THEN a.bytes IS NOT NULL
                ELSE len(a.sizes) > 0 AND a.sizes[1] IS NOT NULL
            END
        ) AS singles,
        map_from_entries(list_transform(r.arguments, lambda a, place: (coalesce(a.name, place::VARCHAR), a))) AS named
    FROM split AS r
),
firsts AS (
    SELECT p.*, CASE WHEN len(p.lists) = 0 THEN p.singles ELSE list_sort(p.singles || p.listed) END AS all_tensors,
        list_filter(p.singles, lambda t: NOT t.is_out)[1] AS first_single, first_single['place'] AS first_place,
        coalesce(p.lists[1].place < first_place, len(p.lists) > 0) AS is_of_lists,
        -- If lists aren't written, all of them look empty.
        CASE WHEN len(p.listed) > 0 THEN list_filter(p.listed, lambda t: t.place = p.lists[1].place) END AS first_list
    FROM parted AS p
)
SELECT f.call, f.op, f.label, f.formula, f.lengths, f.assumed, f.products, f.has_types, f.named, f.all_tensors,
    list_filter(f.all_tensors, lambda t: NOT t.is_out) AS tensors,
    list_filter(f.all_tensors, lambda t: t.is_out) AS outs, f.listed, f.is_of_lists, f.first_list,
    CASE WHEN f.is_of_lists THEN f.first_list[1] ELSE f.first_single END AS first_tensor, f.given,
    CASE
        WHEN f.is_of_lists THEN f.first_list[1]
        ELSE coalesce(f.named['query'], f.named['self'], f.first_single, f.all_tensors[1])
    END AS main
FROM firsts AS f;
