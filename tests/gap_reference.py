"""Gaps of devices and their causes by plain Python over a trace's JSON, as `device_idle` documents them; slow, without etq."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.path_reference import Paths
from tests.trace_reference import OWNERS, WORK, Slice

LAUNCH_DELAY: Final = 10_000
KERNEL_WAIT: Final = 30_000


@dataclass
class Host:
    """The waits of a process's launching threads: from when until when, by kind."""

    loading: list[Slice] = field(default_factory=list)
    communication: list[Slice] = field(default_factory=list)
    synchronization: list[Slice] = field(default_factory=list)


def gaps(events: list[dict[str, Any]], by: str) -> list[tuple[Any, ...]]:
    """Device, stream, start, length, cause, host op, host time, HTA's cause of each gap, in nanoseconds."""
    waits = Paths(events)
    every, calls = waits.every, waits.calls
    threads = {(call.process, call.thread) for call in calls.values() if call is not None}
    owners: dict[tuple[str, str], list[Slice]] = defaultdict(list)
    hosts: dict[str, Host] = defaultdict(Host)
    for each in every:
        at = (each.process, each.thread)
        if at not in threads:
            continue
        if each.category in OWNERS and each.end > each.start:
            owners[at].append(each)
        waiting = hosts[each.process]
        if each.category in OWNERS and is_loading(each.name):
            waiting.loading.append(each)
        elif each.category in OWNERS and each.name.startswith(("nccl:", "gloo:")):
            waiting.communication.append(each)
        elif each.is_call and (
            "Synchronize" in each.name or each.name in ("cudaMemcpy", "cudaFree", "hipMemcpyWithStream")
        ):
            waiting.synchronization.append(each)
    work = [each for each in every if each.category in WORK]
    scopes: dict[tuple[Any, Any], list[Slice]] = defaultdict(list)
    for each in work:
        scopes[each.arguments.get("device"), each.arguments.get("stream") if by == "stream" else None].append(each)
    found = []
    for scope, ran in scopes.items():
        reached: int | None = None
        for each in sorted(ran, key=lambda one: (one.start, _call_start(calls[one]), one.place)):
            if reached is not None and each.start > reached:
                found.append((*scope, *judged(reached, each, calls[each], owners, hosts, waits)))
            reached = max(each.end, reached or each.end)
    return found


def _call_start(call: Slice | None) -> float:
    return call.start if call is not None else float("inf")


def judged(
    start: int,
    following: Slice,
    call: Slice | None,
    owners: dict[tuple[str, str], list[Slice]],
    hosts: dict[str, Host],
    waits: Paths,
) -> tuple[Any, ...]:
    """Start, length, cause, host op, host time and HTA's cause of the gap before an event."""
    end = following.start
    length = end - start
    if call is None:
        return start, length, "unknown", None, None, "kernel_wait" if length < KERNEL_WAIT else "other"
    until = max(min(call.start, end), start)
    host, queued = until - start, end - until
    hta = "host_wait" if call.start > start else "kernel_wait" if length < KERNEL_WAIT else "other"
    if 2 * host >= length:
        cause, asked = of_host(start, until, hosts[call.process])
        op = innermost(owners[call.process, call.thread], asked)
        return start, length, cause, op, host, hta
    returned = max(min(call.end, end) - max(call.start, start), 0)
    source = waits.sources.get(following)
    if source is not None and not start < source.end <= end:
        source = None
    if source is not None and 2 * (end - source.end) <= queued:
        cause = of_source(source.name)
    elif queued <= max(LAUNCH_DELAY, 2 * returned):
        cause = "launch_delay"
    elif source is not None:
        cause = of_source(source.name) if end - source.end <= LAUNCH_DELAY else "unknown"
    else:
        # Without records a wait is inferred from times.
        can_infer = following in waits.of_graphs or not waits.has_records
        before = [each for each in waits.ends if can_infer and start < each.end <= end]
        last = max((each.end for each in before), default=None)
        if last is not None and end - last <= LAUNCH_DELAY:
            cause = of_source(min(each.name for each in before if each.end == last))
        else:
            cause = "unknown"
    return start, length, cause, None, host, hta


def of_source(name: str) -> str:
    return "communication" if name.startswith("nccl") else "dependency"


def of_host(start: int, until: int, waits: Host) -> tuple[str, int]:
    """The cause of host time, and when the host is asked what it does."""
    for cause, held in (("data_loading", waits.loading), ("communication", waits.communication)):
        if 2 * covered(held, start, until) >= until - start:
            return cause, max(start, last_began(held, until))
    if any(each.start <= start < each.end for each in waits.synchronization):
        return "synchronization", start
    if 2 * covered(waits.synchronization, start, until) >= until - start:
        return "synchronization", max(start, last_began(waits.synchronization, until))
    return "host", start + (until - start) // 2


def covered(held: Iterable[Slice], start: int, until: int) -> int:
    total, reached = 0, start
    for each in sorted(held, key=lambda one: one.start):
        begin, end = max(each.start, reached), min(each.end, until)
        if end > begin:
            total, reached = total + end - begin, end
    return total


def last_began(held: list[Slice], until: int) -> int:
    """When any of them, none having been open, or one being, last began; moments of no length don't count."""
    return max(each.start for each in held if each.start <= until and each.end > each.start)


def innermost(held: list[Slice], at: int) -> str | None:
    around = [each for each in held if each.start <= at < each.end]
    found = max(around, key=lambda each: (each.start, -each.end, each.place), default=None)
    return None if found is None else "ProfilerStep*" if found.name.startswith("ProfilerStep#") else found.name


def is_loading(name: str) -> bool:
    loads = name.startswith("enumerate(DataLoader)#") and name.endswith(".__next__")
    return loads or name.startswith("enumerate(DataPipe)#")
