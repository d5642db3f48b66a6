"""Damage to FlatBuffers where it hurts: vtables, references, lengths and fields, found without a schema."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Final

from tests.fuzz.damage import NAMES, edge

# Tables examined in a file: enough for every type, few enough for a large file.
MOST_TABLES: Final = 1500
MOST_ELEMENTS: Final = 40


@dataclass
class Layout:
    """Positions in a buffer: vtables, their slots, tables, fields, references, lengths (place, length)."""

    vtables: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    references: list[int] = field(default_factory=list)
    vectors: list[tuple[int, int]] = field(default_factory=list)
    lists: list[tuple[int, int]] = field(default_factory=list)


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.found = Layout()
        self.seen: set[int] = set()

    def unsigned(self, at: int, width: int = 4) -> int:
        return int.from_bytes(self.data[at : at + width], "little")

    def vtable(self, table: int) -> int | None:
        """The position of a table's vtable; None if there is no table."""
        if not 4 <= table <= len(self.data) - 4:
            return None
        at = table - struct.unpack_from("<i", self.data, table)[0]
        if not 0 <= at <= len(self.data) - 4:
            return None
        size, room = self.unsigned(at, 2), self.unsigned(at + 2, 2)
        fits = 4 <= size <= 64 and size % 2 == 0 and 4 <= room <= 400 and at + size <= len(self.data)
        return at if fits else None

    def walk(self, root: int) -> Layout:
        waiting = [root]
        while waiting and len(self.seen) < MOST_TABLES:
            table = waiting.pop(0)
            at = self.vtable(table)
            if table in self.seen or at is None:
                continue
            self.seen.add(table)
            self.found.tables.append(table)
            self.found.vtables.append(at)
            for slot in range(at + 4, at + self.unsigned(at, 2), 2):
                self.found.slots.append(slot)
                if offset := self.unsigned(slot, 2):
                    waiting += self.follow(table + offset)
        return self.found

    def follow(self, place: int) -> list[int]:
        """The tables to which a field refers, directly or by a vector."""
        self.found.fields.append(place)
        target = place + self.unsigned(place)
        if self.unsigned(place) < 4 or target > len(self.data) - 4:
            return []
        if self.vtable(target) is not None:
            self.found.references.append(place)
            return [target]
        length = self.unsigned(target)
        if length > len(self.data) - target - 4:
            return []
        self.found.references.append(place)
        self.found.vectors.append((target, length))
        places = [target + 4 + 4 * at for at in range(min(length, MOST_ELEMENTS))]
        targets = [place + self.unsigned(place) for place in places]
        if not targets or any(self.vtable(each) is None for each in targets):
            return []
        self.found.references += places
        self.found.lists.append((target, length))
        return targets


@lru_cache(maxsize=256)
def layout_of(data: bytes) -> Layout:
    """The layout of a buffer, also after a size prefix."""
    start = 4 if data[8:10] in (b"ED", b"ET") else 0
    return _Walk(data).walk(start + int.from_bytes(data[start : start + 4], "little"))


def damage_flatbuffer(random: Random, data: bytearray, original: bytes) -> str:
    """One edit of a buffer that was `original` before other edits."""
    found = layout_of(original)
    edits = [*(_reference, _length) * 2, *[_field] * 5, _slot, _vtable, _text, _share]
    edit = random.choice(edits)(random, data, found)
    return edit or "nothing"


def _put(data: bytearray, at: int, value: bytes) -> None:
    if 0 <= at <= len(data) - len(value):
        data[at : at + len(value)] = value


def _reference(random: Random, data: bytearray, found: Layout) -> str | None:
    if not found.references:
        return None
    at = random.choice(found.references)
    kind = random.randrange(4)
    if kind == 0:
        value = edge(random, 4)
    else:
        # Another type's table, or a vector.
        target = random.choice(found.tables) if kind < 3 or not found.vectors else random.choice(found.vectors)[0]
        value = struct.pack("<I", (target - at) % 2**32)
    _put(data, at, value)
    return f"reference at {at}"


def _length(random: Random, data: bytearray, found: Layout) -> str | None:
    if not found.vectors:
        return None
    at, length = random.choice(found.vectors)
    room = len(data) - at - 4
    value = random.choice(
        (length + 1, length - 1, 2 * length, room, room // 4, room // 8, room + 1, 0, 2**31, 2**32 - 1)
    )
    _put(data, at, struct.pack("<I", value % 2**32))
    return f"length at {at} now {value}"


def _field(random: Random, data: bytearray, found: Layout) -> str | None:
    if not found.fields:
        return None
    at, width = random.choice(found.fields), random.choice((1, 4, 8))
    _put(data, at, edge(random, width))
    return f"field of {width} bytes at {at}"


def _slot(random: Random, data: bytearray, found: Layout) -> str | None:
    if not found.slots:
        return None
    at = random.choice(found.slots)
    _put(data, at, struct.pack("<H", random.choice((0, 4, 6, 8, 12, 16, 5, 65535, 65532, random.randrange(65536)))))
    return f"slot at {at}"


def _vtable(random: Random, data: bytearray, found: Layout) -> str | None:
    if not found.tables:
        return None
    if random.random() < 0.5:
        at = random.choice(found.vtables) + random.choice((0, 2))
        _put(data, at, edge(random, 2))
        return f"size of a vtable at {at}"
    at = random.choice(found.tables)
    back = random.choice((0, -4, at, at - random.choice(found.vtables), 2**31 - 1, -(2**31)))
    _put(data, at, struct.pack("<i", back))
    return f"vtable of the table at {at}"


def _text(random: Random, data: bytearray, found: Layout) -> str | None:
    if not found.vectors:
        return None
    at, length = random.choice(found.vectors)
    name = random.choice(NAMES)[: max(length, 1)]
    _put(data, at + 4 + random.randrange(max(length - len(name), 0) + 1), name)
    return f"text at {at}"


def _share(random: Random, data: bytearray, found: Layout) -> str | None:
    """All elements of a vector refer to one table, or all fields of a kind to one vector."""
    if not found.lists:
        return None
    at, length = random.choice(found.lists)
    target = random.choice(found.tables)
    for place in range(at + 4, at + 4 + 4 * length, 4):
        _put(data, place, struct.pack("<I", (target - place) % 2**32))
    return f"all {length} elements at {at} shared"
