"""Programs on a host and its devices, run on made-up clocks in nanoseconds: what took each moment is known by its cause.

A program is a list of actions. `run` executes them, in order, on threads of the host; devices run what was launched.
Without some causes, their actions take no time, which tells what they cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

LAG: Final = 5000  # from a launch to the start of its kernel on an idle stream
QUEUED: Final = 800  # from the end of a kernel to the start of the next in its stream
RETURN: Final = 2000  # from the end of the work waited for to the return of the call that waits


@dataclass(frozen=True)
class Frame:
    """A slice of a thread, with what runs in it."""

    name: str
    body: Sequence[Action] = ()
    category: str = "cpu_op"
    is_step: bool = False


@dataclass(frozen=True)
class Spend:
    """Time of the host for a cause."""

    ticks: int
    cause: str


@dataclass(frozen=True)
class Pause:
    """Time of the host of which nothing is recorded."""

    ticks: int


@dataclass(frozen=True)
class Kernel:
    """What a device runs; a collective ends `ticks` after all ranks have begun it."""

    name: str
    ticks: int
    family: str
    kind: str = "kernel"
    is_collective: bool = False
    is_lost: bool = False


@dataclass(frozen=True)
class Launch:
    """A call that launches kernels: one, or those of a graph. `after`: the stream whose work they wait for."""

    kernels: Sequence[Kernel]
    call: str
    stream: int = 7
    lag: int = LAG
    ticks: int = 4000
    after: int | None = None
    is_captured: bool = False


@dataclass(frozen=True)
class Call:
    """Another call of the runtime; one that waits returns when all launched work has ended."""

    name: str
    ticks: int
    cause: str
    waits: bool = False


@dataclass(frozen=True)
class On:
    """Actions of another thread, for which this one waits."""

    thread: int
    body: Sequence[Action]


Action = Frame | Spend | Pause | Launch | Call | On


@dataclass(eq=False)
class Slice:
    """A slice as it was recorded."""

    name: str
    category: str
    start: int
    thread: int
    external: int
    correlation: int | None = None
    end: int = -1


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a host's time, of a critical path or of a device's idle time: its cause, and the names that are open."""

    start: int
    end: int
    cause: str
    names: tuple[str, ...] = ()
    awaited: Work | None = None  # the work that the host waits for

    @property
    def ticks(self) -> int:
        return self.end - self.start


@dataclass(eq=False)
class Work:
    """What a device ran."""

    kernel: Kernel
    start: int
    end: int
    stream: int
    call: Slice
    names: tuple[str, ...]
    cause: str  # of its start: launch, stream (the work before it), after (work of another stream)
    before: Work | None
    others: int = 0  # when the last of the ranks began


@dataclass
class Run:
    """What happened; `arrivals` are the starts of collectives."""

    without: Collection[str] = ()
    others: Sequence[Sequence[int]] = ()
    now: int = 100_000
    slices: list[Slice] = field(default_factory=list)
    host: list[Part] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    _open: dict[int, list[Slice]] = field(default_factory=dict)
    _thread: int = 1
    _correlation: int = 100
    _last: dict[int, Work] = field(default_factory=dict)

    def do(self, actions: Sequence[Action]) -> Run:
        """Execute actions."""
        for action in actions:
            if isinstance(action, Frame):
                self._do_frame(action)
            elif isinstance(action, Spend):
                self._spend(0 if action.cause in self.without else action.ticks, action.cause)
            elif isinstance(action, Pause):
                self._spend(0 if "pause" in self.without else action.ticks, "pause")
            elif isinstance(action, Launch):
                self._launch(action)
            elif isinstance(action, Call):
                self._call(action)
            else:
                self._do_on(action)
        return self

    @property
    def begin(self) -> int:
        return min([each.start for each in self.slices] + [each.start for each in self.work])

    @property
    def end(self) -> int:
        return max([each.end for each in self.slices] + [each.end for each in self.work])

    def _spend(self, ticks: int, cause: str, call: Slice | None = None, awaited: Work | None = None) -> None:
        if ticks:
            names = tuple(each.name for each in [*self._open.get(self._thread, []), *([call] if call else [])])
            self.host.append(Part(self.now, self.now + ticks, cause, names, awaited))
            self.now += ticks

    def _slice(self, name: str, category: str, correlation: int | None = None) -> Slice:
        opened = self._open.setdefault(self._thread, [])
        external = len(self.slices) + 1 if category != "runtime" else opened[-1].external if opened else 0
        made = Slice(name, category, self.now, self._thread, external, correlation)
        self.slices.append(made)
        return made

    def _do_frame(self, frame: Frame) -> None:
        made = self._slice(frame.name, frame.category)
        self._open[self._thread].append(made)
        self.do(frame.body)
        self._open[self._thread].pop()
        made.end = self.now
        if frame.is_step:
            self.steps.append((made.start, made.end))

    def _do_on(self, action: On) -> None:
        thread, self._thread = self._thread, action.thread
        self.do(action.body)
        self._thread = thread

    def _numbered(self) -> int:
        self._correlation += 1
        return self._correlation

    def _call(self, action: Call) -> None:
        if action.cause in self.without:
            return
        made = self._slice(action.name, "runtime", self._numbered())
        last = max(self._last.values(), key=lambda each: each.end, default=None) if action.waits else None
        if last is not None and last.end > self.now:
            self._spend(last.end + RETURN - self.now, action.cause, made, last)
        self._spend(action.ticks, action.cause, made)
        made.end = self.now

    def _launch(self, action: Launch) -> None:
        made = self._slice(action.call, "runtime", self._numbered())
        names = tuple(each.name for each in [*self._open.get(self._thread, []), made])
        for kernel in () if action.is_captured else action.kernels:
            self._enqueue(action, kernel, made, names)
        self._spend(0 if "host" in self.without else action.ticks, "host", made)
        made.end = self.now

    def _enqueue(self, action: Launch, kernel: Kernel, made: Slice, names: tuple[str, ...]) -> None:
        lag = min(action.lag, LAG) if "delay" in self.without else action.lag
        begins: list[tuple[int, str, Work | None]] = [(made.start + lag, "launch", None)]
        if action.stream in self._last:
            before = self._last[action.stream]
            begins.append((before.end + QUEUED, "stream", before))
        if action.after in self._last and "stream" not in self.without:
            awaited = self._last[action.after]
            begins.append((awaited.end + QUEUED, "after", awaited))
        start, cause, of = max(begins, key=lambda each: each[0])
        last = start
        if kernel.is_collective:
            if "rank" not in self.without:
                at = len(self.arrivals)
                last = max([start, *(rank[at] for rank in self.others if len(rank) > at)])
            self.arrivals.append(start)
        work = Work(kernel, start, last + kernel.ticks, action.stream, made, names, cause, of, last)
        self._last[action.stream] = work
        self.work.append(work)


def run(programs: Sequence[Sequence[Action]], without: Collection[str] = ()) -> list[Run]:
    """What happens where the programs of several ranks run together: their collectives wait for each other."""
    runs = [Run(without).do(program) for program in programs]
    while len(programs) > 1:
        arrivals = [each.arrivals for each in runs]
        runs = [Run(without, arrivals).do(program) for program in programs]
        if [each.arrivals for each in runs] == arrivals:
            break
    return runs


Span = tuple[int, int]


def union(spans: Sequence[Span]) -> list[Span]:
    """Spans joined where they touch, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif end > start:
            joined.append((start, end))
    return joined


def length(spans: Sequence[Span]) -> int:
    """The time that spans cover."""
    return sum(end - start for start, end in union(spans))


def within(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The parts of spans that lie in others."""
    pairs = product(union(spans), union(others))
    return [(max(a, x), min(b, y)) for (a, b), (x, y) in pairs if max(a, x) < min(b, y)]


def recorded(happened: Run) -> list[Work]:
    """The work that is in the trace, in order."""
    return sorted((each for each in happened.work if not each.kernel.is_lost), key=lambda each: each.start)


def idle(happened: Run) -> Iterator[Part]:
    """The idle time of a device by cause: what the host did until it had launched what ended the gap, then what that waited for."""
    lost = [(each.start, each.end) for each in happened.work if each.kernel.is_lost]
    until: int | None = None
    for each in recorded(happened):
        if until is not None and each.start > until:
            launched = min(max(until, each.call.end), each.start)
            for start, end in within([(until, each.start)], lost):
                yield Part(start, end, "lost")
            for part in happened.host:
                start, end = max(part.start, until), min(part.end, launched)
                yield from _apart(Part(start, end, part.cause, part.names), lost)
            if each.start > launched:
                cause = "stream" if each.cause == "after" else "delay"
                yield from _apart(Part(launched, each.start, cause, each.names), lost)
        until = max(until or 0, each.end)


def _apart(part: Part, others: Sequence[Span]) -> Iterator[Part]:
    """A part without the spans of others."""
    at = part.start
    for start, end in within([(part.start, part.end)], others):
        if start > at:
            yield Part(at, start, part.cause, part.names)
        at = end
    if part.end > at:
        yield Part(at, part.end, part.cause, part.names)


def path(happened: Run) -> Iterator[Part]:
    """The critical path, from its end: what ran last, what that waited for, and so on."""
    work = max(happened.work, key=lambda each: each.end, default=None)
    at = happened.end
    if work is not None and work.end < at:
        work = None
    index = len(happened.host) - 1
    while at > happened.begin:
        if work is not None:
            if work.others > work.start:
                yield Part(work.start, work.others, "rank", (*work.names, work.kernel.name))
            yield Part(max(work.start, work.others), work.end, "device", (*work.names, work.kernel.name))
            at = work.before.end if work.before else work.call.start
            yield Part(at, work.start, "delay", work.names)
            work = work.before
            continue
        while index >= 0 and happened.host[index].start >= at:
            index -= 1
        if index < 0:
            break
        each = happened.host[index]
        work = each.awaited
        begin = work.end if work else each.start
        if begin < at:
            yield Part(begin, at, each.cause, each.names)
        at = min(begin, at)
