"""ETDumps made to order, with the flatbuffers package: readable events in, bytes out.

dump(run("Execute", kernel("add", start=10, end=30), framework("Method::execute", start=0, end=60)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import flatbuffers

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
    """A RunData."""

    name: str
    events: tuple[Event, ...] = ()
    allocators: tuple[str, ...] = ()
    bundled_input_index: int = -1


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
    offsets = [_run(builder, each) for each in runs]
    vector = _references(builder, offsets)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, vector, 0)
    root = builder.EndObject()
    if size_prefixed:
        builder.FinishSizePrefixed(root, b"ED00")
    else:
        builder.Finish(root, b"ED00")
    return bytes(builder.Output())


def _references(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _longs(builder: Any, values: Sequence[int]) -> int:
    builder.StartVector(8, len(values), 8)
    for value in reversed(values):
        builder.PrependInt64(value)
    return int(builder.EndVector())


def _text(builder: Any, text: str | None) -> int:
    return 0 if text is None else int(builder.CreateString(text))


def _run(builder: Any, each: Run) -> int:
    events = _references(builder, [_event(builder, event) for event in each.events])
    named = []
    for name in each.allocators:
        text = builder.CreateString(name)
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)
        named.append(int(builder.EndObject()))
    allocators = _references(builder, named) if named else 0
    name = builder.CreateString(each.name)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(3, events, 0)
    builder.PrependUOffsetTRelativeSlot(2, allocators, 0)
    builder.PrependInt32Slot(1, each.bundled_input_index, -1)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    return int(builder.EndObject())


def _event(builder: Any, event: Event) -> int:
    if isinstance(event, ProfileEvent):
        slot, inner = 0, _profile(builder, event)
    elif isinstance(event, AllocationEvent):
        slot, inner = 1, _allocation(builder, event)
    else:
        slot, inner = 2, _debug(builder, event)
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(slot, inner, 0)
    return int(builder.EndObject())


def _profile(builder: Any, event: ProfileEvent) -> int:
    name, identifier = _text(builder, event.name), _text(builder, event.delegate_debug_id_str)
    metadata = 0
    if event.delegate_debug_metadata is not None:
        metadata = builder.CreateByteVector(event.delegate_debug_metadata)
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependInt32Slot(1, event.chain_index, 0)
    builder.PrependInt32Slot(2, event.instruction_id, -1)
    builder.PrependInt32Slot(3, event.delegate_debug_id_int, -1)
    builder.PrependUOffsetTRelativeSlot(4, identifier, 0)
    builder.PrependUOffsetTRelativeSlot(5, metadata, 0)
    builder.PrependUint64Slot(6, event.start_time, 0)
    builder.PrependUint64Slot(7, event.end_time, 0)
    return int(builder.EndObject())


def _allocation(builder: Any, event: AllocationEvent) -> int:
    builder.StartObject(2)
    builder.PrependInt32Slot(0, event.allocator_id, 0)
    builder.PrependUint64Slot(1, event.allocation_size, 0)
    return int(builder.EndObject())


def _debug(builder: Any, event: DebugEvent) -> int:
    entry = _value(builder, event)
    name, identifier = _text(builder, event.name), _text(builder, event.delegate_debug_id_str)
    builder.StartObject(6)
    builder.PrependUint64Slot(0, event.chain_index, 0)
    builder.PrependInt32Slot(1, event.instruction_id, -1)
    builder.PrependUOffsetTRelativeSlot(2, entry, 0)
    builder.PrependInt32Slot(3, event.delegate_debug_id_int, -1)
    builder.PrependUOffsetTRelativeSlot(4, identifier, 0)
    builder.PrependUOffsetTRelativeSlot(5, name, 0)
    return int(builder.EndObject())


def _boxed(builder: Any, prepend: Any, value: Any) -> int:
    builder.StartObject(1)
    prepend(0, value, None)
    return int(builder.EndObject())


def _value(builder: Any, event: DebugEvent) -> int:
    value = event.value
    kind, slot, inner = 0, 0, 0
    if isinstance(value, bool):
        kind, slot, inner = 2, 6, _boxed(builder, builder.PrependBoolSlot, value)
    elif isinstance(value, int):
        kind, slot, inner = 1, 3, _boxed(builder, builder.PrependInt64Slot, value)
    elif isinstance(value, float):
        kind, slot, inner = 4, 5, _boxed(builder, builder.PrependFloat64Slot, value)
    elif isinstance(value, Tensor):
        kind, slot, inner = 5, 1, _tensor(builder, value)
    elif isinstance(value, tuple):
        tensors = _references(builder, [_tensor(builder, tensor) for tensor in value])
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, tensors, 0)
        kind, slot, inner = 6, 2, int(builder.EndObject())
    output = 0 if event.output is None else _boxed(builder, builder.PrependBoolSlot, event.output)
    builder.StartObject(8)
    builder.PrependInt8Slot(0, kind, 0)
    if inner:
        builder.PrependUOffsetTRelativeSlot(slot, inner, 0)
    builder.PrependUOffsetTRelativeSlot(7, output, 0)
    return int(builder.EndObject())


def _tensor(builder: Any, tensor: Tensor) -> int:
    sizes, strides = _longs(builder, tensor.sizes), _longs(builder, tensor.strides)
    builder.StartObject(4)
    builder.PrependInt8Slot(0, tensor.scalar_type, 0)
    builder.PrependUOffsetTRelativeSlot(1, sizes, 0)
    builder.PrependUOffsetTRelativeSlot(2, strides, 0)
    builder.PrependInt64Slot(3, tensor.offset, 0)
    return int(builder.EndObject())
