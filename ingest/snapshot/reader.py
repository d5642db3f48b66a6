"""Memory snapshots (`torch.cuda.memory._dump_snapshot`) as traces: an op for each allocation, with its stack.

Source: `_snapshot` of `torch/cuda/memory.py`. A snapshot has for each device the last allocations and releases, and the
memory that is held at the end (`segments`), each with the frames of the stack, the innermost first. Memory that is
released or held at the end without a recorded allocation was allocated before the snapshot's first entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, texts
from etq.ingest.snapshot.events import STEP, Events, Moment, Written
from etq.ingest.snapshot.pickles import loads
from etq.ingest.trace.classes import rules
from etq.ingest.trace.reader import read_torch_trace
from etq.ingest.trace.text import LARGEST_RATIO

# The rule of the finding that a capture is a snapshot.
FINDING: Final = "memory snapshot"

_CUDA: Final = 1
# A call of an op in a frame of C++.
_OP: Final = re.compile(r"\bat::_ops::(\w+?)(?:_(?:out|Tensor|Scalar|int|dim|default)\w*)?::(?:call|redispatch)\b")
_RELEASES: Final = ("free_requested", "free_completed")
# Actions that change the memory of an allocator.
_RESERVED: Final = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_ACTIONS: Final = ("alloc", *_RELEASES, *_RESERVED)
# The function that calls a module, and its file.
_CALL: Final = "_call_impl"
_OF_MODULES: Final = "torch/nn/modules/module.py"
# The number of functions around the innermost user function that are kept of a stack.
_AROUND: Final = 5
# The most functions and modules that are kept of a stack, the innermost ones; and the longest name of a file or
# function. The limits are needed because the text of a stack is read again for each allocation.
_MOST_FUNCTIONS: Final = 256
_MOST_MODULES: Final = 64
_LONGEST_NAME: Final = 500
_MOST: Final = 2**62


def read_snapshot(data: Any, path: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read a snapshot and yield pairs of base table and rows, as `read_torch_trace`; a finding says what it is.

    Raises `FormatError` for anything else, and for a pickle with other objects than lists, dicts, texts and numbers.
    """
    snapshot = loads(bytes(data), path)
    try:
        trace = _Snapshot(snapshot, path, len(data)).trace()
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        what = "not a memory snapshot: it has no segments and device_traces as torch writes them"
        raise FormatError(path, what) from None
    yield from read_torch_trace(trace, path)
    detail = "the allocations of torch.cuda with their stacks; ops and functions have no times"
    yield "findings", batch({"rule": texts([FINDING]), "detail": texts([detail])})


class _Snapshot:
    """A snapshot while it is converted."""

    def __init__(self, written: Any, path: str, byte_size: int) -> None:
        self._path = path
        self._segments: list[Any] = _listed(written["segments"])
        self._traces: list[Any] = _listed(written["device_traces"])
        # A pickle may refer to a list any number of times, but each entry takes more than a byte.
        self._left = byte_size
        # The calls around allocations, by the list of their frames, and by the frames: lists share these.
        self._stacks: dict[int, list[str]] = {}
        self._calls: dict[tuple[int, ...], list[str]] = {}
        self._allowed = LARGEST_RATIO * byte_size + 2**20
        self._rules = rules()
        moments = [entry["time_us"] for each in self._traces for entry in self._entries(each) if "time_us" in entry]
        self._base = min(map(_whole, moments), default=0)
        self._left = byte_size

    def trace(self) -> Written:
        events = Events(self._path, "the allocations of a snapshot", _CUDA)
        for device in range(len(self._traces)):
            self._add_events(events, device)
        return events.trace(1000 * self._base)

    def _entries(self, values: Any) -> Sequence[Any]:
        found = _listed(values)
        self._left -= len(found)
        if self._left < 0:
            raise ValueError("lists that contain each other")
        return found

    def _add_events(self, events: Events, device: int) -> None:
        """Add the events of a device, in the order of time."""
        entries = [
            (each["action"], _whole(each["addr"]), _whole(each["size"]), each)
            for each in self._entries(self._traces[device])
            if each["action"] in _ACTIONS
        ]
        before, total = self._held_before(device, entries)
        own = [each for each in self._segments if _whole(each.get("device", 0)) == device]
        reserved = sum(_whole(each["total_size"]) for each in own)
        reserved -= sum(_RESERVED.get(action, 0) * size for action, _, size, _ in entries)
        at, held = 0, dict[int, int]()
        for address, size, frames in before:
            total, held[address] = total + size, size
            events.allocate(Moment(device, at, total, reserved), address, size, self._stack(frames))
            at += STEP
        for action, address, size, entry in entries:
            reserved += _RESERVED.get(action, 0) * size
            moment = 1000 * (_whole(entry["time_us"]) - self._base) if "time_us" in entry else 0
            at = max(moment, at + STEP)
            if action == "alloc":
                total += size - held.pop(address, 0)
                held[address] = size
                named = self._stack(entry.get("frames"))
                events.allocate(Moment(device, at, total, reserved), address, size, named)
            elif action in _RELEASES and address in held:
                released = held.pop(address)
                total -= released
                events.change(Moment(device, at, total, reserved), address, -released)
            elif action == _RELEASES[0]:
                total -= size
                events.change(Moment(device, at, total, reserved), address, -size)

    def _held_before(
        self, device: int, entries: Sequence[tuple[str, int, int, Any]]
    ) -> tuple[list[tuple[int, int, Any]], int]:
        """Return two things about memory that was allocated before the first entry: the address, size and frames of
        memory that is held at the end, and the bytes of memory that an entry releases.
        """
        held: dict[int, int] = {}
        released: dict[int, int] = {}
        requested: set[int] = set()
        changes = [each for each in entries if each[0] not in _RESERVED]
        for action, address, size, _ in changes:
            if action == "alloc":
                held[address] = size
                requested.discard(address)
            elif held.pop(address, None) is None and address not in requested and action == _RELEASES[0]:
                released[len(released)] = size
            if action == _RELEASES[0]:
                requested.add(address)
        seen = {address for _, address, _, _ in changes}
        before = []
        for segment in self._segments:
            if _whole(segment.get("device", 0)) != device:
                continue
            address = _whole(segment["address"])
            for block in self._entries(segment["blocks"]):
                place = _whole(block.get("address", address))
                if block["state"] == "active_allocated" and place not in held and place not in seen:
                    frames = block.get("frames")
                    before.append((place, _whole(block.get("requested_size", block["size"])), frames))
                address += _whole(block["size"])
        return before, sum(released.values())

    def _stack(self, frames: Any) -> list[str]:
        """Return the calls around an allocation from its stack, for `Events.allocate`; none without a stack. If the
        stack has modules, there is a call for them. There is also a call for the outermost op, or, without ops, for the
        innermost function, with the list of functions.
        """
        if not frames:
            return []
        known = self._stacks.get(id(frames))
        if known is None:
            key = tuple(map(id, self._entries(frames)))
            known = self._calls[key] = self._stacks[id(frames)] = self._calls.get(key) or self._calls_of(frames)
        self._allowed -= sum(map(len, known))
        if self._allowed < 0:
            raise FormatError(
                self._path, f"as text, its stacks would take over {LARGEST_RATIO} times its size, which is refused"
            )
        return known

    def _calls_of(self, frames: Sequence[Any]) -> list[str]:
        op, functions, outer = None, list[str](), 0
        for frame in frames:
            name, file, line = _text(frame["name"]), _text(frame["filename"]), _whole(frame["line"])
            name, file = name[:_LONGEST_NAME], file[-_LONGEST_NAME:]
            if (found := _OP.search(name)) is not None:
                op = f"aten::{found[1]}"
            if _is_python(file) and outer <= _AROUND and len(functions) < _MOST_FUNCTIONS:
                functions.append(f"{file}({line}): {name}".replace(";", ","))
                outer += bool(outer) or not self._rules.is_library(functions[-1])
        named = op or (functions[0] if functions else "(allocation)")
        stack = {"Call stack": ";".join(functions)}
        calls = [f'"cat": "cpu_op", "name": {json.dumps(named)}, "args": {json.dumps(stack)}']
        if modules := _modules(frames):
            name = json.dumps(f"nn.Module: {' > '.join(modules)}")
            calls.insert(0, f'"cat": "python_function", "name": {name}')
        return calls


def _modules(frames: Sequence[Any]) -> list[str]:
    """Return the modules around an allocation, the outermost first. A stack has no names of modules. So a module is the
    file that `Module._call_impl` calls, with the line that calls the next module.
    """
    found: list[str] = []
    called = line = ""
    for frame in frames:
        name, file = frame["name"], frame["filename"][-_LONGEST_NAME:]
        if not _is_python(file):
            continue
        if len(found) == _MOST_MODULES:
            break
        is_call = file.endswith(_OF_MODULES)
        if is_call and name == _CALL and called:
            found.append(f"{called}:{line}" if found else called)
        called, line = "" if is_call else "/".join(file.split("/")[-2:]), frame["line"]
    return found[::-1]


def _is_python(file: str) -> bool:
    return file.endswith(".py") or file.startswith("<")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("no text")
    return value


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _whole(value: Any) -> int:
    """Return a whole number that can be a size, an address or a time."""
    if type(value) is not int or not -_MOST < value < _MOST:
        raise ValueError("no number")
    return value
