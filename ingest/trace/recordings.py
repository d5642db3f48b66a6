"""Reads launches, and the ops that contain them, from a trace in which graphs were captured. Launching a graph repeats
these launches.

While a graph is captured, its kernels don't run. The trace only has the runtime calls that launch them, between the
calls that begin and end the capture. ROCm's calls name their kernels, CUDA's don't. A trace in which the same kernels
ran without graphs, as in a warm-up, can be used as well. Each of its steps, annotations and outermost module calls may
be the part that a graph repeats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from etq.ingest.trace.classes import Class
from etq.ingest.trace.columns import TraceColumns
from etq.ingest.trace.inputs import inputs_at
from etq.ingest.trace.launches import are, is_module, nearest
from etq.ingest.trace.scanner import NONE, UNWRITTEN
from etq.ingest.trace.slices import Slices
from etq.ingest.trace.types import Entries, Part

Whole = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Outside of graphs, copies and fills have a name per direction, or are kernels of the runtime. Within a graph, they
# have other names. So all copies are matched under one name, and all fills under another.
COPY: Final = "copy"
FILL: Final = "fill"
_OF_RUNTIME: Final = (("__amd_rocclr_copyBuffer", COPY), ("__amd_rocclr_fillBuffer", FILL))
# More levels than any program has; a damaged file may have any depth.
_DEEPEST: Final = 500
# Stands for the name of a kernel whose call doesn't name it.
UNNAMED: Final = "kernel"
_GRAPH_LAUNCH: Final = re.compile(r"[a-z]+GraphLaunch")
_ADDED_NODE: Final = re.compile(r"[a-z]+GraphAdd(Kernel|Memcpy|Memset)Node")
_BEGIN: Final = re.compile(r"[a-z]+StreamBeginCapture")
_END: Final = re.compile(r"[a-z]+StreamEndCapture")
# The number of requests or tokens that a graph was captured for, in the names that vLLM (capture_32_FULL) and SGLang
# (bs_32) give captures.
_SIZE: Final = re.compile(r"(?:capture|bs)[_= ](\d{1,9})")


class Geometry(msgspec.Struct, gc=False):
    """The arguments of a kernel, or of the call that launches it, that tell launches apart."""

    kernel: msgspec.Raw = UNWRITTEN
    node: msgspec.Raw = msgspec.field(default=UNWRITTEN, name="graph node id")
    grid: msgspec.Raw = UNWRITTEN
    block: msgspec.Raw = UNWRITTEN


class _Event(msgspec.Struct, gc=False):
    args: Geometry | None = None


_events: Final = msgspec.json.Decoder(list[_Event], strict=False)
_event: Final = msgspec.json.Decoder(_Event, strict=False)


class Recording(NamedTuple):
    """A sequence of launches that may be those of a graph, as rows of the trace's slices; with their names and
    geometries.
    """

    label: str
    size: int | None
    since: int  # the start of the recording in ticks; slices that began earlier are not part of it
    launches: Whole
    names: Sequence[str]
    shapes: Sequence[bytes | None]

    @property
    def is_named(self) -> bool:
        return UNNAMED not in self.names


class Recorder:
    """A trace in which graphs were captured, or in which their kernels ran without graphs."""

    def __init__(self, columns: TraceColumns, entries: Entries, path: str, own: Slices | None = None) -> None:
        """`own` has the slices of the trace itself, if it both captures and launches graphs. In this case, only the
        captures of graphs are recordings, not other work.
        """
        self.columns, self.entries, self.path, self.is_own = columns, entries, path, own is not None
        if own is None:
            columns.finish()
        self.slices = slices = Slices(columns, entries) if own is None else own
        self._is_kept = are(slices.kind, [_is_kept(each) for each in slices.classes])
        self.is_op = are(slices.kind, [each.activity == "op" for each in slices.classes])
        self.above = nearest(slices.parent, self._is_kept)
        self._starts: Whole = slices.start
        self._ends: Whole = slices.start + slices.elapsed
        written = [*columns.written]
        self.stacks = {at: written[code] for at, code in columns.stacks}
        self.recordings = [*self._recordings()]

    def label(self, row: int) -> str:
        """Return the name of a slice."""
        kind = self.slices.kinds[int(self.slices.kind[row])]
        return str(kind[1])

    def path_of(self, launch: int, since: int) -> list[int]:
        """Return the ops and modules that contain a launch, as rows from the innermost to the outermost."""
        path: list[int] = []
        row = int(self.above[launch])
        while row != NONE and self._starts[row] >= since and len(path) < _DEEPEST:
            path.append(row)
            row = int(self.above[row])
        return path

    def ops_of(self, path: Sequence[int]) -> list[int]:
        """Return the ops among these slices."""
        return [row for row in path if self.is_op[row]]

    def inputs_of(self, op: int) -> tuple[bytes, ...] | None:
        """Return the inputs of an op as written; None if missing."""
        return self._inputs.get(op)

    @cached_property
    def _inputs(self) -> dict[int, tuple[bytes, ...]]:
        rows = np.flatnonzero(self.is_op)
        written = inputs_at(self.entries, self.slices.at[rows])
        return {row: each for row, each in zip(rows.tolist(), written, strict=True) if each is not None}

    def _recordings(self) -> Iterator[Recording]:
        launches = self._launches()
        names, shapes = self._names(launches)
        is_captured = np.zeros(len(launches), np.bool_)
        for process, begin, end, label in self._captures():
            at = self._starts[launches]
            within = (at >= begin) & (at <= end) & (self.slices.process[launches] == process)
            is_captured |= within
            yield self._recording(label, begin, launches, np.flatnonzero(within), names, shapes)
        if self.is_own:
            return
        free = np.flatnonzero(~is_captured)
        seen = set()
        for begin, end, label in self._spans():
            first, last = np.searchsorted(self._starts[launches[free]], [begin, end])
            if first < last and (first, last) not in seen:
                seen.add((first, last))
                yield self._recording(label, begin, launches, free[first:last], names, shapes)

    def _recording(
        self,
        label: str,
        since: int,
        launches: Whole,
        places: Whole,
        names: Sequence[str],
        shapes: Sequence[bytes | None],
    ) -> Recording:
        of_file = re.search(r"[^/\\]*$", self.path)
        found = _SIZE.search(label) or _SIZE.search(of_file[0] if of_file else "")
        size = None if found is None else int(found[1])
        chosen = places.tolist()
        return Recording(
            label, size, since, launches[places], [names[at] for at in chosen], [shapes[at] for at in chosen]
        )

    def _launches(self) -> Whole:
        """Return the calls that launch kernels, copies and fills, by start, without calls within another of them."""
        slices = self.slices
        is_launch = are(slices.kind, [*map(_launches_work, slices.kinds, slices.classes)]) & (slices.elapsed >= 0)
        rows = np.flatnonzero(is_launch)
        rows = rows[nearest(slices.parent, is_launch)[rows] == NONE]
        found: Whole = rows[np.argsort(slices.start[rows], kind="stable")]
        return found

    def _names(self, launches: Whole) -> tuple[list[str], list[bytes | None]]:
        """Return the name and the geometry of the kernel, copy or fill that each call launched."""
        slices = self.slices
        work = np.flatnonzero((slices.call != NONE) & are(slices.kind, [each.is_work for each in slices.classes]))
        ran = dict(zip(slices.call[work].tolist()[::-1], work.tolist()[::-1], strict=True))
        described = [ran.get(launch, launch) for launch in launches.tolist()]
        details = details_of(self.entries, slices.at[described])
        names = []
        for launch, row, each in zip(launches.tolist(), described, details, strict=True):
            if row != launch:
                names.append(name_of(self.label(row), slices.classes[slices.kind[row]]))
            else:
                names.append(_name_of_call(self.label(launch), each))
        return names, [shape_of(detail) for detail in details]

    def _captures(self) -> Iterator[tuple[int, int, int, str]]:
        """Yield the process, begin and end of each capture of a graph, and the name of the annotation around it."""
        slices = self.slices
        begins, ends = (
            are(slices.kind, [each.match(name) is not None for _, name in slices.kinds]) for each in (_BEGIN, _END)
        )
        is_around = are(slices.kind, [each.activity == "annotation" for each in slices.classes])
        around = nearest(slices.parent, is_around)
        rows = np.flatnonzero(begins | ends)
        open_since: dict[int, int] = {}
        for row in rows[np.argsort(slices.start[rows], kind="stable")].tolist():
            thread, begin = int(slices.thread[row]), row
            if begins[row]:
                open_since[thread] = row
                continue
            begin = open_since.pop(thread, NONE)
            since = int(self._starts.min()) if begin == NONE else int(self._starts[begin])
            label = "" if around[row] == NONE else self.label(int(around[row]))
            yield int(slices.process[row]), since, int(self._starts[row]), label
        for row in open_since.values():
            label = "" if around[row] == NONE else self.label(int(around[row]))
            yield int(slices.process[row]), int(self._starts[row]), int(self._ends.max()), label

    def _spans(self) -> Iterator[tuple[int, int, str]]:
        """Yield the begin and end of each step, annotation and outermost call of a module, and of the whole trace."""
        slices = self.slices
        for activities in (("step",), ("annotation",), ("module",)):
            is_one = are(slices.kind, [_activity(each) in activities for each in slices.classes])
            rows = np.flatnonzero(is_one & (slices.elapsed > 0))
            if activities == ("module",):
                rows = rows[nearest(slices.parent, is_one)[rows] == NONE]
            for row in rows.tolist():
                yield int(self._starts[row]), int(self._ends[row]), self.label(row)
        if len(self._starts):
            yield int(self._starts.min()), int(self._ends.max()) + 1, ""


def _activity(each: Class) -> str:
    return "module" if is_module(each) else each.activity


def _is_kept(each: Class) -> bool:
    """Whether events are added to the trace that launched the graph. Only ops and calls of modules are."""
    return each.activity == "op" or is_module(each)


def is_graph_launch(name: str) -> bool:
    """Whether a call launches a graph."""
    return _GRAPH_LAUNCH.match(name) is not None


def _launches_work(kind: tuple[str, str], each: Class) -> bool:
    is_one = each.activity == "call" and each.purpose in ("launch", "copy") and not is_graph_launch(kind[1])
    return is_one or _ADDED_NODE.match(kind[1]) is not None


def name_of(label: str, each: Class) -> str:
    """Return the name by which an event of a device is matched."""
    if each.activity in (COPY, FILL):
        return each.activity
    return next((name for begin, name in _OF_RUNTIME if label.startswith(begin)), label.removesuffix(".kd"))


def _name_of_call(label: str, details: Geometry) -> str:
    if "Memset" in label:
        return FILL
    if "Memcpy" in label:
        return COPY
    try:
        written = msgspec.json.decode(details.kernel, type=str) if details.kernel else ""
    except msgspec.DecodeError:
        written = ""
    return name_of(written, Class("kernel")) if written else UNNAMED


def shape_of(details: Geometry) -> bytes | None:
    """Return the blocks and threads of a kernel as written; None if missing."""
    written = bytes(details.grid) + bytes(details.block)
    return written.translate(None, b" ") if details.grid and details.block else None


def node_of(details: Geometry) -> int:
    """Return the number of a kernel's node in its graph, -1 if it isn't written."""
    written = bytes(details.node).strip(b'"')
    return int(written) if written.isdigit() and len(written) < 19 else NONE


def details_of(entries: Entries, at: Whole) -> list[Geometry]:
    """Return the details of the entries at these positions."""
    places, back = np.unique(at, return_inverse=True)
    found: list[_Event] = []
    entries.decode(Part(places.astype(np.int64), _events, _one, found.extend))
    return [found[place].args or Geometry() for place in back.tolist()]


def _one(entry: msgspec.Raw) -> _Event:
    try:
        return _event.decode(entry)
    except msgspec.DecodeError:
        return _Event()


def size_of_launch(labels: Sequence[str]) -> int | None:
    """Return the number of requests or tokens of a graph's launch, from the annotations around it; None if they have
    none. Graphs are captured for some numbers; a launch takes the graph of the smallest number that suffices.
    """
    for label in labels:
        if (found := _SIZE.search(label) or _EXECUTED.search(label)) is not None:
            return int(found[1])
        if (parts := _CONTEXT.search(label)) is not None:
            return sum(map(int, parts.groups()))
    return None


# vLLM's annotations of a step. Detailed ones begin with the number of tokens; others have it in brackets, after the
# number of requests.
_EXECUTED: Final = re.compile(r"^execute_(\d{1,9})_context_")
_CONTEXT: Final = re.compile(r"^execute_context_\d+\((\d{1,9})\)_generation_\d+\((\d{1,9})\)")
