"""What devices ran at each time, by plain Python over a trace's JSON: each piece between two moments is asked on its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from tests.trace_reference import WORK, Slice, slices

COMPUTATION, COMMUNICATION, MEMORY = "computation", "communication", "memory"


def type_of(each: Slice) -> str:
    if WORK[each.category] != "Kernel":
        return MEMORY
    return COMMUNICATION if each.name.startswith("nccl") else COMPUTATION


def activity(events: list[dict[str, Any]]) -> dict[int | None, Counter[frozenset[str]]]:
    """By device the nanoseconds in which just these types ran, from its first event to its last."""
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
