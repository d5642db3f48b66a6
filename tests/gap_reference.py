"""Gaps of devices and their causes by plain Python over a trace's JSON, as `device_idle` documents them; slow, without etq."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

from tests.call_reference import cause as cause_of_call
from tests.call_reference import kind as kind_of_call
from tests.call_reference import waits as waits_for_devices
from tests.pairs.json_traces import OWNERS, WORK, Slice, union
from tests.path_reference import Paths

KERNEL_WAIT: Final = 30_000
# The waits of a process's launching threads by cause.
Host = defaultdict[str, list[Slice]]


def gaps(events: list[dict[str, Any]], by: str) -> list[tuple[Any, ...]]:
    """Device, stream, start, length, cause, host op, call, host time, HTA's cause of each gap, in nanoseconds."""
    waits = Paths(events)
    every, calls = waits.every, waits.calls
    threads = {call.thread for call in calls.values() if call is not None}
    owners: dict[tuple[str, str], list[Slice]] = defaultdict(list)
    others: dict[tuple[str, str], list[Slice]] = defaultdict(list)
    hosts: dict[str, Host] = defaultdict(lambda: defaultdict(list))
    launched = Counter(call for call in calls.values() if call is not None)
    steps = [each for each in every if each.name.startswith(("ProfilerStep#", "execute_"))]
    for each in every:
        at = each.thread
        if at not in threads:
            continue
        if each.category not in WORK and each.length:
            others[at].append(each)
        if each.category in OWNERS and each.length:
            owners[at].append(each)
        waiting = hosts[each.process]
        if each.category in OWNERS and is_loading(each.name):
            waiting["data_loading"].append(each)
        elif each.category in OWNERS and each.name.startswith(("nccl:", "gloo:")):
            waiting["communication"].append(each)
        elif each.is_call and (cause := cause_of_call(each.name) or long_cause(each)):
            waiting[cause].append(each)
    work = [each for each in every if each.category in WORK]
    scopes: dict[tuple[Any, Any], list[Slice]] = defaultdict(list)
    for each in work:
        scopes[each.arguments.get("device"), each.arguments.get("stream") if by == "stream" else None].append(each)
    found = []
    for scope, ran in scopes.items():
        reached: int | None = None
        for each in sorted(ran, key=lambda one: (one.start, _call_start(calls[one]), one.place)):
            if reached is not None and each.start > reached:
                call = calls[each]
                is_graph = call is not None and launched[call] > 1
                row = judged(reached, each, call, owners, hosts, waits, is_graph=is_graph)
                if call is not None and row[5] and 2 * row[5] >= row[1]:
                    row = apart(row, steps, owners[call.thread], others[call.thread])
                found.append((*scope, *row))
            reached = max(each.end, reached or each.end)
    return found


def apart(row: tuple[Any, ...], steps: list[Slice], owners: list[Slice], others: list[Slice]) -> tuple[Any, ...]:
    """A gap whose time of the host is mostly in no step, or, in a trace without steps, in nothing that is recorded."""
    reached, host = row[0], row[5]
    if 2 * union(steps or others, reached, reached + host) >= host:
        return row
    if steps:
        return (*row[:2], "between_steps", innermost(owners, reached + host // 2), None, *row[5:])
    return (*row[:2], "not_recorded" if row[2] == "host" else row[2], *row[3:])


def _call_start(call: Slice | None) -> float:
    return call.start if call is not None else float("inf")


def judged(
    start: int,
    following: Slice,
    call: Slice | None,
    owners: dict[tuple[str, str], list[Slice]],
    hosts: dict[str, Host],
    waits: Paths,
    *,
    is_graph: bool,
) -> tuple[Any, ...]:
    """Start, length, cause, host op, call, host time and HTA's cause of the gap before an event."""
    end = following.start
    length = end - start
    if call is None:
        return start, length, "unknown", None, None, None, "kernel_wait" if length < KERNEL_WAIT else "other"
    begins = waits_for_devices(call.name) or (is_graph and call.start <= start)
    until = max(min(call.start if begins else call.end, end), start)
    host, queued = until - start, end - until
    hta = "host_wait" if call.start > start else "kernel_wait" if length < KERNEL_WAIT else "other"
    if 2 * host >= length:
        cause, asked, name = of_host(start, until, hosts[call.process])
        op = innermost(owners[call.thread], asked)
        return start, length, cause, op, name, host, hta
    returned = max(min(call.end, end) - until, 0)
    latency = waits.latency(following)
    source, is_record = waits.awaited(following)
    if source is not None and not start < source.end <= end:
        source = None
    is_certain = source is not None and (is_record or call.start <= start)
    name = None
    if source is not None and is_certain and 2 * (end - source.end) <= queued:
        cause = of_source(source.name)
    elif queued <= max(latency, 2 * returned):
        cause = "launch_delay"
        name = call.name if 2 * returned >= queued else None
    elif source is not None:
        cause = of_source(source.name) if end - source.end <= latency else "unknown_wait"
    else:
        # Without records a wait is inferred from times.
        can_infer = waits.can_infer(following)
        before = [each for each in waits.ends if can_infer and start < each.end <= end]
        last = max((each.end for each in before), default=None)
        if last is not None and end - last <= latency:
            cause = of_source(min(each.name for each in before if each.end == last))
        else:
            cause = "unknown_wait"
    return start, length, cause, None, name, host, hta


def of_source(name: str) -> str:
    return "communication" if name.startswith("nccl") else "dependency"


def of_host(start: int, until: int, waits: Host) -> tuple[str, int, str | None]:
    """The cause of host time, when the host is asked what it does, and the call in which it is."""
    half = {cause: time for cause in waits if 2 * (time := union(waits[cause], start, until)) >= until - start}
    for cause in ("data_loading", "communication"):
        if cause in half:
            return cause, max(start, last_began(waits[cause], until)), None
    is_open = {
        cause for cause, held in waits.items()
        if any(each.start <= start < each.end and each.is_call and waits_for_devices(each.name) for each in held)
    }  # fmt: skip
    found = half or {cause: union(waits[cause], start, until) for cause in is_open}
    if not found:
        return "host", start + (until - start) // 2, None
    cause = min(found, key=lambda one: (-found[one], one))
    by_name: dict[str, list[Slice]] = defaultdict(list)
    for each in waits[cause]:
        if each.start <= until:
            by_name[each.name].append(each)
    name = min(by_name, key=lambda one: (-union(by_name[one], start, until), one))
    return cause, start if cause in is_open else max(start, last_began(waits[cause], until)), name


def long_cause(call: Slice) -> str | None:
    """What a thread is in that takes a millisecond or more, although it waits for nothing."""
    found = kind_of_call(call.name)
    return found if found in ("launch", "copy") and call.length >= 1_000_000 else None


def last_began(held: list[Slice], until: int) -> int:
    """When any of them, none having been open, or one being, last began; moments of no length don't count."""
    return max(each.start for each in held if each.start <= until and each.length)


def innermost(held: list[Slice], at: int) -> str | None:
    around = [each for each in held if each.start <= at < each.end]
    found = max(around, key=lambda each: (each.start, -each.end, each.place), default=None)
    return None if found is None else found.family


def is_loading(name: str) -> bool:
    loads = name.startswith("enumerate(DataLoader)#") and name.endswith(".__next__")
    return loads or name.startswith("enumerate(DataPipe)#")
