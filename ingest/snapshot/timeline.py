"""Memory timelines (`export_memory_timeline`) as traces: an op for each category of memory, without stacks.

Source: `MemoryProfileTimeline` of `torch/profiler/_memory_profiler.py`. A timeline is of one device, whose name it
doesn't have. It has one of two forms. The first has times in microseconds, each with a row of sizes: a 0, then the
bytes of each category. The second (`raw`) has changes, each with a time in nanoseconds (-1 before the recording), an
action, bytes and a category. Timelines in HTML have only an image and can't be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, texts
from etq.ingest.memory import check_json, refuse_beyond
from etq.ingest.snapshot.events import STEP, Events, Moment, Written
from etq.ingest.trace.reader import read_torch_trace
from etq.ingest.trace.text import Text

# The rule of the finding that a capture is a timeline.
FINDING: Final = "memory timeline"

CATEGORIES: Final = (
    "parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown",
)  # fmt: skip
# The type of a device that isn't named, as in `_memory_device`.
_UNNAMED: Final = 127
_NAMES: Final = [[f'"cat": "cpu_op", "name": "{name}"'] for name in CATEGORIES]
_MOST: Final = 2**61
# The bytes of memory that a change takes.
_CHANGE_SIZE: Final = 160
# The actions: PREEXISTING, CREATE, INCREMENT_VERSION, DESTROY.
_ACTIONS: Final = range(1, 5)

# UTF-8's byte order mark.
_MARK: Final = b"\xef\xbb\xbf"
_changes: Final = msgspec.json.Decoder(list[tuple[int, int, int, int]])
_sizes: Final = msgspec.json.Decoder(tuple[list[int], list[list[int]]])


def read_timeline(data: Any, path: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read a timeline, also as gzip, and yield pairs of base table and rows, as `read_torch_trace`; a finding says what
    it is.

    Raises `FormatError` for anything else.
    """
    text, content = Text(data, path), bytearray()
    text.release()
    for part in text.parts():
        content += part
        text.needed = 2 * len(content)
    check_json(memoryview(content), path)
    if content.startswith(_MARK):
        del content[: len(_MARK)]
    try:
        trace = _Timeline(path).trace(*_read(content, path))
    except (msgspec.DecodeError, ValueError, IndexError, RecursionError):
        what = "not a memory timeline: it has no sizes by category, or changes, as export_memory_timeline writes them"
        raise FormatError(path, what) from None
    yield from read_torch_trace(trace, path)
    detail = "the memory of one device by category, which the file doesn't name; ops have no times"
    yield "findings", batch({"rule": texts([FINDING]), "detail": texts([detail])})


# A change: time in nanoseconds (-1: before the recording), bytes and category.
_Change = tuple[int, int, int]


def _read(content: bytearray, path: str) -> tuple[list[_Change], bool]:
    """Return the changes of a timeline, and whether each is of a single allocation.

    Raises `msgspec.DecodeError` or `ValueError` for other content, `FormatError` for more than fits into memory.
    """
    try:
        written = _changes.decode(content)
    except msgspec.DecodeError:
        times, sizes = _sizes.decode(content)
        refuse_beyond(path, "the changes of a memory timeline", len(sizes) * len(CATEGORIES) * _CHANGE_SIZE)
        return [*_steps_of(times, sizes)], False
    if any(action not in _ACTIONS for _, action, _, _ in written):
        raise ValueError("no action")
    return [(at, size, category) for at, _, size, category in written], True


def _steps_of(times: list[int], sizes: list[list[int]]) -> Iterator[_Change]:
    """Yield the changes from each time to the next, releases first."""
    if len(times) != len(sizes) or any(len(row) != len(CATEGORIES) + 1 or row[0] for row in sizes):
        raise ValueError("no sizes by category")
    for at, (before, after) in zip(times, pairwise([[0] * (len(CATEGORIES) + 1), *sizes]), strict=True):
        changes = [new - old for old, new in zip(before[1:], after[1:], strict=True)]
        for is_release in (True, False):
            yield from (
                (1000 * at, size, category)
                for category, size in enumerate(changes)
                if size and (size < 0) == is_release
            )


class _Timeline:
    """A timeline while it is converted."""

    def __init__(self, path: str) -> None:
        self._events = Events(path, "the allocations of a memory timeline", _UNNAMED)
        self._at, self._total, self._addresses = -STEP, 0, 0

    def trace(self, changes: list[_Change], is_exact: bool) -> Written:
        """Return the trace of changes. `is_exact`: each change is of one allocation, so a release has the size of an
        allocation.
        """
        if any(
            not 0 <= category < len(CATEGORIES) or not -_MOST < size < _MOST or at >= _MOST
            for at, size, category in changes
        ):
            raise ValueError("no change")
        base = min((at for at, _, _ in changes if at >= 0), default=0)
        held: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self._total = 0 if not is_exact else _released_before(changes)
        for at, size, category in changes:
            self._at = max(self._at + STEP, at - base)
            blocks = held[category, abs(size) if is_exact else 0]
            if size > 0:
                blocks.append(self._allocate(category, size))
            elif is_exact and not blocks:
                self._change(self._address(), size)
            else:
                self._release(blocks, -size, category)
        return self._events.trace(base)

    def _release(self, blocks: list[tuple[int, int]], size: int, category: int) -> None:
        """Release the last blocks of a category up to a total size; a part of the last block may remain."""
        while size > 0:
            address, held = blocks.pop()
            self._change(address, -held)
            size -= held
        if size < 0:
            self._at += STEP
            blocks.append(self._allocate(category, -size))

    def _allocate(self, category: int, size: int) -> tuple[int, int]:
        address = self._address()
        self._total += size
        if self._total >= _MOST:
            raise ValueError("more than any memory")
        self._events.allocate(Moment(0, self._at, self._total, 0), address, size, _NAMES[category])
        return address, size

    def _change(self, address: int, size: int) -> None:
        self._total += size
        self._events.change(Moment(0, self._at, self._total, 0), address, size)

    def _address(self) -> int:
        self._addresses += 1
        return self._addresses


def _released_before(changes: list[_Change]) -> int:
    """Return the bytes that are released without having been allocated."""
    held: dict[tuple[int, int], int] = defaultdict(int)
    released = 0
    for _, size, category in changes:
        held[category, abs(size)] += 1 if size > 0 else -1
        if held[category, abs(size)] < 0:
            held[category, abs(size)] = 0
            released -= size
    return released
