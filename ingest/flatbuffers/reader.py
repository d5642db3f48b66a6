"""FlatBuffers, read by columns: all tables of one type at once, with numpy, without an object per table.

A format is described as data (`TableType`), and a field of n tables is read as one array of n values. The positions of
the tables lead to their vtables, the vtables to the field's slot, and the slot to the field's position; then one gather
reads the values. Before the gather, all positions are checked together against the buffer's bounds.

The layout is that of https://flatbuffers.dev/internals/: a table starts with a signed offset to its vtable (`vtable =
table - offset`; the vtable may be before or after the table); the vtable holds u16s: its own size, the table's size,
and for each slot the field's offset from the table's start, 0 if the field is absent and has its default. References
are u32 offsets, counted forward from their own position; strings and vectors start with a u32 count. All positions here
are bytes from the start of the file, even if it has several buffers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.errors import FormatError

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SCALARS: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(code)
    for name, code in {
        "bool": "u1",
        "i8": "i1",
        "u8": "u1",
        "i16": "<i2",
        "u16": "<u2",
        "i32": "<i4",
        "u32": "<u4",
        "i64": "<i8",
        "u64": "<u8",
        "f32": "<f4",
        "f64": "<f8",
    }.items()
}
REFERENCE: Final = np.dtype("<u4")
# The distinct vtables of a file are found by comparisons if there are at most this many, by sorting if there are more.
FEW_VTABLES: Final = 16


class Field(NamedTuple):
    """One field of a table: its slot, its type (a key of `SCALARS`, or a kind of reference), its default."""

    slot: int
    type: str
    default: int | float = 0


class TableType(NamedTuple):
    """A table of a schema: its name, for messages, and its fields by name."""

    name: str
    fields: dict[str, Field]


def table_type(name: str, *fields: tuple[str, str] | tuple[str, str, int | float]) -> TableType:
    """Describe a table by its fields in slot order: (name, type) or (name, type, default)."""
    return TableType(name, {field[0]: Field(slot, *field[1:]) for slot, field in enumerate(fields)})


class Buffer:
    """The bytes of a file, read by arrays of positions. Reads outside of [start, end) raise `FormatError`.

    `path` names the file in messages. `start` and `end` bound the FlatBuffers buffer within the file, so a damaged
    buffer can't refer to the next one.
    """

    def __init__(self, data: Any, path: str, start: int = 0, end: int | None = None) -> None:
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self.path = path
        self.start = start
        self.end = len(self.bytes) if end is None else end
        # numpy copies an unaligned array as a whole at each gather, so such an array is copied once here (memory maps
        # and bytes are aligned).
        if self.bytes.ctypes.data % 8:
            self.bytes = self.bytes.copy()
        self._views: dict[np.dtype[Any], npt.NDArray[Any]] = {}
        self._claimed = 0

    def claim(self, size: int, what: str) -> None:
        """Count the bytes of vectors that must not overlap; raise `FormatError` if their sum exceeds the buffer's size.

        A small file whose vectors share bytes could claim very large tables.
        """
        self._claimed += size
        if self._claimed > self.end - self.start:
            raise FormatError(
                self.path,
                f"{what} and the parts before it take {self._claimed:,} bytes, more than the buffer has "
                f"(bytes {self.start} to {self.end}): vectors overlap",
            )

    def part(self, start: int, end: int) -> Buffer:
        """Return a buffer of the same file with other bounds."""
        part = Buffer(self.bytes, self.path, start, end)
        part._views = self._views
        return part

    def _view(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        if dtype not in self._views:
            self._views[dtype] = self.bytes[: len(self.bytes) // dtype.itemsize * dtype.itemsize].view(dtype)
        return self._views[dtype]

    def check(self, positions: Positions, size: int | Positions, what: str) -> None:
        """Raise `FormatError` unless every [position, position + size) lies within the buffer."""
        if len(positions) == 0:
            return
        if isinstance(size, int):
            if positions.min() >= self.start and positions.max() <= self.end - size:
                return
            wrong = (positions < self.start) | (positions > self.end - size)
        else:
            wrong = (positions < self.start) | (size < 0) | (positions > self.end - size)
            if not wrong.any():
                return
        first = int(np.flatnonzero(wrong)[0])
        length = size if isinstance(size, int) else int(size[first])
        raise FormatError(
            self.path,
            f"{what} needs {length} bytes, outside of the buffer (bytes {self.start} to {self.end}); "
            "the file is damaged or truncated",
            int(positions[first]),
        )

    def gather(
        self,
        positions: Positions,
        dtype: np.dtype[Any],
        what: str,
        *,
        is_inside: bool = False,
        is_aligned: bool = False,
    ) -> npt.NDArray[Any]:
        """Return the values of `dtype` at the positions, which need not be aligned. `what` names the field in messages.

        `is_inside` (within the buffer) and `is_aligned` (multiples of the size) are set by callers that know it.
        """
        size = dtype.itemsize
        if not is_inside:
            self.check(positions, size, what)
        if is_aligned or size == 1 or not int(np.bitwise_or.reduce(positions, initial=0)) & (size - 1):
            return self._view(dtype).take(positions >> (size.bit_length() - 1))
        each_byte = self.bytes.take(positions[:, None] + np.arange(size))
        return each_byte.view(dtype).ravel()

    def text(self, start: int, length: int, what: str) -> str:
        """Return the UTF-8 text of `length` bytes at `start`."""
        raw = self.bytes[start : start + length].tobytes()
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise FormatError(self.path, f"{what} is not UTF-8 text: {raw[:40]!r}", start + error.start) from None


@dataclass(frozen=True)
class Spans:
    """n strings or vectors: position of the first element, number of elements, and whether the field is present.

    An absent field has a start of 0 and a count of 0.
    """

    start: Positions
    count: Positions
    present: Mask

    def total(self) -> int:
        """The number of elements of all strings or vectors together."""
        return int(self.count.sum())


class _VTables(NamedTuple):
    """The distinct vtables of tables, and the vtable of each table.

    slots       the offset of each field in the tables, 0 where absent [vtable, field]
    which       each table's vtable, as an index
    table_size  size in bytes of the tables that have the vtable
    start, end  position of the vtable, and position after it
    """

    slots: npt.NDArray[Any]
    which: Positions
    table_size: Positions
    start: Positions
    end: Positions


class Tables:
    """n tables of one type, at the given positions."""

    def __init__(self, buffer: Buffer, type: TableType, positions: Positions) -> None:
        self.buffer = buffer
        self.type = type
        self.positions = positions

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def _vtables(self) -> _VTables:
        name = self.type.name
        back = self.buffer.gather(self.positions, SCALARS["i32"], f"{name}'s reference to its vtable")
        distinct, which = _few_distinct(self.positions - back)
        size = self.buffer.gather(distinct, SCALARS["u16"], f"the vtable of {name}").astype(np.int64)
        table_size = self.buffer.gather(distinct + 2, SCALARS["u16"], f"the vtable of {name}").astype(np.int64)
        # The smallest vtable holds only the two sizes, the smallest table only its reference to the vtable.
        wrong = (size < 4) | (size & 1 != 0) | (table_size < 4)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise FormatError(
                self.buffer.path,
                f"no vtable of {name} here: expected its size and the table's, found {size[first]} and "
                f"{table_size[first]}",
                int(distinct[first]),
            )
        self.buffer.check(distinct, size, f"the vtable of {name}")
        slots = np.zeros((len(distinct), len(self.type.fields)), np.int64)
        for field in self.type.fields.values():
            there = np.flatnonzero(size > 4 + 2 * field.slot)
            slots[there, field.slot] = self.buffer.gather(
                distinct[there] + 4 + 2 * field.slot, SCALARS["u16"], f"the vtable of {name}"
            )
            width = SCALARS.get(field.type, REFERENCE).itemsize
            beyond = slots[:, field.slot] + width > table_size
            beyond &= slots[:, field.slot] != 0
            if beyond.any():
                first = int(np.flatnonzero(beyond)[0])
                raise FormatError(
                    self.buffer.path,
                    f"the vtable of {name} puts slot {field.slot} at {slots[first, field.slot]}, beyond the "
                    f"{table_size[first]} bytes of the table",
                    int(distinct[first]),
                )
        return _VTables(slots, which, table_size, distinct, distinct + size)

    @property
    def ends(self) -> Positions:
        """The position after each table."""
        return self.positions + self._vtables.table_size.take(self._vtables.which)

    @property
    def vtables(self) -> tuple[Positions, Positions]:
        """The position of each table's vtable, and the position after it."""
        return self._vtables.start.take(self._vtables.which), self._vtables.end.take(self._vtables.which)

    @cached_property
    def _is_inside(self) -> bool:
        """Whether all tables, and so all of their fields, lie within the buffer."""
        if not len(self):
            return True
        first, last = int(self.positions.min()), int(self.positions.max())
        return first >= self.buffer.start and last + int(self._vtables.table_size.max()) <= self.buffer.end

    @cached_property
    def _is_aligned(self) -> bool:
        """Whether the positions of all tables are multiples of 4."""
        return not int(np.bitwise_or.reduce(self.positions, initial=0)) & 3

    def places(self, name: str) -> tuple[Positions, Mask | None]:
        """Return the position of field `name` in each table that has it, and a mask of these tables (None: all)."""
        which = self._vtables.which
        offsets = self._vtables.slots[:, self.type.fields[name].slot]
        has = offsets != 0
        if not has.any():
            return self.positions[:0], np.zeros(len(self), np.bool_)
        if not has.all():
            present = has.take(which)
            return (self.positions + offsets.take(which))[present], present
        if (offsets == offsets[0]).all():
            return self.positions + offsets[0], None
        return self.positions + offsets.take(which), None

    def _values(self, name: str, dtype: np.dtype[Any], places: Positions) -> npt.NDArray[Any]:
        """Return the values of `dtype` at these places of field `name`."""
        offsets = self._vtables.slots[:, self.type.fields[name].slot]
        is_aligned = dtype.itemsize <= 4 and self._is_aligned and not int(np.bitwise_or.reduce(offsets, initial=0)) & 3
        what = f"{self.type.name}.{name}"
        return self.buffer.gather(places, dtype, what, is_inside=self._is_inside, is_aligned=is_aligned)

    def scalar(self, name: str) -> npt.NDArray[Any]:
        """Return field `name` of each table: its value, or the schema's default if it is absent."""
        field = self.type.fields[name]
        dtype = SCALARS[field.type]
        places, present = self.places(name)
        if present is None:
            return self._values(name, dtype, places)
        values = np.full(len(self), field.default, dtype)
        if len(places):
            values[present] = self._values(name, dtype, places)
        return values

    def present(self, name: str) -> Mask:
        """Whether each table has field `name`."""
        _, present = self.places(name)
        return np.ones(len(self), np.bool_) if present is None else present

    def references(self, name: str) -> tuple[Positions, Mask | None]:
        """Return a position for each table that has field `name`, and a mask of these tables (None: all).

        It is the position that the field refers to.
        """
        places, present = self.places(name)
        return places + self._values(name, REFERENCE, places), present

    def tables(self, name: str, type: TableType) -> tuple[Tables, Positions]:
        """Return the tables that field `name` refers to, and for each the index of the table that refers to it."""
        positions, present = self.references(name)
        owners = np.arange(len(self)) if present is None else np.flatnonzero(present)
        return Tables(self.buffer, type, positions), owners

    def spans(self, name: str, width: int) -> Spans:
        """Return the strings or vectors of field `name`, whose elements are `width` bytes wide."""
        targets, present = self.references(name)
        what = f"{self.type.name}.{name}"
        there = self.buffer.gather(targets, REFERENCE, what).astype(np.int64)
        self.buffer.check(targets + 4, there * width, what)
        if present is None:
            return Spans(targets + 4, there, np.ones(len(self), np.bool_))
        start, count = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        start[present], count[present] = targets + 4, there
        return Spans(start, count, present)

    def elements(self, spans: Spans, type: TableType, first: int, last: int) -> Tables:
        """Return elements [first, last) of vectors of tables; elements are numbered through all of `spans` in order."""
        places = element_positions(spans, REFERENCE.itemsize, first, last)
        offsets = self.buffer.gather(places, REFERENCE, f"a vector of {type.name}")
        return Tables(self.buffer, type, places + offsets)

    def take(self, chosen: Positions | Mask) -> Tables:
        """Return a selection of these tables, by index or by mask."""
        return Tables(self.buffer, self.type, self.positions[chosen])

    def vector(self, name: str, type: str) -> tuple[npt.NDArray[Any], Positions]:
        """Return the scalars of vector field `name`, table by table, and how many scalars each table has."""
        dtype = SCALARS[type]
        spans = self.spans(name, dtype.itemsize)
        self._check_not_shared(spans, dtype.itemsize, name)
        places = element_positions(spans, dtype.itemsize, 0, spans.total())
        return self.buffer.gather(places, dtype, f"{self.type.name}.{name}"), spans.count

    def vector_of_tables(self, name: str, type: TableType) -> tuple[Tables, Positions]:
        """Return all tables of vector field `name`, and how many of them each of the tables here has."""
        spans = self.spans(name, REFERENCE.itemsize)
        self._check_not_shared(spans, REFERENCE.itemsize, name)
        return self.elements(spans, type, 0, spans.total()), spans.count

    def _check_not_shared(self, spans: Spans, width: int, name: str) -> None:
        """Raise `FormatError` if vectors must overlap because they exceed the buffer: a small hostile file could claim
        many elements.
        """
        room = self.buffer.end - self.buffer.start
        if spans.total() * width > room:
            raise FormatError(
                self.buffer.path,
                f"the vectors {self.type.name}.{name} take {spans.total() * width} bytes together, more than the "
                f"{room} of the buffer; the file is damaged",
                int(spans.start[spans.present][0]),
            )


def element_positions(spans: Spans, width: int, first: int, last: int) -> Positions:
    """Return the positions of elements [first, last) of vectors; elements are numbered through all `spans`."""
    ends = np.cumsum(spans.count)
    low = int(np.searchsorted(ends, first, side="right"))
    high = int(np.searchsorted(ends, last, side="left")) + 1
    begins = ends[low:high] - spans.count[low:high]
    counts = np.minimum(ends[low:high], last) - np.maximum(begins, first)
    # The position of element n is its vector's start, plus `width` times its index within the vector.
    base = np.repeat(spans.start[low:high] - width * begins, counts)
    return base + width * np.arange(first, last)


def _few_distinct(values: Positions) -> tuple[Positions, Positions]:
    """Return the distinct values and each value's index among them; fast if there are few, as for vtables."""
    distinct: list[int] = []
    which = np.zeros(len(values), np.int64)
    left = np.arange(len(values))
    while len(left) and len(distinct) < FEW_VTABLES:
        same = values.take(left) == values[left[0]]
        which[left[same]] = len(distinct)
        distinct.append(int(values[left[0]]))
        left = left[~same]
    if len(left):
        return np.unique(values, return_inverse=True)
    return np.array(distinct, np.int64), which
