"""The parts of a PyTorch Profiler trace's JSON that etq reads, as types for a typed decoder, which skips everything
else.

Sources: Kineto's `output_json.cpp` (`export_chrome_trace`), its older layout with capitalised categories and some
lower-case keys, and Chrome's Trace Event Format, on which both are based.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec

# The value of a missing id.
NONE: Final = -1
# The value of a missing part of the JSON.
UNWRITTEN: Final = msgspec.Raw(b"")
# The value of a missing time.
NULL: Final = msgspec.Raw(b"null")

Written = str | int | float | None


# Ids that fit a column of 64 bits. Other values, such as texts, are not ids.
Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Arguments(msgspec.Struct, gc=False):
    """The arguments of most events, except for their inputs. Few keys are read, because each slows down the look-up of
    all keys.
    """

    external_id: Id = msgspec.field(default=NONE, name="External id")
    sequence_number: Id = msgspec.field(default=NONE, name="Sequence number")
    forward_thread: Id = msgspec.field(default=NONE, name="Fwd thread id")
    # Key of the older layout.
    old_external_id: Id = msgspec.field(default=NONE, name="external id")
    correlation: Id = NONE
    number: Id = msgspec.field(default=NONE, name="Ev Idx")
    call_stack: str | None = msgspec.field(default=None, name="Call stack")
    # Key of metadata events, and of annotated kernels of graphs.
    name: str | None = None


class DeviceArguments(msgspec.Struct, gc=False):
    """The arguments of device events."""

    device: int | None = None
    stream: int | str | None = None
    registers: int | None = msgspec.field(default=None, name="registers per thread")
    shared_memory: int | None = msgspec.field(default=None, name="shared memory")
    blocks_per_sm: float | None = msgspec.field(default=None, name="blocks per SM")
    warps_per_sm: float | None = msgspec.field(default=None, name="warps per SM")
    occupancy: float | None = msgspec.field(default=None, name="est. achieved occupancy %")
    bytes: int | None = None
    bandwidth: float | None = msgspec.field(default=None, name="memory bandwidth (GB/s)")
    # Arguments of a wait for a CUDA event.
    wait_stream: int | None = msgspec.field(default=None, name="wait_on_stream")
    wait_correlation: int | None = msgspec.field(default=None, name="wait_on_cuda_event_record_corr_id")
    # Raw from here on. Of kernels:
    grid: msgspec.Raw = UNWRITTEN
    block: msgspec.Raw = UNWRITTEN
    # Of collectives. They are raw because other tools write some of these keys with other types.
    collective: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Collective name")
    process_group: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Process Group Name")
    group_description: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Process Group Description")
    group_size: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Group size")
    message_type: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="dtype")
    in_elements: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="In msg nelems")
    out_elements: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Out msg nelems")


class MemoryArguments(msgspec.Struct, gc=False):
    """The arguments of `[memory]` events."""

    bytes: int | None = msgspec.field(default=None, name="Bytes")
    total_allocated: int | None = msgspec.field(default=None, name="Total Allocated")
    total_reserved: int | None = msgspec.field(default=None, name="Total Reserved")
    device_type: int | None = msgspec.field(default=None, name="Device Type")
    device_id: int | None = msgspec.field(default=None, name="Device Id")
    address: int | None = msgspec.field(default=None, name="Addr")


class _Entry(msgspec.Struct, gc=False):
    """An entry of `traceEvents` without its arguments; times in microseconds, as raw JSON."""

    ph: str = ""
    name: str = ""
    cat: str | None = ""
    pid: Written = None
    tid: Written = None
    ts: msgspec.Raw = NULL
    dur: msgspec.Raw = NULL


class TraceEvent(_Entry, gc=False):
    """An entry with Kineto's arguments."""

    args: Arguments | None = None


class PlainEvent(_Entry, gc=False):
    """An entry whose arguments are laid out as by another tool."""

    args: ClassVar[None] = None


class Inputs(msgspec.Struct, gc=False):
    """The inputs of an op, as raw JSON."""

    values: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Concrete Inputs")
    dtypes: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Input Strides")
    shapes: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Input Dims")
    old_shapes: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="Input dims")


class InputsEvent(msgspec.Struct, gc=False):
    """An entry; only its inputs are read."""

    args: Inputs | None = None


class DeviceEvent(msgspec.Struct, gc=False):
    """An entry; only its details about a device are read."""

    args: DeviceArguments | None = None


class CallArguments(msgspec.Struct, gc=False):
    """The arguments of a call that launches a copy."""

    size: int | None = None


class CallEvent(msgspec.Struct, gc=False):
    """An entry; only the size of its copy is read."""

    args: CallArguments | None = None


class MemoryEvent(msgspec.Struct, gc=False):
    """An entry; only its details about memory are read."""

    args: MemoryArguments | None = None


class DistributedInfo(msgspec.Struct, gc=False):
    """The process that wrote the trace, if several processes work together."""

    rank: msgspec.Raw = UNWRITTEN
    world_size: msgspec.Raw = UNWRITTEN
    pg_config: msgspec.Raw = UNWRITTEN


class ProcessGroup(msgspec.Struct, gc=False):
    """A process group to which the process belongs; in older files, the group's size is `group_size`."""

    pg_name: str | int | None = None
    pg_desc: str | int | None = None
    pg_size: int | None = None
    group_size: int | None = None


class DeviceProperties(msgspec.Struct, gc=False):
    """A device of the machine; attributes have the file's own names."""

    id: int | None = None
    name: str | None = None
    totalGlobalMem: int | None = None  # noqa: N815
    computeMajor: int | None = None  # noqa: N815
    computeMinor: int | None = None  # noqa: N815
    numSms: int | None = None  # noqa: N815


class Trace(msgspec.Struct, gc=False):
    """A trace; its events are raw JSON, to be decoded some at a time."""

    traceEvents: list[msgspec.Raw]  # noqa: N815 - the file's own name
    schemaVersion: msgspec.Raw = UNWRITTEN  # noqa: N815
    otherData: msgspec.Raw = UNWRITTEN  # noqa: N815
    distributedInfo: msgspec.Raw = UNWRITTEN  # noqa: N815
    baseTimeNanoseconds: msgspec.Raw = UNWRITTEN  # noqa: N815
    deviceProperties: msgspec.Raw = UNWRITTEN  # noqa: N815
