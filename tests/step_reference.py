"""Times per step of a trace by plain Python over its JSON, without anything of etq, to compare etq's with."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from tests.trace_reference import OF_DEVICES, OWNERS, WORK, Slice, launches, slices

HELPERS: Final = {
    *("profiler::_record_function_enter", "profiler::_record_function_enter_new"),
    *("profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version"),
}
DEVICE_KINDS: Final = {"Kernel": "device_kernel", "Memcpy": "device_copy", "Memset": "device_fill"}

# Calls and nanoseconds by step, kind and name.
Times = dict[tuple[int, str, str], tuple[int, int]]


def is_step(one: Slice) -> bool:
    return one.name.startswith("ProfilerStep#") and one.category in OWNERS


def windows(every: list[Slice], step_name: str | None) -> tuple[str, list[tuple[int, int]]]:
    """What the steps are, and the start and end of each."""
    hosts = [each for each in every if each.category not in OF_DEVICES and each.name not in HELPERS]
    if step_name is not None:
        found: list[tuple[int, int]] = []
        for each in sorted((each for each in hosts if each.name == step_name), key=lambda one: (one.start, -one.end)):
            if not found or each.start >= found[-1][1]:
                found.append((each.start, each.end))
        return step_name, found
    steps = sorted((each.start, each.end) for each in hosts if is_step(each))
    if steps:
        return "ProfilerStep", steps
    if not hosts:
        return "Trace", []
    return "Trace", [(min(each.start for each in hosts), max(each.end for each in hosts))]


def kind_of(one: Slice) -> str | None:
    if one.is_op:
        return "op"
    if one.is_call:
        return "runtime"
    if one.category == "user_annotation" and not is_step(one):
        return "annotation"
    return "module" if one.category == "python_function" and one.name.startswith("nn.Module: ") else None


class _Sums:
    """Calls and times by step, kind and name, of events that begin in a step.

    Annotations and modules of one name and thread count once where they overlap.
    """

    def __init__(self, every: list[Slice], step_name: str | None) -> None:
        self.scope, self.steps = windows(every, step_name)
        self.is_named = step_name is not None
        self.sums: dict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0])
        self.until: dict[tuple[object, ...], int] = {}
        for at, (start, end) in enumerate(self.steps):
            self.sums[at, "framework", self.scope] = [1, end - start]

    def step_of(self, moment: int) -> int | None:
        if self.scope == "Trace":
            return 0 if self.steps else None
        at = max((at for at, (start, _) in enumerate(self.steps) if start <= moment), default=None)
        if at is None or moment > self.steps[at][1] or (self.is_named and moment == self.steps[at][1]):
            return None
        return at

    def add(self, moment: int, kind: str, name: str, ticks: int) -> None:
        at = self.step_of(moment)
        if at is not None:
            self.sums[at, kind, name][0] += 1
            self.sums[at, kind, name][1] += ticks

    def add_part(self, each: Slice, kind: str, name: str) -> None:
        """Add what no earlier slice of the name and thread in this step has of a slice; slices come by start."""
        key = self.step_of(each.start), kind, name, each.process, each.thread
        self.add(each.start, kind, name, max(each.end - max(each.start, self.until.get(key, each.start)), 0))
        self.until[key] = max(each.end, self.until.get(key, each.end))


def times_within(every: list[Slice]) -> dict[Slice, int]:
    """The time of the children of each event; that of the profiler's helpers belongs to their parents."""
    within: dict[Slice, int] = defaultdict(int)
    for each in every:
        if each.category not in OF_DEVICES and each.name not in HELPERS:
            parent = each.parent
            if parent is not None and parent.name in HELPERS:
                parent = parent.parent
            if parent is not None:
                within[parent] += max(each.end - each.start, 0)
    return within


def add_launched(every: list[Slice], sums: _Sums) -> tuple[dict[Slice, int], dict[Slice, int]]:
    """Add what devices ran; return the times that each event launched itself, and with its descendants."""
    by: dict[Slice, int] = defaultdict(int)
    inside: dict[Slice, int] = defaultdict(int)
    named: dict[int, Slice] = {}
    for each in every:
        if each.category in OWNERS and each.external > 0:
            named.setdefault(each.external, each)
    of_work = launches(every)
    are_launched = any(call is not None for call in of_work.values())
    for each, call in of_work.items():
        ticks = each.end - each.start
        op = named.get(each.external) if each.external != each.correlation else None
        origin = op if call is None else call
        # The launch of other work was before the recording.
        if origin is not None or not are_launched or sums.is_named or sums.scope == "Trace":
            moment = each.start if origin is None or (call is None and sums.is_named) else origin.start
            sums.add(moment, DEVICE_KINDS[WORK[each.category]], each.name, ticks)
            sums.add(moment, "device_total", "devices", ticks)
        around = call.above() if call is not None else [] if op is None else [op, *op.above()]
        for one in around:
            inside[one] += ticks
        owner = next((one for one in around if one.category in OWNERS), None)
        if owner is not None:
            by[owner] += ticks
    return by, inside


def step_times(events: list[dict[str, Any]], step_name: str | None = None) -> tuple[str, Times]:
    """What the steps of a trace are, and its times by step, kind and name."""
    every = slices(events)
    sums = _Sums(every, step_name)
    within = times_within(every)
    by, inside = add_launched(every, sums)
    for each in sorted(every, key=lambda one: (one.start, -one.end, one.place)):
        kind = kind_of(each)
        if kind is None or each.name in HELPERS or each.category in OF_DEVICES:
            continue
        if kind in ("annotation", "op") and each.name == step_name:
            continue
        name = each.name.removeprefix("nn.Module: ") if kind == "module" else each.name
        if kind in ("op", "runtime"):
            sums.add(each.start, kind, name, max(each.end - each.start, 0) - within[each])
        else:
            sums.add_part(each, kind, name)
        launched = {"op": by[each], "annotation": inside[each], "module": inside[each]}.get(kind, 0)
        if launched > 0:
            # What a slice of the same name and step around it launched contains this.
            is_within = kind != "op" and any(
                one.name == each.name and sums.step_of(one.start) == sums.step_of(each.start) for one in each.above()
            )
            sums.add(each.start, f"device_{kind}", name, 0 if is_within else launched)
    last = last_that_launched(every, sums) if sums.scope == "ProfilerStep" else None
    return sums.scope, {
        key: (calls, ticks) for key, (calls, ticks) in sums.sums.items() if last is None or key[0] <= last
    }


def last_that_launched(every: list[Slice], sums: _Sums) -> int | None:
    """The last step that launched something, after which the recording lacks what steps launched; None if none did."""
    steps = [sums.step_of(call.start) for call in launches(every).values() if call is not None]
    return max((step for step in steps if step is not None), default=None)
