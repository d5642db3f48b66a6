"""One damaged file for each seed: the same seed always makes the same file."""

from __future__ import annotations

import base64
import gzip
import re
import zlib
from dataclasses import dataclass
from random import Random
from typing import Final

from etq.ingest.program.delegate_rows import GRAPH_AT
from etq.ingest.program.xnnpack_schema import HEADER
from etq.ingest.trace.text import GZIP
from tests.fuzz.damage import blind, edge
from tests.fuzz.flatbuffer_damage import damage_flatbuffer
from tests.fuzz.json_damage import VALUES, damage_json
from tests.fuzz.originals import Original, kinds, originals, xnnpack_blobs
from tests.fuzz.pickle_damage import damage_opcode, damage_values
from tests.fuzz.zip_damage import bomb, damage_directory, damage_members

# The number of inputs of each kind in a hundred.
SHARES: Final = {
    "etdump": 16, "log": 4, "prof_result": 8, "trace": 12, "parts": 6, "record": 12, "program": 10, "xnnpack": 8,
    "debug": 6, "metrics": 5, "sidecar": 5,
    "snapshot": 4, "timeline": 4,
}  # fmt: skip
_TIMES: Final = (1, 1, 1, 2, 3, 6)
_ARGUMENTS: Final = (
    b"Collective name", b"Process Group Name", b"Process Group Description", b"Group size", b"dtype", b"In msg nelems",
    b"Out msg nelems", b"Bytes", b"Total Allocated", b"Total Reserved", b"Device Type", b"Device Id", b"Addr", b"correlation",
    b"External id", b"device", b"stream", b"rank", b"world_size", b"ts", b"dur", b"name", b"cat", b"pid", b"tid",
)  # fmt: skip


@dataclass(frozen=True)
class Input:
    """A damaged file, or a good one with a damaged one that belongs to it; `edits` lists its edits."""

    kind: str
    original: Original
    content: bytes
    beside: bytes | None
    edits: tuple[str, ...]


def made(seed: int, kind: str | None = None) -> Input:
    """The input of a seed; only of one kind, if it is given."""
    random = Random(seed)
    drawn = random.choices(list(SHARES), list(SHARES.values()))[0]
    kind = kind or drawn
    original = random.choice(originals(kind))
    beside = original.beside
    if beside is not None and random.random() < 0.3:
        damaged, edits = _blindly(random, beside, kind)
        return Input(kind, original, original.content, damaged, (original.name, "buffer", *edits))
    content, edits = _DAMAGES.get(kind, _blindly_of)(random, original)
    return Input(kind, original, content, beside, (original.name, *edits))


def _other(random: Random, kind: str) -> bytes:
    """Another file, mostly of the same kind."""
    if random.random() < 0.2:
        kind = random.choice(kinds())
    return random.choice(originals(kind)).content


def _blindly(random: Random, content: bytes, kind: str) -> tuple[bytes, list[str]]:
    data = bytearray(content)
    edits = [blind(random, data, _other(random, kind)) for _ in range(random.choice(_TIMES))]
    return bytes(data), edits


def _blindly_of(random: Random, original: Original) -> tuple[bytes, list[str]]:
    return _blindly(random, original.content, original.kind)


def _flatbuffer(random: Random, original: Original) -> tuple[bytes, list[str]]:
    if random.random() < 0.3:
        return _blindly_of(random, original)
    data = bytearray(original.content)
    edits = []
    for _ in range(random.choice(_TIMES)):
        if random.random() < 0.9:
            edits.append(damage_flatbuffer(random, data, original.content))
        else:
            edits.append(blind(random, data, original.content))
    return bytes(data), edits


def _xnnpack(random: Random, original: Original) -> tuple[bytes, list[str]]:
    """Damage the graphs in a program's blobs, mostly those alone, and sometimes their headers."""
    if random.random() < 0.1:
        return _flatbuffer(random, original)
    data, edits = bytearray(original.content), []
    for _ in range(random.choice(_TIMES)):
        blob, size = random.choice(xnnpack_blobs(original.content))
        start = int.from_bytes(data[blob + GRAPH_AT : blob + GRAPH_AT + 4], "little")
        has_header = data[blob + 4 : blob + 8] == HEADER
        if has_header and random.random() < 0.05:
            at, width = random.choice(((4, 4), (8, 2), (10, 4), (14, 4)))
            data[blob + at : blob + at + width] = edge(random, width)
            edits.append(f"{width} bytes at {at} of the header at {blob}")
        start = blob + start if has_header and start < size else blob
        good, damaged = original.content[start : blob + size], data[start : blob + size]
        edits.append(f"graph at {start}: {damage_flatbuffer(random, damaged, good)}")
        data[start : blob + size] = damaged
    return bytes(data), edits


def _log(random: Random, original: Original) -> tuple[bytes, list[str]]:
    if random.random() < 0.5:
        return _blindly_of(random, original)
    dump = next(each for each in originals("etdump") if each.name == original.name)
    content, edits = _flatbuffer(random, dump)
    text = base64.b64encode(content).decode()
    width = random.choice((20, 64, 76, 80, 1000))
    return "".join(f"I {text[at : at + width]}\n" for at in range(0, len(text), width)).encode(), edits


def _json(random: Random, original: Original) -> tuple[bytes, list[str]]:
    if random.random() < 0.25:
        return _blindly_of(random, original)
    return damage_json(random, original.content, random.choice(_TIMES))


def _arguments(random: Random, original: Original) -> tuple[bytes, list[str]]:
    """Replace values of a trace's devices, collectives, memory, steps and times; the JSON stays valid."""
    made, edits = original.content, []
    for _ in range(random.choice(_TIMES)):
        # Rare keys are chosen as often as frequent ones.
        key = random.choice(_ARGUMENTS)
        places = [each.span(1) for each in re.finditer(rb'"' + key + rb'": ?("[^"]*"|-?[\d.]+)', made)]
        for start, stop in reversed(random.sample(places, min(len(places), random.choice((1, 1, 3, 100))))):
            value = random.choice(VALUES)
            edits.append(f"{key!r} at {start} now {value[:20]!r}")
            made = made[:start] + value + made[stop:]
    return made, edits[:20]


def _trace(random: Random, original: Original) -> tuple[bytes, list[str]]:
    content, edits = _arguments(random, original) if random.random() < 0.4 else _json(random, original)
    way = random.randrange(10)
    if way == 0:
        content = b"\xef\xbb\xbf" + content
    elif way == 1:
        content = content[content.find(b"[", content.find(b'"traceEvents"')) :]
        content = content[: content.rfind(b"]") + 1]
    elif way == 2:
        squeezed = bytearray(gzip.compress(content, 1, mtime=0))
        edits.append("gzip, " + blind(random, squeezed, b""))
        content = bytes(squeezed)
    elif way == 3:
        half = len(content) // 2
        content = gzip.compress(content[:half], 1, mtime=0) + gzip.compress(content[half:], 1, mtime=0)
        edits.append("gzip of two members")
    elif way == 4 and random.random() < 0.1:
        content = gzip.compress(content + random.choice((b" ", b"\0", b"[")) * 2**25, 1, mtime=0)
        edits.append("gzip bomb")
    elif way == 5:
        content = gzip.compress(content, 1, mtime=0)
        content = content[:-8] + zlib.crc32(b"x").to_bytes(4, "little") + content[-4:]
        edits.append("gzip with another sum")
    return content, edits


def _in_parts(random: Random, original: Original) -> tuple[bytes, list[str]]:
    content, edits = _trace(random, original)
    if edits[-1:] == ["gzip bomb"]:
        # 32 MB in parts of 100 bytes would take longer than a hang.
        content, edits = _json(random, original)
    if content[:2] != GZIP and random.random() < 0.3:
        return gzip.compress(content, 1, mtime=0), [*edits, "gzip"]
    return content, edits


def _record(random: Random, original: Original) -> tuple[bytes, list[str]]:
    way = random.randrange(20)
    if way == 0:
        return bomb(random, original.content)
    if way < 13:
        return damage_members(random, original.content, random.choice((1, 1, 1, 2, 4)))
    data = bytearray(original.content)
    if way < 17:
        edits = damage_directory(random, data, random.choice(_TIMES))
        return bytes(data), edits
    return _blindly_of(random, original)


def _snapshot(random: Random, original: Original) -> tuple[bytes, list[str]]:
    way = random.random()
    if way < 0.3:
        return _blindly_of(random, original)
    if way < 0.8:
        return damage_values(random, original.content, random.choice(_TIMES))
    content, edit = damage_opcode(random, original.content)
    return content, [edit]


def _timeline(random: Random, original: Original) -> tuple[bytes, list[str]]:
    if random.random() < 0.4:
        return _json(random, original)
    found = random.choice([*re.finditer(rb"-?\d+", original.content)])
    number = random.choice((b"0", b"1", b"4", b"7", b"512", b"-1", b"-512", b"%d" % 2**60, b"%d" % 2**63))
    edit = f"{number.decode()} at {found.start()}"
    return original.content[: found.start()] + number + original.content[found.end() :], [edit]


_DAMAGES: Final = {
    "etdump": _flatbuffer, "debug": _flatbuffer, "program": _flatbuffer, "xnnpack": _xnnpack, "log": _log,
    "trace": _trace, "parts": _in_parts, "record": _record, "metrics": _json, "sidecar": _json,
    "snapshot": _snapshot, "timeline": _timeline,
}  # fmt: skip
