"""Damage that needs no knowledge of a format: bits, bytes, cuts and splices."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Final

Damage = Callable[[Random, bytearray, bytes], str]

# Numbers at which counts, offsets and times break.
EDGES: Final = (
    0, 1, 2, 3, 4, 7, 8, 15, 16, 127, 128, 255, 256, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32,
    2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
# Texts at which names break: markup, escapes, no UTF-8, half a character, zeros, formulas, paths.
NAMES: Final = (
    b"\x1b[2J", b"\x1b]0;x\x07", b"\x9b31m", b"\0", b"\xff", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80",
    b"\xe2\x80\xae", b"'; DROP TABLE captures; --", b"{{x}}", b"$capture", b"../../x", b"/etc/passwd", b"=cmd|' /C'!A0",
    b"\n", b"\r", b"", b"A" * 70000, "é\N{COMBINING ACUTE ACCENT}".encode() * 3,
)  # fmt: skip


def edge(random: Random, width: int) -> bytes:
    """A number of this many bytes, near a limit or random."""
    bits = 8 * width
    value = (
        random.choice(EDGES) + random.choice((0, 0, 0, -1, 1)) if random.random() < 0.7 else random.getrandbits(bits)
    )
    return struct.pack("<Q", value % 2**64)[:width]


def flip_bits(random: Random, data: bytearray, _: bytes) -> str:
    times = random.choice((1, 1, 2, 4, 16))
    for _at in range(times):
        if data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return f"{times} bits flipped"


def set_number(random: Random, data: bytearray, _: bytes) -> str:
    width = random.choice((1, 2, 4, 8))
    if len(data) < width:
        return "nothing"
    at = random.randrange(0, len(data) - width + 1)
    at -= at % width if random.random() < 0.7 else 0
    data[at : at + width] = edge(random, width)
    return f"a number of {width} bytes at {at}"


def cut_end(random: Random, data: bytearray, _: bytes) -> str:
    size = random.randrange(len(data) + 1)
    if random.random() < 0.5:
        size = max(0, len(data) - random.randrange(1, 64))
    del data[size:]
    return f"cut to {size} bytes"


def cut_out(random: Random, data: bytearray, _: bytes) -> str:
    start = random.randrange(len(data) + 1)
    size = random.choice((1, 2, 4, 8, 64, 1024))
    del data[start : start + size]
    return f"{size} bytes cut out at {start}"


def put_in(random: Random, data: bytearray, _: bytes) -> str:
    start = random.randrange(len(data) + 1)
    added = random.choice((random.choice(NAMES), random.randbytes(random.choice((1, 4, 7, 64))), bytes(8)))
    data[start:start] = added
    return f"{len(added)} bytes put in at {start}"


def repeat(random: Random, data: bytearray, _: bytes) -> str:
    start = random.randrange(len(data) + 1)
    part = data[start : start + random.choice((4, 16, 256, 4096))]
    data[start:start] = part * random.choice((1, 2, 10))
    return f"{len(part)} bytes at {start} repeated"


def splice(random: Random, data: bytearray, other: bytes) -> str:
    start = random.randrange(len(data) + 1)
    if random.random() < 0.5:
        begin = random.randrange(len(other) + 1)
        data[start:] = other[begin:]
        return f"from {start} on another file from {begin} on"
    begin = random.randrange(len(other) + 1)
    part = other[begin : begin + random.choice((8, 64, 1024))]
    data[start : start + len(part)] = part
    return f"{len(part)} bytes of another file at {start}"


def append(random: Random, data: bytearray, other: bytes) -> str:
    data += random.choice((other, bytes(random.randrange(1, 20)), random.randbytes(random.randrange(1, 40))))
    return "something behind the end"


BLIND: Final[tuple[Damage, ...]] = (
    flip_bits, flip_bits, flip_bits, set_number, set_number, set_number, cut_end, cut_out, put_in, repeat, splice, append,
)  # fmt: skip


def blind(random: Random, data: bytearray, other: bytes) -> str:
    """Any of them."""
    return random.choice(BLIND)(random, data, other)
