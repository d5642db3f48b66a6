"""Allocations and releases as the events of a trace, in JSON."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from etq.ingest.memory import refuse_beyond

# The smallest difference between moments, in nanoseconds. The calls around an allocation end before the next moment.
STEP: Final = 4
# The most bytes of memory for each event while its JSON is made and read, without the text of its calls.
_EVENT: Final = 2**10
# The free memory is checked each time after this many pieces of JSON.
_PART: Final = 2**14


class Moment(NamedTuple):
    """A device at a time, in nanoseconds, with its allocated bytes and the bytes of its allocator."""

    device: int
    at: int
    total: int
    reserved: int


class Written:
    """The text of a trace in pieces, joined where it is read. Events share the pieces of their calls: a small file may
    name the same stack for any number of allocations.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        """The pieces are ASCII."""
        self._pieces, self._ends = pieces, [*accumulate(map(len, pieces))]

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(len(self))
        first, last = bisect_right(self._ends, start), bisect_left(self._ends, stop)
        joined = "".join(self._pieces[first : last + 1])
        before = self._ends[first - 1] if first else 0
        return joined[start - before : stop - before].encode("ascii")


class Events:
    """The events of a trace whose devices are all of one type: a number of c10's DeviceType."""

    def __init__(self, path: str, what: str, device_type: int) -> None:
        self._path, self._what, self._type = path, what, device_type
        self._pieces: list[str] = []
        self._checked = 0

    def allocate(self, moment: Moment, address: int, size: int, calls: Sequence[str] = ()) -> None:
        """Add an allocation and the calls around it, the outermost first: category, name and arguments as JSON."""
        for depth, call in enumerate(calls):
            times = f'"ts": {_time(moment.at)}, "dur": {_time(STEP - 1 - depth)}'
            self._pieces += ('{"ph": "X", ', call, f', "pid": 0, "tid": {moment.device}, {times}}},')
        self.change(moment, address, size)

    def change(self, moment: Moment, address: int, size: int) -> None:
        """Add a change of the memory in use: an allocation, or with a negative size a release.

        Raises `FormatError` if the events would take more memory than there is.
        """
        arguments = {
            "Bytes": size, "Total Allocated": moment.total, "Total Reserved": moment.reserved,
            "Device Type": self._type, "Device Id": moment.device, "Addr": address,
        }  # fmt: skip
        place = f'"pid": 0, "tid": {moment.device}, "ts": {_time(moment.at)}'
        self._pieces.append(f'{{"ph": "i", "s": "t", "name": "[memory]", {place}, "args": {json.dumps(arguments)}}},')
        if len(self._pieces) > self._checked + _PART:
            self._checked = len(self._pieces)
            refuse_beyond(self._path, self._what, _EVENT * self._checked)

    def trace(self, base: int) -> Written:
        """Return the trace, whose recording began at a time, in nanoseconds."""
        if self._pieces:
            self._pieces[-1] = self._pieces[-1].removesuffix(",")
        head = f'{{"schemaVersion": 1, "baseTimeNanoseconds": {base}, "traceEvents": ['
        return Written([head, *self._pieces, "]}"])


def _time(nanoseconds: int) -> str:
    """Return a time in microseconds."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03}"
