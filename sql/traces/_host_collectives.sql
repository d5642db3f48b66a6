-- torch's name for kernels of a type of elements, by its name among the inputs of an op; NULL for unknown types.
CREATE MACRO _message_type(dtype) AS (
    CASE dtype
        WHEN 'float' THEN 'Float'
        WHEN 'double' THEN 'Double'
        WHEN 'int' THEN 'Int'
        WHEN 'long int' THEN 'Long'
        WHEN 'short int' THEN 'Short'
        WHEN 'signed char' THEN 'Char'
        WHEN 'unsigned char' THEN 'Byte'
        WHEN 'bool' THEN 'Bool'
        WHEN 'c10::Half' THEN 'Half'
        WHEN 'c10::BFloat16' THEN 'BFloat16'
        WHEN 'c10::complex<float>' THEN 'ComplexFloat'
        WHEN 'c10::complex<double>' THEN 'ComplexDouble'
    END
);

-- One of the sizes of a tensor; 1 if the tensor has fewer dimensions, NULL for other texts.
CREATE MACRO _size_at(
    sizes,  -- its sizes, separated by commas
    dimension  -- number of the dimension, from 1
) AS (
    CASE
        WHEN len(string_split(sizes, ',')) < dimension THEN 1
        WHEN try_cast(string_split(sizes, ',')[dimension] AS DOUBLE) >= 0
            THEN try_cast(string_split(sizes, ',')[dimension] AS DOUBLE)
    END
);

-- Number of elements of a tensor of 1 to 5 dimensions; NULL for others.
CREATE MACRO _elements_of_sizes(
    sizes  -- its sizes, separated by commas
) AS (
    CASE WHEN len(string_split(sizes, ',')) <= 5 THEN
        _size_at(sizes, 1) * _size_at(sizes, 2) * _size_at(sizes, 3) * _size_at(sizes, 4) * _size_at(sizes, 5)
    END
);

-- Number of elements of the one tensor among an op's inputs; NULL if it has none or several.
CREATE MACRO _only_elements(
    shapes  -- sizes of its inputs, as a JSON list without spaces
) AS (
    CASE
        WHEN shapes = '[[]]' THEN 1
        WHEN starts_with(shapes, '[[') AND ends_with(shapes, ']]')
            THEN _elements_of_sizes(substr(shapes, 3, length(shapes) - 4))
    END
);

-- One event of gloo's collectives, which run on the host, of traces without kernels.
CREATE MACRO _gloo_events(
    traces  -- a table of traces: capture_id
) AS TABLE
SELECT e.capture_id, e.run_index, e.event_index, substr(s.label, 6) AS collective, e.start_ticks, e.elapsed_ticks
FROM (
    SELECT s.capture_id, s.signature_index, s.label, s.on_device,
        bool_or(s.activity = 'kernel') OVER (PARTITION BY s.capture_id) AS has_kernels
    FROM query_table(traces) AS a
    JOIN signatures AS s USING (capture_id)
) AS s
JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
WHERE starts_with(s.label, 'gloo:') AND NOT s.on_device AND NOT s.has_kernels AND e.elapsed_ticks >= 0;

-- One collective of `_gloo_events` with its message and process group. The event has the tensor that the process sends,
-- and no process group: that is known if the process is in a single one.
CREATE MACRO _host_collectives(
    traces  -- a table of traces: capture_id
) AS TABLE
WITH sized AS (
    SELECT v.capture_id, v.run_index, v.event_index, v.collective, v.start_ticks, v.elapsed_ticks,
        string_split(g.value, ':')[1] AS group_description,
        try_cast(string_split(g.value, ':')[2] AS INTEGER) AS group_size,
        _message_type(substr(o.dtypes, 3, length(o.dtypes) - 4)) AS message_type,
        _only_elements(replace(o.shapes, ' ', '')) AS elements
    FROM _gloo_events(traces) AS v
    LEFT JOIN labels AS g ON g.capture_id = v.capture_id AND g.key = 'process_groups' AND NOT contains(g.value, ' ')
    LEFT JOIN op_arguments AS o
        ON o.capture_id = v.capture_id AND o.run_index = v.run_index AND o.event_index = v.event_index
)
SELECT s.capture_id, s.run_index, s.event_index, s.collective, s.group_description, s.group_size, s.message_type,
    s.elements,
    try_cast(
        s.elements * _message_bytes(s.message_type) * CASE
            WHEN s.collective IN (
                'all_reduce', 'all_to_all', 'broadcast', 'reduce', 'reduce_scatter', 'send', 'recv'
            ) THEN 1
            WHEN s.collective = 'all_gather' THEN s.group_size
        END AS BIGINT
    ) AS message_bytes,
    s.start_ticks, s.elapsed_ticks
FROM sized AS s;
