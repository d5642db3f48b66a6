"""Device times of a trace by plain Python over its JSON: slow, and without code of etq.

A device event belongs to the call with its correlation id, the call to the innermost op or annotation on its thread.
"""

from __future__ import annotations

import bisect
import gzip
import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.device_times import DeviceTimes

WORK: Final = {
    **dict.fromkeys(("kernel", "Kernel", "mtia_ccp_events", "mtia_workloadd", "hpu_op"), "Kernel"),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), "Memcpy"),
    **dict.fromkeys(("gpu_memset", "Memset"), "Memset"),
}
OF_DEVICES: Final = {
    *WORK,
    *("gpu_user_annotation", "cuda_sync", "cuda_event", "cuda_profiler_range", "xpu_scope_profiler"),
    *("mtia_insight", "mtia_counters"),
}
OPS: Final = {"cpu_op", "Operator"}
OWNERS: Final = {*OPS, "user_annotation"}
WRAPPERS: Final = {"DataParallel.forward", "DistributedDataParallel.forward"}


@dataclass(eq=False)
class Slice:
    """An event with a duration, in nanoseconds."""

    place: int
    name: str
    category: str
    process: str
    thread: str
    start: int
    end: int
    arguments: dict[str, Any]
    parent: Slice | None = None
    children: list[Slice] = field(default_factory=list)

    @property
    def is_op(self) -> bool:
        return self.category in OPS and not self.name.startswith("ProfilerStep#")

    @property
    def is_call(self) -> bool:
        return self.category == "Runtime" or self.category.endswith(("_runtime", "_driver"))

    @property
    def external(self) -> int:
        return int(self.arguments.get("External id", self.arguments.get("external id", 0)))

    @property
    def correlation(self) -> int:
        return int(self.arguments.get("correlation", 0))

    def above(self) -> list[Slice]:
        """The slices that contain it, innermost first."""
        found: list[Slice] = []
        at = self.parent
        while at is not None:
            found.append(at)
            at = at.parent
        return found


def nanoseconds(microseconds: float) -> int:
    whole = math.floor(microseconds)
    return whole * 1000 + round((microseconds - whole) * 1000)


def load(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    read = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    events: list[dict[str, Any]] = read if isinstance(read, list) else read["traceEvents"]
    return events


def slices(events: list[dict[str, Any]]) -> list[Slice]:
    found = []
    for place, each in enumerate(events):
        if each.get("ph") == "X" and each.get("cat") != "Trace":
            start = nanoseconds(each["ts"])
            end = start + nanoseconds(each.get("dur", 0))
            thread = str(each["pid"]), str(each["tid"])
            found.append(Slice(place, each["name"], each["cat"], *thread, start, end, each.get("args") or {}))
    nest(found)
    return found


def nest(every: list[Slice]) -> None:
    """Parents by a stack for each thread: a slice that ends earlier, or at another one's start, isn't its parent."""
    threads: dict[tuple[str, str], list[Slice]] = defaultdict(list)
    for each in every:
        if each.category not in OF_DEVICES:
            threads[each.process, each.thread].append(each)
    for held in threads.values():
        stack: list[Slice] = []
        for each in sorted(held, key=lambda one: (one.start, -one.end)):
            while stack and (each.start >= stack[-1].end or each.end > stack[-1].end):
                stack.pop()
            if stack:
                each.parent = stack[-1]
                stack[-1].children.append(each)
            stack.append(each)


def launches(every: list[Slice]) -> dict[Slice, Slice | None]:
    """The call that launched each event of a device."""
    calls: dict[tuple[str, int], list[Slice]] = defaultdict(list)
    launching = {each.process for each in every if each.is_call and each.correlation > 0}
    for each in every:
        if each.is_call and each.correlation > 0:
            calls["", each.correlation].append(each)
            calls[each.process, each.correlation].append(each)
    found: dict[Slice, Slice | None] = {}
    for each in every:
        if each.category in WORK:
            key = each.process if each.process in launching else "", each.correlation
            candidates = sorted(calls.get(key, []), key=lambda call: call.start)
            behind = bisect.bisect_right([call.start for call in candidates], each.start)
            found[each] = candidates[max(behind - 1, 0)] if candidates else None
    return found


def reference(events: list[dict[str, Any]]) -> DeviceTimes:
    every = slices(events)
    of_ids: dict[int, list[Slice]] = defaultdict(list)
    for each in every:
        if each.category in OWNERS and each.external > 0:
            of_ids[each.external].append(each)
    times = DeviceTimes()
    within: Counter[Slice] = Counter()
    for each, call in launches(every).items():
        ticks = each.end - each.start
        named = of_ids.get(each.external, []) if each.external != each.correlation else []
        around = call.above() if call is not None else [above for op in named[:1] for above in (op, *op.above())]
        owner = next((one for one in around if one.category in OWNERS), None)
        op = next((one for one in around if one.is_op), None)
        times.device_total += ticks
        if WORK[each.category] == "Kernel":
            times.kernels[each.name].append(ticks)
        times.streams[each.arguments.get("device"), each.arguments.get("stream")] += ticks
        if owner is None:
            times.without_op += ticks
        else:
            times.own[shown(owner)] += ticks
        if op is not None and is_listed(op):
            times.own_of_ops[op.name] += ticks
        within.update(dict.fromkeys(around, ticks))
        # An annotation, as in torch, and a Python function have other rows than an op of their name.
        for name, _ in {(shown(one), one.category) for one in around if not is_merged(one)}:
            times.once[name] += ticks
        times.once_of_ops.update(dict.fromkeys({one.name for one in around if one.is_op and is_listed(one)}, ticks))
    for each, ticks in within.items():
        if not is_merged(each):
            times.total[shown(each)] += ticks
    return times


def shown(one: Slice) -> str:
    return "ProfilerStep*" if one.name.startswith("ProfilerStep#") else one.name


def is_listed(op: Slice) -> bool:
    """Whether it has a row among ops: slices that only wrap others have none."""
    loads = op.name.startswith(("enumerate(DataLoader)#", "enumerate(DataPipe)#"))
    return not (loads or op.name.startswith("Optimizer.") or op.name in WRAPPERS)


def is_merged(one: Slice) -> bool:
    """Whether it is one call with its parent, which calls only one op, of the same name."""
    return one.parent is not None and shown(one.parent) == shown(one) and len(one.parent.children) == 1


COMPUTATION, COMMUNICATION, MEMORY = "computation", "communication", "memory"


def type_of(each: Slice) -> str:
    if WORK[each.category] != "Kernel":
        return MEMORY
    return COMMUNICATION if each.name.startswith("nccl") else COMPUTATION


def activity(events: list[dict[str, Any]]) -> dict[int | None, Counter[frozenset[str]]]:
    """By device the nanoseconds in which just these types ran, from its first event to its last: each piece between two
    moments is asked on its own.
    """
    devices: dict[int | None, list[Slice]] = defaultdict(list)
    for each in slices(events):
        if each.category in WORK:
            devices[each.arguments.get("device")].append(each)
    found: dict[int | None, Counter[frozenset[str]]] = {}
    for device, ran in devices.items():
        found[device] = Counter()
        for at, until in pairwise(sorted({at for each in ran for at in (each.start, each.end)})):
            types = frozenset(type_of(each) for each in ran if each.start <= at and each.end >= until)
            found[device][types] += until - at
    return found
