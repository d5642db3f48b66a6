-- What helps where the host waits in calls of the runtime or driver, by the cause that
-- `_call_cause` gives; NULL for other causes.
CREATE MACRO _advice_call_remedy(
    cause  -- cause of the wait
) AS (
    CASE cause
        WHEN 'allocation'
            THEN 'Reuse memory by the caching allocator: unset'
            || ' PYTORCH_NO_CUDA_MEMORY_CACHING, and record steps after a warm-up.'
        WHEN 'free'
            THEN 'Keep memory in the caching allocator: unset'
            || ' PYTORCH_NO_CUDA_MEMORY_CACHING, no torch.cuda.empty_cache() within'
            || ' steps.'
        WHEN 'pinned_memory'
            THEN 'Reuse pinned buffers: a pool, or pin_memory of DataLoader.'
        WHEN 'module_load'
            THEN 'Record steps after a warm-up: the first use of a kernel loads it;'
            || ' CUDA_MODULE_LOADING=EAGER loads all at the start.'
        WHEN 'graph_instantiation'
            THEN 'Capture and instantiate graphs once, before the steps.'
        WHEN 'creation'
            THEN 'Create streams, events and contexts once, before the steps; record'
            || ' steps after a warm-up.'
    END
);

-- What the host does in such calls, for a sentence after "while the host"; NULL for other
-- causes.
CREATE MACRO _advice_call_work(
    cause  -- cause of the wait
) AS (
    CASE cause
        WHEN 'allocation' THEN 'allocates memory'
        WHEN 'free' THEN 'frees memory'
        WHEN 'pinned_memory' THEN 'allocates, releases or registers pinned memory'
        WHEN 'module_load' THEN 'loads kernels'
        WHEN 'graph_instantiation' THEN 'captures or instantiates graphs'
        WHEN 'creation' THEN 'creates streams, events or contexts'
    END
);
