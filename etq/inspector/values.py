"""The values that a runtime logged, for events and as outputs of the program."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from etq.ingest.etdump.debug_buffer import tensor_at
from etq.inspector.tensors import tensor_of

if TYPE_CHECKING:
    from etq.inspector.rows import CaptureQueries, Key

VIEWS: Final = ("debug_values",)
_LOGGED: Final = """
    SELECT r.block_index, d.run_index, d.event_index, d.is_output, d.chain_index, d.instruction_id,
        d.delegate_debug_id, d.delegate_debug_str, d.kind, d.scalar_type, d.sizes, d.strides, d.byte_offset, d.number
    FROM debug_values AS d
    JOIN runs AS r ON r.capture_id = d.capture_id AND r.run_index = d.run_index
    WHERE d.capture_id = $key
    ORDER BY d.run_index, d.event_index, d.value_index
"""
_SLOTS: Final = """
    SELECT s.block_index, s.chain_index, s.instruction_id, s.delegate_debug_id, s.delegate_debug_str, s.slot,
        s.kind = 'debug' AND s.chain_index = -1 AND s.label = ''
    FROM signatures AS s WHERE s.capture_id = $key AND (s.kind = 'debug' OR s.chain_index >= 0)
"""
_REPEATED: Final = """
    SELECT t.run_index, s.block_index, s.slot, list(t.event_index ORDER BY t.event_index)
    FROM event_ticks AS t
    JOIN signatures AS s ON s.capture_id = t.capture_id AND s.signature_index = t.signature_index
    WHERE t.capture_id = $key GROUP BY ALL HAVING count(*) > 1
"""
# Key of a value within its block: chain, instruction, and the ids within a delegate.
Group = tuple[Any, ...]


@dataclass
class Logged:
    """The value that one debug event logged: one value or a list of tensors; its parts are tuples (kind, …, number)."""

    run: int
    event: int
    parts: list[tuple[Any, ...]]


@dataclass
class Values:
    """Values of events by key, outputs by block, and whether they differ between runs."""

    of_events: dict[Key, list[Any]] = field(default_factory=dict)
    of_blocks: dict[int, list[Any]] = field(default_factory=dict)
    differing: list[Key | int] = field(default_factory=list)


def read_values(queries: CaptureQueries, buffer: Any, as_tensors: bool, has_repeats: bool) -> Values:
    """Return all logged values, with the tensors from a debug buffer; None for tensors missing from it.

    as_tensors   whether to return torch tensors instead of numpy arrays
    has_repeats  whether values may be those of later occurrences of an event in a run

    With `compat` and without a buffer, tensors are zeros.
    """
    of_groups, outputs = _logged(queries)
    values = Values()
    if not of_groups and not outputs:
        return values
    slots: dict[Group, list[tuple[int, bool]]] = defaultdict(list)
    for *of_group, slot, is_unmarked in queries.rows(_SLOTS):
        slots[tuple(of_group)].append((slot, is_unmarked))
    repeated = {(run, *place): events for run, *place, events in queries.rows(_REPEATED)} if has_repeats else {}
    reader = _Reader(buffer, queries.compat, as_tensors)
    for group, logged in of_groups.items():
        for slot, is_unmarked in slots[group]:
            if is_unmarked and not queries.compat:
                outputs[group[0]] += logged
            else:
                _add(values, reader, (group[0], slot), logged, repeated)
    for block, logged in outputs.items():
        values.of_blocks[block], differs = reader.first(sorted(logged, key=lambda each: (each.run, each.event)))
        values.differing += [block] if differs else []
    return values


def _logged(queries: CaptureQueries) -> tuple[dict[Group, list[Logged]], dict[int, list[Logged]]]:
    """Return the values logged for each group of events, and the outputs of each block."""
    of_groups: dict[Group, list[Logged]] = defaultdict(list)
    outputs: dict[int, list[Logged]] = defaultdict(list)
    current = Logged(-1, -1, [])
    for block, run, event, is_output, *rest in queries.rows(_LOGGED):
        if (current.run, current.event) != (run, event):
            current = Logged(run, event, [])
            (outputs[block] if is_output else of_groups[block, *rest[:4]]).append(current)
        current.parts.append(tuple(rest[4:]))
    return of_groups, outputs


def _add(
    values: Values, reader: _Reader, place: tuple[int, int], logged: list[Logged], repeated: dict[Any, list[int]]
) -> None:
    """Assign a slot's values to its occurrences: values logged before the end of the first occurrence belong to it,
    and so on.
    """
    of_occurrences: dict[int, list[Logged]] = defaultdict(list)
    for each in logged:
        ends = repeated.get((each.run, *place), [])
        before = sum(end < each.event for end in ends)
        of_occurrences[min(before, max(len(ends) - 1, 0))].append(each)
    for occurrence, own in of_occurrences.items():
        key = (*place, occurrence)
        values.of_events[key], differs = reader.first(own)
        values.differing += [key] if differs else []


class _Reader:
    """Reads logged values; each distinct value is decoded once."""

    def __init__(self, buffer: Any, compat: bool, as_tensors: bool) -> None:
        self._buffer = buffer
        self._compat = compat
        self._as_tensors = as_tensors
        self._read: dict[tuple[int, int], Any] = {}
        # The types of arrays, by the arrays' identity, because numpy lacks some of the types.
        self._types: dict[int, str] = {}

    def first(self, logged: list[Logged]) -> tuple[list[Any], bool]:
        """Return the values of the first run, and whether another run has other values."""
        runs: dict[int, list[Any]] = defaultdict(list)
        for each in logged:
            runs[each.run].append(self._value(each))
        first, *others = runs.values()
        differs = any(len(other) != len(first) or not all(map(_is_same, first, other)) for other in others)
        return [self._given(value) for value in first] if self._as_tensors else first, differs

    def _given(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._given(each) for each in value]
        return tensor_of(value, self._types[id(value)]) if isinstance(value, np.ndarray) else value

    def _value(self, logged: Logged) -> Any:
        key = (logged.run, logged.event)
        if key not in self._read:
            parts = [self._part(*part) for part in logged.parts]
            is_list = logged.parts[0][0] == "tensor_list"
            self._read[key] = [part for part in parts if part is not _NOTHING] if is_list else parts[0]
        return self._read[key]

    def _part(self, kind: str, scalar_type: Any, sizes: Any, strides: Any, offset: Any, number: Any) -> Any:
        if kind in ("tensor", "tensor_list"):
            if sizes is None:
                return _NOTHING if kind == "tensor_list" else None
            array = self._tensor(scalar_type, sizes, strides, offset)
            self._types[id(array)] = scalar_type
            return array
        if number is None:
            return None
        return {"int": int, "bool": bool}.get(kind, float)(number)

    def _tensor(self, scalar_type: str, sizes: list[int], strides: list[int], offset: int) -> Any:
        if self._buffer is not None:
            # An empty tensor has no position in the buffer.
            return tensor_at(self._buffer, scalar_type, sizes, strides, 0 if 0 in sizes else offset)
        empty = tensor_at(b"", scalar_type, [0], [], 0) if self._compat else None
        return None if empty is None else np.zeros(sizes, empty.dtype)


_NOTHING: Final = object()


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        # NaN equals itself here, because the bytes are the same.
        return np.array_equal(one, other) or one.tobytes() == other.tobytes()
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(type(one) is type(other) and one == other)
