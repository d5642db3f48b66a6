"""Splits traces of several ranks that other tools merged into one file."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from etq.errors import FormatError
from etq.ingest.trace.blocks import BrokenError
from etq.ingest.trace.columns import spelled
from etq.ingest.trace.scanner import Written
from etq.ingest.trace.types import Entries, lenient

# Matches the process of a rank, such as [TP00] 5000, [TP00-DP01] Spans, rank0_5000 or 5000 [TP00]: tools that merge
# traces write the rank before or after the number of the process. Matching takes time linear in the length of the name.
_RANK: Final = re.compile(
    r"(\[[^\]0-9A-Za-z]*[0-9A-Za-z][^\]]*\] ).*|([^0-9A-Za-z\n]*[0-9A-Za-z].*[^0-9A-Za-z])[0-9]+"
    r"|[0-9]+([^0-9A-Za-z][^0-9A-Za-z\n]*[0-9A-Za-z].*)"
)
# The rank in the name of a process, or in an event's argument `rank`, which TraceLens writes.
_BEGINNING: Final = re.compile(rb'"pid"\s*:\s*"([^"\\]*)"|"args"\s*:\s*\{[^{}]*"rank"\s*:\s*\d')
_NUMBER: Final = re.compile(r"\d+")
# Names of ranks are short; Python refuses numbers of thousands of digits.
_LONGEST: Final = 200
# The most ranks of a file: the compressor of each takes 260 KB of memory.
_MOST: Final = 1024
_NO_NAME: Final = re.compile(r"[^\w-]+")


class _Arguments(msgspec.Struct, gc=False):
    rank: int | None = None


class _Event(msgspec.Struct, gc=False):
    """An entry; only the parts that show its rank are read."""

    ph: str = ""
    pid: Written = None
    args: _Arguments | None = None


_raws: Final = msgspec.json.Decoder(list[msgspec.Raw])
_events, _event = lenient(_Event)


class RankTrace(NamedTuple):
    """The trace of one rank: its number, its name in the file, and the trace as gzip."""

    number: int
    name: str
    content: bytes


@lru_cache(maxsize=2**12)
def rank_of(process: str) -> str:
    """Return the part of a process's name in a merged trace that names its rank; empty if there is none."""
    found = _RANK.fullmatch(process) if len(process) <= _LONGEST else None
    return "" if found is None else "".join(found.groups(""))


def begins_merged(head: bytes) -> bool:
    """Whether a file that begins with these bytes may be a trace of several ranks."""
    found = _BEGINNING.finditer(head)
    return any(each[1] is None or rank_of(each[1].decode("utf-8", "replace")) for each in found)


def ranks_in(data: Any, path: str) -> list[RankTrace]:
    """Split a trace of several ranks, and return the trace of each rank, in the order of their numbers. The result is
    empty for other files, and if the rank of any event with a time is unknown. If names differ only in numbers, a
    rank's number is the one in its name; otherwise, it is the name's place among all names.
    """
    parts = _Parts()
    entries = Entries(data, path)
    try:
        trace = entries.read(parts.add)
    except BrokenError:
        parts = _Parts()
        try:
            trace, _ = entries.read_broken(parts.add)
        except FormatError:
            return []
    if parts.has_unknown or len(parts.packed) < 2:
        return []
    rest = {"deviceProperties": trace.deviceProperties, "baseTimeNanoseconds": trace.baseTimeNanoseconds}
    end = b"".join(b',"%s":%s' % (key.encode(), bytes(value)) for key, value in rest.items() if bytes(value))
    return sorted(
        RankTrace(number, _NO_NAME.sub("", name).strip("_-"), parts.finished(name, end))
        for name, number in _numbers([*parts.packed]).items()
    )


def _numbers(names: Iterable[str]) -> Mapping[str, int]:
    numbers = {name: [*map(int, _NUMBER.findall(name))] for name in names}
    if all(len(each) == 1 for each in numbers.values()) and len({each[0] for each in numbers.values()}) == len(numbers):
        return {name: each[0] for name, each in numbers.items()}
    return {name: place for place, name in enumerate(sorted(numbers, key=lambda name: (numbers[name], name)))}


class _Parts:
    """The entries of each rank, compressed while they are read."""

    def __init__(self) -> None:
        self.packed: dict[str, tuple[Any, list[bytes]]] = defaultdict(lambda: (zlib.compressobj(1, wbits=31), []))
        self.has_unknown = False

    def add(self, first: int, block: bytes) -> int:
        """Add the entries of a JSON list; return their number."""
        raws = _raws.decode(block)
        try:
            events = _events.decode(block)
        except msgspec.DecodeError:
            events = [*map(_event, raws)]
        for event, raw in zip(events, raws, strict=True):
            rank = "" if event.args is None or event.args.rank is None else f"rank{event.args.rank}"
            rank = rank or rank_of(spelled(event.pid))
            if rank and (rank in self.packed or len(self.packed) < _MOST):
                before = b"," if rank in self.packed else b'{"traceEvents":['
                packer, parts = self.packed[rank]
                parts.append(packer.compress(before + bytes(raw)))
            elif event.ph in ("X", "B", "E"):
                self.has_unknown = True
        return len(raws)

    def finished(self, rank: str, end: bytes) -> bytes:
        """Return a rank's trace; `end` are the keys after its entries."""
        packer, parts = self.packed.pop(rank)
        return b"".join((*parts, packer.compress(b"]" + end + b"}"), packer.flush()))
