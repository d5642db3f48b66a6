"""The events of a trace, collected column by column."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import compress, count
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.scanner import NONE, Arguments, PlainEvent, TraceEvent, Written
from etq.ingest.trace.ticks import NO_TIME, Whole, tick_of, ticks_of

Places = npt.NDArray[np.int32]

MEMORY: Final = "[memory]"
SLICE: Final = "X"
NO_ARGUMENTS: Final = Arguments()
# The placeholder of an entry that is not an event.
NOTHING: Final = PlainEvent()
# Phases of flows. They are not read, and get no finding.
UNREAD_PHASES: Final = frozenset("sft")
UNREAD: Final = -2
OF_MEMORY: Final = -3
# Categories of counters that Kineto writes. It writes some counters as values at a moment, without a duration.
_COUNTERS: Final = frozenset(
    ("mtia_counters", "mtia_insight", "xpu_scope_profiler", "cuda_profiler_range", "hardware_counters")
)
# If there are at least this many ops, annotations and allocations, the profiler's numbers for them show how many it
# recorded.
_MANY: Final = 1000
# The names of counters that `etq export --counters` computed from the events. They are skipped, because they can be
# computed again.
_COMPUTED_COUNTERS: Final = ("Queue length, ", "Memory bandwidth (GB/s), ")


class Numbered(defaultdict[Any, int]):
    """Assigns numbers to values that repeat often, in the order of their first appearance."""

    def __init__(self) -> None:
        super().__init__(count().__next__)


class Keys(dict[tuple[str, str | None, str, Written, Written], int]):
    """Numbers of the distinct (phase, category, name, pid, tid) of slices. `[memory]` events get -3, and entries that
    aren't read -2: flows, because each launch has one. Other entries get -1.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kind, self.thread = array("q"), array("q")
        self.kinds, self.threads = Numbered(), Numbered()

    def __missing__(self, key: tuple[str, str | None, str, Written, Written]) -> int:
        phase, category, name, pid, tid = key
        number = UNREAD if phase in UNREAD_PHASES else NONE
        if phase == SLICE:
            number = len(self.kind)
            self.kind.append(self.kinds[category or "", name])
            self.thread.append(self.threads[pid, tid])
        elif phase == "i" and name == MEMORY:
            number = OF_MEMORY
        self[key] = number
        return number


class TraceColumns:
    """The columns of a trace's slices, and rows of properties that only some events have.

    at            [n] position in `traceEvents`
    key           [n] number in `keys`
    start         [n] ticks
    duration      [n] ticks, NO_TIME if the file has none
    external, old_external, correlation, sequence, forward  [n] ids, -1 for none
    plain         positions of events whose arguments are laid out as by another tool
    stacks        rows of position, number in `written`
    names         by position, the argument `name`, which kernels of graphs have
    memory        rows of position, thread and ticks of `[memory]` events
    """

    def __init__(self) -> None:
        self.at, self.key = array("i"), array("i")
        self.start, self.duration = array("q"), array("q")
        self.external, self.old_external, self.correlation, self.sequence, self.forward = (array("q") for _ in range(5))
        self.keys, self.written = Keys(), Numbered()
        self.threads = self.keys.threads
        self.plain: set[int] = set()
        self.stacks: list[tuple[int, int]] = []
        self.names: dict[int, str] = {}
        self.memory: list[tuple[int, int, int]] = []
        self.process_names: dict[str, str] = {}
        self.thread_names: dict[tuple[str, str], str] = {}
        self._open: dict[int, list[tuple[int, TraceEvent | PlainEvent, int]]] = defaultdict(list)
        self._left_out: Counter[str] = Counter()
        self.findings: list[tuple[str, str]] = []
        # The numbers that the profiler gives to events of the host, -1 for none.
        self._numbers = array("q")
        self.written[None]

    def find(self, rule: str, detail: str) -> None:
        """Add a finding of this rule, at most once."""
        if (rule, detail) not in self.findings:
            self.findings.append((rule, detail))

    def leave_out(self, what: str) -> None:
        """Count an entry that is not read."""
        self._left_out[what] += 1

    def add(self, first: int, events: Sequence[TraceEvent | PlainEvent]) -> None:
        """Add events; the first one is at position `first` of `traceEvents`."""
        places = np.arange(first, first + len(events), dtype=np.int32)
        keys = self._keys_of(events)
        is_slice = keys >= 0
        if is_slice.all():
            self._add_slices(places, events, keys)
            return
        self._add_slices(places[is_slice], [*compress(events, is_slice.tolist())], keys[is_slice])
        if (is_memory := keys == OF_MEMORY).any():
            self._add_memory(places[is_memory], [*compress(events, is_memory.tolist())])
        is_other = keys == NONE
        for at, event in zip(places[is_other].tolist(), compress(events, is_other.tolist()), strict=True):
            self._add_other(at, event)

    def _keys_of(self, events: Sequence[TraceEvent | PlainEvent]) -> Places:
        keys = self.keys
        return np.array([keys[event.ph, event.cat, event.name, event.pid, event.tid] for event in events], np.int32)

    def _add_slices(self, places: Places, events: Sequence[TraceEvent | PlainEvent], keys: Places) -> None:
        times = ticks_of([*[event.ts for event in events], *[event.dur for event in events]])
        start, duration = times[: len(events)], times[len(events) :]
        is_timed = start != NO_TIME
        if not is_timed.all():
            self._left_out["a slice without a time"] += int((~is_timed).sum())
            places, keys, start, duration = (each[is_timed] for each in (places, keys, start, duration))
            events = [*compress(events, is_timed.tolist())]
        self._append(places, events, keys, start, duration)

    def _append(
        self, places: Places, events: Sequence[TraceEvent | PlainEvent], keys: Places, start: Whole, duration: Whole
    ) -> None:
        arguments = [event.args or NO_ARGUMENTS for event in events]
        self.at.frombytes(places.tobytes())
        self.key.frombytes(keys.tobytes())
        self.start.frombytes(start.tobytes())
        self.duration.frombytes(duration.tobytes())
        self.external.fromlist([args.external_id for args in arguments])
        self.old_external.fromlist([args.old_external_id for args in arguments])
        self.correlation.fromlist([args.correlation for args in arguments])
        self.sequence.fromlist([args.sequence_number for args in arguments])
        self.forward.fromlist([args.forward_thread for args in arguments])
        self._count(arguments)
        if any([args.call_stack or args.name for args in arguments]):  # noqa: C419 - faster than a generator
            for at, args in zip(places.tolist(), arguments, strict=True):
                if args.call_stack:
                    self.stacks.append((at, self.written[args.call_stack.encode()]))
                if args.name:
                    self.names[at] = args.name

    def _count(self, arguments: Sequence[Arguments]) -> None:
        self._numbers.fromlist([args.number for args in arguments])

    def _add_memory(self, places: Places, events: Sequence[TraceEvent | PlainEvent]) -> None:
        self._count([event.args or NO_ARGUMENTS for event in events])
        moments = ticks_of([event.ts for event in events])
        for at, event, moment in zip(places.tolist(), events, moments.tolist(), strict=True):
            if moment != NO_TIME:
                self.memory.append((at, self.threads[event.pid, event.tid], moment))

    def _add_other(self, at: int, event: TraceEvent | PlainEvent) -> None:
        if event.ph == "M":
            self._name(event, event.args or NO_ARGUMENTS)
        elif event.ph == "B":
            self._open[self.threads[event.pid, event.tid]].append((at, event, tick_of(event.ts)))
        elif event.ph == "E":
            self._close(event)
        elif event.ph == "C" and event.cat in _COUNTERS:
            self._add_moment(at, event)
        elif event.ph == "C" and event.name.startswith(_COMPUTED_COUNTERS):
            return
        elif event is not NOTHING and event.ph != "i":
            self.leave_out(f"phase {event.ph}")

    def _name(self, event: TraceEvent | PlainEvent, args: Arguments) -> None:
        if event.name == "process_name" and args.name is not None:
            self.process_names[spelled(event.pid)] = args.name
        elif event.name == "thread_name" and args.name is not None:
            self.thread_names[spelled(event.pid), spelled(event.tid)] = args.name

    def _close(self, end: TraceEvent | PlainEvent) -> None:
        """Make a slice from an end and the beginning that precedes it. Other tools write slices in this way."""
        waiting = self._open[self.threads[end.pid, end.tid]]
        moment = tick_of(end.ts)
        if not waiting or NO_TIME in (moment, waiting[-1][2]):
            self.leave_out("an end without its beginning")
            return
        at, begin, since = waiting.pop()
        begin.ph = SLICE
        start, duration = np.array([since]), np.array([moment - since])
        self._append(np.array([at], np.int32), [begin], self._keys_of([begin]), start, duration)

    def _add_moment(self, at: int, event: TraceEvent | PlainEvent) -> None:
        """Make a slice of length 0 from a counter's value."""
        if (moment := tick_of(event.ts)) == NO_TIME:
            self.leave_out("a counter without a time")
            return
        event.ph = SLICE
        place, start = np.array([at], np.int32), np.array([moment])
        self._append(place, [event], self._keys_of([event]), start, np.zeros(1, np.int64))

    @property
    def times(self) -> tuple[array[int], array[int]]:
        """Starts and durations, in ticks."""
        return self.start, self.duration

    def finish(self) -> None:
        """Add findings about entries that were left out, and about entries that the file lacks."""
        self._join_threads()
        # A time range of a recording has consecutive numbers of ops and of Python functions.
        numbers = np.frombuffer(self._numbers, np.int64)
        steps = np.diff(np.unique(numbers[numbers != NONE]))
        if steps.sum() >= _MANY and 2 * np.count_nonzero(steps == 1) < len(steps):
            self.find(
                "incomplete file",
                f"{len(steps) + 1:,} events of the host; by the profiler's numbers (Ev Idx), others are missing "
                "between most of them: the file doesn't show what the host did",
            )
        self._left_out["a beginning without its end"] += sum(map(len, self._open.values()))
        parts = [f"{number} ({what})" for what, number in sorted(self._left_out.items()) if number]
        if parts:
            self.find("events left out", f"only whole slices are read: {', '.join(parts)}")
        if not self.start and not self.memory:
            self.find("no events", "it has no slice and no memory event: export it after the profiler recorded steps")

    def _join_threads(self) -> None:
        """Give a single number to a thread whose id the file writes both as a number and as a text."""
        first: dict[tuple[str, str], int] = {}
        joined = [first.setdefault((spelled(pid), spelled(tid)), number) for (pid, tid), number in self.threads.items()]
        if len(first) < len(joined):
            self.keys.thread = array("q", [joined[number] for number in self.keys.thread])
            self.memory = [(at, joined[number], moment) for at, number, moment in self.memory]


def spelled(value: Written) -> str:
    """Return a process or thread as text, because some files write it both as a number and as a text."""
    return "" if value is None else str(value)


def texts_of(values: Iterable[bytes | None]) -> list[str | None]:
    """Return JSON or texts as they were written, decoded from UTF-8."""
    return [None if value is None else value.decode("utf-8", "replace") for value in values]
