"""Views of PyTorch traces: against plain Python over their JSON, and against other views' totals."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from statistics import mean, median, quantiles
from typing import Any

from etq.ingest.trace.classes import rules
from tests.gap_reference import gaps
from tests.launch_reference import launch_rows, queues
from tests.pairs.asking import Asked, Sides, keyed, pair, sums
from tests.pairs.json_traces import OPERATORS, OWNERS, Held, Slice, union
from tests.pairs.of_execute import percent
from tests.pass_reference import linked_ops, step_passes
from tests.path_reference import Paths
from tests.source_reference import source_rows
from tests.trace_reference import activity, launches, slices

# The row of key_averages for device events that neither an op nor an annotation launched.
NO_OP = "(no op)"

# Bytes of an element by torch's name of the type.
ELEMENTS = {"Byte": 1, "Half": 2, "BFloat16": 2, "Float": 4, "Int": 4, "Long": 8, "Double": 8}

SOURCES = """calls, launches, host_time, coalesce(device_time, 0), backward_host_time,
    coalesce(backward_device_time, 0)"""

PACKAGES = {
    *sys.stdlib_module_names, "torch", "torchvision", "transformers", "triton", "flashinfer", "numpy", "tqdm",
    "typing_extensions",
}  # fmt: skip

FAMILY = re.compile(r"^ProfilerStep#\d+$")
CPU, GPU = (0, 2, 5), (1, 6, 12, 20)


@pair("events", "slices of the file's JSON, with what each stands in", of="trace")
def events(asked: Asked) -> Sides:
    found = keyed(
        asked.rows(
            """SELECT e.event_index, e.category, e.label, e.family, e.start_ticks, e.duration_ticks, e.parent_index
            FROM events AS e JOIN captures AS c ON c.capture_id = e.capture_id WHERE c.name = $name""",
            name=asked.name,
        ),
        1,
    )
    return found, {
        (each.place,): [
            *(each.category, each.name, each.family, each.start, each.length),
            each.parent and each.parent.place,
        ]
        for each in asked.trace.slices
    }


@pair("event_times", "own times of a thread add up to the time in which it does anything", of="trace")
def event_times(asked: Asked) -> Sides:
    rows = asked.view("event_times", "event_index, total, self_time", unit="ns")
    threads: defaultdict[Any, list[Slice]] = defaultdict(list)
    own: defaultdict[Any, float] = defaultdict(float)
    for place, total, own_time in rows:
        each = asked.trace.by_place[place]
        assert total == each.length
        if not each.is_device and each.category != "Trace":
            own[each.thread] += own_time
            threads[each.thread].append(each)
    covered = {
        thread: union(each for each in slices if each.parent is None) for thread, slices in threads.items()
    }  # fmt: skip
    return dict(own), covered


@pair("key_averages", "calls, times and memory by name as torch counts them, in plain Python", of="trace")
def key_averages(asked: Asked) -> Sides:
    times = "torch_self_cpu_time, torch_cpu_time_total"
    columns = f"name, is_device, calls, {times}, self_cpu_memory, cpu_memory, device_memory"
    found: defaultdict[Any, list[float]] = defaultdict(lambda: [0, 0, 0, 0, 0, 0])
    for name, is_device, *numbers in asked.view("key_averages", columns, unit="ns"):
        if name in ("[memory]", NO_OP):  # rows of no op: memory outside of all ops, and `device_time` below
            continue
        found[name, is_device] = [
            one + (other or 0) for one, other in zip(found[name, is_device], numbers, strict=True)
        ]  # fmt: skip
    trace = asked.trace
    cpu, gpu = (trace.bytes_within(types) for types in (CPU, GPU))
    expected: defaultdict[Any, list[float]] = defaultdict(lambda: [0, 0, 0, 0, 0, 0])
    for each in trace.slices:
        if (call := each.call) is None:
            continue
        row = expected[call.family, call.is_device]
        if each.is_device:
            row[0] += 1
            continue
        row[1] += each.own
        row[3] += cpu[each.place] - sum(cpu[child.place] for child in each.children)
        if call is each:
            row[0] += 1
            row[2] += each.length
            row[4] += cpu[each.place]
            row[5] += gpu[each.place]
    return found, expected


@pair(
    "key_averages",
    "a device's time by its kernels, and by the ops that launched them, is the sum of its events",
    of="trace",
)
def device_time(asked: Asked) -> Sides:
    rows = asked.view("key_averages", "is_device, self_device_time, device_time_total, name", unit="ns")
    ran = asked.trace.work
    everything = sum(each.length for each in ran)
    names = {each.name for each in ran}
    by_kernel = sum(row[1] for row in rows if row[0] and row[3] in names)
    by_op = sum(row[1] or 0 for row in rows if not row[0] and row[3] != NO_OP)
    by_none = sum(row[1] for row in rows if row[3] == NO_OP)
    found = {"by kernel": by_kernel, "by op": by_op, "by no op": by_none}
    by_ops = launched(asked)
    return found, {"by kernel": everything, "by op": by_ops, "by no op": everything - by_ops}


def launched(asked: Asked) -> int:
    """Time of device events by op: by the thread of their launch, or else by the op's id."""
    trace = asked.trace
    calls = trace.launches
    total = 0
    for each in trace.work:
        call = calls.get(each.correlation)
        if call is not None and any(above.category in OWNERS for above in call.above()):
            total += each.length
    return total


@pair("device_idle", "gaps of the JSON's device events, by plain Python", of="trace")
def device_idle(asked: Asked) -> Sides:
    columns = "device, stream, duration, cause, host_op, host_time, hta_cause"
    rows = {by: asked.view("device_idle", columns, unit="ns", by=by) for by in ("device", "stream")}
    expected = {by: [(*row[:2], *row[3:]) for row in gaps(asked.trace.entries, by)] for by in rows}
    return {by: Counter(found) for by, found in rows.items()}, {by: Counter(found) for by, found in expected.items()}


@pair("device_idle_causes", "sums of device_idle", of="trace")
def device_idle_causes(asked: Asked) -> Sides:
    times: defaultdict[Any, list[float]] = defaultdict(list)
    for *key, time in asked.view("device_idle", "device, cause, duration", unit="ns"):
        times[tuple(key)].append(time)
    found = asked.keyed("device_idle_causes", "device, cause, gaps, total, max", 2, unit="ns")
    return found, {key: [len(of), sum(of), max(of)] for key, of in times.items()}


@pair("idle_parts", "the parts of a device's gaps add up to the gaps of device_idle", of="trace")
def idle_parts(asked: Asked) -> Sides:
    found = sums(((row[0],), (row[1],)) for row in asked.view("idle_parts", "device, duration", unit="ns"))
    return found, sums(((row[0],), (row[1],)) for row in asked.view("device_idle", "device, duration", unit="ns"))


@pair("critical_path", "a walk back through the JSON's events, by plain Python", of="trace")
def critical_path(asked: Asked) -> Sides:
    paths = Paths(asked.trace.entries)
    found = asked.view("critical_path", "kind, duration, event_index, op", unit="ns")
    if not paths.work and not paths.activities():
        return found, []
    expected = paths.find(*paths.recording())
    return found, [(each.kind, each.end - each.start, each.place, each.op) for each in expected]


@pair("critical_ops", "sums of critical_path", of="trace")
def critical_ops(asked: Asked) -> Sides:
    expected: Counter[Any] = Counter()
    for kind, op, name, time in asked.view("critical_path", "kind, op, name, duration", unit="ns"):
        named = None if kind.startswith("unknown") else name if op is None else op
        expected[FAMILY.sub("ProfilerStep*", named) if named else named] += time
    return dict(asked.view("critical_ops", "op, total", unit="ns")), dict(expected)


@pair("kernel_launches", "the JSON's device events with their calls", of="trace")
def kernel_launches(asked: Asked) -> Sides:
    found = asked.view("kernel_launches", "event, call, duration, latency", unit="ns")
    return Counter(found), Counter(
        (row[2], row[3], row[9], row[8]) for row in launch_rows(asked.trace.entries).elements()
    )


@pair("annotation_kernels", "the JSON's device events by the innermost annotation around their calls", of="trace")
def annotation_kernels(asked: Asked) -> Sides:
    def annotation(call: Any) -> str | None:
        for one in [] if call is None else call.above():
            if one.name.startswith("ProfilerStep#"):
                return "ProfilerStep*"
            if one.category == "user_annotation":
                return str(one.name)
        return None

    calls = launches(slices(asked.trace.entries)).items()
    return asked.keyed("annotation_kernels", "annotation, event, calls, total", 2, unit="ns"), sums(
        ((annotation(call), each.name), (1, each.end - each.start)) for each, call in calls
    )


@pair("copies", "the JSON's copies and fills with their calls", of="trace")
def copies(asked: Asked) -> Sides:
    columns = "event, call, duration, bytes, bandwidth_gb_per_s, is_pageable, is_synchronous"
    return Counter(asked.view("copies", columns, unit="ns")), Counter(
        (
            *(each.name, None if call is None else call.name, each.end - each.start),
            *(each.arguments.get("bytes"), each.arguments.get("memory bandwidth (GB/s)")),
            *("Pageable" in each.name, None if call is None else call.end >= each.end),
        )
        for each, call in launches(slices(asked.trace.entries)).items()
        if not each.is_kernel
    )


@pair("copy_totals", "sums of copies", of="trace")
def copy_totals(asked: Asked) -> Sides:
    columns = "event, calls, bytes, min_bytes, max_bytes, total, min_gb_per_s, max_gb_per_s, synchronous_calls"
    found = asked.keyed("copy_totals", columns, 1, unit="ns")
    rows: defaultdict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for event, *row in asked.view("copies", "event, bytes, duration, bandwidth_gb_per_s, is_synchronous", unit="ns"):
        rows[(event,)].append(tuple(row))
    expected = {}
    for event, held in rows.items():
        sizes = [row[0] for row in held if row[0] is not None]
        rates = [row[2] for row in held if row[2] is not None]
        expected[event] = [
            *(len(held), sum(sizes) if sizes else None, min(sizes, default=None), max(sizes, default=None)),
            *(sum(row[1] for row in held), min(rates, default=None), max(rates, default=None)),
            sum(bool(row[3]) for row in held),
        ]
    return found, expected


@pair("kernel_sequences", "the JSON's device events launched within the outermost ops", of="trace")
def kernel_sequences(asked: Asked) -> Sides:
    columns = "op, sequence, length, calls, device_time, host_time"
    found = asked.keyed("kernel_sequences", columns, 2, unit="ns", min_length=2)
    within: defaultdict[Any, list[Any]] = defaultdict(list)
    for each, call in launches(slices(asked.trace.entries)).items():
        ops = [] if call is None else [one for one in call.above() if one.is_op]
        if ops:
            within[ops[-1]].append(each)
    rows = []
    for op, events in within.items():
        events.sort(key=lambda each: (each.start, each.place))
        key = op.name, " | ".join(each.name for each in events)
        if len(events) > 1:
            rows.append((key, (1, sum(each.end - each.start for each in events), op.end - op.start)))
    return found, {key: [key[1].count(" | ") + 1, *row] for key, row in sums(rows).items()}


@pair("launch_totals", "sums of kernel_launches", of="trace")
def launch_totals(asked: Asked) -> Sides:
    held: defaultdict[Any, list[Any]] = defaultdict(list)
    for call, *row in asked.view("kernel_launches", "call, duration, is_short, launch_delay", unit="ns"):
        held[(call,)].append(row)
    found = asked.keyed("launch_totals", "call, events, device_time, short_events, max_delay", 1, unit="ns")
    columns = {call: list(zip(*rows, strict=True)) for call, rows in held.items()}
    return found, {
        call: [len(times), sum(times), sum(short), max(0, *delays)] for call, (times, short, delays) in columns.items()
    }


@pair("queue_lengths", "launches less starts so far, in the JSON", of="trace")
def queue_lengths(asked: Asked) -> Sides:
    found: defaultdict[Any, list[tuple[int, float]]] = defaultdict(list)
    for device, stream, length, time in asked.view("queue_lengths", "device, stream, length, duration", unit="ns"):
        found[device, stream].append((length, time))
    return dict(found), queues(asked.trace.entries)


@pair("queue_summary", "lengths of queue_lengths", of="trace")
def queue_summary(asked: Asked) -> Sides:
    columns = "device, stream, changes, mean, max, empty_time, full_time"
    found = asked.keyed("queue_summary", columns, 2, unit="ns", full_length=2)
    expected = {
        stream: [
            *(len(held), sum(length for length, _ in held) / len(held), max(length for length, _ in held)),
            sum(time for length, time in held if length == 0),
            sum(time for length, time in held if length >= 2),
        ]
        for stream, held in queues(asked.trace.entries).items()
    }
    return found, expected


@pair("device_breakdown", "what runs at each time, by plain Python", of="trace")
def device_breakdown(asked: Asked) -> Sides:
    found = asked.keyed("device_breakdown", "device, total, idle, communication", 1, unit="ns")
    return found, {
        (device,): [
            *(ran.total(), ran[frozenset()]),
            sum(time for types, time in ran.items() if "communication" in types),
        ]
        for device, ran in activity(asked.trace.entries).items()
        if ran.total()
    }


@pair("work_types", "adds up to the time in which the device is not idle", of="trace")
def work_types(asked: Asked) -> Sides:
    found = sums((device, (time,)) for device, time in asked.view("work_types", "device, total", unit="ns"))
    ran = activity(asked.trace.entries)
    return found, {device: [times.total() - times[frozenset()]] for device, times in ran.items()}


@pair("work_totals", "the JSON's device events by name", of="trace")
def work_totals(asked: Asked) -> Sides:
    found = asked.keyed("work_totals", "event, calls, total", 1, unit="ns")
    return found, sums(((each.name,), (1, each.length)) for each in asked.trace.work)


@pair("kernel_families", "the JSON's device events by family of their names", of="trace")
def kernel_families(asked: Asked) -> Sides:
    found = asked.keyed("kernel_families", "family, calls, total, tensor_percent", 1, unit="ns")

    def row(each: Slice) -> tuple[Any, tuple[int, ...]]:
        """Its family; one call, its time, and that with matrix units or where it is unknown."""
        if not each.is_kernel:
            return (each.category.lower().removeprefix("gpu_"),), (1, each.length, 0, 0)
        kernel, length = rules().of_kernel(each.name), each.length
        uses = kernel.uses_matrix_units
        return (kernel.family,), (1, length, length if uses else 0, length if uses is None else 0)

    return found, {
        family: [calls, total, percent(used, total) if total and 10 * unknown <= total else None]
        for family, (calls, total, used, unknown) in sums(map(row, asked.trace.work)).items()
    }


@pair("fusable_chains", "runs of the JSON's kernels of torch that follow each other in a stream", of="trace")
def fusable_chains(asked: Asked) -> Sides:
    """By the number of kernels in a chain: how many ran, their time, and what all but the longest took."""
    found: defaultdict[Any, list[float]] = defaultdict(lambda: [0, 0, 0])
    for kernels, *row in asked.view("fusable_chains", "kernels, calls, total, saves_at_most", unit="ns"):
        found[kernels] = [sum(pair) for pair in zip(found[kernels], row, strict=True)]
    steps = asked.trace.steps
    streams: defaultdict[Any, list[Slice]] = defaultdict(list)
    for each in asked.trace.work:
        streams[each.arguments.get("device"), each.arguments.get("stream")].append(each)
    expected: defaultdict[Any, list[float]] = defaultdict(lambda: [0, 0, 0])
    for events in streams.values():
        chain: list[tuple[int | None, int]] = []
        leader: str | None = None
        ordered: list[Slice | None] = [*sorted(events, key=lambda event: (event.start, event.place)), None]
        for kernel in ordered:
            ends = kernel is None or not _is_fusable(kernel)
            launch = None if kernel is None else asked.trace.launches.get(kernel.correlation, kernel)
            run = None if launch is None else _step_of(launch, steps)
            is_whole = ends or (chain and chain[-1][0] != run)
            leader, op = None if is_whole else leader, None if ends else _in_place(launch)
            if is_whole or (op is not None and op == leader):
                if len(chain) > 1:
                    times = [length for _, length in chain]
                    row = [1, sum(times), sum(times) - max(times)]
                    expected[len(chain)] = [sum(pair) for pair in zip(expected[len(chain)], row, strict=True)]
                chain = []
            if kernel is not None and not ends:
                chain.append((run, kernel.length))
                leader = leader or op
    return dict(found), dict(expected)


def _in_place(launch: Slice | None) -> str | None:
    """The op around a launch, if its name says that it works in place."""
    while launch is not None and launch.category not in OPERATORS:
        launch = launch.parent
    return launch.name if launch is not None and launch.name.endswith("_") else None


def _is_fusable(each: Slice) -> bool:
    families = ("elementwise", "reduction")
    return each.is_kernel and "at::native" in each.name and rules().of_kernel(each.name).family in families


def _step_of(each: Slice, steps: list[Slice]) -> int | None:
    return next((place for place, step in enumerate(steps) if step.start <= each.start <= step.end), None)


@pair("collectives", "the JSON's kernels with a collective, by what is written of them", of="trace")
def collectives(asked: Asked) -> Sides:
    columns = "collective, process_group, group_size, message_type, message_bytes, calls, total"
    rows = []
    for each in asked.trace.kernels:
        of = each.arguments
        if "Collective name" in of:
            names = (of[name] for name in ("Collective name", "Process Group Name", "Group size", "dtype"))
            size = max(of["In msg nelems"], of["Out msg nelems"]) * ELEMENTS[of["dtype"]]
            rows.append(((*names, size), (1, each.length)))
    return asked.keyed("collectives", columns, 5, unit="ns"), sums(rows)


@pair("rank_steps", "steps and kernels of the JSON; nothing is known of the waits of a rank alone", of="trace")
def rank_steps(asked: Asked) -> Sides:
    columns = "r.step, r.duration, r.computation + r.communication, r.waited, r.waits_for"
    found = keyed(asked.rows(f"SELECT {columns} FROM rank_steps($name, 'ns') AS r", name=asked.name), 1)
    return found, {(step,): [*times, None, None] for step, times in _rank_steps(asked).items()}


@pair("stragglers", "sums of the JSON's steps; nothing is known of waits for a rank alone", of="trace")
def stragglers(asked: Asked) -> Sides:
    columns = "s.steps, s.waited_for_steps, s.waited_for, s.waited, s.duration"
    found = asked.rows(f"SELECT {columns} FROM stragglers($name, 'ns') AS s", name=asked.name)
    steps = [duration for duration, _ in _rank_steps(asked).values()]
    return found, [(len(steps), 0, None, None, sum(steps))] if steps else []


@pair("jobs", "the JSON's steps; nothing is known of the waits of a rank alone", of="trace")
def jobs(asked: Asked) -> Sides:
    columns = "j.ranks, j.steps, j.step, j.waited_percent, j.last_rank"
    found = asked.rows(f"SELECT {columns} FROM jobs($name, 'ns') AS j", name=asked.name)
    steps = [duration for duration, _ in _rank_steps(asked).values()]
    return found, [(1, len(steps), median(steps), None, None)] if steps else []


@pair(
    "rank_ops", "the JSON's kernels, copies and fills that steps launched, by name; none of communication", of="trace"
)
def rank_ops(asked: Asked) -> Sides:
    query = """
        SELECT o.op, o.calls, o.per_step, o.others FROM rank_ops($name, 'ns') AS o
        WHERE o.place = 'device' AND o.op NOT ILIKE '%ccl%' AND NOT regexp_matches(o.op, '^Mem(cpy|set)')
    """
    number = len(_rank_steps(asked))
    ran = [
        kernel
        for kernel in asked.trace.kernels
        if _is_of_rank(asked) and "ccl" not in kernel.name.lower() and _launching(asked, kernel) is not None
    ]
    expected = sums((kernel.name, (1, kernel.length)) for kernel in ran)
    return keyed(asked.rows(query, name=asked.name), 1), {
        (name,) if isinstance(name, str) else name: [calls, time / number, None]
        for name, (calls, time) in expected.items()
    }


def _launching(asked: Asked, kernel: Slice) -> Slice | None:
    """The step that launched a kernel."""
    call = asked.trace.launches.get(kernel.correlation)
    steps = (step for step in asked.trace.steps if call is not None and step.start <= call.start < step.end)
    return next(steps, None)


@pair("clock_offsets", "a rank alone has nothing to compare its clock with", of="trace")
def clock_offsets(asked: Asked) -> Sides:
    columns = "c.rank, c.collectives, c.clock_offset, c.spread"
    found = asked.rows(f"SELECT {columns} FROM clock_offsets($name) AS c", name=asked.name)
    query = "SELECT try_cast(l.value AS BIGINT) FROM labels AS l JOIN captures AS c USING (capture_id)"
    labels = asked.rows(f"{query} WHERE c.name = $name AND l.key = 'rank'", name=asked.name)
    return found, [(rank, 0, None, None) for (rank,) in labels if rank is not None]


@pair(
    "serving_steps",
    "annotations of the JSON by the names of vLLM and SGLang, those within another left out",
    of="trace",
)
def serving_steps(asked: Asked) -> Sides:
    return asked.view("serving_steps", "name, host_time", unit="ns"), _served(asked)


@pair("serving_phases", "the number of these annotations and their time", of="trace")
def serving_phases(asked: Asked) -> Sides:
    found = sums(("", row) for row in asked.view("serving_phases", "steps, host_time", unit="ns"))
    return found, sums(("", (1, time)) for _, time in _served(asked))


def _served(asked: Asked) -> list[tuple[str, int]]:
    name = re.compile(r"execute_(\d+_)?context_\d.*_generation_\d+\(.*\)|execute_new_\d+_cached_\d+|step\[\w+ bs=.*\]")
    found = [
        each
        for each in asked.trace.slices
        if each.category == "user_annotation" and name.fullmatch(each.name) and not each.is_device
    ]
    return [(each.name, each.length) for each in sorted(found, key=lambda each: each.start) if not _within(each, found)]


def _within(each: Slice, others: list[Slice]) -> bool:
    return any(above in others for above in each.above())


@pair(
    "collective_waits", "the JSON's kernels of collectives; nothing is known of the waits of a rank alone", of="trace"
)
def collective_waits(asked: Asked) -> Sides:
    columns = "process_group, collective, kernels, total, known, waited, transfer, link_percent"
    found = asked.rows(f"SELECT {columns} FROM collective_waits($name, unit := 'ns')", name=asked.name)
    assert all(unknown == [0, None, None, None] for _, _, _, _, *unknown in found)
    kernels = asked.trace.kernels if _is_of_rank(asked) else []
    return sums((row[:2], row[2:4]) for row in found), sums(
        ((each.arguments["Process Group Name"], each.arguments["Collective name"]), (1, each.length))
        for each in kernels
        if "Process Group Name" in each.arguments
    )


def _is_of_rank(asked: Asked) -> bool:
    query = (
        "SELECT l.value FROM labels AS l JOIN captures AS c USING (capture_id) WHERE c.name = $name AND l.key = 'rank'"
    )
    return bool(asked.rows(query, name=asked.name))


def _rank_steps(asked: Asked) -> dict[int, tuple[int, int]]:
    """Duration and time of kernels launched, by step; none if the trace is not of a rank."""
    found = {}
    for each in asked.trace.steps if _is_of_rank(asked) else ():
        calls = ((kernel, asked.trace.launches.get(kernel.correlation)) for kernel in asked.trace.kernels)
        ran = [kernel.length for kernel, call in calls if call is not None and each.start <= call.start < each.end]
        found[int(each.name.split("#")[1])] = each.length, sum(ran)
    return found


@pair("op_efficiency", "the time of all device events, and products by the sizes in the JSON", of="trace")
def op_efficiency(asked: Asked) -> Sides:
    """Sizes of products are those of the ops as the file has them: 2 M K N operations."""
    rows = asked.view("op_efficiency", "op, shapes, calls, total, flops", unit="ns")
    products = {"aten::mm": (0, 1), "aten::addmm": (1, 2)}
    found: dict[Any, Any] = {(op, shapes): flops for op, shapes, _, _, flops in rows if op in products and shapes}
    expected: dict[Any, Any] = {}
    for op, shapes in found:
        first, second = (json.loads(shapes)[place] for place in products[op])
        expected[op, shapes] = 2 * first[0] * first[1] * second[1]
    if ran := asked.trace.work:
        found["devices"], expected["devices"] = sum(row[3] for row in rows), sum(each.length for each in ran)
    return found, expected


@pair("step_efficiency", "the sums of step_breakdown, and the time of what each step launched in the JSON", of="trace")
def step_efficiency(asked: Asked) -> Sides:
    expected: defaultdict[Any, list[float]] = defaultdict(lambda: [0, 0])
    for step, time in asked.view("step_breakdown", "step, time", unit="ns"):
        expected[(step,)][0] += time
    for step in asked.trace.steps:
        calls = ((work, asked.trace.launches.get(work.correlation)) for work in asked.trace.work)
        ran = [work.length for work, call in calls if call is not None and step.start <= call.start < step.end]
        if (key := (int(step.name.split("#")[1]),)) in expected:
            expected[key][1] += sum(ran)
    has_work = bool(asked.trace.work and asked.trace.steps)
    rows = asked.view("step_efficiency", "step, total, coalesce(device_time, 0)", unit="ns")
    found = {(step,): [total, time if has_work else 0] for step, total, time in rows}
    return found, dict(expected)


@pair("kernel_table", "calls, times and weighted means by name of the JSON's kernels", of="trace")
def kernel_table(asked: Asked) -> Sides:
    columns = "kernel, calls, total, per_call, max, min, blocks_per_sm, occupancy_percent"
    by_name: defaultdict[str, list[Slice]] = defaultdict(list)
    for each in asked.trace.kernels:
        by_name[each.name].append(each)
    blocks, occupancy = "blocks per SM", "est. achieved occupancy %"
    known = {
        blocks: any(each.arguments.get(blocks, 0) > 0 for each in asked.trace.kernels),
        occupancy: any(occupancy in each.arguments for each in asked.trace.kernels),
    }
    expected = {}
    for name, ran in by_name.items():
        times = [each.length for each in ran]
        means = [
            sum(each.length * float(each.arguments.get(key) or 0) for each in ran) / (sum(times) or 1)
            if is_known
            else None
            for key, is_known in known.items()
        ]
        expected[name,] = [len(ran), sum(times), sum(times) / len(ran), max(times), min(times), *means]
    return asked.keyed("kernel_table", columns, 1, unit="ns"), expected


@pair("timeline", "time of each track is that of the JSON's slices of its process and thread", of="trace")
def timeline(asked: Asked) -> Sides:
    rows = asked.rows(
        """SELECT h.process, h.thread, count(*), sum(t.duration), max(t.depth)
        FROM timeline($name, unit := 'ns') AS t JOIN captures AS c ON c.name = $name
        JOIN threads AS h ON h.capture_id = c.capture_id AND h.thread_index = t.thread_index GROUP BY ALL""",
        name=asked.name,
    )
    tracks: defaultdict[Any, list[Slice]] = defaultdict(list)
    for each in asked.trace.slices:
        tracks[each.thread].append(each)
    return keyed(rows, 2), {
        track: [len(slices), sum(each.length for each in slices), max(_depth(each) for each in slices)]
        for track, slices in tracks.items()
    }


def _depth(each: Slice) -> int:
    depth = 0
    while each.parent is not None:
        depth, each = depth + 1, each.parent
    return depth


@pair("operator_table", "calls and host times of ops as the plug-in's tree counts them, in plain Python", of="trace")
def operator_table(asked: Asked) -> Sides:
    found = asked.keyed("operator_table", "name, calls, host_total_time", 1, unit="ns")
    calls = (call.slice for call in asked.trace.calls if call.is_operator)
    return found, sums(((each.name,), (1, each.length)) for each in calls)


@pair("operator_table", "host times without the ops within and the calls of the runtime, in plain Python", of="trace")
def operators_alone(asked: Asked) -> Sides:
    rows = asked.view("operator_table", "name, host_self_time, host_total_time", unit="ns")
    if any(asked.trace.device):
        # Ids determine which calls belong to an op, so only bounds are checked: from 0 to the op's total time.
        return [0 <= own <= whole for _, own, whole in rows], [True] * len(rows)
    calls = [call for call in asked.trace.calls if call.is_operator]
    return {name: [own] for name, own, _ in rows}, sums(
        (call.slice.name, (call.slice.length - sum(each.slice.length for each in call.innermost.within),))
        for call in calls
    )


@pair("module_tree", "calls and whole times of modules within modules, in plain Python", of="trace")
def module_tree(asked: Asked) -> Sides:
    found = asked.keyed("module_tree", "module_path, calls, operators, host_total_time", 1, unit="ns")
    modules = (call for call in asked.trace.calls if call.slice.name.startswith("nn.Module: "))
    return found, sums(
        ((_path(call),), (1, sum(each.is_operator for each in call.within), call.slice.length)) for call in modules
    )


def _path(call: Held) -> str:
    name, above = call.slice.name.removeprefix("nn.Module: "), call.above
    while above is not None and not above.slice.name.startswith("nn.Module: "):
        above = above.above
    return name if above is None else f"{_path(above)}/{name}"


@pair(
    "step_breakdown", "a step's categories add up to it, and are what lasts longest of what stands before", of="trace"
)
def step_breakdown(asked: Asked) -> Sides:
    rows = asked.view("step_breakdown", "run_index, category, time, share_percent", unit="ns")
    steps: defaultdict[int, dict[str, float]] = defaultdict(dict)
    shares: defaultdict[int, float] = defaultdict(float)
    for run, category, time, share in rows:
        steps[run][category] = time
        shares[run] += share or 0
    trace = asked.trace
    written = sorted(trace.steps, key=lambda each: each.start)
    ops = [each for each in trace.slices if each.category in ("cpu_op", "Operator", "Python")]
    found: dict[str, Any] = {
        "shares": [
            round(share, 6) for share, step in zip(shares.values(), steps.values(), strict=True) if any(step.values())
        ]
    }
    expected: dict[str, Any] = {"shares": [100.0] * len(found["shares"])}
    if not trace.kernels and not any(trace.device) and ops:
        spans = [(each.start, each.end) for each in written] or [
            (min(each.start for each in ops), max(each.end for each in ops))
        ]
        calls = [each for each in trace.slices if each.is_call]
        loading = [each for each in trace.host if each.name.startswith("enumerate(Data")]
        step_times = {run: (sum(step.values()), step["CPU Exec"]) for run, step in steps.items()}
        talking = [each for each in trace.host if each.name.startswith(("nccl:", "gloo:"))]
        found["steps"] = list(step_times.values())
        other = [*calls, *loading, *talking]
        expected["steps"] = [
            (end - start, union([*ops, *other], start, end) - union(other, start, end)) for start, end in spans
        ]
    return found, expected


@pair("wide_steps", "the rows of step_breakdown, and their sums", of="trace")
def wide_steps(asked: Asked) -> Sides:
    columns = "run_index, total, kernel, memcpy, memset, communication, runtime, data_loader, cpu_exec, other"
    expected: defaultdict[Any, list[float]] = defaultdict(list)
    for run, time in asked.view("step_breakdown", "run_index, time", unit="ns"):
        expected[(run,)].append(time)
    found = asked.keyed("wide_steps", columns, 1, unit="ns")
    return found, {run: [sum(times), *times] for run, times in expected.items()}


@pair("passes", "what the host is in at each time, and what contains each launch, in plain Python", of="trace")
def passes(asked: Asked) -> Sides:
    found = asked.keyed("passes", "step, pass, host_time, device_events", 2, unit="ns", by="step")
    return found, {at: list(row) for at, row in step_passes(asked.trace).items()}


@pair("backward_times", "functions of autograd with the last op that has their number", of="trace")
def backward_times(asked: Asked) -> Sides:
    columns = "op, backward, backward_calls, backward_host_time, forward_calls, forward_host_time"
    found = asked.keyed("backward_times", columns, 2, unit="ns", by="op")
    return found, {at: list(row) for at, row in linked_ops(asked.trace).items()}


@pair("trace_sources", "the innermost function of the user's around each event and launch, in plain Python", of="trace")
def trace_sources(asked: Asked) -> Sides:
    found = asked.keyed("trace_sources", f"source, function, {SOURCES}", 2, unit="ns")
    return found, source_rows(asked.trace, _is_own)


def _is_own(file: str) -> bool:
    """Whether a file is the user's, of the packages that traces of the tests have."""
    package = file.split("/", maxsplit=1)[0].removesuffix(".py")
    return package not in PACKAGES and not file.startswith("<") and "/torchinductor_" not in file


@pair("average_step", "means of the steps of step_breakdown", of="trace")
def average_step(asked: Asked) -> Sides:
    found = asked.keyed("average_step", "category, steps, time, share_percent", 1, unit="ns")
    rows = asked.view("step_breakdown", "run_index, category, time", unit="ns")
    steps = len({row[0] for row in rows})
    times = sums((of, (time,)) for _, category, time in rows for of in (category, "Step"))
    return found, {
        (category,): [steps, time / steps, percent(time, times["Step"][0])] for category, [time] in times.items()
    }


@pair("step_headline", "the spread of wide_steps, and the step that changes their mean", of="trace")
def step_headline(asked: Asked) -> Sides:
    columns = "steps, median, mean, low, high, annotation, far_step, far_time, mean_of_others"
    [found] = asked.view("step_headline", columns, unit="ns")
    rows = asked.view("wide_steps", "step, total, host", unit="ns") if asked.trace.steps else []
    if not rows:
        return list(found), [None] * 9
    totals = [total for _, total, _ in rows]
    count, middle = len(rows), median(totals)
    far = [None, None, None]
    if count > 2:
        step, total, _ = max(rows, key=lambda row: abs(row[1] - middle))
        others = (sum(totals) - total) / (count - 1)
        if abs(mean(totals) - others) > 0.05 * others:
            far = [step, total, others]
    tenths = quantiles(totals, n=10, method="inclusive") if count > 1 else [None] * 9
    return list(found), [count, middle, mean(totals), tenths[0], tenths[8], mean(host for *_, host in rows), *far]


@pair("gpu_utilization", "time in which a device runs any kernel, from the first step to the last", of="trace")
def gpu_utilization(asked: Asked) -> Sides:
    found = asked.keyed("gpu_utilization", "device, kernels, utilization_percent", 1)
    steps = steps_of(asked)
    start, end = (steps[0][0], steps[-1][1]) if steps else (0, 0)
    return found, {
        (device,): [len(ran), 100 * union(ran, start, end) / (end - start)]
        for device, ran in (asked.trace.by_device if steps else {}).items()
    }


@pair("step_breakdown", "steps last until what they launched has ended, and the next begins there", of="trace")
def step_lengths(asked: Asked) -> Sides:
    found = sums((run, (time,)) for run, time in asked.view("step_breakdown", "run_index, time", unit="ns"))
    return [time for [time] in found.values()], [end - start for start, end in steps_of(asked)]


def steps_of(asked: Asked) -> list[tuple[int, int]]:
    """Begin and end of the steps shown. A step begins when the previous one and its launched events have ended."""
    trace = asked.trace
    shown = len({row[0] for row in asked.view("step_breakdown", "run_index")})
    written = sorted((each.start, each.end) for each in trace.steps)
    ops = [each for each in trace.slices if each.category in ("cpu_op", "Operator", "Python")]
    steps = written or ([(min(each.start for each in ops), max(each.end for each in ops))] if ops else [])
    launched: dict[Slice, tuple[int, int]] = {}
    for each in trace.work:
        call = trace.launches.get(each.correlation)
        step = max((step for step in steps if call is not None and step[0] <= call.start), default=None)
        if call is not None and step is not None and call.end <= step[1]:
            launched[each] = step
    first = min((each.start for each, step in launched.items() if step == steps[0]), default=0)
    reached = max((each.end for each in trace.work if each not in launched and each.end < first), default=0)
    found = []
    for step in steps[:shown]:
        begin = max(step[0], reached)
        reached = max(step[1], reached, *(each.end for each, of in launched.items() if of == step))
        found.append((begin, reached))
    return found


@pair("tensor_core_use", "the JSON's kernels of computation, by their names", of="trace")
def tensor_core_use(asked: Asked) -> Sides:
    found = asked.keyed("tensor_core_use", "device, kernels, kernel_time, tensor_time", 1, unit="ns")
    kernels = ((each, rules().of_kernel(each.name)) for each in asked.trace.kernels)
    return found, sums(
        ((each.arguments["device"],), (1, each.length, each.length * bool(of.uses_matrix_units)))
        for each, of in kernels
        if of.family != "communication"
    )


@pair("gpu_metrics", "each device's buckets add up to the time in which it runs any kernel", of="trace")
def gpu_metrics(asked: Asked) -> Sides:
    rows = asked.view("gpu_metrics", "device, metric, duration, value_percent", unit="ns")
    found = sums((device, (time * value / 100,)) for device, metric, time, value in rows if metric == "utilization")
    return found, {device: [union(ran)] for device, ran in asked.trace.by_device.items()}


@pair("memory_timeline", "allocations of the JSON in their order, and the most so far", of="trace")
def memory_timeline(asked: Asked) -> Sides:
    found = asked.view("memory_timeline", "device, bytes, allocated_bytes, reserved_bytes, peak_bytes")
    expected: list[tuple[Any, ...]] = []
    peaks: dict[str, int] = {}
    for _, _, of, _ in asked.trace.memory:
        device, allocated = _memory_device(of), of["Total Allocated"]
        peaks[device] = max(peaks.get(device, allocated), allocated)
        expected.append((device, of["Bytes"], allocated, of["Total Reserved"], peaks[device]))
    return found, sorted(expected, key=lambda row: str(row[0]))


def _memory_device(arguments: dict[str, Any]) -> str:
    return "CPU" if arguments["Device Type"] == 0 else f"GPU{arguments['Device Id']}"


@pair(
    "trace_memory_stats",
    "what was allocated and released while an op was its thread's innermost, in plain Python",
    of="trace",
)
def trace_memory_stats(asked: Asked) -> Sides:
    columns = "device, name, calls, self_allocations, self_allocated_bytes, self_increase_bytes, increase_bytes"
    found = asked.keyed("trace_memory_stats", columns, 2)
    calls = Counter(call.slice.name for call in asked.trace.calls if call.is_operator)
    rows: list[tuple[Any, tuple[int, ...]]] = []
    for _, at, arguments, thread in asked.trace.memory:
        call: Held | None = _innermost(asked.trace.tree, at, thread)
        while call is not None and call.above is not None and call.above.only is call:
            call = call.above
        if call is None or not call.is_operator:
            continue
        device, size = _memory_device(arguments), arguments["Bytes"]
        rows.append(((device, call.slice.name), (int(size > 0), max(size, 0), size, 0)))
        around = set()
        while call is not None:
            if call.is_operator and (call.above is None or call.above.only is not call):
                around.add(call.slice.name)
            call = call.above
        rows += [((device, name), (0, 0, 0, size)) for name in around]
    return found, {
        (device, name): [calls[name], *row] for (device, name), row in sums(rows).items()
        if row[0] or row[2] or row[3] or (device, name) in found
    }  # fmt: skip


def _innermost(tree: Iterable[Held], at: int, thread: Any) -> Held | None:
    around = [each for each in tree if each.slice.thread == thread and each.slice.start <= at < each.slice.end]
    return min(around, key=lambda each: (each.slice.length, -each.slice.start, -each.slice.place), default=None)


@pair("peak_memory", "what is allocated and not released when most is in use, in plain Python", of="trace")
def peak_memory(asked: Asked) -> Sides:
    found = asked.keyed("peak_memory", "device, op, step, peak_bytes, allocations, held_bytes", 3)
    expected: dict[Any, list[Any]] = {}
    for device in {_memory_device(each[2]) for each in asked.trace.memory}:
        events = [each for each in asked.trace.memory if _memory_device(each[2]) == device]
        allocated = [arguments["Total Allocated"] for _, _, arguments, _ in events]
        live = _live(events[: allocated.index(max(allocated)) + 1])
        rows = sums(
            ((_allocating_op(asked, at, thread), _step_at(asked, at)), (1, size)) for _, size, at, thread in live
        )
        expected |= {(device, *key): [max(allocated), *row] for key, row in rows.items()}
        if (unseen := max(allocated) - sum(size for _, size, _, _ in live)) > 0:
            expected[device, "(before the recording)", None] = [max(allocated), None, unseen]
    return found, expected


def _live(events: Iterable[Any]) -> list[tuple[str, int, int, Any]]:
    """What is allocated and not released after these: device, bytes, time and thread."""
    found: dict[Any, tuple[str, int, int, Any]] = {}
    for _, at, arguments, thread in events:
        device = _memory_device(arguments)
        found.pop((device, arguments["Addr"]), None)
        if arguments["Bytes"] > 0:
            found[device, arguments["Addr"]] = device, arguments["Bytes"], at, thread
    return list(found.values())


def _held_at_ends(asked: Asked) -> tuple[list[str], dict[tuple[int, str, str | None], list[Any]]]:
    """The ends of the steps, and the memory held then: allocations and bytes by step, device and op."""
    ends: dict[str, int] = {}
    for each in asked.trace.steps:
        if each.category in ("cpu_op", "Operator", "user_annotation"):
            ends[each.name] = max(each.end, ends.get(each.name, each.end))
    ops = [each.end for each in asked.trace.host if each.category in ("cpu_op", "Operator")]
    if not ends and ops:
        ends = {"#0": max(ops)}
    names = sorted(ends, key=lambda name: ends[name])
    held = sums(
        ((number, device, _allocating_op(asked, at, thread)), (1, size))
        for number, name in enumerate(names, 1)
        for device, size, at, thread in _live(each for each in asked.trace.memory if each[1] <= ends[name])
    )
    return names, held


@pair("held_memory", "what is allocated and not released at the end of steps, in plain Python", of="trace")
def held_memory(asked: Asked) -> Sides:
    rows = asked.view("held_memory", "step, device, op, allocations, held_bytes")
    names, held = _held_at_ends(asked)
    found = {row[:3]: row[3:] for row in rows if row[3]}
    return found, {(int(names[at - 1].split("#")[1]), *key): row for (at, *key), row in held.items()}


@pair("memory_leaks", "what is held at the end of the first and the last step, in plain Python", of="trace")
def memory_leaks(asked: Asked) -> Sides:
    columns = "device, op, steps, growing_steps, is_leak, first_bytes, last_bytes, growth_bytes, allocations"
    names, held = _held_at_ends(asked)
    expected = {}
    for device, op in {key[1:] for key in held}:
        sizes = [held.get((number, device, op), (0, 0)) for number in range(1, len(names) + 1)]
        grows = sum(after > before for (_, before), (_, after) in pairwise(sizes))
        first, last = sizes[0][1], sizes[-1][1]
        is_leak = grows == len(names) - 1 if len(names) > 2 else None
        expected[device, op] = [len(names), grows, is_leak, first, last, last - first, sizes[-1][0]]
    return asked.keyed("memory_leaks", columns, 2), expected


def _allocating_op(asked: Asked, at: int, thread: Any) -> str | None:
    ops = (each for each in asked.trace.tree if not each.slice.name.startswith("ProfilerStep#"))
    found = _innermost(ops, at, thread)
    return None if found is None else found.slice.name


def _step_at(asked: Asked, at: int) -> int | None:
    steps = (each for each in asked.trace.steps if each.start <= at)
    begun = max(steps, key=lambda each: each.start, default=None)
    return int(begun.name.split("#")[1]) if begun is not None and at < begun.end else None


@pair("time_tree", "time of the host's slices, each once, is that of the outermost", of="trace")
def time_tree(asked: Asked) -> Sides:
    rows = asked.view("time_tree", "kind, depth, calls, self_ticks, total_ticks")
    if not rows:
        return [], []
    own = sum(row[3] for row in rows)
    roots = sum(each.length for each in asked.trace.host if each.parent is None)
    return [rows[0][4], own], [roots, roots]
