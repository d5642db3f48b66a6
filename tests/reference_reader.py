"""A slow reader of ETDumps with the flatbuffers package: an object for each event, as the columnar reader must see it."""

from __future__ import annotations

from typing import Any

import flatbuffers
from flatbuffers import number_types as types
from flatbuffers.table import Table

from tests.builders import AllocationEvent, DebugEvent, Event, ProfileEvent, Run, Tensor


def read(data: bytes) -> list[Run]:
    """The runs of a dump."""
    start = 4 if data[8:12] == b"ED00" else 0
    root = Table(data, flatbuffers.encode.Get(types.UOffsetTFlags.packer_type, data, start) + start)
    return [_run(each) for each in _tables(root, 1)]


def _offset(table: Table, slot: int) -> int:
    return int(table.Offset(4 + 2 * slot))


def _scalar(table: Table, slot: int, flags: Any, default: Any = 0) -> Any:
    offset = _offset(table, slot)
    return table.Get(flags, offset + table.Pos) if offset else default


def _table(table: Table, slot: int) -> Table | None:
    offset = _offset(table, slot)
    return Table(table.Bytes, table.Indirect(offset + table.Pos)) if offset else None


def _tables(table: Table, slot: int) -> list[Table]:
    offset = _offset(table, slot)
    if not offset:
        return []
    start = table.Vector(offset)
    return [Table(table.Bytes, table.Indirect(start + 4 * index)) for index in range(table.VectorLen(offset))]


def _text(table: Table, slot: int) -> str | None:
    offset = _offset(table, slot)
    return table.String(offset + table.Pos).decode() if offset else None


def _longs(table: Table, slot: int) -> tuple[int, ...]:
    offset = _offset(table, slot)
    if not offset:
        return ()
    start = table.Vector(offset)
    return tuple(table.Get(types.Int64Flags, start + 8 * index) for index in range(table.VectorLen(offset)))


def _run(table: Table) -> Run:
    return Run(
        _text(table, 0) or "",
        tuple(_event(each) for each in _tables(table, 3)),
        tuple(_text(each, 0) or "" for each in _tables(table, 2)),
        _scalar(table, 1, types.Int32Flags, -1),
    )


def _event(table: Table) -> Event:
    if (profile := _table(table, 0)) is not None:
        metadata = None
        if offset := _offset(profile, 5):
            start = profile.Vector(offset)
            metadata = bytes(profile.Bytes[start : start + profile.VectorLen(offset)])
        return ProfileEvent(
            _text(profile, 0), _scalar(profile, 1, types.Int32Flags), _scalar(profile, 2, types.Int32Flags, -1),
            _scalar(profile, 3, types.Int32Flags, -1), _text(profile, 4), metadata,
            _scalar(profile, 6, types.Uint64Flags), _scalar(profile, 7, types.Uint64Flags),
        )  # fmt: skip
    if (allocation := _table(table, 1)) is not None:
        return AllocationEvent(_scalar(allocation, 0, types.Int32Flags), _scalar(allocation, 1, types.Uint64Flags))
    debug = _table(table, 2)
    assert debug is not None
    entry = _table(debug, 2)
    assert entry is not None
    output = _table(entry, 7)
    return DebugEvent(
        _value(entry), _scalar(debug, 0, types.Uint64Flags), _scalar(debug, 1, types.Int32Flags, -1),
        _scalar(debug, 3, types.Int32Flags, -1), _text(debug, 4), _text(debug, 5),
        None if output is None else bool(_scalar(output, 0, types.BoolFlags, False)),
    )  # fmt: skip


def _value(entry: Table) -> Any:
    kind = _scalar(entry, 0, types.Int8Flags)
    slot, flags = {1: (3, types.Int64Flags), 2: (6, types.BoolFlags), 4: (5, types.Float64Flags)}.get(kind, (0, None))
    if flags is not None:
        box = _table(entry, slot)
        assert box is not None
        value = _scalar(box, 0, flags)
        return bool(value) if kind == 2 else value
    if kind == 5:
        tensor = _table(entry, 1)
        assert tensor is not None
        return _tensor(tensor)
    if kind == 6:
        tensors = _table(entry, 2)
        assert tensors is not None
        return tuple(_tensor(each) for each in _tables(tensors, 0))
    return None


def _tensor(table: Table) -> Tensor:
    return Tensor(
        _scalar(table, 0, types.Int8Flags), _longs(table, 1), _longs(table, 2), _scalar(table, 3, types.Int64Flags)
    )
