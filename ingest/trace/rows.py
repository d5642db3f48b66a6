"""The tables of a trace, from its columns: steps as runs, events with their parents, details of ops and devices."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import LazyBatch, batch, encoded, filled, flags, integers, numbers, texts
from etq.ingest.events.own_times import summed
from etq.ingest.events.rows import event_batch
from etq.ingest.trace.allocations import Allocations, columns_of_memory, event_memory
from etq.ingest.trace.calls import covering, family_of, operator_ticks
from etq.ingest.trace.classes import Class
from etq.ingest.trace.collectives import host_collectives
from etq.ingest.trace.columns import TraceColumns, spelled, texts_of
from etq.ingest.trace.costs import cost_tables
from etq.ingest.trace.counters import event_counters
from etq.ingest.trace.details import DeviceDetails, MemoryDetails
from etq.ingest.trace.device_times import device_times
from etq.ingest.trace.gaps import device_gaps
from etq.ingest.trace.host_parts import Steps, gap_parts
from etq.ingest.trace.inputs import Inputs
from etq.ingest.trace.kernels import unknown_kernels, with_communication, with_ops
from etq.ingest.trace.launches import are, around_of, is_launch, launches_within
from etq.ingest.trace.nesting import first_places, occurrences, order_of
from etq.ingest.trace.op_work import Kinds, Ops
from etq.ingest.trace.passes import PASSES, Passes, columns_around, columns_of, passes_of
from etq.ingest.trace.paths import Recording, host_waits
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.serving import serving_labels
from etq.ingest.trace.slices import Slices
from etq.ingest.trace.sources import Sources
from etq.ingest.trace.steps import step_rows
from etq.ingest.trace.tool_steps import tool_steps
from etq.ingest.trace.types import Entries
from etq.ingest.trace.waits import EARLIEST, OfDevices, wait_columns, waits_of

if TYPE_CHECKING:
    from etq.ingest.trace.recordings import Recorder

Whole = npt.NDArray[np.int64]
# The name of the run of a step that doesn't count.
LEFT_OUT: Final = "Incomplete step"
# The most steps that a finding names.
_MOST: Final = 5
# By how many ticks a step may exceed the recording because of rounding.
_ROUNDING: Final = 1000
# Nanoseconds by which the conversion of a device's clock to the host's may be inexact.
_INEXACT: Final = 10_000
_OTHER_CLOCK: Final = (
    "the device's clock differs from the host's, so why the device idles, and what its work waits for, is unknown"
)
# The names of calls that wait for all streams of a device.
_OF_DEVICE: Final = re.compile("(Device|Ctx|Thread)Synchronize|[sS]ynchronizeDevice")
# Columns of `trace_events` that are also in `event_ticks`, or that are computed from it.
OF_TICKS: Final = (
    "event_signature", "start_ticks", "elapsed_ticks", "overlap_ticks", "parent_index", "covers_own", "operator_ticks",
)  # fmt: skip
# Columns of `device_events` that repeat columns of `event_ticks` and `trace_events` about events and calls.
OF_EVENTS: Final = (
    "event_signature", "start_ticks", "elapsed_ticks", "correlation_id", "call_signature", "call_thread",
    "call_start_ticks", "call_ticks", "launched", "annotation_signature", "op_signature",
)  # fmt: skip
# The rows of a batch: a row group of DuckDB. From batches of 2**17 rows, DuckDB makes a whole row group and a small one
# each, and writes them again at the next checkpoint; that of 881,367 events then made the file 87 MB instead of 53.
_BATCH: Final = 122_880


def trace_rows(
    columns: TraceColumns,
    entries: Entries,
    tracks: Mapping[str, Class],
    base: int,
    recorders: Sequence[Recorder] = (),
    annotations: Mapping[int, str] | None = None,
    assumed: Mapping[str, str] | None = None,
    groups: str = "",
) -> Iterator[tuple[str, pa.RecordBatch | LazyBatch]]:
    """Yield the tables of a trace, including `captures` and `findings`. `entries` reads the JSON of single events,
    `tracks` has the classes of unknown categories. `base` is the time from which the trace's times count, in
    nanoseconds since 1970. `recorders` have the ops and modules of graphs' kernels, `annotations` the modules by the
    numbers of nodes; `assumed` has sizes that the trace lacks.
    `groups` are the process groups, as in the label process_groups.
    """
    slices = Slices(columns, entries, tracks)
    if recorders or annotations or columns.names or slices.captures_graphs:
        from etq.ingest.trace.graphs import add_recorded

        add_recorded(columns, slices, entries, recorders, annotations or {})
    classes = with_communication(slices.classes, slices.is_launched_within)
    kinds = with_ops(slices.kinds, classes, slices.kind, slices.owners.op)
    if unknown := unknown_kernels(*kinds, slices.elapsed):
        columns.find("unknown kernels", unknown)
    order = np.argsort(slices.at, kind="stable")
    order = order[order_of(slices.run[order])]
    described = {"format": texts(["torch_trace"]), "clock_bits": integers([64]), "profiling_level": texts(["all"])}
    if (moment := slices.recorded_at(base)) is not None:
        described["captured_at"] = integers([moment], np.int64).view(pa.timestamp("us"))
    if assumed:
        described["assumed"] = texts([",".join(f"{name}={number}" for name, number in assumed.items())])
    yield "captures", batch(described)
    recording = Recording(slices)
    steps, left_out = _steps(columns, slices, classes, recording)
    runs, block = _runs(slices, left_out)
    signatures, signature = _signatures(slices, block, *kinds)
    yield from {"runs": runs, "signatures": signatures}.items()
    if labels := serving_labels(slices.told):
        yield "labels", batch({"key": texts([*labels]), "value": texts([*labels.values()])})
    for rows in _event_ticks(slices, signature, order):
        yield "event_ticks", rows
    yield "threads", _threads(columns)
    around = dict(around_of(slices.classes, slices.kind, slices.parent))
    passes = passes_of(slices, slices.classes, [spelled(tid) for _, tid in columns.threads])
    ops = _ops(slices, around)
    for rows in _trace_events(columns, slices, signature, around, ops.own_ticks, passes, order):
        yield "trace_events", rows
    yield "recordings", recording.row()
    if steps.num_rows:
        yield "trace_steps", steps
    by_tools = tool_steps(slices, Kinds(*kinds), _counted_steps(steps, slices, left_out), around["annotation_index"])
    if by_tools.num_rows:
        yield "tool_steps", by_tools
    readable = order[order < slices.own]
    if columns.plain:
        readable = readable[~np.isin(slices.at[readable], [*columns.plain])]
    inputs = Inputs(entries, slices.at[readable], slices.run[readable], slices.arguments)
    yield "op_arguments", inputs.table
    if (collectives := host_collectives(slices, slices.run, inputs, groups)) is not None:
        yield "host_collectives", collectives
    yield from cost_tables(slices, Kinds(*kinds), ops, passes, inputs, assumed or {})
    spans = Steps(
        by_tools.column("pattern").to_pylist(),
        *(filled(by_tools.column(each), NONE) for each in ("start_ticks", "end_ticks")),
    )
    yield from _of_devices(*(columns, entries, slices, signature, around, passes, order), recording.thread, spans)
    entries.release()
    if columns.findings:
        rules, details = zip(*columns.findings, strict=True)
        yield "findings", batch({"rule": texts(rules), "detail": texts(details)})


def _ops(slices: Slices, around: Mapping[str, Whole]) -> Ops:
    operator, counted = slices.calls.operator, _counted(slices)
    own_ticks = operator_ticks(slices.classes, slices.kind, operator, around["node_index"], slices.elapsed, counted)
    is_called = operator == np.arange(len(operator))
    return Ops(slices.run, around["op_index"], slices.owners.op, is_called, own_ticks)


def _of_devices(
    columns: TraceColumns,
    entries: Entries,
    slices: Slices,
    signature: Whole,
    around: Mapping[str, Whole],
    passes: Passes,
    order: Whole,
    last_thread: int,
    steps: Steps,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the tables about devices and memory; their entries are read in one pass. `signature` is as in `_launches`,
    `around` as from `around_of`; `order` has the slices in the order of the tables; `last_thread` is the thread in
    which the recording ends; `steps` are those of `tool_steps`.
    """
    of_devices = order[slices.is_device[order]]
    is_launched = (slices.is_copy & (slices.call != NONE))[of_devices]
    calls = np.where(is_launched, slices.at[slices.call[of_devices]], NONE)
    devices, memory = DeviceDetails(slices.at[of_devices], calls), MemoryDetails(columns.memory)
    entries.decode(*(each.part for each in (devices, memory) if len(each.part.places)))
    if len(of_devices):
        launches = _launches(slices, signature, around["annotation_index"], of_devices)
        call, owner = slices.call[of_devices], slices.owners.owner[of_devices]
        launches |= columns_around(slices, passes, np.where(call == NONE, owner, call))
        rows = devices.rows(entries, slices.run[of_devices], launches)
        given = OfDevices(of_devices, *(filled(rows.column(name), NONE) for name in OfDevices._fields[1:]))
        if late := _late(slices, given):
            columns.find("device clock", late)
        waits = waits_of(slices, slices.call, given)
        found = dict(zip(rows.schema.names, rows.columns, strict=True))
        yield "device_events", batch({**found, **wait_columns(slices, waits)})
        yield (
            "host_waits",
            host_waits(slices, slices.call, given, waits, passes.place == PASSES.index("backward"), last_thread),
        )
        gaps, of_host = device_gaps(slices, slices.call, given, waits, signature, steps)
        yield "device_gaps", gaps
        yield "gap_parts", gap_parts(slices, slices.call, of_host, steps, signature)
    ranges = of_devices[slices.is_range[of_devices]]
    if len(ranges):
        yield "event_counters", event_counters(entries, slices.at[ranges], slices.run[ranges], columns.find)
    if columns.memory:
        yield from _of_memory(slices, around["node_index"], memory.rows())


def _of_memory(slices: Slices, node: Whole, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    memory = Allocations.of(rows)
    found = columns_of_memory(slices, node, slices.calls.operator, memory)
    yield "trace_memory", batch({**dict(zip(rows.schema.names, rows.columns, strict=True)), **found})
    yield "event_memory", event_memory(slices, slices.run, memory)


def _launches(slices: Slices, signature: Whole, annotation: Whole, of_devices: Whole) -> dict[str, pa.Array]:
    """Return the columns of `device_events` about the times of these slices and about their launches.

    `signature` has the signature of each slice, and `annotation` the annotation that contains the slice, or -1.
    """
    call, op = slices.call[of_devices], slices.owners.op[of_devices]
    launch, owner = slices.launch[of_devices], slices.owners.owner[of_devices]
    is_launched = are(slices.kind, [each.is_work for each in slices.classes]) & (slices.call != NONE)
    launched = np.bincount(slices.call[is_launched & (slices.elapsed >= 0)], minlength=len(slices.call))
    found = {
        name: numbers(slices.at[rows], rows == NONE)
        for name, rows in (("call_index", call), ("op_index", op), ("owner_index", owner), ("launch_index", launch))
    }
    columns = (
        (signature, of_devices),
        (slices.start, of_devices),
        (slices.elapsed, of_devices),
        (slices.correlation, np.where(slices.correlation[of_devices] == NONE, NONE, of_devices)),
        (signature, call),
        (slices.thread, call),
        (slices.start, call),
        (slices.elapsed, call),
        (launched.astype(np.int32), call),
        (signature, np.where(call == NONE, NONE, annotation[call])),
        (signature, op),
    )
    for name, (values, rows) in zip(OF_EVENTS, columns, strict=True):
        found[name] = numbers(values[rows], rows == NONE)
    return found


def _steps(
    columns: TraceColumns, slices: Slices, classes: Sequence[Class], recording: Recording
) -> tuple[pa.RecordBatch, Collection[int]]:
    """Return the table `trace_steps`, and the runs of the steps that don't count; add findings about both."""
    places = (slices.kind, slices.run, slices.start, slices.elapsed, slices.call, slices.origin)
    kind, run, start, elapsed, call, origin = (place[: slices.own] for place in places)
    steps = step_rows(
        *(slices.kinds, classes, kind, run, start, elapsed, call, origin, slices.is_lost),
        is_served=slices.is_served,
        is_denoised=slices.is_denoised,
    )
    thread = recording.last_threads(*(filled(steps.column(name), NONE) for name in ("start_ticks", "end_ticks")))
    steps = steps.append_column("end_thread", numbers(thread.astype(np.int32), thread == NONE))
    # Columns are filtered as lists: pyarrow's filter would load its functions first, which takes longer than reading a
    # small trace.
    numbered = (steps.column(name).to_pylist() for name in ("run_index", "step", "start_ticks"))
    left_out = [(run, step) for run, step, start in zip(*numbered, strict=True) if start is None]
    lost_in = {*slices.run[np.flatnonzero(slices.is_lost)].tolist()}
    for has_lost, why in (
        (False, "no launch of these steps at the end is recorded"),
        (True, "a fifth or more of the launches have no event of a device"),
    ):
        of_steps = [step for run, step in left_out if (run in lost_in) == has_lost]
        if of_steps:
            columns.find("steps left out", f"{_left_out(of_steps)}: {why}")
    if slices.is_lost.any():
        columns.find("lost kernels", _lost(slices))
    if early := _early(slices):
        columns.find("device clock", early)
    if crossing := _crossing(slices):
        columns.find("crossing steps", crossing)
    if together := _together(slices):
        columns.find("steps of several processes", together)
    if slices.recording is not None and (beyond := _beyond(steps, *slices.recording)):
        columns.find("steps beyond the recording", beyond)
    return steps, [run for run, _ in left_out]


def _crossing(slices: Slices) -> str:
    """Return a text about the steps of a thread that begin before another one ends, and end after it; '' if there are
    none. A thread's annotations contain each other, or follow each other, unless its clock was set back.
    """
    steps = slices.steps[np.argsort(slices.thread[slices.steps], kind="stable")]
    start, end = slices.start[steps], (slices.start + slices.elapsed)[steps]
    by, latest = [], (NONE, 0)
    for thread, at, until in zip(slices.thread[steps].tolist(), start.tolist(), end.tolist(), strict=True):
        before = latest[1] if latest[0] == thread else at
        if before > at + _ROUNDING and until > before + _ROUNDING:
            by.append(before - at)
        latest = thread, max(before, until)
    if not by:
        return ""
    begin = "begins" if len(by) == 1 else "begin"
    return (
        f"{len(by)} of {len(steps)} steps {begin} before the step before has ended in the same thread, by up to "
        f"{_time(max(by))}, as if the clock had been set back: the times of steps aren't those that they took"
    )


def _together(slices: Slices) -> str:
    """Return a text about steps that overlap with steps of other processes, as in files that were merged; '' if there
    are none.
    """
    start, end = slices.start[slices.steps], (slices.start + slices.elapsed)[slices.steps]
    process = slices.process[slices.steps]
    before = np.maximum.accumulate(end)[:-1]
    if not ((start[1:] < before - _ROUNDING) & (process[1:] != process[:-1])).any():
        return ""
    return (
        f"steps of {len(np.unique(process))} processes overlap, and each moment counts for one step: times of steps "
        "and their MFU aren't those of a process; read the file of each process alone"
    )


def _counted_steps(steps: pa.RecordBatch, slices: Slices, left_out: Collection[int]) -> Whole:
    """Return the starts and ends [2, steps] on the host of the steps that count; none for a trace without steps."""
    columns = (filled(steps.column(name), NONE) for name in ("host_start_ticks", "host_end_ticks"))
    run = filled(steps.column("run_index"), NONE)
    return np.array([*columns])[:, (run < len(slices.steps)) & ~np.isin(run, [*left_out])]


def _beyond(steps: pa.RecordBatch, start: int, end: int) -> str:
    """Return a text about the steps that begin before the recording or end after it, and by how much; '' if there are
    none.
    """
    columns = (steps.column(name).to_pylist() for name in ("step", "host_start_ticks", "host_end_ticks"))
    found = []
    for step, begin, until in zip(*columns, strict=True):
        if begin is None or begin >= end or until <= start:
            continue
        before, after = start - begin, until - end
        sides = [f"{_time(before)} before its start"] * (before > _ROUNDING) + [f"{_time(after)} after its end"] * (
            after > _ROUNDING
        )
        if sides:
            share = 100 * (max(before, 0) + max(after, 0)) / (until - begin)
            name = "step without a number" if step is None else f"step {step}"
            found.append(
                f"{name} has {min(share, 99.9):.3g} % of its time outside of the recording, {' and '.join(sides)}"
            )
    return "; ".join(found[:_MOST]) + (f"; and {len(found) - _MOST} more" if len(found) > _MOST else "")


def _time(ticks: int) -> str:
    """Return a time of a trace, in nanoseconds, as text."""
    unit, size = next((each for each in (("s", 10**9), ("ms", 10**6)) if ticks >= each[1]), ("us", 1000))
    return f"{ticks / size:,.3g} {unit}" if ticks < 1000 * size else f"{ticks / size:,.0f} {unit}"


def _left_out(numbers: Sequence[int | None]) -> str:
    """Return a text that says which steps are not counted."""
    named = ", ".join("without a number" if number is None else str(number) for number in numbers[:_MOST])
    named += ", ..." if len(numbers) > _MOST else ""
    return f"step {named} is not counted" if len(numbers) == 1 else f"steps {named} are not counted"


def _lost(slices: Slices) -> str:
    """Return a text that says how many launches have no device event."""
    launches = sum(
        int(((slices.kind[: slices.own] == place) & ~slices.is_captured).sum())
        for place, each in enumerate(slices.classes)
        if is_launch(each)
    )
    number = int(slices.is_lost.sum())
    lost = f"{number} of {launches} launches of kernels have no event of a device"
    if number == launches and slices.is_range.any():
        return f"{lost}: counters were recorded instead of times; record without profiler_metrics for these"
    return (
        f"{lost}, so device times are too short: record fewer steps at once, after a warm-up step, and without another "
        "profiler"
    )


def _early(slices: Slices) -> str:
    """Return a text about the work of devices that starts before its launch; '' if it is little, as of ids that the
    profiler gave twice, or if it starts as little earlier as the clocks' conversion is inexact.
    """
    is_work = are(slices.kind, [each.activity in ("kernel", "copy", "fill") for each in slices.classes])
    work = np.flatnonzero(is_work & (slices.call != NONE) & (slices.elapsed >= 0))
    before = slices.start[slices.call[work]] - slices.start[work]
    early = before[before > _INEXACT]
    if not 0 < len(work) <= 100 * len(early):
        return ""
    return (
        f"{len(early)} of {len(work)} kernels, copies and fills start before their launch, by up to "
        f"{_time(int(early.max()))}: {_OTHER_CLOCK}"
    )


def _late(slices: Slices, devices: OfDevices) -> str:
    """Return a text about calls that return before the work that they wait for has ended; '' unless these are at least
    two, and half of the calls that have work to wait for. A call waits for one device: which work is that is known if
    its process uses no other.
    """
    is_work = are(slices.kind, [each.is_work for each in slices.classes]) & (slices.call != NONE)
    place = np.flatnonzero((is_work & (slices.elapsed >= 0))[devices.row])
    call, end = slices.call[devices.row[place]], slices.start + slices.elapsed
    are_waits = [
        each.purpose == "synchronization" and _OF_DEVICE.search(name) is not None
        for each, (_, name) in zip(slices.classes, slices.kinds, strict=True)
    ]
    waits = np.flatnonzero(are(slices.kind, are_waits) & (slices.elapsed >= 0))
    number, late = 0, list[int]()
    for process in np.unique(slices.process[waits]).tolist():
        of = np.flatnonzero(slices.process[call] == process)
        if len(np.unique(devices.device[place[of]])) != 1:
            continue
        of = of[np.argsort(end[call[of]], kind="stable")]
        last = np.append(np.maximum.accumulate(end[devices.row[place[of]]]), EARLIEST)
        own = waits[slices.process[waits] == process]
        # When all work ends that was launched before the call.
        ended = last[np.searchsorted(end[call[of]], slices.start[own], side="right") - 1]
        number += int((ended > slices.start[own]).sum())
        late += (ended - end[own])[ended > end[own] + _INEXACT].tolist()
    if len(late) < 2 or 2 * len(late) < number:
        return ""
    return (
        f"{len(late)} of {number} calls that wait for a device return before its work ends, by up to "
        f"{_time(max(late))}: {_OTHER_CLOCK}"
    )


def _runs(slices: Slices, left_out: Collection[int]) -> tuple[pa.RecordBatch, Whole]:
    """Return the table `runs`, and the block of each run: the runs of a name are a block. `left_out`: the runs of steps
    that don't count.
    """
    steps = len(slices.steps)
    outside = bool((slices.run == steps).any()) or not steps
    name = "ServingStep" if slices.is_served else "ProfilerStep"
    names = [LEFT_OUT if run in left_out else name for run in range(steps)]
    names += ["Outside of steps" if steps else "Trace"] * outside
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    block = np.array([places[name] for name in names])
    rows = batch(
        {
            "run_index": integers(range(len(names))),
            "dump_index": integers([0] * len(names)),
            "name": texts(names),
            "block_index": integers(block),
            "block_run": numbers(occurrences(block)),
            "iteration": integers([*range(steps), *[0] * outside]),
            "phase": texts([*slices.phases, *[None] * outside]),
        }
    )
    return rows, block


def _signatures(
    slices: Slices, block: Whole, kinds: Sequence[tuple[str, str]], classes: Sequence[Class], kind: Whole
) -> tuple[pa.RecordBatch, Whole]:
    """Return the table `signatures`, with a row per block and kind, and the signature of each slice. `block` has the
    block of each run, `kind` the kind of each slice; `kinds` has the category and name of each kind, `classes` its
    class.
    """
    key = block[slices.run] * len(kinds) + kind
    first = first_places(key, (int(block.max()) + 1) * len(kinds))
    distinct = np.flatnonzero(first != NONE)
    first, signature = first[distinct], (np.cumsum(first != NONE) - 1)[key]
    blocks, of_kinds = (distinct // max(len(kinds), 1)).tolist(), (distinct % max(len(kinds), 1)).tolist()
    names = [kinds[each][1] for each in of_kinds]
    categories = [kinds[each][0] for each in of_kinds]
    slots = np.zeros(len(distinct), np.int32)
    for each in set(blocks):
        own = np.flatnonzero(np.array(blocks) == each)
        slots[own[np.argsort(first[own], kind="stable")]] = np.arange(len(own))
    count = len(distinct)
    rows = batch(
        {
            "signature_index": integers(range(count)),
            "block_index": integers(blocks),
            "slot": numbers(slots),
            "kind": texts(["slice"] * count),
            "name": texts(names),
            "label": texts(names),
            "family": texts([family_of(name) for name in names]),
            "category": texts(categories),
            "chain_index": integers([NONE] * count, np.int64),
            "value_unit": texts(["ticks"] * count),
            "clock": texts(["host"] * count),
            **class_columns([classes[each] for each in of_kinds]),
        }
    )
    return rows, signature


def class_columns(classes: Sequence[Class]) -> dict[str, pa.Array]:
    """Return the columns of `signatures` about the class of events."""
    return {
        "kernel_family": texts([each.kernel_family for each in classes]),
        "uses_matrix_units": flags([each.uses_matrix_units for each in classes]),
        "activity": texts([each.activity for each in classes]),
        "on_device": flags([each.on_device for each in classes]),
        "purpose": texts([each.purpose for each in classes]),
        "waits": flags([each.waits for each in classes]),
        "call_cause": texts([each.call_cause for each in classes]),
    }


def _event_ticks(slices: Slices, signature: Whole, order: Whole) -> Iterator[pa.RecordBatch]:
    count = signature.max(initial=0) + 1
    occurrence = occurrences(slices.run[order] * count + signature[order])
    children, self_ticks, torch_self_ticks = _own_times(slices)
    for begin in range(0, len(order), _BATCH):
        rows = order[begin : begin + _BATCH]
        run, parent = slices.run[rows], slices.parent[rows]
        is_root = parent < 0
        parent_run = slices.run[parent]
        yield event_batch(
            {
                "run_index": numbers(run.astype(np.int32)),
                "event_index": numbers(slices.at[rows]),
                "signature_index": numbers(signature[rows].astype(np.int32)),
                "occurrence": numbers(occurrence[begin : begin + _BATCH]),
                "parent_index": numbers(slices.at[parent], is_root),
                "parent_run_index": numbers(parent_run.astype(np.int32), is_root | (parent_run == run)),
                "start_ticks": numbers(slices.start[rows]),
                "elapsed_ticks": numbers(slices.elapsed[rows]),
                "is_detached": flags(np.zeros(len(rows), np.bool_)),
                "overlap_ticks": numbers(slices.overlap[rows], slices.overlap[rows] == 0),
                "children": numbers(children[rows]),
                "self_ticks": numbers(self_ticks[rows]),
                "torch_self_ticks": numbers(torch_self_ticks[rows], torch_self_ticks[rows] == self_ticks[rows]),
                "is_additive": flags(np.ones(len(rows), np.bool_)),
                "is_execute": flags(np.zeros(len(rows), np.bool_)),
            }
        )


def _own_times(slices: Slices) -> tuple[npt.NDArray[np.int32], Whole, Whole]:
    """Return for each slice the number of its children, its own time (self time), and its own time by torch's
    formula.
    """
    inner = np.flatnonzero(slices.parent >= 0)
    outer = slices.parent[inner]
    is_possible = slices.elapsed >= 0
    length = np.where(is_possible, slices.elapsed, 0)
    counted = _counted(slices)
    children = np.bincount(outer, minlength=len(length)).astype(np.int32)
    self_ticks, torch_self_ticks = (ticks - summed(outer, ticks[inner], len(ticks)) for ticks in (counted, length))
    return children, self_ticks, torch_self_ticks


def _counted(slices: Slices) -> Whole:
    """Return the time of each slice, without the part that belongs to other slices of its thread."""
    return np.where(slices.elapsed >= 0, slices.elapsed - slices.overlap, 0)


def _threads(columns: TraceColumns) -> pa.RecordBatch:
    keys = [(spelled(pid), spelled(tid)) for pid, tid in columns.threads]
    return batch(
        {
            "thread_index": integers(range(len(keys))),
            "process": texts([pid for pid, _ in keys]),
            "thread": texts([tid for _, tid in keys]),
            "process_name": texts([columns.process_names.get(pid) for pid, _ in keys]),
            "thread_name": texts([columns.thread_names.get(key) for key in keys]),
        }
    )


def _trace_events(
    columns: TraceColumns,
    slices: Slices,
    signature: Whole,
    around: Mapping[str, Whole],
    own_ticks: Whole,
    passes: Passes,
    order: Whole,
) -> Iterator[pa.RecordBatch]:
    indexes_around = {
        name: np.where(rows == NONE, NONE, slices.at[rows]).astype(np.int32) for name, rows in around.items()
    }
    calls = {name: indexes.astype(np.int32) for name, indexes in slices.calls.columns(slices.at).items()}
    operator = slices.calls.operator
    is_lost = slices.is_lost | slices.is_unsure | slices.is_without_time[: slices.own]
    launches = {
        name: np.append(
            launches_within(are_some, slices.parent[: slices.own]), np.zeros(len(slices.at) - slices.own, np.int64)
        ).astype(np.int32)
        for name, are_some in (("lost_launches", is_lost), ("captured_launches", slices.is_captured))
    }
    covers_own = covering(slices.kinds, slices.kind, slices.thread, slices.start, slices.elapsed)
    times = device_times(slices, slices.calls.call, slices.launch, slices.owners.owner)
    stacks = dict(columns.stacks)
    written = texts_of(columns.written)
    sources = Sources(slices, stacks, written)
    for begin in range(0, len(order), _BATCH):
        rows = order[begin : begin + _BATCH]
        found = {
            "run_index": numbers(slices.run[rows].astype(np.int32)),
            "event_index": numbers(slices.at[rows]),
            "event_signature": numbers(signature[rows].astype(np.int32)),
            "thread_index": numbers(slices.thread[rows]),
            "start_ticks": numbers(slices.start[rows]),
            "elapsed_ticks": numbers(slices.elapsed[rows]),
            "overlap_ticks": numbers(slices.overlap[rows], slices.overlap[rows] == 0),
            "parent_index": numbers(slices.at[slices.parent[rows]], slices.parent[rows] < 0),
        }
        for name, values in (
            ("external_id", slices.external),
            ("correlation_id", slices.correlation),
            ("sequence_number", slices.sequence),
            ("forward_thread", slices.forward),
        ):
            found[name] = numbers(values[rows], values[rows] == NONE)
        if stacks:
            codes = np.array([stacks.get(at, 0) for at in slices.at[rows].tolist()], np.int64)
            found["call_stack"] = encoded(written, codes)
        else:
            found["call_stack"] = pa.nulls(len(rows), pa.string())
        found["source"] = sources.of(rows)
        for name, indexes in (*indexes_around.items(), *calls.items()):
            found[name] = numbers(indexes[rows], indexes[rows] == NONE)
        found |= columns_of(slices, passes, rows)
        found["covers_own"] = flags(covers_own[rows])
        found["operator_ticks"] = numbers(own_ticks[rows], operator[rows] != rows)
        for name, counts in launches.items():
            found[name] = numbers(counts[rows], counts[rows] == 0)
        yield batch(found | times.columns(rows))
