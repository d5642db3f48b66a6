"""Damage to zips: members edited and packed again, false names, directories that don't fit, bombs."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from functools import lru_cache
from random import Random
from typing import Final

from tests.fuzz.damage import edge
from tests.fuzz.json_damage import damage_json

_NAMES: Final = (
    "../../evil", "/etc/passwd", "C:\\evil", "a\0b", "x" * 60000, "é", "\x1b[2J", "debug_handle_map", "ETRECORD_V0",
    "exported_program", "edge_dialect_exported_program/../../x", "edge_dialect_exported_program/\x1b[31m", "a/b", "a//b",
    "/", "//", ".", "", "reference_outputs", "x_state_dict", "\u202egnp", "=cmd()",
)  # fmt: skip
_BOMB: Final = 48 * 2**20
Members = list[tuple[str, bytes]]


@lru_cache(maxsize=64)
def members_of(data: bytes) -> tuple[tuple[str, bytes], ...]:
    """The members of a good zip."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return tuple((each.filename, archive.read(each)) for each in archive.infolist())


def packed(members: Members, method: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    """A zip of members. Their names may be arbitrary and may repeat."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")
        archive.comment = comment
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name) if name else zipfile.ZipInfo("-"), content, method)
    return file.getvalue()


def damage_members(random: Random, data: bytes, times: int) -> tuple[bytes, list[str]]:
    """The zip of a record, whose members and their names are edited, packed again as a good zip."""
    members = list(members_of(data))
    edits_made: list[str] = []
    for _ in range(times):
        at = random.randrange(len(members))
        name, content = members[at]
        what = random.randrange(12)
        if what < 7:
            readable = [place for place, each in enumerate(members) if each[1][:1] in (b"{", b"[", b'"')]
            at = random.choice(readable or [at])
            name, content = members[at]
            made, edits = damage_json(random, content, random.choice((1, 1, 2, 5)))
            members[at] = name, made
            edits_made += [f"{name}: {each}" for each in edits]
        elif what == 7:
            members[at] = random.choice(_NAMES), content
            edits_made.append(f"{name} renamed {members[at][0][:30]!r}")
        elif what == 8:
            members.insert(random.randrange(len(members) + 1), (name, random.choice(members)[1]))
            edits_made.append(f"{name} twice")
        elif what == 9 and len(members) > 1:
            del members[at]
            edits_made.append(f"{name} gone")
        elif what == 10:
            members += [(f"{random.choice(_NAMES)[:20]}{number}", b"{}") for number in range(random.choice((1, 300)))]
            edits_made.append("more members")
        else:
            members[at] = name, random.choice(members)[1]
            edits_made.append(f"{name} has another's content")
    method = random.choice((0,) * 20 + (zipfile.ZIP_DEFLATED,) * 5 + (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    return packed(members, method, random.choice((b"", b"", b"x", b"PK\x05\x06" * 10))), edits_made


def damage_directory(random: Random, data: bytearray, times: int) -> list[str]:
    """Edit numbers in entries of the directory, in local headers and in the directory's end."""
    places = [at for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06") for at in _found(bytes(data), mark)]
    edits_made = []
    for _ in range(times):
        at = random.choice(places)
        # Flags, methods, sizes and offsets are 2 or 4 bytes, at even places of 22, 30 or 46 bytes.
        place, width = at + random.randrange(4, 46, 2), random.choice((2, 4))
        value = random.choice((edge(random, width), struct.pack("<I", len(data) - at)[:width]))
        data[place : place + width] = value
        edits_made.append(f"{width} bytes of a header at {place}")
    return edits_made


def _found(data: bytes, mark: bytes) -> list[int]:
    found: list[int] = []
    at = data.find(mark)
    while at >= 0 and len(found) < 200:
        found.append(at)
        at = data.find(mark, at + 1)
    return found


def bomb(random: Random, data: bytes) -> tuple[bytes, list[str]]:
    """A member of zeros or blanks that is small when packed; it may have a false size."""
    members = [*members_of(data)]
    at = random.choice([place for place, (_, content) in enumerate(members) if content])
    filling = random.choice((b"\0", b" ", b"[", b"1", b'{"a":'))
    content = filling * (random.choice((2**20, _BOMB)) // len(filling))
    members[at] = members[at][0], content
    made = bytearray(packed(members, zipfile.ZIP_DEFLATED))
    edits_made = [f"{members[at][0]} is {len(content)} bytes of {filling!r}"]
    if random.random() < 0.5:
        name = members[at][0].encode()
        entry = made.rindex(name) - 46
        made[entry + 24 : entry + 28] = edge(random, 4)
        edits_made.append("whose size lies")
    return bytes(made), edits_made
