-- One call of a runtime or driver whose kind is known, without the prefix of its vendor
-- and the suffix of its version (`_call_name`): hipFree, cudaFree are Free. A call that is
-- not here has no kind: its time is listed by its own name, and no advice is given.
-- Columns:
--   name: the name without prefix and suffix
--   kind: launch, copy (or fill), synchronization, stream_wait (a stream waits for an event), event_record, allocation, free, pinned_memory (allocation, release, registration), module_load (kernels), graph_instantiation (and capture), creation (of streams, events, contexts), query
--   waits: whether it returns only when work of a device has ended
CREATE VIEW _known_calls AS
SELECT unnest(k.names) AS name, k.kind, k.waits
FROM (
    VALUES
        (
            [
                'Launch', 'LaunchKernel', 'LaunchKernelEx', 'LaunchKernelExC',
                'LaunchByPtr', 'LaunchCooperativeKernel',
                'LaunchCooperativeKernelMultiDevice', 'LaunchGrid', 'LaunchGridAsync',
                'LaunchHostFunc', 'ModuleLaunchKernel', 'ModuleLaunchCooperativeKernel',
                'ExtLaunchKernel', 'ExtModuleLaunchKernel', 'HccModuleLaunchKernel',
                'ExtLaunchMultiKernelMultiDevice', 'GraphLaunch', 'EnqueueKernelLaunch',
                'EnqueueKernelLaunchCustomExp', 'EnqueueCooperativeKernelLaunchExp',
                'CommandBufferEnqueueExp', 'EnqueueCommandBufferExp',
                'CommandListAppendLaunchKernel',
                'CommandListAppendLaunchCooperativeKernel',
                'CommandListImmediateAppendCommandListsExp',
                'CommandQueueExecuteCommandLists'
            ],
            'launch', false
        ),
        (
            [
                'MemcpyAsync', 'Memcpy2DAsync', 'Memcpy3DAsync', 'MemcpyPeerAsync',
                'Memcpy3DPeerAsync', 'MemcpyBatchAsync', 'MemcpyToSymbolAsync',
                'MemcpyFromSymbolAsync', 'Memcpy2DToArrayAsync',
                'Memcpy2DFromArrayAsync', 'MemcpyHtoDAsync', 'MemcpyDtoHAsync',
                'MemcpyDtoDAsync', 'MemcpyHtoAAsync', 'MemcpyAtoHAsync', 'MemsetAsync',
                'Memset2DAsync', 'Memset3DAsync', 'MemsetD8Async', 'MemsetD16Async',
                'MemsetD32Async', 'MemsetD2D8Async', 'MemsetD2D32Async',
                'MemPrefetchAsync', 'EnqueueUSMMemcpy', 'EnqueueUSMMemcpy2D',
                'EnqueueUSMFill', 'EnqueueUSMFill2D', 'EnqueueUSMPrefetch',
                'EnqueueMemBufferCopy', 'EnqueueMemBufferFill',
                'EnqueueMemBufferRead', 'EnqueueMemBufferWrite',
                'CommandListAppendMemoryCopy', 'CommandListAppendMemoryCopyRegion',
                'CommandListAppendMemoryFill', 'CommandListAppendMemoryPrefetch'
            ],
            'copy', false
        ),
        (
            [
                'Memcpy', 'Memcpy2D', 'Memcpy3D', 'MemcpyPeer', 'Memcpy3DPeer',
                'MemcpyToSymbol', 'MemcpyFromSymbol', 'MemcpyToArray',
                'MemcpyFromArray', 'Memcpy2DToArray', 'Memcpy2DFromArray',
                'MemcpyHtoD', 'MemcpyDtoH', 'MemcpyDtoD', 'MemcpyHtoA', 'MemcpyAtoH',
                'MemcpyDtoA', 'MemcpyAtoD', 'MemcpyAtoA', 'MemcpyWithStream', 'Memset',
                'Memset2D', 'Memset3D', 'MemsetD8', 'MemsetD16', 'MemsetD32'
            ],
            'copy', true
        ),
        (
            [
                'DeviceSynchronize', 'StreamSynchronize', 'EventSynchronize',
                'CtxSynchronize', 'ThreadSynchronize', 'SynchronizeDevice',
                'SynchronizeStream', 'SynchronizeEvent', 'EventWait', 'EventsWait',
                'QueueFinish', 'EventHostSynchronize', 'FenceHostSynchronize',
                'CommandListHostSynchronize', 'CommandQueueSynchronize'
            ],
            'synchronization', true
        ),
        (
            [
                'StreamWaitEvent', 'StreamWaitValue32', 'StreamWaitValue64',
                'EnqueueEventsWait', 'EnqueueEventsWaitWithBarrier',
                'EnqueueEventsWaitWithBarrierExt', 'CommandListAppendBarrier',
                'CommandListAppendWaitOnEvents'
            ],
            'stream_wait', false
        ),
        (
            [
                'EventRecord', 'EventRecordWithFlags', 'EnqueueTimestampRecordingExp',
                'CommandListAppendSignalEvent'
            ],
            'event_record', false
        ),
        (
            [
                'Malloc', 'MallocAsync', 'MallocManaged', 'MallocPitch', 'Malloc3D',
                'MallocArray', 'Malloc3DArray', 'MallocFromPoolAsync',
                'ExtMallocWithFlags', 'MemAlloc', 'MemAllocAsync', 'MemAllocManaged',
                'MemAllocPitch', 'MemAllocFromPoolAsync', 'MemAllocDevice',
                'MemAllocShared', 'MemCreate', 'MemMap', 'MemSetAccess',
                'MemAddressReserve', 'MemPoolCreate', 'ArrayCreate', 'USMDeviceAlloc',
                'USMSharedAlloc', 'MemBufferCreate', 'VirtualMemReserve',
                'VirtualMemMap', 'VirtualMemSetAccess', 'PhysicalMemCreate'
            ],
            'allocation', false
        ),
        (
            [
                'Free', 'FreeArray', 'FreeMipmappedArray', 'MemFree', 'MemFreeBlocking',
                'ArrayDestroy', 'USMFree'
            ],
            'free', true
        ),
        (
            [
                'FreeAsync', 'MemFreeAsync', 'MemUnmap', 'MemRelease',
                'MemAddressFree', 'MemPoolDestroy', 'MemPoolTrimTo', 'VirtualMemUnmap',
                'VirtualMemFree', 'PhysicalMemDestroy', 'PhysicalMemRelease'
            ],
            'free', false
        ),
        (
            [
                'HostAlloc', 'HostMalloc', 'MallocHost', 'MemHostAlloc',
                'MemAllocHost', 'USMHostAlloc', 'HostRegister', 'MemHostRegister'
            ],
            'pinned_memory', false
        ),
        (
            [
                'FreeHost', 'HostFree', 'MemFreeHost', 'HostUnregister',
                'MemHostUnregister'
            ],
            'pinned_memory', true
        ),
        (
            [
                'ModuleLoad', 'ModuleLoadData', 'ModuleLoadDataEx',
                'ModuleLoadFatBinary', 'ModuleUnload', 'ModuleGetFunction',
                'LibraryLoadData', 'LibraryLoadFromFile', 'LibraryUnload',
                'LibraryGetKernel', 'LibraryGetModule', 'KernelGetFunction',
                'LinkCreate', 'LinkAddData', 'LinkAddFile', 'LinkComplete',
                'ModuleCreate', 'ModuleDynamicLink', 'KernelCreate', 'ProgramBuild',
                'ProgramBuildExp', 'ProgramCompile', 'ProgramCompileExp',
                'ProgramCreateWithIL', 'ProgramCreateWithBinary', 'ProgramLink',
                'ProgramLinkExp'
            ],
            'module_load', false
        ),
        (
            [
                'GraphInstantiate', 'GraphInstantiateWithFlags',
                'GraphInstantiateWithParams', 'GraphExecUpdate', 'GraphUpload',
                'GraphCreate', 'GraphDestroy', 'GraphExecDestroy',
                'StreamBeginCapture', 'StreamBeginCaptureToGraph', 'StreamEndCapture',
                'CommandBufferCreateExp', 'CommandBufferFinalizeExp',
                'CommandBufferReleaseExp'
            ],
            'graph_instantiation', false
        ),
        (
            [
                'Init', 'CtxCreate', 'CtxDestroy', 'DevicePrimaryCtxRetain',
                'DevicePrimaryCtxRelease', 'DeviceReset', 'InitDevice', 'StreamCreate',
                'StreamCreateWithFlags', 'StreamCreateWithPriority', 'StreamDestroy',
                'ExtStreamCreateWithCUMask', 'EventCreate', 'EventCreateWithFlags',
                'EventDestroy', 'DeviceEnablePeerAccess', 'CtxEnablePeerAccess',
                'IpcOpenMemHandle', 'IpcCloseMemHandle', 'IpcOpenEventHandle',
                'ContextCreate', 'QueueCreate', 'QueueRelease', 'EventRelease',
                'EventPoolCreate', 'CommandQueueCreate', 'CommandListCreate',
                'CommandListCreateImmediate'
            ],
            'creation', false
        ),
        (
            [
                'EventQuery', 'EventElapsedTime', 'EventGetInfo', 'EventQueryStatus',
                'StreamQuery', 'StreamGetPriority', 'StreamGetFlags', 'StreamGetId',
                'StreamIsCapturing', 'StreamGetCaptureInfo',
                'ThreadExchangeStreamCaptureMode', 'GetDevice', 'SetDevice',
                'GetDeviceCount', 'GetDeviceProperties', 'DeviceGet',
                'DeviceGetAttribute', 'DeviceGetCount', 'DeviceGetInfo',
                'DeviceGetName', 'DeviceGetPCIBusId', 'DeviceGetDefaultMemPool',
                'DeviceGetStreamPriorityRange', 'DeviceCanAccessPeer',
                'DeviceGetLimit', 'DeviceSetLimit', 'CtxGetCurrent', 'CtxSetCurrent',
                'CtxPushCurrent', 'CtxPopCurrent', 'CtxGetDevice', 'FuncGetAttribute',
                'FuncGetAttributes', 'FuncSetAttribute', 'FuncSetCacheConfig',
                'KernelGetAttribute', 'KernelSetAttribute', 'GetFuncBySymbol',
                'GetSymbolAddress', 'GetSymbolSize', 'GetDriverEntryPoint',
                'GetDriverEntryPointByVersion', 'GetProcAddress', 'GetExportTable',
                'OccupancyMaxActiveBlocksPerMultiprocessor',
                'OccupancyMaxActiveBlocksPerMultiprocessorWithFlags',
                'OccupancyMaxActiveClusters', 'OccupancyMaxPotentialBlockSize',
                'PointerGetAttribute', 'PointerGetAttributes',
                'HostGetDevicePointer', 'MemHostGetDevicePointer', 'MemGetInfo',
                'MemGetAddressRange', 'MemGetAllocationGranularity',
                'MemPoolGetAttribute', 'MemPoolSetAttribute', 'IpcGetMemHandle',
                'IpcGetEventHandle', 'DriverGetVersion', 'RuntimeGetVersion',
                'GetLastError', 'PeekAtLastError', 'GetErrorString', 'GetErrorName',
                'KernelGetInfo', 'KernelSetArgPointer', 'KernelSetArgValue',
                'KernelSetExecInfo', 'QueueGetInfo', 'ProgramGetInfo',
                'MemGetAllocProperties', 'USMGetMemAllocInfo'
            ],
            'query', false
        )
) AS k(names, kind, waits);

-- The name of a call of a runtime or driver without the prefix of its vendor and the
-- suffix of its version: LaunchKernel of cudaLaunchKernel, MemFree of cuMemFree_v2; '' for
-- names without a known prefix.
CREATE MACRO _call_name(
    label  -- name of the call
) AS (
    regexp_extract(
        label,
        '^(?:cuda|cu|hip|musa|mu|sycl|ze|ur|pi|mtia|syn|aclrt)([A-Z].*?)'
        '(?:_v[0-9]+|_ptsz|_ptds|_spt|R[0-9]{4})*$',
        1
    )
);

-- What a thread that launches work does in a call instead of launching: synchronization
-- for calls that wait for a device, the kind of others, call for those of no known kind;
-- NULL for calls that belong to launching.
CREATE MACRO _call_cause(
    kind,  -- kind of the call
    waits  -- whether it waits for a device
) AS (
    CASE
        WHEN kind = 'copy' AND waits THEN 'synchronization'
        WHEN kind IN ('launch', 'copy', 'stream_wait', 'event_record', 'query')
            THEN NULL
        ELSE coalesce(kind, 'call')
    END
);

-- The kind of one call of the runtime or driver in a trace, by its name.
-- Columns:
--   label: name of the call
--   kind: as in `_known_calls`; NULL if it is not known
--   waits: whether it returns only when work of a device has ended
--   cause: as in `_call_cause`
CREATE MACRO _call_kinds(
    capture_key  -- key of a capture
) AS TABLE
SELECT
    c.label,
    k.kind,
    coalesce(k.waits, false) AS waits,
    _call_cause(k.kind, k.waits) AS cause
FROM (
    SELECT DISTINCT s.label
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id
    WHERE _slice_kind(s.category, s.label, 'all') = 'Runtime'
) AS c
LEFT JOIN _known_calls AS k ON k.name = _call_name(c.label);
