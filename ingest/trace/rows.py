"""The tables of a trace, from its columns: steps as runs, events with their parents, details of ops and devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import LazyBatch, batch, encoded, flags, integers, numbers, texts
from etq.ingest.events.rows import EVENT_TICKS
from etq.ingest.trace.columns import TraceColumns, spelled, texts_of
from etq.ingest.trace.counters import event_counters
from etq.ingest.trace.details import BEYOND, DeviceDetails, MemoryDetails, nanoseconds
from etq.ingest.trace.inputs import inputs_of
from etq.ingest.trace.kernels import Kernel, kernels_of, unknown_kernels
from etq.ingest.trace.nesting import first_places, launches, nesting, occurrences, order_of
from etq.ingest.trace.scanner import (
    COPY_CATEGORIES,
    DEVICE_CATEGORIES,
    LAUNCH_CATEGORY,
    LAUNCH_ENDINGS,
    NONE,
    RANGE_CATEGORY,
    STEP,
)
from etq.ingest.trace.types import Entries

Whole = npt.NDArray[np.int64]
_OF_NO_THREAD: Final = "Trace"
# Times that can be those of a recording, in microseconds since 1970: of 2001 to 2099. No clock that counts from the
# start of a machine gets there.
_FIRST_MOMENT: Final = 10**15
_LAST_MOMENT: Final = 4_102_444_800_000_000
# How many times are converted at once: few enough to fit into the processor's cache.
_AT_ONCE: Final = 2**14
# How many rows a batch has.
_BATCH: Final = 2**17


class Slices:
    """A trace's slices, in the order of the file.

    Arrays of n: at, kind, thread, start, elapsed (nanoseconds), run, parent (a row, or -1), and ids.
    """

    def __init__(self, columns: TraceColumns) -> None:
        kept = _kept(columns)
        keys = columns.keys
        self.kinds = [*keys.kinds]
        key = np.frombuffer(columns.key, np.int32)[kept]
        self.kind, self.thread = np.array(keys.kind, np.int32)[key], np.array(keys.thread, np.int32)[key]
        del key
        self.at = np.frombuffer(columns.at, np.int32)[kept]
        self.external, old_external, self.correlation, self.sequence, self.forward = (
            np.frombuffer(each, np.int64)[kept]
            for each in (
                *(columns.external, columns.old_external, columns.correlation),
                *(columns.sequence, columns.forward),
            )
        )
        # The older layout of runtime and device events has this id under a lower-case key, 0 for none.
        if (is_old := old_external > 0).any():
            self.external = np.where((self.external == NONE) & is_old, old_external, self.external)
        self.start, self.elapsed, slack = _times(*(np.frombuffer(each)[kept] for each in columns.times))
        self.is_device = self._is_of(DEVICE_CATEGORIES)
        self.is_copy = self._is_of(COPY_CATEGORIES)
        self.steps = self._steps()
        self.call = self._calls()
        self.run = self._runs()
        self.parent, self.overlap = self._nested(slack)

    def recorded_at(self, base: int) -> int | None:
        """Return when the recording began, in microseconds since 1970, by its own slice or else the first; None if the
        trace's times count from something else, such as the start of the machine.
        """
        recordings = self.start[self._is_of(frozenset((_OF_NO_THREAD,)))]
        starts = recordings if len(recordings) else self.start
        if not len(starts):
            return None
        moment = (base + int(starts.min())) // 1000
        return moment if _FIRST_MOMENT <= moment < _LAST_MOMENT else None

    def _is_of(self, categories: frozenset[str]) -> npt.NDArray[np.bool_]:
        is_of = np.array([category in categories for category, _ in self.kinds], np.bool_)
        found: npt.NDArray[np.bool_] = is_of[self.kind]
        return found

    @property
    def is_range(self) -> npt.NDArray[np.bool_]:
        """Whether each slice is a range of counters, as those of few traces."""
        return self._is_of(frozenset((RANGE_CATEGORY,)))

    def _steps(self) -> Whole:
        """Return the slices that are profiler steps, ordered by start."""
        is_step = np.array(
            [name.startswith(STEP) and category not in DEVICE_CATEGORIES for category, name in self.kinds]
        )
        steps = np.flatnonzero(is_step[self.kind]) if len(self.kinds) else np.zeros(0, np.int64)
        return steps[np.argsort(self.start[steps], kind="stable")]

    def _calls(self) -> Whole:
        """Return the call that launched each device event, as a row; -1 for other slices, and if there is none."""
        launching = {
            category for category, _ in self.kinds if category == LAUNCH_CATEGORY or category.endswith(LAUNCH_ENDINGS)
        }
        calls = np.flatnonzero(self._is_of(frozenset(launching)) & (self.correlation > 0))
        launched = np.flatnonzero(self.is_device & (self.correlation > 0))
        found = launches(self.correlation[calls], self.start[calls], self.correlation[launched], self.start[launched])
        is_found = found != NONE
        call = np.full(len(self.at), NONE, np.int64)
        call[launched[is_found]] = calls[found[is_found]]
        return call

    def is_launched_within(self, kind: int, around: npt.NDArray[np.bool_]) -> bool:
        """Return whether each event of a kind was launched within a slice of one of the kinds `around` [kinds]."""
        at = self.call[self.kind == kind]
        if not len(at):
            return False
        while len(at):
            at = at[~around[self.kind[at]]] if (at != NONE).all() else at
            if (at == NONE).any():
                return False
            at = np.unique(self.parent[at])
        return True

    def _runs(self) -> Whole:
        """Return the run of each slice: its step; for a device event, the step that launched it."""
        if not len(self.steps):
            return np.zeros(len(self.at), np.int64)
        starts = self.start[self.steps]
        ends = starts + self.elapsed[self.steps]
        moment = np.where(self.call == NONE, self.start, self.start[self.call])
        step = np.searchsorted(starts, moment, side="right") - 1
        # After the end of a nested step, the step around it goes on.
        around = [_steps_around(ends)]
        while (around[-1] != NONE).any():  # of n nested steps: in log2(n) passes
            last = around[-1]
            around.append(np.where(last == NONE, NONE, last[last]))
        for outer in reversed(around):
            after = np.flatnonzero((step >= 0) & (moment > ends[step]))
            next_step = outer[step[after]]
            is_over = (next_step != NONE) & (moment[after] > ends[next_step])
            step[after[is_over]] = next_step[is_over]
        after = np.flatnonzero((step >= 0) & (moment > ends[step]))
        step[after] = around[0][step[after]]
        return np.where(step >= 0, step, len(self.steps))

    def _nested(self, slack: Whole) -> tuple[Whole, Whole]:
        """Return the parent of each slice, the slice of its thread that contains it; and the ticks before its end that
        other slices have. Device events have no parent and no child.
        """
        is_nested = ~self.is_device & (self.elapsed >= 0) & ~self._is_of(frozenset((_OF_NO_THREAD,)))
        if is_nested.all():
            return nesting(self.thread, self.start, self.start + self.elapsed, slack)
        parent, overlap = np.full(len(self.at), NONE, np.int64), np.zeros(len(self.at), np.int64)
        nested = np.flatnonzero(is_nested)
        start = self.start[nested]
        found, overlap[nested] = nesting(self.thread[nested], start, start + self.elapsed[nested], slack[nested])
        is_within = found != NONE
        parent[nested[is_within]] = nested[found[is_within]]
        return parent, overlap


def _steps_around(ends: Whole) -> Whole:
    """Return for each step, in the order of starts, the last step before it that ends later; -1 if none does."""
    around = np.full(len(ends), NONE, np.int64)
    running: list[int] = []
    for step, end in enumerate(ends.tolist()):
        while running and ends[running[-1]] <= end:
            running.pop()
        if running:
            around[step] = running[-1]
        running.append(step)
    return around


def _kept(columns: TraceColumns) -> Any:
    """Return which slices have possible times; adds findings about the others."""
    start, duration = (np.frombuffer(each) for each in columns.times)
    with np.errstate(over="ignore", invalid="ignore"):
        is_after = np.abs(start + duration) >= BEYOND
    is_kept = (np.abs(start) < BEYOND) & ~(np.abs(duration) >= BEYOND) & ~is_after
    if lost := int((~is_kept).sum()):
        columns.find("impossible times", f"{lost} events have times beyond 64 bits and are left out")
    if unknown := int(np.isnan(duration).sum()):
        columns.find("no duration", f"{unknown} events have no duration, which counts as 0")
    if negative := int((duration < 0).sum()):
        columns.find("impossible times", f"{negative} events end before they start: they have no duration")
    return slice(None) if is_kept.all() else is_kept


def _times(start: npt.NDArray[np.float64], duration: npt.NDArray[np.float64]) -> tuple[Whole, Whole, Whole]:
    """Return starts and durations in nanoseconds, and by how much each slice may end after its parent."""
    starts, elapsed, slacks = (np.empty(len(start), np.int64) for _ in range(3))
    for begin in range(0, len(start), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        starts[part] = nanoseconds(start[part])
        elapsed[part] = nanoseconds(np.nan_to_num(duration[part]))
        # Resolution in nanoseconds of a float of microseconds: a child may end later than its parent by this.
        slack = np.ceil(np.spacing(np.abs(start[part])) * 1000).astype(np.int64)
        slacks[part] = np.where(slack < 2, 0, slack)
    return starts, elapsed, slacks


def trace_rows(columns: TraceColumns, entries: Entries, base: int) -> Iterator[tuple[str, pa.RecordBatch | LazyBatch]]:
    """Yield the tables of a trace, including `captures` and `findings`. `entries` reads the JSON of single events.
    `base` is the time from which the trace's times count, in nanoseconds since 1970.
    """
    columns.finish()
    slices = Slices(columns)
    kernels = kernels_of(slices.kinds, slices.is_launched_within)
    if unknown := unknown_kernels(slices.kinds, kernels, slices.kind, slices.elapsed):
        columns.find("unknown kernels", unknown)
    signatures, signature = _signatures(slices, kernels)
    order = np.argsort(slices.at, kind="stable")
    order = order[order_of(slices.run[order])]
    described = {"format": texts(["torch_trace"]), "clock_bits": integers([64]), "profiling_level": texts(["all"])}
    if (moment := slices.recorded_at(base)) is not None:
        described["captured_at"] = integers([moment], np.int64).view(pa.timestamp("us"))
    yield "captures", batch(described)
    yield "runs", _runs(slices)
    yield "signatures", signatures
    for rows in _event_ticks(slices, signature, order):
        yield "event_ticks", rows
    yield "threads", _threads(columns)
    for rows in _trace_events(columns, slices, order):
        yield "trace_events", rows
    readable = order if not columns.plain else order[~np.isin(slices.at[order], [*columns.plain])]
    yield "op_arguments", inputs_of(entries, slices.at[readable], slices.run[readable])
    of_devices = order[slices.is_device[order]]
    is_launched = (slices.is_copy & (slices.call != NONE))[of_devices]
    calls = np.where(is_launched, slices.at[slices.call[of_devices]], NONE)
    devices, memory = DeviceDetails(slices.at[of_devices], calls), MemoryDetails(columns.memory)
    entries.decode(*(each.part for each in (devices, memory) if len(each.part.places)))
    if len(of_devices):
        yield "device_events", devices.rows(entries, slices.run[of_devices])
    ranges = of_devices[slices.is_range[of_devices]]
    if len(ranges):
        yield "event_counters", event_counters(entries, slices.at[ranges], slices.run[ranges], columns.find)
    if columns.memory:
        yield "trace_memory", memory.rows()
    entries.release()
    if columns.findings:
        rules, details = zip(*columns.findings, strict=True)
        yield "findings", batch({"rule": texts(rules), "detail": texts(details)})


def _runs(slices: Slices) -> pa.RecordBatch:
    steps = len(slices.steps)
    outside = bool((slices.run == steps).any()) or not steps
    count = steps + outside
    block = [0] * steps + [1 if steps else 0] * outside
    return batch(
        {
            "run_index": integers(range(count)),
            "dump_index": integers([0] * count),
            "name": texts(["ProfilerStep"] * steps + ["Outside of steps" if steps else "Trace"] * outside),
            "block_index": integers(block),
            "block_run": integers([*range(steps), *[0] * outside]),
            "iteration": integers([*range(steps), *[0] * outside]),
        }
    )


def _signatures(slices: Slices, kernels: dict[int, Kernel]) -> tuple[pa.RecordBatch, Whole]:
    """Return the table `signatures`, one per block, category and name; and the signature of each slice. `kernels` has
    what the kernels among the slices' kinds are.
    """
    steps = len(slices.steps)
    block = np.where(slices.run < steps, 0, 1 if steps else 0)
    key = block * len(slices.kinds) + slices.kind
    first = first_places(key, 2 * len(slices.kinds))
    distinct = np.flatnonzero(first != NONE)
    first, signature = first[distinct], (np.cumsum(first != NONE) - 1)[key]
    blocks, kinds = (distinct // max(len(slices.kinds), 1)).tolist(), (distinct % max(len(slices.kinds), 1)).tolist()
    names = [slices.kinds[kind][1] for kind in kinds]
    categories = [slices.kinds[kind][0] for kind in kinds]
    of_kernels = [kernels.get(kind, Kernel(None, None)) for kind in kinds]
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
            "family": texts(["ProfilerStep*" if name.startswith(STEP) else name for name in names]),
            "category": texts(categories),
            "chain_index": integers([NONE] * count, np.int64),
            "kernel_family": texts([each.family for each in of_kernels]),
            "uses_matrix_units": flags(
                np.array([each.uses_matrix_units is True for each in of_kernels], np.bool_),
                np.array([each.uses_matrix_units is None for each in of_kernels], np.bool_),
            ),
            "value_unit": texts(["ticks"] * count),
            "clock": texts(["host"] * count),
        }
    )
    return rows, signature


def _event_ticks(slices: Slices, signature: Whole, order: Whole) -> Iterator[pa.RecordBatch]:
    count = signature.max(initial=0) + 1
    occurrence = occurrences(slices.run[order] * count + signature[order])
    for begin in range(0, len(order), _BATCH):
        rows = order[begin : begin + _BATCH]
        run, parent = slices.run[rows], slices.parent[rows]
        is_root = parent < 0
        parent_run = slices.run[parent]
        columns = [
            numbers(run.astype(np.int32)),
            numbers(slices.at[rows]),
            numbers(signature[rows].astype(np.int32)),
            numbers(occurrence[begin : begin + _BATCH]),
            numbers(slices.at[parent], is_root),
            numbers(parent_run.astype(np.int32), is_root | (parent_run == run)),
            pa.nulls(len(rows), pa.int32()),
            numbers(slices.start[rows]),
            numbers(slices.elapsed[rows]),
            pa.nulls(len(rows), pa.binary()),
            flags(np.zeros(len(rows), np.bool_)),
            numbers(slices.overlap[rows], slices.overlap[rows] == 0),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=EVENT_TICKS)


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


def _trace_events(columns: TraceColumns, slices: Slices, order: Whole) -> Iterator[pa.RecordBatch]:
    stacks = dict(columns.stacks)
    written = texts_of(columns.written)
    for begin in range(0, len(order), _BATCH):
        rows = order[begin : begin + _BATCH]
        found = {
            "run_index": numbers(slices.run[rows].astype(np.int32)),
            "event_index": numbers(slices.at[rows]),
            "thread_index": numbers(slices.thread[rows]),
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
        yield batch(found)
