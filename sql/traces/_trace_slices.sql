-- The kind of an event of a trace in torch-tb-profiler, the TensorBoard plug-in for
-- PyTorch's profiler: Kernel, Memcpy, Memset, Runtime, Operator, Python, Step,
-- Annotation, Module; NULL for other events, and for steps repeated for a device.
CREATE MACRO _slice_kind(
    category,  -- category of the event
    label,  -- its label
    categories  -- all, or older, as in `step_breakdown`
) AS (
    CASE
        WHEN starts_with(label, 'ProfilerStep#') THEN CASE
            WHEN lower(category) IN ('cpu_op', 'operator', 'user_annotation')
                THEN 'Step'
        END
        WHEN lower(category) = 'kernel' THEN 'Kernel'
        WHEN categories = 'all'
            AND category IN ('mtia_ccp_events', 'mtia_workloadd', 'hpu_op')
            THEN 'Kernel'
        WHEN lower(category) IN ('memcpy', 'gpu_memcpy') THEN 'Memcpy'
        WHEN lower(category) IN ('memset', 'gpu_memset') THEN 'Memset'
        WHEN lower(category) = 'runtime' THEN 'Runtime'
        WHEN categories = 'all'
            AND (ends_with(category, '_runtime') OR ends_with(category, '_driver'))
            THEN 'Runtime'
        WHEN lower(category) IN ('cpu_op', 'operator') THEN 'Operator'
        WHEN lower(category) = 'python' THEN 'Python'
        WHEN lower(category) IN ('user_annotation', 'gpu_user_annotation')
            THEN 'Annotation'
        WHEN category = 'python_function' AND starts_with(label, 'nn.Module: ')
            THEN 'Module'
    END
);

-- The name of a module: of an nn.Module without `nn.Module: `, of Lightning the path
-- of its attribute.
CREATE MACRO _module_name(
    label  -- label of the module's call
) AS (
    CASE
        WHEN starts_with(label, '[pl][module]')
            THEN substr(label, length(split_part(label, ': ', 1)) + 3)
        ELSE substr(label, 12)
    END
);

-- Whether a host event is an annotation that Lightning's profiler writes around a
-- module, as in `[pl][module]torch.nn.Linear: encoder.0`.
CREATE MACRO _is_lightning_module(
    kind,  -- as in `_slice_kind`
    label  -- label of the event
) AS (
    kind IN ('Annotation', 'Operator')
    AND starts_with(label, '[pl][module]')
    AND contains(label, ': ')
);

-- One signature of a trace's events with its kind. In traces without nn.Modules that
-- are Python functions (`with_stack`), Lightning's annotations are modules.
-- Columns:
--   signature_index: the signature
--   label: its label
--   kernel_family: as in `signatures`
--   uses_matrix_units: as in `signatures`, or as in the plug-in
--   is_device: whether it is of events of a device, as in `_is_device_event`
--   kind: as in `_slice_kind`; Module also for Lightning's annotations
CREATE MACRO _signature_kinds(
    capture_key,  -- key of a capture
    categories  -- all, or older, as in `step_breakdown`
) AS TABLE
SELECT
    k.signature_index,
    k.label,
    k.kernel_family,
    k.uses_matrix_units,
    k.is_device,
    CASE
        WHEN _is_lightning_module(k.kind, k.label)
            AND NOT coalesce(bool_or(k.kind = 'Module') OVER (), false)
            AND NOT k.is_device
            THEN 'Module'
        ELSE k.kind
    END AS kind
FROM (
    SELECT
        s.signature_index,
        s.label,
        s.kernel_family,
        CASE
            WHEN categories = 'all' THEN s.uses_matrix_units
            ELSE _is_plugin_tensor_kernel(s.label)
        END AS uses_matrix_units,
        _is_device_event(s.category) AS is_device,
        CASE
            WHEN categories IN ('all', 'older')
                THEN _slice_kind(s.category, s.label, categories)
            ELSE error(
                'categories must be all or older, not ' || coalesce(categories, 'NULL')
            )
        END AS kind
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id
    WHERE s.category IS NOT NULL
) AS k;

-- Names of the calls of modules in a trace.
-- Columns:
--   signature_index: signature of the calls
--   module: as in `_module_name`
CREATE MACRO _module_signatures(
    capture_key  -- key of a capture
) AS TABLE
SELECT k.signature_index, _module_name(k.label) AS module
FROM _signature_kinds(capture_key, 'all') AS k
WHERE k.kind = 'Module';

-- The number of the step that a label names, as in `ProfilerStep#3`; NULL if it names
-- none.
CREATE MACRO _step_number(
    label  -- label of an event
) AS (
    try_cast(string_split(label, '#')[2] AS INTEGER)
);

-- Whether an event waits for input data: for the next element of a DataLoader.
CREATE MACRO _is_data_loader(
    label  -- label of the event
) AS (
    (
        starts_with(label, 'enumerate(DataLoader)#')
        AND ends_with(label, '.__next__')
    ) OR starts_with(label, 'enumerate(DataPipe)#')
);

-- Whether a host event is communication between processes.
CREATE MACRO _is_communication(
    label,  -- label of the event
    categories  -- all: any event of a backend of torch.distributed; older: the five of each that the plug-in has
) AS (
    CASE
        WHEN categories = 'all'
            THEN regexp_matches(label, '^(nccl|rccl|gloo|xccl|hccl|ucc|mpi):')
        ELSE label IN (
            'nccl:broadcast', 'nccl:reduce', 'nccl:all_reduce', 'nccl:all_gather',
            'nccl:reduce_scatter', 'gloo:broadcast', 'gloo:reduce', 'gloo:all_reduce',
            'gloo:all_gather', 'gloo:reduce_scatter'
        )
    END
);

-- One event of a trace with a kind in torch-tb-profiler, with all that views of
-- traces ask of it: DuckDB reads only the columns that a query uses.
-- Columns:
--   run_index: the run
--   event_index: the event, unique within its capture
--   label: its label
--   kernel_family: as in `signatures`
--   uses_matrix_units: as in `_signature_kinds`
--   kind: as in `_signature_kinds`
--   is_device: whether it is an event of a device, as in `_is_device_event`
--   is_data_loader: whether it waits for input data
--   is_communication: whether it is communication on the host
--   thread_index: its thread
--   external_id: id that an op shares with its launches; NULL if there is none
--   correlation_id: id that a runtime call shares with its launches; NULL if there is none
--   sequence_number: id that an op shares with its backward op; NULL if there is none
--   forward_thread: profiler's number of the thread of the forward op; NULL if there is none
--   parent_index: event of the same thread that contains it; NULL if none does
--   start_ticks: clock at the start
--   end_ticks: clock at the end
--   counted_ticks: its part of the time of its thread, as in `_self_times`
CREATE MACRO _classified_slices(
    capture_key,  -- key of a capture
    categories  -- all, or older, as in `step_breakdown`
) AS TABLE
WITH
-- Few rows, materialized without the capture: with a condition on it between them,
-- DuckDB may join all signatures to all of `trace_events` first.
classified AS MATERIALIZED (
    SELECT
        k.signature_index,
        k.label,
        k.kernel_family,
        k.uses_matrix_units,
        k.kind,
        k.is_device,
        k.kind IN ('Operator', 'Annotation')
        AND (k.kind = 'Operator' OR categories = 'all')
        AND _is_data_loader(k.label) AS is_data_loader,
        k.kind IN ('Operator', 'Annotation', 'Python')
        AND _is_communication(k.label, categories) AS is_communication
    FROM _signature_kinds(capture_key, categories) AS k
    WHERE k.kind IS NOT NULL
)
SELECT
    t.run_index,
    t.event_index,
    k.label,
    k.kernel_family,
    k.uses_matrix_units,
    k.kind,
    k.is_device,
    k.is_data_loader,
    k.is_communication,
    t.thread_index,
    t.external_id,
    t.correlation_id,
    t.sequence_number,
    t.forward_thread,
    e.parent_index,
    e.start_ticks,
    e.start_ticks + e.elapsed_ticks AS end_ticks,
    e.elapsed_ticks - coalesce(e.overlap_ticks, 0) AS counted_ticks
FROM classified AS k
JOIN (
    SELECT i.* FROM event_ticks AS i WHERE i.capture_id = capture_key
) AS e ON e.signature_index = k.signature_index
JOIN (
    SELECT i.* FROM trace_events AS i WHERE i.capture_id = capture_key
) AS t ON t.run_index = e.run_index AND t.event_index = e.event_index
WHERE e.elapsed_ticks >= 0;

-- One event of a trace with a kind in torch-tb-profiler.
-- Columns:
--   run_index: the run
--   event_index: the event, unique within its capture
--   label: its label
--   kernel_family: as in `signatures`
--   uses_matrix_units: as in `_signature_kinds`
--   kind: as in `_classified_slices`
--   is_data_loader: whether it waits for input data
--   is_communication: whether it is communication on the host
--   thread_index: its thread
--   external_id: id that an op shares with its launches; NULL if there is none
--   correlation_id: id that a runtime call shares with its launches; NULL if there is none
--   parent_index: event of the same thread that contains it; NULL if none does
--   start_ticks: clock at the start
--   end_ticks: clock at the end
--   counted_ticks: its part of the time of its thread, as in `_self_times`
CREATE MACRO _trace_slices(
    capture_key,  -- key of a capture
    categories  -- all, or older, as in `step_breakdown`
) AS TABLE
SELECT
    s.run_index,
    s.event_index,
    s.label,
    s.kernel_family,
    s.uses_matrix_units,
    s.kind,
    s.is_data_loader,
    s.is_communication,
    s.thread_index,
    s.external_id,
    s.correlation_id,
    s.parent_index,
    s.start_ticks,
    s.end_ticks,
    s.counted_ticks
FROM _classified_slices(capture_key, categories) AS s;

-- The number of one step of a trace, of those that several threads wrote the smallest.
-- Columns:
--   run_index: the run
--   step: number of the step in the trace; NULL if its label has none
CREATE MACRO _step_numbers(
    capture_key  -- key of a capture
) AS TABLE
SELECT s.run_index, min(_step_number(s.label)) AS step
FROM _trace_slices(capture_key, 'all') AS s
WHERE s.kind = 'Step'
GROUP BY s.run_index;

-- Start and end of the recording of a trace, by its events; annotations count if
-- they are steps or communication.
-- Columns:
--   start_ticks: clock at the start of the first event
--   end_ticks: clock at the end of the last event
CREATE MACRO _recording(
    capture_key  -- key of a capture
) AS TABLE
SELECT min(e.start_ticks) AS start_ticks, max(e.end_ticks) AS end_ticks
FROM _capture_events(capture_key) AS e
WHERE e.end_ticks >= e.start_ticks
    AND CASE
        WHEN e.category IN ('user_annotation', 'gpu_user_annotation')
            THEN starts_with(e.label, 'ProfilerStep#')
                OR _is_communication(e.label, 'older')
        ELSE e.category IS NOT NULL
    END;
