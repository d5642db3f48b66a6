"""The events of a trace, collected column by column."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import compress, count
from math import isnan
from typing import Any, Final

from etq.ingest.trace.scanner import Arguments, PlainEvent, TraceEvent, Written

MEMORY: Final = "[memory]"
NO_ARGUMENTS: Final = Arguments()
# The placeholder of an entry that is not an event.
NOTHING: Final = PlainEvent()
# Phases of entries that are not slices and need no finding: metadata, instants, flows.
_QUIET_PHASES: Final = frozenset("Misft")


class Numbered(defaultdict[Any, int]):
    """Values that come again and again, by their numbers, which are theirs in the order of coming."""

    def __init__(self) -> None:
        super().__init__(count().__next__)


class TraceColumns:
    """Columns of a trace's slices, and rows of properties that only some of its events have.

    at            [n] position in `traceEvents`
    kind          [n] number of (category, name) in `kinds`
    thread        [n] number of (pid, tid) in `threads`
    start         [n] microseconds, as float
    duration      [n] microseconds, NaN if the file has none
    external, old_external, correlation, sequence, forward  [n] ids, -1 for none
    plain         positions of events whose arguments are of another tool's kind
    stacks        rows of position, number in `written`
    memory        rows of position, thread and microseconds of `[memory]` events
    """

    def __init__(self) -> None:
        self.at, self.kind, self.thread = array("q"), array("q"), array("q")
        self.start, self.duration = array("d"), array("d")
        self.external, self.old_external, self.correlation, self.sequence, self.forward = (array("q") for _ in range(5))
        self.kinds, self.threads, self.written = (Numbered() for _ in range(3))
        self.plain: set[int] = set()
        self.stacks: list[tuple[int, int]] = []
        self.memory: list[tuple[int, int, float]] = []
        self.process_names: dict[str, str] = {}
        self.thread_names: dict[tuple[str, str], str] = {}
        self._open: dict[int, list[tuple[int, TraceEvent | PlainEvent]]] = defaultdict(list)
        self._left_out: Counter[str] = Counter()
        self.findings: list[tuple[str, str]] = []
        self.written[None]

    def find(self, rule: str, detail: str) -> None:
        """Note what the trace's reader should know, once."""
        if (rule, detail) not in self.findings:
            self.findings.append((rule, detail))

    def leave_out(self, what: str) -> None:
        """Count an entry that is not read."""
        self._left_out[what] += 1

    def add(self, first: int, events: Sequence[TraceEvent | PlainEvent]) -> None:
        """Add the events at places from `first` on."""
        places = range(first, first + len(events))
        is_slice = [event.ph == "X" for event in events]
        if all(is_slice):
            self._add_slices(places, events)
            return
        self._add_slices([*compress(places, is_slice)], [*compress(events, is_slice)])
        for at, event in zip(places, events, strict=True):
            if event.ph != "X":
                self._add_other(at, event)

    def _add_slices(self, places: Sequence[int], events: Sequence[TraceEvent | PlainEvent]) -> None:
        starts = [event.ts for event in events]
        if any(map(isnan, starts)):
            is_timed = [not isnan(start) for start in starts]
            self._left_out["a slice without a time"] += len(starts) - sum(is_timed)
            self._add_slices([*compress(places, is_timed)], [*compress(events, is_timed)])
            return
        arguments = [event.args or NO_ARGUMENTS for event in events]
        self.at.fromlist([*places])
        self.start.fromlist(starts)
        self.duration.fromlist([event.dur for event in events])
        self.kind.fromlist([*map(self.kinds.__getitem__, [(event.cat, event.name) for event in events])])
        self.thread.fromlist([*map(self.threads.__getitem__, [(event.pid, event.tid) for event in events])])
        self.external.fromlist([args.external_id for args in arguments])
        self.old_external.fromlist([args.old_external_id for args in arguments])
        self.correlation.fromlist([args.correlation for args in arguments])
        self.sequence.fromlist([args.sequence_number for args in arguments])
        self.forward.fromlist([args.forward_thread for args in arguments])
        stacks = [args.call_stack for args in arguments]
        if any(stacks):
            self.stacks += [(at, self.written[each.encode()]) for at, each in zip(places, stacks, strict=True) if each]

    def _add_other(self, at: int, event: TraceEvent | PlainEvent) -> None:
        args = event.args or NO_ARGUMENTS
        if event.ph == "i" and event.name == MEMORY and not isnan(event.ts):
            self.memory.append((at, self.threads[event.pid, event.tid], event.ts))
        elif event.ph == "M":
            self._name(event, args)
        elif event.ph == "B":
            self._open[self.threads[event.pid, event.tid]].append((at, event))
        elif event.ph == "E":
            self._close(event)
        elif event is not NOTHING and event.ph not in _QUIET_PHASES:
            self.leave_out(f"phase {event.ph}")

    def _name(self, event: TraceEvent | PlainEvent, args: Arguments) -> None:
        if event.name == "process_name" and args.name is not None:
            self.process_names[spelled(event.pid)] = args.name
        elif event.name == "thread_name" and args.name is not None:
            self.thread_names[spelled(event.pid), spelled(event.tid)] = args.name

    def _close(self, end: TraceEvent | PlainEvent) -> None:
        """A slice of a beginning and an end, as other tools write them."""
        waiting = self._open[self.threads[end.pid, end.tid]]
        if not waiting or isnan(end.ts) or isnan(waiting[-1][1].ts):
            self.leave_out("an end without its beginning")
            return
        at, begin = waiting.pop()
        begin.dur = end.ts - begin.ts
        self._add_slices([at], [begin])

    def finish(self) -> None:
        """Report what was left out."""
        self._join_threads()
        self._left_out["a beginning without its end"] += sum(map(len, self._open.values()))
        parts = [f"{number} ({what})" for what, number in sorted(self._left_out.items()) if number]
        if parts:
            self.find("events left out", f"only whole slices are read: {', '.join(parts)}")

    def _join_threads(self) -> None:
        """A thread that the file writes as a number here and as a text there is one."""
        first: dict[tuple[str, str], int] = {}
        joined = [first.setdefault((spelled(pid), spelled(tid)), number) for (pid, tid), number in self.threads.items()]
        if len(first) < len(joined):
            self.thread = array("q", [joined[number] for number in self.thread])
            self.memory = [(at, joined[number], moment) for at, number, moment in self.memory]


def spelled(value: Written) -> str:
    """A process or thread as text: some files write one now as a number, now as a text."""
    return "" if value is None else str(value)


def texts_of(values: Iterable[bytes | None]) -> list[str | None]:
    """JSON or texts as they were written."""
    return [None if value is None else value.decode("utf-8", "replace") for value in values]
