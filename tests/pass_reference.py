"""Passes of training in plain Python, by the JSON of a trace."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from tests.pairs.json_traces import Slice, Trace

PASSES = ("backward", "optimizer", "data_loading", "forward", "other")
FUNCTION = re.compile(r"\w+Backward\d*|torch::autograd::AccumulateGrad", re.ASCII)
ENGINE = "autograd::engine::evaluate_function: "


def pass_of(each: Slice, has_numbers: bool) -> str | None:
    """The pass that an event of the host is of itself."""
    number, thread = (each.arguments.get(name) for name in ("Sequence number", "Fwd thread id"))
    if each.is_op:
        is_backward = number is not None and (thread or 0) > 0
        if is_backward or each.name.startswith(ENGINE) or FUNCTION.fullmatch(each.name):
            return "backward"
    if each.is_op or each.category == "user_annotation":
        if each.name.startswith("Optimizer."):
            return "optimizer"
        if re.fullmatch(r"enumerate\(DataLoader\)#.*\.__next__|enumerate\(DataPipe\)#.*", each.name):
            return "data_loading"
    if each.category == "python_function" and each.name.startswith("nn.Module: "):
        return "forward"
    return "forward" if each.is_op and (number is not None or not has_numbers) else None


def passes_of(trace: Trace) -> dict[int, str]:
    """By place in the file, the pass that each event of the host is of itself."""
    hosts = list(trace.host)
    has_numbers = any("Sequence number" in each.arguments for each in hosts)
    return {each.place: found for each in hosts if (found := pass_of(each, has_numbers)) is not None}


def steps_of(trace: Trace) -> dict[int, tuple[int, int]]:
    """Start and end of each step on the host; of all ops if the trace has no steps."""
    written = [each for each in trace.host if each.name.startswith("ProfilerStep#")]
    ops = [each for each in trace.host if each.is_op]
    if not written and ops:
        return {0: (min(each.start for each in ops), max(each.end for each in ops))}
    return {int(each.name.split("#")[1]): (each.start, each.end) for each in written}


def host_times(trace: Trace, steps: dict[int, tuple[int, int]]) -> Counter[tuple[int, str]]:
    """By step and pass: time on the host."""
    of_places = passes_of(trace)
    changes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for each in trace.host:
        if (name := of_places.get(each.place)) is not None:
            changes[each.start][name] += 1
            changes[each.end][name] -= 1
    for start, end in steps.values():
        changes[start], changes[end] = changes[start], changes[end]
    found: Counter[tuple[int, str]] = Counter()
    running: Counter[str] = Counter()
    for at, until in pairwise(sorted(changes)):
        running.update(changes[at])
        name = next((each for each in PASSES if running[each] > 0), "other")
        for step, (start, end) in steps.items():
            if start <= at < end:
                found[step, name] += until - at
    return found


def device_events(trace: Trace, steps: dict[int, tuple[int, int]]) -> Counter[tuple[int, str]]:
    """By step and pass: number of device events that were launched in it."""
    of_places = passes_of(trace)
    found: Counter[tuple[int, str]] = Counter()
    for each in trace.work:
        call = trace.launches.get(each.correlation)
        moment, above = (each.start, []) if call is None else (call.start, [call, *call.above()])
        around = {of_places.get(one.place) for one in above}
        name = next((each for each in PASSES if each in around), "other")
        for step, (start, end) in steps.items():
            if start <= moment < end:
                found[step, name] += 1
    return found


def step_passes(trace: Trace) -> dict[tuple[int, str], tuple[int, int]]:
    """By step and pass: time on the host in nanoseconds, number of device events."""
    steps = steps_of(trace)
    times, events = host_times(trace, steps), device_events(trace, steps)
    return {(step, name): (times[step, name], events[step, name]) for step in steps for name in PASSES}


def forward_ops(trace: Trace) -> dict[int, Slice | None]:
    """By the place of each event of the backward pass, the last op of the forward pass that has its number and begins
    before it. For traces in which ops of one thread have sequence numbers.
    """
    of_places = passes_of(trace)
    ops: defaultdict[int, list[Slice]] = defaultdict(list)
    for each in trace.host:
        if of_places.get(each.place) == "forward" and "Sequence number" in each.arguments:
            ops[each.arguments["Sequence number"]].append(each)
    found: dict[int, Slice | None] = {}
    for each in trace.host:
        if of_places.get(each.place) == "backward":
            before = [op for op in ops[each.arguments.get("Sequence number", -1)] if op.start < each.start]
            found[each.place] = max(before, key=lambda op: (op.start, -op.end, op.place), default=None)
    return found


def linked_ops(trace: Trace) -> dict[tuple[str | None, str], tuple[int, int, int, int]]:
    """By op and function of autograd: backward calls and time, forward calls and time."""
    of_places = passes_of(trace)
    rows: defaultdict[Any, list[int]] = defaultdict(lambda: [0, 0])
    ops: defaultdict[Any, dict[int, Slice]] = defaultdict(dict)
    for place, op in forward_ops(trace).items():
        each = trace.by_place[place]
        if any(of_places.get(above.place) == "backward" for above in each.above()):
            continue
        key = (None if op is None else op.name, each.name.removeprefix(ENGINE))
        rows[key][0] += 1
        rows[key][1] += each.length
        if op is not None:
            ops[key][op.place] = op
    return {
        key: (row[0], row[1], len(ops[key]), sum(op.length for op in ops[key].values())) for key, row in rows.items()
    }
