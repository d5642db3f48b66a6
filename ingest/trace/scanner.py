"""The parts of a PyTorch Profiler trace's JSON that etq reads, as types for a typed decoder: all else is skipped.

Source: what Kineto's `output_json.cpp` writes (`export_chrome_trace`), its older layout with capitalised categories and
lower-case keys among it, and Chrome's Trace Event Format, of which both are.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Final

import msgspec

# Categories of events on a device, or about one, with the older layout's; as `_is_device_event` in SQL.
DEVICE_CATEGORIES: Final = frozenset(
    (
        *("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "cuda_event"),
        *("cuda_profiler_range", "xpu_scope_profiler"),
        *("mtia_ccp_events", "mtia_workloadd", "mtia_insight", "mtia_counters", "hpu_op"),
        *("Kernel", "Memcpy", "Memset"),
    )
)
# How categories of calls that launch it end: any vendor's runtime and driver; and the older layout's.
LAUNCH_ENDINGS: Final = ("_runtime", "_driver")
LAUNCH_CATEGORY: Final = "Runtime"
STEP: Final = "ProfilerStep#"

# Values for a missing id and a missing time.
NONE: Final = -1
NAN: Final = math.nan
# Value for a missing part of the JSON.
UNWRITTEN: Final = msgspec.Raw(b"")

Written = str | int | float | None


# The ids that a column of 64 bits holds: other values, such as texts, are not ids.
Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Arguments(msgspec.Struct, gc=False):
    """The arguments of most events, except for their inputs: each further key makes the others slower to find."""

    external_id: Id = msgspec.field(default=NONE, name="External id")
    sequence_number: Id = msgspec.field(default=NONE, name="Sequence number")
    forward_thread: Id = msgspec.field(default=NONE, name="Fwd thread id")
    # In the older layout.
    old_external_id: Id = msgspec.field(default=NONE, name="external id")
    correlation: Id = NONE
    call_stack: str | None = msgspec.field(default=None, name="Call stack")
    # In metadata.
    name: str | None = None


class DeviceArguments(msgspec.Struct, gc=False):
    """The arguments of device events."""

    device: int | None = None
    stream: int | str | None = None
    grid: msgspec.Raw = UNWRITTEN
    block: msgspec.Raw = UNWRITTEN
    registers: int | None = msgspec.field(default=None, name="registers per thread")
    shared_memory: int | None = msgspec.field(default=None, name="shared memory")
    blocks_per_sm: float | None = msgspec.field(default=None, name="blocks per SM")
    warps_per_sm: float | None = msgspec.field(default=None, name="warps per SM")
    occupancy: float | None = msgspec.field(default=None, name="est. achieved occupancy %")
    bytes: int | None = None
    bandwidth: float | None = msgspec.field(default=None, name="memory bandwidth (GB/s)")


class MemoryArguments(msgspec.Struct, gc=False):
    """The arguments of `[memory]` events."""

    bytes: int | None = msgspec.field(default=None, name="Bytes")
    total_allocated: int | None = msgspec.field(default=None, name="Total Allocated")
    total_reserved: int | None = msgspec.field(default=None, name="Total Reserved")
    device_type: int | None = msgspec.field(default=None, name="Device Type")
    device_id: int | None = msgspec.field(default=None, name="Device Id")
    address: int | None = msgspec.field(default=None, name="Addr")


class _Entry(msgspec.Struct, gc=False):
    """An entry of `traceEvents` without its arguments; times in microseconds."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    pid: Written = None
    tid: Written = None
    ts: float = NAN
    dur: float = NAN


class TraceEvent(_Entry, gc=False):
    """An entry with Kineto's arguments."""

    args: Arguments | None = None


class PlainEvent(_Entry, gc=False):
    """An entry whose arguments are of another tool's kind."""

    args: ClassVar[None] = None


class Inputs(msgspec.Struct, gc=False):
    """The inputs of an op, as they are written."""

    values: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Concrete Inputs")
    dtypes: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Input Strides")
    shapes: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Input Dims")
    old_shapes: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Input dims")


class InputsEvent(msgspec.Struct, gc=False):
    """An entry, for its inputs alone."""

    args: Inputs | None = None


class DeviceEvent(msgspec.Struct, gc=False):
    """An entry, for its details about a device."""

    args: DeviceArguments | None = None


class MemoryEvent(msgspec.Struct, gc=False):
    """An entry, for its details about memory."""

    args: MemoryArguments | None = None


class DistributedInfo(msgspec.Struct, gc=False):
    """Which of several processes wrote the trace."""

    backend: str | None = None
    rank: int | None = None
    world_size: int | None = None


class DeviceProperties(msgspec.Struct, gc=False):
    """A device of the machine; names are the file's own."""

    id: int | None = None
    name: str | None = None
    totalGlobalMem: int | None = None  # noqa: N815
    computeMajor: int | None = None  # noqa: N815
    computeMinor: int | None = None  # noqa: N815
    numSms: int | None = None  # noqa: N815


class Trace(msgspec.Struct, gc=False):
    """A trace; its events are as they are written, for those who decode some at a time."""

    traceEvents: list[msgspec.Raw]  # noqa: N815 - the file's own name
    distributedInfo: DistributedInfo | None = None  # noqa: N815
    deviceProperties: msgspec.Raw = UNWRITTEN  # noqa: N815
