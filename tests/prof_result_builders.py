"""`prof_result.bin` files made to order: readable entries in, bytes out.

block("run", Entry("Method::execute", start=0, end=60), Entry("native_call_add.out", 0, 0, 10, 30))
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

NO_INSTRUCTION = 2**32 - 1


@dataclass(frozen=True)
class Entry:
    """One entry, as it is written: a chain of -1 and an instruction of 2**32 - 1 mean none."""

    name: str | bytes
    chain: int = -1
    instruction: int = NO_INSTRUCTION
    start: int = 0
    end: int = 0


def block(
    name: str | bytes,
    *entries: Entry,
    allocators: Sequence[tuple[int, str]] = (),
    allocations: Sequence[tuple[int, int]] = (),
    spare: tuple[int, int, int] = (0, 0, 0),
    version: int = 1,
) -> bytes:
    """One block. `allocators` are ids and names, `allocations` ids and sizes; of each kind are so many spare slots."""
    parts = [
        [struct.pack("<32siIQQ", _raw(e.name), e.chain, e.instruction, e.start, e.end) for e in entries],
        [struct.pack("<32sQ", _raw(text), id) for id, text in allocators],
        [struct.pack("<2I", id, size) for id, size in allocations],
    ]
    counts = [count for part, more in zip(parts, spare, strict=True) for count in (len(part) + more, len(part))]
    filled = [
        b"".join(part) + b"\xa5" * (size * more) for part, more, size in zip(parts, spare, (56, 40, 8), strict=True)
    ]
    return struct.pack("<32s8I", _raw(name), version, *counts, 0) + b"".join(filled)


def kernel(op: str, start: int, end: int, instruction: int = 0) -> Entry:
    """A kernel, as the runtime names it."""
    return Entry(f"native_call_{op}.out", 0, instruction, start, end)


def execute(start: int, end: int) -> Entry:
    """Method::execute."""
    return Entry("Method::execute", start=start, end=end)


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
