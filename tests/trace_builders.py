"""Small traces for tests, as PyTorch's profiler writes them: a dozen events each, times in microseconds."""

from __future__ import annotations

import json
from typing import Any, Final

# What categories were called before 2021.
OLDER: Final = {
    "cpu_op": "Operator", "user_annotation": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel",
    "gpu_memcpy": "Memcpy", "gpu_memset": "Memset",
}  # fmt: skip


def event(category: str, name: str, start: float, end: float, thread: int = 1, **arguments: Any) -> dict[str, Any]:
    """A slice. `device` determines the device that ran it, `external` and `correlation` its ids."""
    written = {
        "External id": arguments.pop("external", None),
        "Input Dims": arguments.pop("shapes", None),
        "est. achieved occupancy %": arguments.pop("occupancy", None),
        "blocks per SM": arguments.pop("blocks", None),
        **arguments,
    }
    return {
        "ph": "X", "cat": category, "name": name, "pid": arguments.get("device", 100), "tid": thread, "ts": start,
        "dur": end - start, "args": {key: value for key, value in written.items() if value is not None},
    }  # fmt: skip


def memory(
    at: float, size: int, allocated: int, reserved: int = 1024, thread: int = 1, **others: int
) -> dict[str, Any]:
    """An allocation, or a release if the size is negative; on the CPU unless `type` is given."""
    arguments = {
        "Bytes": size, "Total Allocated": allocated, "Total Reserved": reserved, "Device Type": others.get("type", 0),
        "Device Id": others.get("device", -1), "Addr": 4096,
    }  # fmt: skip
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": thread, "ts": at, "args": arguments}


def trace(*events: dict[str, Any], is_older: bool = False, **top: Any) -> bytes:
    """A trace's file; in the older layout where asked."""
    written = [
        each | {"cat": OLDER.get(each["cat"], each["cat"])} if is_older and "cat" in each else each for each in events
    ]
    return json.dumps({"schemaVersion": 1, **top, "traceEvents": written}).encode()


def two_steps() -> list[dict[str, Any]]:
    """A GPU's training in small: a matrix product in the first step; input, an activation and a copy in the second.

    The second step's kernel ends after the step does.
    """
    return [
        event("user_annotation", "ProfilerStep#4", 0, 100),
        event("cpu_op", "aten::linear", 10, 40, external=1, shapes=[[8, 4], [2, 4]]),
        event("cpu_op", "aten::addmm", 15, 35, external=2, shapes=[[2], [8, 4], [4, 2]]),
        event("cuda_runtime", "cudaLaunchKernel", 20, 30, external=2, correlation=7),
        event("kernel", "volta_h884gemm", 50, 90, 7, external=2, correlation=7, device=0, blocks=0.5, occupancy=40),
        event("user_annotation", "ProfilerStep#5", 100, 200),
        event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 108),
        event("cpu_op", "aten::relu", 110, 120, external=3, shapes=[[8, 2]]),
        event("cuda_runtime", "cudaLaunchKernel", 112, 118, external=3, correlation=8),
        event("cuda_runtime", "cudaMemcpyAsync", 130, 140, external=4, correlation=9),
        event("gpu_memcpy", "Memcpy HtoD", 150, 170, 7, external=4, correlation=9, device=0),
        event("kernel", "relu_kernel", 180, 220, 7, external=3, correlation=8, device=0, blocks=2, occupancy=80),
    ]
