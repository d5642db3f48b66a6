"""An ETDump in plain Python: events as objects, parents by the documented rules, sums with loops.

It shares no code with the readers and no SQL with the views: it uses the slow reader of the tests.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from tests import reference_reader
from tests.builders import AllocationEvent, DebugEvent, ProfileEvent, Run

COUNTER: Final = 2**32
DELEGATE_PARTS: Final = (("layout", ("transpose", "permute", "reshape", "layout")), ("copies", ("copy", "convert")))


@dataclass(eq=False)
class Timed:
    """One timed event of a run."""

    run: int
    place: int  # among all of the run's events
    raw: ProfileEvent
    kind: str
    label: str
    family: str
    start: int  # on a clock that doesn't wrap within the run
    duration: int | None
    parent: Timed | None = None
    execute: Timed | None = None
    children: list[Timed] = field(default_factory=list)

    @property
    def is_call(self) -> bool:
        return self.kind in ("operator_call", "delegate_call", "control")

    @property
    def is_container(self) -> bool:
        return self.kind in ("framework", "user") and (self.raw.chain_index == -1 or self.kind == "framework")

    @property
    def instruction(self) -> tuple[int, int]:
        return self.raw.chain_index, self.raw.instruction_id

    @property
    def ticks(self) -> int:
        return self.duration or 0

    @property
    def own(self) -> int:
        """The event's time without its children."""
        return self.ticks - sum(child.ticks for child in self.children)

    @property
    def is_execute(self) -> bool:
        return self.execute is self

    @property
    def part(self) -> str:
        """The op that an event of a delegate runs."""
        return next((part for part, words in DELEGATE_PARTS if any(w in self.family.lower() for w in words)), "ops")


@dataclass
class Dump:
    """The runs of a dump, and their timed events by run."""

    runs: list[Run]
    events: list[list[Timed]]
    has_wrapped: bool

    @property
    def all_events(self) -> Iterator[Timed]:
        for events in self.events:
            yield from events

    @property
    def within(self) -> Iterator[Timed]:
        """The events within executes."""
        return (event for event in self.all_events if event.execute is not None)

    @cached_property
    def total(self) -> int:
        """Time of all executes."""
        return sum(event.ticks for event in self.within if event.is_execute)

    def executes(self, run: int) -> list[Timed]:
        return [event for event in self.events[run] if event.is_execute]

    @cached_property
    def executing(self) -> dict[int, int | None]:
        """The execute time of each run with an execute; None if its times are impossible."""
        found: dict[int, int | None] = {}
        for run in range(len(self.runs)):
            if executes := self.executes(run):
                is_known = all(event.duration is not None for event in executes)
                found[run] = sum(event.ticks for event in executes) if is_known else None
        return found

    @cached_property
    def slots(self) -> list[list[tuple[Any, ...]]]:
        """The distinct events of each run, ordered by the first event of their instruction, as in the Inspector."""
        return [_slots(run) for run in self.runs]

    @cached_property
    def blocks(self) -> list[int]:
        """The event block of each run: runs of one name, input and distinct events."""
        numbers: dict[Any, int] = {}
        return [
            numbers.setdefault((run.name, run.bundled_input_index, tuple(slots)), len(numbers))
            for run, slots in zip(self.runs, self.slots, strict=True)
        ]

    @cached_property
    def by_block(self) -> dict[int, list[int]]:
        """The runs with an execute by event block."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for run in self.executing:
            found[self.blocks[run]].append(run)
        return dict(found)

    @cached_property
    def iterations(self) -> list[int]:
        """The number of runs of the same name before each run."""
        names = [run.name for run in self.runs]
        return [names[:at].count(name) for at, name in enumerate(names)]

    def values(self) -> dict[tuple[int, int, int], list[Timed]]:
        """The events by block, slot and occurrence in their run, in the order of runs."""
        found: dict[tuple[int, int, int], list[Timed]] = {}
        for run, events in enumerate(self.events):
            seen: defaultdict[int, int] = defaultdict(int)
            for event in events:
                slot = self.slots[run].index(_signature(event.raw))
                found.setdefault((self.blocks[run], slot, seen[slot]), []).append(event)
                seen[slot] += 1
        return found

    def allocations(self) -> Iterator[tuple[int, str, int]]:
        """Each allocation: its run, its allocator's name, its bytes."""
        for number, run in enumerate(self.runs):
            for event in run.events:
                if isinstance(event, AllocationEvent):
                    yield number, run.allocators[event.allocator_id - 1], event.allocation_size


def read(data: bytes) -> Dump:
    """A file's dump."""
    return of(reference_reader.read(data))


def of(runs: Sequence[Run]) -> Dump:
    times = [
        time for run in runs for each in run.events if isinstance(each, ProfileEvent)
        for time in (each.start_time, each.end_time)
    ]  # fmt: skip
    is_narrow = all(time < COUNTER for time in times)
    has_wrapped = is_narrow and any(
        isinstance(each, ProfileEvent) and each.end_time < each.start_time for run in runs for each in run.events
    )
    return Dump(list(runs), [_timed(number, run, has_wrapped) for number, run in enumerate(runs)], has_wrapped)


def _timed(number: int, run: Run, has_wrapped: bool) -> list[Timed]:
    raws = [(place, raw) for place, raw in enumerate(run.events) if isinstance(raw, ProfileEvent)]
    events = []
    for place, raw in raws:
        duration: int | None = raw.end_time - raw.start_time
        if duration is not None and duration < 0:
            duration = duration + COUNTER if has_wrapped else None
        kind = _kind(raw)
        events.append(Timed(number, place, raw, kind, _label(raw), _family(raw, kind), raw.start_time, duration))
    if has_wrapped and any(event.raw.end_time < event.raw.start_time for event in events):
        last = events[-1].raw.start_time
        for event in events:
            away = (event.raw.start_time - last) % COUNTER
            event.start = last + (away - COUNTER if away >= COUNTER // 2 else away)
    for at, event in enumerate(events):
        event.parent = _parent(events, at)
    for event in events:
        if event.parent is not None:
            event.parent.children.append(event)
    names = {event.raw.name for event in events if event.kind == "framework"}
    root = "Method::execute" if "Method::execute" in names else "Method::step"
    for event in events:
        above: Timed | None = event
        while above is not None:
            if above.kind == "framework" and above.raw.name == root:
                event.execute = above
            above = above.parent
    return events


def _parent(events: Sequence[Timed], at: int) -> Timed | None:  # noqa: PLR0911 - a case a line
    """The parent of an event. Events are logged when they end, so the parent comes later."""
    event, later, earlier = events[at], events[at + 1 :], events[:at][::-1]
    around = next((each for each in later if each.is_container and each.start <= event.start), None)
    if event.kind == "delegate":
        calls = [
            [each for each in side if each.kind == "delegate_call" and each.instruction == event.instruction]
            for side in (later, earlier)
        ]
        if calls[0]:
            return calls[0][0]
        if calls[1] and calls[1][0].start <= event.start:
            return calls[1][0]
        return around
    if event.is_container:
        operator = next((e for e in later if not e.is_container and e.kind != "delegate"), None)
        is_nearer = operator is not None and (around is None or events.index(operator) < events.index(around))
        if is_nearer and operator is not None and operator.start <= event.start:
            return operator
        return around
    if not event.is_call:
        call = next(
            (e for e in later if e.kind in ("operator_call", "delegate_call") and e.instruction == event.instruction),
            None,
        )
        if call is not None and call.start <= event.start:
            return call
    return around


def _kind(raw: ProfileEvent) -> str:
    name = raw.name or ""
    if raw.delegate_debug_id_int != -1 or raw.delegate_debug_id_str:
        return "delegate"
    known = {"OPERATOR_CALL": "operator_call", "DELEGATE_CALL": "delegate_call", "JF_CALL": "control"}
    known |= {"MOVE_CALL": "control", "FREE_CALL": "control"}
    if name in known:
        return known[name]
    if name.startswith(("Program::", "Method::")):
        return "framework"
    return "kernel" if name.startswith("native_call_") and raw.chain_index != -1 else "user"


def _label(raw: ProfileEvent) -> str:
    if raw.delegate_debug_id_int != -1:
        return str(raw.delegate_debug_id_int)
    return raw.delegate_debug_id_str or raw.name or ""


def _family(raw: ProfileEvent, kind: str) -> str:
    label = _label(raw)
    if kind == "kernel":
        return re.sub(r"[._]out$", "", label[len("native_call_") :])
    return re.sub(r" #\d+$", "", label) if kind == "delegate" else label


def _signature(raw: ProfileEvent | DebugEvent) -> tuple[Any, ...]:
    is_timed = isinstance(raw, ProfileEvent)
    ids = (raw.instruction_id, raw.delegate_debug_id_int, raw.delegate_debug_id_str or None)
    return (is_timed, raw.name or "", *ids)


def _slots(run: Run) -> list[tuple[Any, ...]]:
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for raw in run.events:
        # Outputs of a method that aren't tensors are not marked as outputs: they count as events, as in the Inspector.
        if isinstance(raw, AllocationEvent) or (isinstance(raw, DebugEvent) and raw.output):
            continue
        key = (raw.instruction_id, raw.chain_index, raw.delegate_debug_id_int, raw.delegate_debug_id_str)
        groups.setdefault(key, []).append(_signature(raw))
    found: list[tuple[Any, ...]] = []
    for signatures in groups.values():
        if timed := [each for each in signatures if each[0]]:
            found += [each for each in dict.fromkeys(timed) if each not in found]
        else:
            found += [signatures[0]]
    return found
