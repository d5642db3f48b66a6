"""Allocations and releases as the events of a trace, in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from etq.ingest.memory import refuse_beyond

# The smallest difference between moments, in nanoseconds. The calls around an allocation end before the next moment.
STEP: Final = 4
# The number of copies of the trace's JSON in memory while it is made and read.
_COPIES: Final = 3
# The free memory is checked each time after this many bytes of JSON.
_PART: Final = 2**24


class Moment(NamedTuple):
    """A device at a time, in nanoseconds, with its allocated bytes and the bytes of its allocator."""

    device: int
    at: int
    total: int
    reserved: int


class Events:
    """The events of a trace whose devices are all of one type: a number of c10's DeviceType."""

    def __init__(self, path: str, what: str, device_type: int) -> None:
        self._path, self._what, self._type = path, what, device_type
        self._events: list[str] = []
        self._size = self._checked = 0

    def allocate(self, moment: Moment, address: int, size: int, calls: Sequence[str] = ()) -> None:
        """Add an allocation and the calls around it, the outermost first: category, name and arguments as JSON."""
        for depth, call in enumerate(calls):
            times = f'"ts": {_time(moment.at)}, "dur": {_time(STEP - 1 - depth)}'
            self._add(f'{{"ph": "X", {call}, "pid": 0, "tid": {moment.device}, {times}}}')
        self.change(moment, address, size)

    def change(self, moment: Moment, address: int, size: int) -> None:
        """Add a change of the memory in use: an allocation, or with a negative size a release."""
        arguments = {
            "Bytes": size, "Total Allocated": moment.total, "Total Reserved": moment.reserved,
            "Device Type": self._type, "Device Id": moment.device, "Addr": address,
        }  # fmt: skip
        place = f'"pid": 0, "tid": {moment.device}, "ts": {_time(moment.at)}'
        self._add(f'{{"ph": "i", "s": "t", "name": "[memory]", {place}, "args": {json.dumps(arguments)}}}')

    def _add(self, event: str) -> None:
        """Raises `FormatError` if the events would take more memory than there is."""
        self._events.append(event)
        self._size += len(event)
        if self._size > self._checked + _PART:
            self._checked = self._size
            refuse_beyond(self._path, self._what, _COPIES * self._size)

    def trace(self, base: int) -> bytes:
        """Return the trace, whose recording began at a time, in nanoseconds."""
        head = f'{{"schemaVersion": 1, "baseTimeNanoseconds": {base}, "traceEvents": ['
        return f"{head}{','.join(self._events)}]}}".encode()


def _time(nanoseconds: int) -> str:
    """Return a time in microseconds."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03}"
