"""ETDumps made to order, with the flatbuffers package: readable events in, bytes out.

dump(run("Execute", kernel("add", start=10, end=30), framework("Method::execute", start=0, end=60)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import flatbuffers
import numpy as np

from tests.program_builders import Table

NO_INSTRUCTION = -1


@dataclass(frozen=True)
class ProfileEvent:
    """The fields of a ProfileEvent; None for what is absent."""

    name: str | None = None
    chain_index: int = 0
    instruction_id: int = -1
    delegate_debug_id_int: int = -1
    delegate_debug_id_str: str | None = None
    delegate_debug_metadata: bytes | None = None
    start_time: int = 0
    end_time: int = 0


@dataclass(frozen=True)
class AllocationEvent:
    """The fields of an AllocationEvent."""

    allocator_id: int
    allocation_size: int


@dataclass(frozen=True)
class Tensor:
    """The fields of a Tensor; the type by c10's number."""

    scalar_type: int = 6
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    offset: int = 0


@dataclass(frozen=True)
class DebugEvent:
    """A logged value: a Tensor, a list of them, a number, or None."""

    value: Tensor | tuple[Tensor, ...] | int | float | bool | None
    chain_index: int = 0
    instruction_id: int = -1
    delegate_debug_id_int: int = -1
    delegate_debug_id_str: str | None = None
    name: str | None = None
    output: bool | None = None


Event = ProfileEvent | AllocationEvent | DebugEvent


@dataclass(frozen=True)
class Run:
    """A RunData; its list of events can be absent, not only empty."""

    name: str
    events: tuple[Event, ...] = ()
    allocators: tuple[str, ...] = ()
    bundled_input_index: int = -1
    has_events: bool = True


def run(name: str, *events: Event, allocators: Sequence[str] = (), bundled_input_index: int = -1) -> Run:
    """A run of that name."""
    return Run(name, events, tuple(allocators), bundled_input_index)


def kernel(op: str, start: int, end: int, instruction: int = 0) -> ProfileEvent:
    """A kernel, as the runtime names it."""
    return ProfileEvent(f"native_call_{op}.out", 0, instruction, start_time=start, end_time=end)


def operator_call(start: int, end: int, instruction: int = 0) -> ProfileEvent:
    """The framework's call of a kernel."""
    return ProfileEvent("OPERATOR_CALL", 0, instruction, start_time=start, end_time=end)


def delegate_call(start: int, end: int, instruction: int = 0) -> ProfileEvent:
    """The framework's call of a delegate."""
    return ProfileEvent("DELEGATE_CALL", 0, instruction, start_time=start, end_time=end)


def delegated(identifier: str | int, start: int, end: int, instruction: int = 0) -> ProfileEvent:
    """An event within a delegate."""
    event = ProfileEvent(None, 0, instruction, start_time=start, end_time=end)
    if isinstance(identifier, int):
        return replace(event, delegate_debug_id_int=identifier)
    return replace(event, delegate_debug_id_str=identifier)


def framework(name: str, start: int, end: int) -> ProfileEvent:
    """A framework event, or a user's: one that belongs to no instruction."""
    return ProfileEvent(name, NO_INSTRUCTION, 0, start_time=start, end_time=end)


def execute(start: int, end: int) -> ProfileEvent:
    """Method::execute."""
    return framework("Method::execute", start, end)


def dump(*runs: Run, size_prefixed: bool = True) -> bytes:
    """The bytes of an ETDump of these runs."""
    builder = flatbuffers.Builder(1024)
    root = Table({1: [_run(each) for each in runs]}).write(builder)
    (builder.FinishSizePrefixed if size_prefixed else builder.Finish)(root, b"ED00")
    return bytes(builder.Output())


def _unless(default: int, value: int, type: Any = np.int32) -> Any:
    """A scalar, which is left out of a file if it is the default."""
    return None if value == default else type(value)


def _run(each: Run) -> Table:
    allocators = [Table({0: name}) for name in each.allocators] or None
    events = [_event(event) for event in each.events] if each.has_events else None
    return Table({3: events, 2: allocators, 1: _unless(-1, each.bundled_input_index), 0: each.name})


def _event(event: Event) -> Table:
    if isinstance(event, ProfileEvent):
        return Table({0: _profile(event)})
    if isinstance(event, AllocationEvent):
        size = _unless(0, event.allocation_size, np.uint64)
        return Table({1: Table({0: _unless(0, event.allocator_id), 1: size})})
    return Table({2: _debug(event)})


def _profile(event: ProfileEvent) -> Table:
    metadata = event.delegate_debug_metadata
    return Table(
        {
            0: event.name, 1: _unless(0, event.chain_index), 2: _unless(-1, event.instruction_id),
            3: _unless(-1, event.delegate_debug_id_int), 4: event.delegate_debug_id_str,
            5: None if metadata is None else np.frombuffer(metadata, np.uint8),
            6: _unless(0, event.start_time, np.uint64), 7: _unless(0, event.end_time, np.uint64),
        }
    )  # fmt: skip


def _debug(event: DebugEvent) -> Table:
    return Table(
        {
            0: _unless(0, event.chain_index, np.uint64), 1: _unless(-1, event.instruction_id), 2: _value(event),
            3: _unless(-1, event.delegate_debug_id_int), 4: event.delegate_debug_id_str, 5: event.name,
        }
    )  # fmt: skip


def _value(event: DebugEvent) -> Table:
    value = event.value
    fields: dict[int, Any] = {}
    if isinstance(value, bool):
        fields = {0: np.int8(2), 6: Table({0: np.bool_(value)})}
    elif isinstance(value, int):
        fields = {0: np.int8(1), 3: Table({0: np.int64(value)})}
    elif isinstance(value, float):
        fields = {0: np.int8(4), 5: Table({0: np.float64(value)})}
    elif isinstance(value, Tensor):
        fields = {0: np.int8(5), 1: _tensor(value)}
    elif isinstance(value, tuple):
        fields = {0: np.int8(6), 2: Table({0: [_tensor(tensor) for tensor in value]})}
    return Table({**fields, 7: None if event.output is None else Table({0: np.bool_(event.output)})})


def _tensor(tensor: Tensor) -> Table:
    sizes, strides = (np.array(each, np.int64) for each in (tensor.sizes, tensor.strides))
    return Table(
        {0: _unless(0, tensor.scalar_type, np.int8), 1: sizes, 2: strides, 3: _unless(0, tensor.offset, np.int64)}
    )
