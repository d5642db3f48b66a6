"""Device times of a trace by plain Python over its JSON: slow, and without code of etq.

A device event belongs to the call with its correlation id, the call to the innermost op or annotation on its thread.
"""

from __future__ import annotations

import bisect
import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.device_times import DeviceTimes
from tests.pairs.json_traces import OWNERS, WORK, WRAPPERS, Slice, Trace


def load(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    read = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    events: list[dict[str, Any]] = read if isinstance(read, list) else read["traceEvents"]
    return events


def slices(events: list[dict[str, Any]]) -> list[Slice]:
    return [each for each in Trace(events).slices if each.category != "Trace"]


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
        ticks = each.length
        named = of_ids.get(each.external, []) if each.external != each.correlation else []
        around = call.above() if call is not None else [above for op in named[:1] for above in (op, *op.above())]
        owner = next((one for one in around if one.category in OWNERS), None)
        op = next((one for one in around if one.is_op), None)
        times.device_total += ticks
        if each.is_kernel:
            times.kernels[each.name].append(ticks)
        times.streams[each.stream] += ticks
        if owner is None:
            times.without_op += ticks
        else:
            times.own[owner.family] += ticks
        if op is not None and is_listed(op):
            times.own_of_ops[op.name] += ticks
        within.update(dict.fromkeys(around, ticks))
        # An annotation, as in torch, and a Python function have other rows than an op of their name.
        for name, _ in {(one.family, one.category) for one in around if not is_merged(one)}:
            times.once[name] += ticks
        times.once_of_ops.update(dict.fromkeys({one.name for one in around if one.is_op and is_listed(one)}, ticks))
    for each, ticks in within.items():
        if not is_merged(each):
            times.total[each.family] += ticks
    return times


def is_listed(op: Slice) -> bool:
    """Whether it has a row among ops: slices that only wrap others have none."""
    loads = op.name.startswith(("enumerate(DataLoader)#", "enumerate(DataPipe)#"))
    return not (loads or op.name.startswith("Optimizer.") or op.name in WRAPPERS)


def is_merged(one: Slice) -> bool:
    """Whether it is one call with its parent, which calls only one op, of the same name."""
    return one.parent is not None and one.parent.family == one.family and len(one.parent.children) == 1


COMPUTATION, COMMUNICATION, MEMORY = "computation", "communication", "memory"


def type_of(each: Slice) -> str:
    if not each.is_kernel:
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
