"""What PyTorch's traces tell: against plain Python over their JSON, and against the same time counted elsewhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.pairs.asking import Asked, Sides, keyed, pair
from tests.pairs.json_traces import COPIES, KERNELS, RUNTIME, Held, Slice, union
from tests.pairs.of_execute import percent

# The row of key_averages of device events that neither an op nor an annotation launched.
NO_OP = "(no op)"

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
    rows = asked.view("event_times", "event_index, inclusive, exclusive", unit="ns")
    threads: defaultdict[Any, list[Slice]] = defaultdict(list)
    own: defaultdict[Any, float] = defaultdict(float)
    for place, inclusive, exclusive in rows:
        each = asked.trace.by_place[place]
        assert inclusive == each.length
        if not each.is_device and each.category != "Trace":
            own[each.thread] += exclusive
            threads[each.thread].append(each)
    # What begins within another and ends behind it is counted once for itself.
    roots = {
        thread: sum(each.length for each in slices if each.parent is None) for thread, slices in threads.items()
    }  # fmt: skip
    return dict(own), roots


@pair("key_averages", "calls, times and memory by name as torch counts them, in plain Python", of="trace")
def key_averages(asked: Asked) -> Sides:
    columns = "name, is_device, calls, self_cpu_time, cpu_time_total, self_cpu_memory, cpu_memory, device_memory"
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
    ran = [each for each in asked.trace.device if each.category in KERNELS | COPIES]
    everything = sum(each.length for each in ran)
    names = {each.name for each in ran}
    by_kernel = sum(row[1] for row in rows if row[0] and row[3] in names)
    by_op = sum(row[1] or 0 for row in rows if not row[0] and row[3] != NO_OP)
    by_none = sum(row[1] for row in rows if row[3] == NO_OP)
    found = {"by kernel": by_kernel, "by op": by_op, "by no op": by_none}
    by_ops = launched(asked)
    return found, {"by kernel": everything, "by op": by_ops, "by no op": everything - by_ops}


def launched(asked: Asked) -> int:
    """Time of what a device ran that stands in an op, by its launch on a thread, or else by the op's id."""
    trace = asked.trace
    calls = trace.launches
    total = 0
    for each in trace.device:
        if each.category not in KERNELS | COPIES:
            continue
        call = calls.get(each.correlation)
        above = call.parent if call is not None else None
        while above is not None and above.category not in ("cpu_op", "Operator", "user_annotation"):
            above = above.parent
        total += each.length if above is not None else 0
    return total


@pair("kernel_table", "calls, times and weighted means by name of the JSON's kernels", of="trace")
def kernel_table(asked: Asked) -> Sides:
    columns = "kernel, calls, total, mean, max, min, blocks_per_sm, occupancy_percent"
    found = keyed(asked.view("kernel_table", columns, unit="ns"), 1)
    by_name: defaultdict[str, list[Slice]] = defaultdict(list)
    for each in asked.trace.kernels:
        by_name[each.name].append(each)
    said = {key: [_said(each, key) for each in asked.trace.kernels] for key in ("blocks", "occupancy")}
    told = {
        "blocks": any(each is not None and each > 0 for each in said["blocks"]),
        "occupancy": any(each is not None and each >= 0 for each in said["occupancy"]),
    }
    expected = {}
    for name, ran in by_name.items():
        lengths = [each.length for each in ran]
        means = [
            (sum(each.length * (_said(each, key) or 0) for each in ran) / (sum(lengths) or 1)) if told[key] else None
            for key in ("blocks", "occupancy")
        ]
        expected[name,] = [len(ran), sum(lengths), sum(lengths) / len(ran), max(lengths), min(lengths), *means]
    return found, expected


def _said(each: Slice, key: str) -> float | None:
    found = each.arguments.get({"blocks": "blocks per SM", "occupancy": "est. achieved occupancy %"}[key])
    return None if found is None else float(found)


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
        tracks[tuple(map(str, each.thread))].append(each)
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
    rows = asked.view("operator_table", "name, calls, host_total_time", unit="ns")
    expected: defaultdict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for call in asked.trace.calls:
        if call.is_operator:
            row = expected[call.slice.name,]
            row[0] += 1
            row[1] += call.slice.length
    return keyed(rows, 1), expected


@pair("operator_table", "host times without the ops within and the calls of the runtime, in plain Python", of="trace")
def operators_alone(asked: Asked) -> Sides:
    rows = asked.view("operator_table", "name, host_self_time", unit="ns")
    if any(asked.trace.device):
        # Which calls are an op's is told by ids: no time is below 0 or above the whole.
        wholes = asked.view("operator_table", "name, host_total_time", unit="ns")
        return [0 <= row[1] <= whole[1] for row, whole in zip(rows, wholes, strict=True)], [True] * len(rows)
    expected: defaultdict[str, int] = defaultdict(int)
    for call in asked.trace.calls:
        if call.is_operator:
            within = sum(each.slice.length for each in call.innermost.within)
            expected[call.slice.name] += call.slice.length - within
    return dict(rows), expected


@pair("module_tree", "calls and whole times of modules within modules, in plain Python", of="trace")
def module_tree(asked: Asked) -> Sides:
    found = keyed(asked.view("module_tree", "module_path, calls, operators, host_total_time", unit="ns"), 1)
    expected: defaultdict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    for call in asked.trace.calls:
        if call.slice.name.startswith("nn.Module: "):
            row = expected[(_path(call),)]
            row[0] += 1
            row[1] += sum(1 for each in call.within if each.is_operator)
            row[2] += call.slice.length
    return found, expected


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
    written = sorted(
        (each for each in trace.host if each.name.startswith("ProfilerStep#")), key=lambda each: each.start
    )
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
        calls = [each for each in trace.slices if each.category in RUNTIME]
        loading = [each for each in trace.host if each.name.startswith("enumerate(Data")]
        told = {run: (sum(step.values()), step["CPU Exec"]) for run, step in steps.items()}
        talking = [each for each in trace.host if each.name.startswith(("nccl:", "gloo:"))]
        found["steps"] = list(told.values())
        other = [*calls, *loading, *talking]
        expected["steps"] = [
            (end - start, union([*ops, *other], start, end) - union(other, start, end)) for start, end in spans
        ]
    return found, expected


@pair("average_step", "means of the steps of step_breakdown", of="trace")
def average_step(asked: Asked) -> Sides:
    found = keyed(asked.view("average_step", "category, steps, time, share_percent", unit="ns"), 1)
    rows = asked.view("step_breakdown", "run_index, category, time", unit="ns")
    steps = len({row[0] for row in rows})
    if not steps:
        return found, {}
    sums: defaultdict[str, float] = defaultdict(float)
    for _, category, time in rows:
        sums[category] += time
        sums["Step"] += time
    return found, {(category,): [steps, time / steps, percent(time, sums["Step"])] for category, time in sums.items()}


@pair("gpu_utilization", "time in which a device runs any kernel, from the first step to the last", of="trace")
def gpu_utilization(asked: Asked) -> Sides:
    found = keyed(asked.view("gpu_utilization", "device, kernels, utilization_percent"), 1)
    trace = asked.trace
    steps = steps_of(asked)
    if not steps:
        return found, {}
    start, end = steps[0][0], steps[-1][1]
    by_device: defaultdict[int, list[Slice]] = defaultdict(list)
    for each in trace.kernels:
        by_device[each.arguments["device"]].append(each)
    return found, {
        (device,): [len(ran), 100 * union(ran, start, end) / (end - start)] for device, ran in by_device.items()
    }


@pair("step_breakdown", "steps last until what they launched has ended, and the next begins there", of="trace")
def step_lengths(asked: Asked) -> Sides:
    found: defaultdict[int, float] = defaultdict(float)
    for run, time in asked.view("step_breakdown", "run_index, time", unit="ns"):
        found[run] += time
    return list(found.values()), [end - start for start, end in steps_of(asked)]


def steps_of(asked: Asked) -> list[tuple[int, int]]:
    """Begin and end of the steps that are shown, from when each is free of the one before to when all it launched ended."""
    trace = asked.trace
    shown = len({row[0] for row in asked.view("step_breakdown", "run_index")})
    written = sorted((each.start, each.end) for each in trace.host if each.name.startswith("ProfilerStep#"))
    ops = [each for each in trace.slices if each.category in ("cpu_op", "Operator", "Python")]
    steps = written or ([(min(each.start for each in ops), max(each.end for each in ops))] if ops else [])
    launched: dict[Slice, tuple[int, int]] = {}
    ran = [each for each in trace.device if each.category in KERNELS | COPIES]
    for each in ran:
        call = trace.launches.get(each.correlation)
        step = max((step for step in steps if call is not None and step[0] <= call.start), default=None)
        if call is not None and step is not None and call.end <= step[1]:
            launched[each] = step
    first = min((each.start for each, step in launched.items() if step == steps[0]), default=0)
    reached = max((each.end for each in ran if each not in launched and each.end < first), default=0)
    found = []
    for step in steps[:shown]:
        begin = max(step[0], reached)
        reached = max(step[1], reached, *(each.end for each, of in launched.items() if of == step))
        found.append((begin, reached))
    return found


@pair("gpu_metrics", "each device's buckets add up to the time in which it runs any kernel", of="trace")
def gpu_metrics(asked: Asked) -> Sides:
    found: defaultdict[int, float] = defaultdict(float)
    for device, metric, duration, value in asked.view(
        "gpu_metrics", "device, metric, duration, value_percent", unit="ns"
    ):
        if metric == "utilization":
            found[device] += duration * value / 100
    by_device: defaultdict[int, list[Slice]] = defaultdict(list)
    for each in asked.trace.kernels:
        by_device[each.arguments["device"]].append(each)
    return found, {device: union(ran) for device, ran in by_device.items()}


@pair("memory_timeline", "allocations of the JSON in their order, and the most so far", of="trace")
def memory_timeline(asked: Asked) -> Sides:
    found = asked.view("memory_timeline", "device, bytes, allocated_bytes, reserved_bytes, peak_bytes")
    expected = []
    peaks: dict[str, int] = {}
    for place, at, said, _ in sorted(asked.trace.memory, key=lambda each: (each[1], each[0])):
        device = _memory_device(said)
        peaks[device] = max(peaks.get(device, said["Total Allocated"]), said["Total Allocated"])
        expected.append(
            (device, at, place, said["Bytes"], said["Total Allocated"], said["Total Reserved"], peaks[device])
        )
    return found, [(row[0], *row[3:]) for row in sorted(expected)]


def _memory_device(said: dict[str, Any]) -> str:
    return "CPU" if said["Device Type"] == 0 else f"GPU{said['Device Id']}"


@pair(
    "trace_memory_stats",
    "what was allocated and released while an op was its thread's innermost, in plain Python",
    of="trace",
)
def trace_memory_stats(asked: Asked) -> Sides:
    columns = "device, name, calls, self_allocations, self_allocated_bytes, self_increase_bytes, increase_bytes"
    found = keyed(asked.view("trace_memory_stats", columns), 2)
    trace = asked.trace
    calls = Counter(call.slice.name for call in trace.calls if call.is_operator)
    sums: defaultdict[Any, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for _, at, said, thread in trace.memory:
        around = [
            each for each in trace.tree if each.slice.thread == thread and each.slice.start <= at < each.slice.end
        ]
        if not around:
            continue
        innermost = min(around, key=lambda each: (each.slice.length, -each.slice.start, -each.slice.place))
        call = innermost
        while call.above is not None and call.above.only is call:
            call = call.above
        device = _memory_device(said)
        if not call.is_operator:
            continue
        row = sums[device, call.slice.name]
        row[0] += said["Bytes"] > 0
        row[1] += max(said["Bytes"], 0)
        row[2] += said["Bytes"]
        above: Held | None = call
        while above is not None:
            is_outermost = above.above is None or above.above.only is not above
            if above.is_operator and is_outermost:
                sums[device, above.slice.name][3] += said["Bytes"]
            above = above.above
    return found, {
        (device, name): [calls[name], *row] for (device, name), row in sums.items()
        if row[0] or row[2] or row[3] or (device, name) in found
    }  # fmt: skip


@pair(
    "trace_recommendations",
    "the shares of average_step, gpu_utilization and memory_timeline against the limits",
    of="trace",
)
def trace_recommendations(asked: Asked) -> Sides:
    rules = {"data_loader", "communication", "gpu_utilization"}
    found = sorted(
        (row for row in asked.view("trace_recommendations", "rule, device") if row[0] in rules), key=str
    )  # fmt: skip
    shares: dict[str, float | None] = dict(asked.view("average_step", "category, share_percent"))
    expected = [
        *([("data_loader", None)] if (shares.get("DataLoader") or 0) > 5 else []),
        *([("communication", None)] if (shares.get("Communication") or 0) > 10 else []),
        *(
            ("gpu_utilization", device)
            for device, share in asked.view("gpu_utilization", "device, utilization_percent")
            if share < 50
        ),
    ]
    return found, sorted(expected, key=str)


@pair("time_tree", "time of the host's slices, each once, is that of the outermost", of="trace")
def time_tree(asked: Asked) -> Sides:
    rows = asked.view("time_tree", "kind, depth, calls, self_ticks, total_ticks")
    if not rows:
        return [], []
    own = sum(row[3] for row in rows)
    roots = sum(each.length for each in asked.trace.host if each.parent is None)
    return [rows[0][4], own], [roots, roots]
