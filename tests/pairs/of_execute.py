"""Time of executes by component, and runs compared with others: against self times added up in plain Python."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import theilslopes

from tests.pairs import asking
from tests.pairs.asking import Asked, Sides, keyed, pair
from tests.pairs.dumps import Dump, Timed
from tests.typical import fences

COMPONENTS = {
    "kernel": "kernels", "control": "control", "user": "user events", "delegate_call": "delegate unaccounted",
    "framework": "rest",
}  # fmt: skip


def sums(events: Iterable[Timed], key: Callable[[Timed], Any]) -> dict[Any, list[int]]:
    """Number and self time of events by a key."""
    return asking.sums((key(event), (1, event.own)) for event in events)


def op_of(event: Timed, name: str) -> tuple[str, str]:
    """The name and the kind of an event's self time."""
    if event.kind == "operator_call" and event.children:
        return "(framework)", "framework"
    if event.kind == "delegate_call" and event.children:
        return "(delegate unaccounted)", event.kind
    return ("(unattributed)" if event.kind == "framework" else name), event.kind


@pair("op_totals", "own times of events by family, added up in plain Python")
def op_totals(asked: Asked) -> Sides:
    found = asked.keyed("op_totals", "method, op, kind, calls, total_ticks, min, max, share_percent", 3, unit="ns")
    grouped: defaultdict[Any, list[int]] = defaultdict(list)
    for event in asked.dump.within:
        grouped[asked.scopes[event.run], *op_of(event, event.family)].append(event.own)
    return found, {
        key: [len(own), sum(own), min(own), max(own), percent(sum(own), asked.dump.total)]
        for key, own in grouped.items()
    }


@pair("op_totals", "own times of events by label and instruction, added up in plain Python")
def op_totals_by_instance(asked: Asked) -> Sides:
    columns = "method, op, kind, instruction_id, calls, total_ticks"
    found = asked.view("op_totals", columns, by="instance")

    def key(event: Timed) -> Any:
        is_none = -1 in event.instruction
        return asked.scopes[event.run], *op_of(event, event.label), None if is_none else event.raw.instruction_id

    return keyed(found, 4), sums(asked.dump.within, key)


@pair("execute_breakdown", "own times of events by what they are, added up in plain Python")
def execute_breakdown(asked: Asked) -> Sides:
    columns = (
        "method, component, block_index, chain_index, instruction_id, calls, total_ticks, per_execute, share_percent"
    )
    found = asked.keyed("execute_breakdown", columns, 5, unit="ns")
    dump = asked.dump
    executes = Counter(asked.scopes[event.run] for event in dump.within if event.is_execute)

    def key(event: Timed) -> Any:
        if event.kind == "operator_call":
            part = "operator-call overhead" if event.children else "operators without a kernel event"
        else:
            part = f"delegate {event.part}" if event.kind == "delegate" else COMPONENTS[event.kind]
        place = (dump.blocks[event.run], *event.instruction) if event.kind.startswith("delegate") else (None,) * 3
        return asked.scopes[event.run], part, *place

    expected = sums(dump.within, key)
    return found, {
        place: [calls, own, own / executes[place[0]], percent(own, dump.total)]
        for place, (calls, own) in expected.items()
    }


def percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


@pair("execute_breakdown", "its parts, op_totals, framework_tax and time_tree each add up to the executes")
def execute_in_all(asked: Asked) -> Sides:
    untimed = None in asked.dump.executing.values()
    found = {
        "execute_breakdown": sum(row[0] for row in asked.view("execute_breakdown", "total_ticks")),
        "op_totals": sum(row[0] for row in asked.view("op_totals", "total_ticks")),
        "time_tree": sum(row[0] for row in asked.view("time_tree", "total_ticks", by="event")[:1]),
        "framework_tax": sum(row[0] or 0 for row in asked.view("framework_tax", "execute", unit="ns")),
    }
    return found, dict.fromkeys(found, 0 if untimed else asked.dump.total)


@pair("framework_tax", "own times of a run's events by kind, in plain Python")
def framework_tax(asked: Asked) -> Sides:
    columns = "run_index, execute, kernels, delegates, operators, tracing, tax, tax_percent, note"
    found = asked.keyed("framework_tax", columns, 1, unit="ns")
    return found, {(run,): taxes(asked.dump, run) for run in asked.dump.executing}


def works(dump: Dump, run: int) -> tuple[int, int, int]:
    """Self time of a run's kernels, of its delegates with their calls, and of operators without a kernel event."""
    within = [event for event in dump.events[run] if event.execute is not None]
    return (
        sum(event.own for event in within if event.kind == "kernel"),
        sum(event.own for event in within if event.kind in ("delegate", "delegate_call")),
        sum(event.own for event in within if event.kind == "operator_call" and not event.children),
    )


def is_untraced(dump: Dump) -> bool:
    """Whether nothing within methods was traced."""
    return not any(event.kind not in ("framework", "user") for event in dump.all_events) and not _has_values(dump)


def _has_values(dump: Dump) -> bool:
    return any(type(raw).__name__ == "DebugEvent" for run in dump.runs for raw in run.events)


def taxes(dump: Dump, run: int) -> list[Any]:
    """The row of framework_tax that is expected for a run, in ticks."""
    execute, work = dump.executing[run], works(dump, run)
    note = "no operators traced" if is_untraced(dump) else "includes tracing"
    tax = None if note == "no operators traced" or execute is None else execute - sum(work)
    share = None if tax is None or not execute else 100 * tax / execute
    return [execute, *work, None, tax, share, note]


@pair("delegate_totals", "calls of delegates and own times of their events, in plain Python")
def delegate_totals(asked: Asked) -> Sides:
    columns = (
        "block_index, chain_index, instruction_id, calls, total, ops, copies, layout, unaccounted, per_call, share_percent,"
        " events, other_events"
    )
    found = asked.keyed("delegate_totals", columns, 3, unit="ns")
    grouped: defaultdict[Any, list[Timed]] = defaultdict(list)
    for event in asked.dump.within:
        if event.kind in ("delegate", "delegate_call"):
            grouped[asked.dump.blocks[event.run], *event.instruction].append(event)
    expected = {}
    for key, events in grouped.items():
        calls = [event.ticks for event in events if event.kind == "delegate_call"]
        inner = [event for event in events if event.kind == "delegate"]
        parts = [sum(event.own for event in inner if event.part == part) for part in ("ops", "copies", "layout")]
        total = sum(calls)
        expected[key] = [
            *(len(calls), total, *parts, total - sum(parts), total / len(calls)),
            *(percent(total, asked.dump.total), len(inner), 0),
        ]
    return found, expected


@pair("load_breakdown", "loading events, and first executes less the median of later ones, in plain Python")
def load_breakdown(asked: Asked) -> Sides:
    found = asked.keyed("load_breakdown", "run_index, component, events, total, self_time, share_percent", 2, unit="ns")
    dump = asked.dump
    expected: dict[Any, list[Any]] = {}
    for event in dump.all_events:
        component = event.raw.name if event.kind == "framework" else None
        if event.kind.startswith("delegate") and event.parent is not None and event.parent.raw.name == "Method::init":
            component = "delegate init"
        if component in ("Program::load_method", "Method::init", "delegate init"):
            row = expected.setdefault((event.run, component), [0, 0, 0, None])
            row[:3] = row[0] + 1, row[1] + event.ticks, row[2] + event.own
    for (run, _), row in expected.items():
        loading = expected.get((run, "Program::load_method"))
        row[3] = percent(row[1], loading[1]) if loading else None
    for runs in dump.by_block.values():
        times = [sum(event.ticks for event in dump.executes(run)) for run in runs]
        excess = times[0] - median(times[1:]) if times[1:] else None
        expected[runs[0], "first run excess"] = [1, excess, None, None]
    return found, expected


def judged(asked: Asked) -> dict[int, tuple[bool, bool, float | None]]:
    """For each run with an execute: whether it warms up, whether it is typical, and the median of its typical peers."""
    dump = asked.dump
    found = {}
    for runs in dump.by_block.values():
        first = {min(r for r, scope in asked.scopes.items() if scope == asked.scopes[run]) for run in runs}
        later = [run for run in runs if run not in first]
        by_phase: defaultdict[str | None, list[int]] = defaultdict(list)
        for run in runs:
            by_phase[phase_of(run, len(dump.runs))].append(run)
        for alike in by_phase.values():
            low, high = _fences(dump, [alike, runs], first)
            typical = {
                run for run in alike
                if low == -math.inf
                or ((time := dump.executing[run]) is not None and low <= math.log(max(time, 1)) <= high)
            }  # fmt: skip
            times = [time for run in typical if (time := dump.executing[run]) is not None]
            middle = median(times) if times else None
            for run in alike:
                found[run] = run in first and len(later) >= 3, run in typical, middle
    return found


def _fences(dump: Dump, groups: list[list[int]], first: set[int]) -> tuple[float, float]:
    """The fences of the first group that has enough runs, without those that may warm up."""
    for runs in groups:
        counted = [time for run in runs if run not in first and (time := dump.executing[run]) is not None]
        if len(counted) >= 3:
            return fences([1, *counted])
    return -math.inf, math.inf


@pair("run_times", "first and typical runs by the rules in words, in plain Python")
def run_times(asked: Asked) -> Sides:
    columns = "run_index, name, method, block_index, execute, is_warm_up, is_typical, is_outlier, block_median"
    found = asked.keyed("run_times", columns, 1, unit="ns")
    dump = asked.dump
    return found, {
        (run,): [
            *(dump.runs[run].name, asked.scopes[run], dump.blocks[run], dump.executing[run]),
            *(warms_up, is_typical, not warms_up and not is_typical, middle),
        ]
        for run, (warms_up, is_typical, middle) in judged(asked).items()
    }


@pair("typical_runs", "runs within the fences and beyond them, counted and averaged in plain Python")
def typical_runs(asked: Asked) -> Sides:
    columns = "block_index, method, all_runs, typical, slower, faster, typical_execute, all_execute, other_percent"
    found = asked.keyed("typical_runs", columns, 1, unit="ns")
    dump = asked.dump
    judgements, expected = judged(asked), {}
    for block, runs in dump.by_block.items():
        times = {run: time for run in runs if (time := dump.executing[run]) is not None}
        typical = [times[run] for run in runs if judgements[run][1] and run in times]
        others = [(times[run], judgements[run][2]) for run in runs if not judgements[run][1] and run in times]
        expected[block,] = [
            *(asked.scopes[runs[0]], len(runs), sum(judgements[run][1] for run in runs)),
            *(
                sum(middle is not None and time >= middle for time, middle in others),
                sum(middle is not None and time < middle for time, middle in others),
            ),
            *(sum(typical) / len(typical) if typical else None, sum(times.values()) / len(times) if times else None),
            percent(sum(time for time, _ in others), sum(times.values())),
        ]
    return found, expected


@pair("slow_runs", "own times of slower runs and of typical ones, averaged in plain Python")
def slow_runs(asked: Asked) -> Sides:
    columns = "block_index, phase, op, kind, instruction_id, typical, slow, excess, typical_runs, slow_runs"
    found = asked.keyed("slow_runs", columns, 5, unit="ns")
    dump, judgements = asked.dump, judged(asked)
    sides: defaultdict[Any, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for run, (_, is_typical, middle) in judgements.items():
        time, place = dump.executing[run], (dump.blocks[run], phase_of(run, len(dump.runs)))
        if is_typical:
            sides[place][0].append(run)
        elif time is not None and middle is not None and time >= middle:
            sides[place][1].append(run)
    expected: dict[Any, list[Any]] = {}
    for place, (typical, slow) in sides.items():
        if not typical or not slow:
            continue
        for event in dump.within:
            if (is_slow := event.run in slow) or event.run in typical:
                op, kind = op_of(event, event.label)
                is_none = kind == "framework" or -1 in event.instruction
                key = *place, op, kind, None if is_none else event.raw.instruction_id
                row = expected.setdefault(key, [0, 0, 0, len(typical), len(slow)])
                row[1 if is_slow else 0] += event.own / len(slow if is_slow else typical)
    for row in expected.values():
        row[2] = row[1] - row[0]
    return found, expected


@pair("headline", "medians and percentiles over typical runs, by numpy")
def headline(asked: Asked) -> Sides:
    columns = "number, part, value, low, high, runs"
    found = keyed(asked.rows(f"SELECT {columns} FROM headline($name, unit := 'ns')", name=asked.name), 2)
    dump = asked.dump
    values: defaultdict[Any, list[float]] = defaultdict(list)
    for run, (_, is_typical, _) in judged(asked).items():
        execute, part = dump.executing[run], asked.scopes[run]
        if not is_typical or execute is None:
            continue
        values["execute", part].append(execute)
        if not is_untraced(dump) and execute:
            work = works(dump, run)
            values["framework tax", part].append(100 * (execute - sum(work)) / execute)
            values["delegated time", part].append(100 * work[1] / execute)
    begun: set[str] = set()
    for run, component, total in asked.view("load_breakdown", "run_index, component, total", unit="ns"):
        part = asked.scopes[run]
        if component == "Program::load_method" and total is not None:
            values["load", part].append(total)
        elif component == "first run excess" and part not in begun:
            # The first run of a later block is not a warm-up.
            begun.add(part)
            if total is not None:
                values["first run excess", part].append(total)
    expected = {}
    for key, numbers in values.items():
        low, high = np.quantile(numbers, [0.1, 0.9]) if len(numbers) > 1 else (None, None)
        expected[key] = [median(numbers), low, high, len(numbers)]
    return found, expected


@pair("phase_totals", "executes by the phase of their runs, in plain Python")
def phase_totals(asked: Asked) -> Sides:
    found = asked.keyed(
        "phase_totals", "phase, runs, first_run, last_run, executes, total, per_execute, min, max", 1, unit="ns"
    )
    dump = asked.dump
    phases = [phase_of(run, len(dump.runs)) for run in range(len(dump.runs))]
    expected: dict[Any, list[Any]] = {}
    for phase in dict.fromkeys(phases):
        runs = [run for run, of in enumerate(phases) if of == phase]
        times = [dump.executing[run] for run in runs if run in dump.executing]
        known = [time for time in times if time is not None]
        total = sum(known) if times and len(known) == len(times) else None
        expected[phase,] = [
            *(len(runs), runs[0], runs[-1], len(times), total),
            *(total / len(times) if total is not None else None, min(known, default=None), max(known, default=None)),
        ]
    return found, expected


def phase_of(run: int, runs: int) -> str | None:
    """The phase that the tests give to a run; none if the capture has few runs."""
    if runs < 5:
        return None
    return "prefill" if run == 1 or (run == 6 and runs > 8) else "decode" if run > 1 else None


@pair("decode_trend", "scipy's Theil-Sen line through the decode runs")
def decode_trend(asked: Asked) -> Sides:
    dump = asked.dump
    if len(dump.runs) < 5:
        return [], []
    columns = "run_index, generation, position, execute, slope, intercept, tau"
    found = asked.keyed("decode_trend", columns, 1, unit="ns")
    placed: dict[int, tuple[int, int]] = {}
    generation, position, before = 0, 0, "decode"
    for run in range(len(dump.runs)):
        phase = phase_of(run, len(dump.runs))
        if phase == "decode":
            if before == "prefill":
                generation, position = generation + bool(placed), 0
            placed[run] = generation, position
            position += 1
        before = phase or before
    timed = [(at, time) for run, (_, at) in placed.items() if (time := dump.executing.get(run)) is not None]
    line: list[float | None] = [None, None, None]
    if len({at for at, _ in timed}) > 1:
        x, y = np.array(timed, float).T
        slope, intercept, *_ = theilslopes(y, x, method="joint")
        signs = [np.sign(y[j] - y[i]) for i in range(len(x)) for j in range(len(x)) if x[j] > x[i]]
        line = [slope, intercept, np.mean(signs)]
    return found, {(run,): [*place, dump.executing.get(run), *line] for run, place in placed.items()}


@pair("time_tree", "each node is its own time and the nodes within it, and events are counted once")
def time_tree(asked: Asked) -> Sides:
    columns = "node_index, parent_index, name, kind, calls, self_ticks, total_ticks"
    rows = asked.view("time_tree", columns, by="event")
    within = asking.sums((parent, (total,)) for _, parent, *_, total in rows)
    # The instruction distinguishes calls of one delegate among several.
    found = asking.sums(
        ((re.sub(r"^DELEGATE_CALL @\d+$", "DELEGATE_CALL", name), kind), (calls, own))
        for _, _, name, kind, calls, own, _ in rows
        if kind not in ("total", "method", "run") and calls
    )
    sides = {node: own + within.get(node, [0])[0] for node, *_, own, _ in rows}

    def key(event: Timed) -> Any:
        name, kind = op_of(event, event.family)
        # A node has all of a call, whose events are below it.
        if name == "(delegate unaccounted)":
            return "DELEGATE_CALL", kind
        return name, "rest" if name.startswith("(") else kind

    return [sides, found], [{node: total for node, *_, total in rows}, sums(asked.dump.within, key)]


@pair("key_averages", "calls, own and whole times of all events by family, in plain Python")
def key_averages(asked: Asked) -> Sides:
    columns = "name, calls, self_cpu_time, cpu_time_total, self_cpu_percent, cpu_time_percent, cpu_time_avg"
    found = asked.keyed("key_averages", columns, 1, unit="ns")

    def is_call(event: Timed) -> bool:
        """A call whose only child has its name is one call with the child."""
        parent = event.parent
        return parent is None or parent.family != event.family or len(parent.children) > 1

    grouped = asking.sums(
        (event.family, (is_call(event), event.own, event.ticks * is_call(event))) for event in asked.dump.all_events
    )
    everything = sum(own for _, own, _ in grouped.values())
    return found, {
        (name,): [calls, own, total, percent(own, everything), percent(total, everything), total / calls]
        for name, (calls, own, total) in grouped.items()
    }


@pair("delegate_metadata", "what delegates logged, where it is text of key and value")
def delegate_metadata(asked: Asked) -> Sides:
    found = asked.view("delegate_metadata", "source, field, value, runs")
    logged = sum(1 for event in asked.dump.all_events if event.raw.delegate_debug_metadata)
    return [bool(found) <= bool(logged), all(row[3] <= len(asked.dump.runs) for row in found)], [True, True]
