"""A trace's slices (events with a duration) as arrays: their nesting, the call that launched each, and the step of
each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.errors import counted
from etq.ingest.trace.calls import Calls as OpCalls
from etq.ingest.trace.calls import calls_and_operators
from etq.ingest.trace.captures import Calls, are_captured
from etq.ingest.trace.classes import Class, classified
from etq.ingest.trace.columns import TraceColumns, spelled
from etq.ingest.trace.frames import clamped
from etq.ingest.trace.impossible import UNKNOWN, outlasting, without_time
from etq.ingest.trace.inputs import ArgumentsOf
from etq.ingest.trace.launches import (
    Owners,
    calls_of,
    empty_launches,
    is_launched_within,
    lost_launches,
    of_several_processes,
    owners_by_id,
    owners_of,
    shared_ids,
)
from etq.ingest.trace.nesting import nesting
from etq.ingest.trace.ranks import rank_of
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.serving import Told, is_sglang, told_by
from etq.ingest.trace.ticks import BEYOND, NO_TIME, Whole
from etq.ingest.trace.types import Entries

# The name of the slice of the whole recording, which belongs to no thread.
_RECORDING: Final = "Trace"
# The times that a recording may have, in microseconds since 1970: from 2001 to 2099. Clocks that count from a machine's
# start don't reach them.
_FIRST_MOMENT: Final = 10**15
_LAST_MOMENT: Final = 4_102_444_800_000_000


class Slices:
    """A trace's slices, in the order of the file.

    Arrays of n: at, kind, thread, start, elapsed (nanoseconds), run, parent and call (rows, or -1), and ids. `classes`
    has the class of each kind.
    """

    def __init__(self, columns: TraceColumns, entries: Entries, of_tracks: Mapping[str, Class] | None = None) -> None:
        """`entries` reads the JSON of single events; `of_tracks` has the classes of unknown categories."""
        kept = _kept(columns)
        keys = columns.keys
        key = np.frombuffer(columns.key, np.int32)[kept]
        self.thread = np.array(keys.thread, np.int32)[key]
        self.kinds, self.kind = [*keys.kinds], np.array(keys.kind, np.int32)[key]
        del key
        self.classes = classified(self.kinds, of_tracks)
        self.at = np.frombuffer(columns.at, np.int32)[kept]
        self.external, old_external, self.correlation, self.sequence, self.forward = (
            np.frombuffer(each, np.int64)[kept]
            for each in (
                *(columns.external, columns.old_external, columns.correlation),
                *(columns.sequence, columns.forward),
            )
        )
        # The older layout has this id of runtime and device events under a lower-case key; 0 means none.
        if (is_old := old_external > 0).any():
            self.external = np.where((self.external == NONE) & is_old, old_external, self.external)
        self.start, duration = (np.frombuffer(time, np.int64)[kept] for time in columns.times)
        self.elapsed = _elapsed(self.start, duration)
        places = (self.kind, self.thread, self.start, self.elapsed, _slack(self.start), self.at)
        elapsed = clamped([category for category, _ in self.kinds], *places, entries)
        if count := int((elapsed < self.elapsed).sum()):
            columns.find("open frames", f"Python frames that last longer than their callers end with these: {count}")
        self.elapsed = elapsed
        self.is_device = self._are([each.on_device for each in self.classes])
        self.is_copy = self._are_active("copy", "fill")
        self.served = self._served()
        self.denoised = self._denoised()
        self.steps = self._steps()
        self._processes = _processes(columns)
        self._ranks = _ranks(columns, self.thread)
        places = (self.kind, self.start, self.elapsed, self.correlation, self.process, self.rank)
        self.call = calls_of(self.classes, *places)
        self._correct(columns, of_tracks or ())
        self._is_shared = shared_ids(self.kinds, self.classes, self.kind, self.call)
        by_process = (self.kind, self.start, self.correlation, self.process, self.rank, self.call)
        self._is_shared |= of_several_processes(self.classes, *by_process)
        self.origin = self._origins()
        self.run = self._runs()
        self.parent, self.overlap = self._nested()
        self.is_captured, self.is_lost, self.is_unsure = self._launches(columns)
        # The number of slices from the file; slices that are added come after these.
        self.own = len(self.at)
        self.arguments: Sequence[tuple[Entries, ArgumentsOf]] = ()
        self._recorded: tuple[Whole, Whole, Whole] | None = None

    def _launches(self, columns: TraceColumns) -> tuple[npt.NDArray[np.bool_], ...]:
        """Return which launches were recorded into a graph, which have lost their kernels, and which have unknown
        kernels. If kernels share an id, their call is removed here, with a finding.
        """
        places = (self.kind, self.correlation, self.process, self.rank, self.call, self.parent)
        is_empty = empty_launches(self.classes, *places)
        works = np.zeros(len(self.at), np.bool_)
        works[self.call[self.call != NONE]] = True
        times = (self.kind, self.thread, self.process, self.start, self.elapsed, self.forward, works)
        is_captured = are_captured(Calls(self.kinds, self.classes, *times), is_empty)
        is_empty &= ~is_captured
        shared = np.flatnonzero(self._is_shared)
        if not len(shared):
            return (
                is_captured,
                lost_launches(self.classes, self.kind, self.rank, self.call, is_empty),
                self._is_shared,
            )
        shared = shared[np.argsort(~self._are_active("kernel")[shared], kind="stable")]
        launches = np.unique(self.call[shared])
        of_shared = self.call[shared]
        self.call = self.call.copy()
        self.call[shared] = NONE
        # One of the kernels with an id belongs to the launch with the id, but it is unknown which one. The others
        # belong to launches without work.
        call = self.call.copy()
        call[shared[np.unique(of_shared, return_index=True)[1]]] = launches
        is_lost = lost_launches(self.classes, self.kind, self.rank, call, is_empty)
        is_unsure = is_empty & ~is_lost & np.isin(self.rank, self.rank[launches])
        is_unsure |= self._are_active("call") & ~works & np.isin(self.correlation, self.correlation[launches])
        is_unsure[launches] = True
        columns.find(
            "shared ids",
            f"{counted(len(shared), 'kernel or copy', 'kernels and copies')} with "
            f"{counted(len(launches), 'correlation id')} that others have, too: it is unknown which op "
            "launched each, so they count for no op",
        )
        return is_captured, is_lost, is_unsure

    @property
    def is_without_time(self) -> npt.NDArray[np.bool_]:
        """Whether each slice is work of unknown time, or the call of such work."""
        found: npt.NDArray[np.bool_] = self._are([each.is_work for each in self.classes]) & (self.elapsed == UNKNOWN)
        found[self.call[found & (self.call != NONE)]] = True
        return found

    @property
    def process(self) -> Whole:
        """For each slice, a number that identifies its process."""
        found: Whole = self._processes[self.thread]
        return found

    @property
    def rank(self) -> Whole:
        """For each slice, a number that identifies its process's rank, in a file with events of several ranks."""
        found: Whole = self._ranks[self.thread]
        return found

    @cached_property
    def owners(self) -> Owners:
        """The op and the owner of each event of a device."""
        places = (self.kind, self.call, self.parent, self._external, self.correlation, self.rank)
        found = owners_of(self.classes, *places)
        if self._recorded is not None:
            rows, op, owner = self._recorded
            found.op[rows], found.owner[rows] = op, owner
        return found

    @property
    def launch(self) -> Whole:
        """The slice at which each slice of a device is launched, -1 for none."""
        # Added slices, those recorded when a graph was captured, lie within calls.
        owner = self.owners.owner
        return np.where((self.call == NONE) | (owner >= self.own), owner, self.call)

    @property
    def _external(self) -> Whole:
        """The external id of each slice. If work shares a correlation id, it also shares the external id, so it gets
        -1.
        """
        found: Whole = self.external
        if self._is_shared.any():
            is_shared = np.append(self._is_shared, np.zeros(len(self.at) - len(self._is_shared), np.bool_))
            found = np.where(is_shared, NONE, found)
        return found

    @cached_property
    def calls(self) -> OpCalls:
        """The calls that each slice belongs to."""
        call = self.call
        if self._recorded is not None:
            # Kernels of graphs belong to the ops in which they were recorded, not to those around the graph's launch.
            call = call.copy()
            call[self._recorded[0]] = NONE
        places = (self.kind, self.thread, self.start, self.elapsed, self.parent, call)
        return calls_and_operators(self.kinds, self.classes, *places, self.owners)

    def _correct(self, columns: TraceColumns, unknown: Collection[str]) -> None:
        """Replace impossible times, with findings. A slice of unknown time gets a negative duration and starts after
        its call. Work that ends too late ends where the next work of its stream starts. Slices of unknown categories
        are left out, because their rows may not be streams.
        """
        rows = without_time(self.start, self.elapsed, self.call)
        if len(rows):
            call = self.call[rows]
            first = np.delete(self.start, rows).min()
            self.start, self.elapsed = self.start.copy(), self.elapsed.copy()
            self.start[rows] = np.where(call == NONE, first, self.start[call] + np.maximum(self.elapsed[call], 0))
            self.elapsed[rows] = UNKNOWN
            columns.find(
                "unknown times",
                f"events without start and duration: {self._most_in(rows)}; their times are unknown and count nowhere:"
                " record again, with fewer events or a newer driver",
            )
        is_work = self._are(
            [
                each.is_work and category not in unknown
                for (category, _), each in zip(self.kinds, self.classes, strict=True)
            ]
        )
        of_devices = np.flatnonzero(is_work & (self.elapsed > 0))
        over, ends = outlasting(*(each[of_devices] for each in (self.thread, self.start, self.elapsed, self.call)))
        if len(over):
            rows = of_devices[over]
            self.elapsed = self.elapsed.copy()
            lost = int((self.start[rows] + self.elapsed[rows] - ends).sum())
            self.elapsed[rows] = ends - self.start[rows]
            columns.find(
                "impossible times",
                f"events of devices that end after later work of their stream: {self._most_in(rows)}; they are cut at"
                f" the start of the next, by {lost / 1e6:,.3f} ms in all",
            )

    def _most_in(self, rows: Whole) -> str:
        """Return a text with the number of these slices, their most frequent name, and how many slices have that name.

        If some of them are slices of devices, it is the most frequent name of these.
        """
        of_devices = rows[self.is_device[rows]]
        counts = np.bincount(self.kind[of_devices if len(of_devices) else rows])
        most = int(counts.argmax())
        return f"{len(rows):,}, of these {counts[most]:,} {str(self.kinds[most][1])[:100]}"

    @property
    def captures_graphs(self) -> bool:
        """Whether names of calls suggest that graphs are captured, and launched, in this trace."""
        return all(any(part in name for _, name in self.kinds) for part in ("StreamBeginCapture", "GraphLaunch"))

    def extend(self, columns: TraceColumns, added: Added) -> None:
        """Add slices within calls that launch graphs. The graphs' kernels then belong to these slices."""
        if not added.parts:
            return
        at = np.arange(added.first_at, added.first_at + added.count)
        numbers = {kind: number for number, kind in enumerate(self.kinds)}
        kind = [
            numbers.setdefault(recorder.kinds[each], len(numbers))
            for recorder, rows, *_ in added.parts
            for each in recorder.kind[rows].tolist()
        ]
        known = {
            each: found
            for recorder, *_ in added.parts
            for each, found in zip(recorder.kinds, recorder.classes, strict=True)
        }
        self.classes = [*self.classes, *(known[each] for each in [*numbers][len(self.kinds) :])]
        self.kinds = [*numbers]
        call, start, elapsed, parent = (np.concatenate([part[place] for part in added.parts]) for place in range(2, 6))
        for name, values in (
            *(("at", at), ("kind", np.array(kind)), ("start", start), ("elapsed", elapsed), ("parent", parent)),
            *(("thread", self.thread[call]), ("run", self.run[call]), ("overlap", elapsed)),
            *(
                (name, np.full(added.count, NONE))
                for name in ("external", "correlation", "sequence", "forward", "call", "origin")
            ),
            *((name, np.zeros(added.count, np.bool_)) for name in ("is_device", "is_copy")),
        ):
            before = getattr(self, name)
            setattr(self, name, np.concatenate([before, values.astype(before.dtype)]))
        work, op, owner = (np.concatenate([part[place] for part in added.parts]) for place in range(6, 9))
        self._recorded = work, op, owner

    def recorded_at(self, base: int) -> int | None:
        """Return when the recording began, in microseconds since 1970: the start of the recording's slice, or of the
        first slice. None if the trace's times count from something else, such as the start of the machine.
        """
        recordings = self.start[self._are([category == _RECORDING for category, _ in self.kinds])]
        starts = recordings if len(recordings) else self.start
        if not len(starts):
            return None
        moment = (base + int(starts.min())) // 1000
        return moment if _FIRST_MOMENT <= moment < _LAST_MOMENT else None

    @property
    def recording(self) -> tuple[int, int] | None:
        """The start and end of the slice of the whole recording; None if the trace has none."""
        found = self._are([category == _RECORDING for category, _ in self.kinds]) & (self.elapsed > 0)
        if not found.any():
            return None
        return int(self.start[found].min()), int((self.start + self.elapsed)[found].max())

    def _are_active(self, *activities: str) -> npt.NDArray[np.bool_]:
        return self._are([each.activity in activities for each in self.classes])

    def _are(self, of_kinds: Sequence[bool]) -> npt.NDArray[np.bool_]:
        """Return for each slice the value of its kind."""
        found: npt.NDArray[np.bool_] = np.array(of_kinds, np.bool_)[self.kind]
        return found

    @property
    def is_range(self) -> npt.NDArray[np.bool_]:
        """Whether each slice is a range of counters, which few traces have."""
        return self._are_active("counter_range")

    def _steps(self) -> Whole:
        """Return the slices that are profiler steps, ordered by start."""
        steps = np.flatnonzero(self._are_active("step"))
        if not len(steps):
            steps = next((rows for rows in (self.served, self.denoised) if self._is_in_turns(rows)), steps)
            kinds = {*self.kind[steps].tolist()}
            step = Class("step")
            self.classes = [step if at in kinds else each for at, each in enumerate(self.classes)]
        return steps[np.argsort(self.start[steps], kind="stable")]

    @property
    def is_denoised(self) -> bool:
        """Whether a diffusion model makes the steps, by the names of annotations."""
        return len(self.denoised) > 0 and np.array_equal(self.steps, self.denoised)

    @property
    def is_served(self) -> bool:
        """Whether a server makes the steps."""
        return len(self.served) > 0 and np.array_equal(self.steps, self.served)

    @cached_property
    def phases(self) -> Sequence[str | None]:
        """The phase of each step [steps], if all of the server's steps in it have the same phase; otherwise None."""
        found: list[set[str | None]] = [set() for _ in self.steps]
        for run, told in zip(self.run[self.served].tolist(), self.told, strict=True):
            if run < len(found):
                found[run].add(told.phase)
        return [each.pop() if len(each) == 1 else None for each in found]

    @property
    def told(self) -> Sequence[Told]:
        """The facts in the names of a server's steps."""
        of_kinds = {kind: told_by(self.kinds[kind][1]) for kind in {*self.kind[self.served].tolist()}}
        found = [told for kind in self.kind[self.served].tolist() if (told := of_kinds[kind]) is not None]
        if found and any(is_sglang(name) for _, name in self.kinds):
            return [told._replace(engine="sglang") for told in found]
        return found

    def _served(self) -> Whole:
        """Return the annotations that are steps of a server, ordered by start. An annotation that begins within another
        one of its thread is left out.
        """
        rows = np.flatnonzero(
            self._are(
                [
                    each.activity == "annotation" and not each.on_device and told_by(name) is not None
                    for each, (_, name) in zip(self.classes, self.kinds, strict=True)
                ]
            )
            & (self.elapsed > 0)
        )
        ends: dict[int, int] = {}
        kept = []
        for row in rows[np.lexsort((self.at[rows], -self.elapsed[rows], self.start[rows]))].tolist():
            thread, start = int(self.thread[row]), int(self.start[row])
            if start >= ends.get(thread, start):
                kept.append(row)
                ends[thread] = start + int(self.elapsed[row])
        return np.array(kept, np.int64)

    def _denoised(self) -> Whole:
        """Return the annotations that are steps of a diffusion model, ordered by start, without annotations that
        contain others. If more than half of the annotations are shorter than the time to the next annotation, they only
        mark a part of each step; then the result is empty.
        """
        rows = np.flatnonzero(self._are([each.purpose == "denoising" for each in self.classes]) & (self.elapsed > 0))
        rows = rows[np.lexsort((-self.elapsed[rows], self.start[rows]))]
        ends = self.start[rows] + self.elapsed[rows]
        is_innermost = np.ones(len(rows), np.bool_)
        is_innermost[:-1] = (self.start[rows][1:] >= ends[:-1]) | (ends[1:] > ends[:-1])
        rows = rows[is_innermost]
        are_short = self.start[rows][1:] - ends[is_innermost][:-1] > self.elapsed[rows][:-1]
        return rows if 2 * are_short.sum() <= len(are_short) else rows[:0]

    def _is_in_turns(self, rows: Whole) -> bool:
        """Whether there are slices in `rows`, and none of them overlaps another. They must be ordered by start."""
        return len(rows) > 0 and bool((self.start[rows][1:] >= (self.start + self.elapsed)[rows][:-1]).all())

    def is_launched_within(self, kind: int, around: npt.NDArray[np.bool_]) -> bool:
        """Return whether each event of a kind was launched within a slice of one of the kinds `around` [kinds], with no
        op between them except ops of collectives.
        """
        is_op = self._are([each.activity == "op" and each.purpose != "collective" for each in self.classes])
        return is_launched_within(self.call[self.kind == kind], self.parent, around[self.kind], is_op)

    def _origins(self) -> Whole:
        """Return the launch of each device event, or, without a launch, the op or annotation that owns the event; -1
        for none.
        """
        places = (self.kind, self.call, self._external, self.correlation, self.rank)
        alone, by_id = owners_by_id(self.classes, *places)
        origin = self.call.copy()
        origin[alone] = by_id.owner
        return origin

    def _runs(self) -> Whole:
        """Return the run of each slice. It is the step in which the slice begins. For a device event, it is the step in
        which its launch begins, or, without a launch, the op or annotation that owns it.

        If work has neither, it belongs to no step, because it may be from before the recording. If the trace has no
        launches at all, it belongs to the step in which it begins.
        """
        if not len(self.steps):
            return np.zeros(len(self.at), np.int64)
        starts = self.start[self.steps]
        ends = starts + self.elapsed[self.steps]
        origin = self.origin
        moment = np.where(origin == NONE, self.start, self.start[origin])
        step = np.searchsorted(starts, moment, side="right") - 1
        # After the end of a nested step, the outer step continues.
        around = [_steps_around(ends)]
        while (around[-1] != NONE).any():  # n nested steps take log2(n) passes
            last = around[-1]
            around.append(np.where(last == NONE, NONE, last[last]))
        for outer in reversed(around):
            after = np.flatnonzero((step >= 0) & (moment > ends[step]))
            next_step = outer[step[after]]
            is_over = (next_step != NONE) & (moment[after] > ends[next_step])
            step[after[is_over]] = next_step[is_over]
        after = np.flatnonzero((step >= 0) & (moment > ends[step]))
        step[after] = around[0][step[after]]
        is_work = self._are([each.is_work for each in self.classes])
        if (self.call[is_work] != NONE).any():
            step[is_work & (origin == NONE)] = NONE
        return np.where(step >= 0, step, len(self.steps))

    def _nested(self) -> tuple[Whole, Whole]:
        """Return the parent of each slice, which is the slice of its thread that contains it, and the ticks before its
        end that belong to other slices. Device events have no parent and no child.
        """
        slack = _slack(self.start)
        is_nested = are_nested(self.kinds, self.classes, self.kind, self.elapsed)
        if is_nested.all():
            return nesting(self.thread, self.start, self.start + self.elapsed, slack)
        parent, overlap = np.full(len(self.at), NONE, np.int64), np.zeros(len(self.at), np.int64)
        nested = np.flatnonzero(is_nested)
        start = self.start[nested]
        found, overlap[nested] = nesting(self.thread[nested], start, start + self.elapsed[nested], slack[nested])
        is_within = found != NONE
        parent[nested[is_within]] = nested[found[is_within]]
        return parent, overlap


class Added:
    """Slices to be added within calls that launch graphs: the ops and modules in which the graphs' kernels were
    recorded.

    Each part first has the recorded slices and their rows, and the call, start, ticks and parent of each of them. Then
    it has the kernels, and the op and the owner of each kernel, as rows; -1 for none.
    """

    def __init__(self, first: int, first_at: int) -> None:
        """`first` is the row of the first added slice. `first_at` is its position, after all entries of the file."""
        self.first, self.first_at, self.count = first, first_at, 0
        self.parts: list[tuple[Any, ...]] = []

    def add(self, slices: Slices, call: int, work: Whole, recorded: Any, template: Template) -> int:
        """Add the slices of one call; return the position of the first. Each slice lasts one nanosecond, plus one for
        each slice that it contains. The slices are within the call, but don't reduce its own time.
        """
        first = self.first + self.count
        size = len(template.rows)
        start = np.arange(1, size + 1)
        end = start + template.within + 1
        start, end = (slices.start[call] + np.minimum(each, slices.elapsed[call]) for each in (start, end))
        parent = np.where(template.parent == NONE, call, first + template.parent)
        kernels = np.flatnonzero(template.owner != NONE)
        op, owner = (
            np.where(places[kernels] == NONE, NONE, first + places[kernels]) for places in (template.op, template.owner)
        )
        self.parts.append(
            (recorded, template.rows, np.full(size, call), start, end - start, parent, work[kernels], op, owner)
        )
        self.count += size
        return self.first_at + first - self.first


class Template(NamedTuple):
    """The slices that each launch of a graph adds. `rows` has the rows of the recorded slices, from outer to inner.
    `parent` has the index in `rows` of each slice's parent, and `within` how many slices each contains. `op` and
    `owner` have, for each kernel, the indexes in `rows` of its op and of its innermost slice. -1 stands for none.
    """

    rows: Whole
    parent: Whole
    within: Whole
    op: Whole
    owner: Whole


def are_nested(
    kinds: Sequence[tuple[str, str]], classes: Sequence[Class], kind: Whole, elapsed: Whole
) -> npt.NDArray[np.bool_]:
    """Return which slices may contain each other. Slices of devices don't, nor do slices that end before they start."""
    is_apart = np.array(
        [each.on_device or category == _RECORDING for (category, _), each in zip(kinds, classes, strict=True)], np.bool_
    )
    found: npt.NDArray[np.bool_] = (elapsed >= 0) & ~is_apart[kind]
    return found


def _processes(columns: TraceColumns) -> Whole:
    """Return for each thread a number that identifies its process."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(spelled(pid), len(numbers)) for pid, _ in columns.threads], np.int64)


def _ranks(columns: TraceColumns, thread: npt.NDArray[np.int32]) -> Whole:
    """Return for each thread a number that identifies its process's rank; all processes without a rank have the same
    number. `thread` has the threads of the slices. The slices can be separated by rank if each thread has one.
    """
    numbers: dict[str, int] = {}
    names = [rank_of(spelled(pid)) for pid, _ in columns.threads]
    if len(found := {*names} - {""}) > 1:
        advice = ": etq ingest FILE stores a capture of each, and etq show stragglers FILE compares them"
        if any(not names[each] for each in np.unique(thread).tolist()):
            advice = "; they can't be separated, as other events are of processes without a rank"
        what = f"the trace has the events of {len(found)} ranks, whose times are added up here"
        columns.find("several ranks", what + advice)
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _steps_around(ends: Whole) -> Whole:
    """Return for each step, in the order of starts, the last earlier step that ends later; -1 if there is none."""
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
    start, duration = (np.frombuffer(time, np.int64) for time in columns.times)
    is_kept = np.abs(start) < BEYOND
    if lost := int((~is_kept).sum()):
        columns.find("impossible times", f"left out: {counted(lost, 'event')} with times beyond 64 bits")
    if unknown := int((duration == NO_TIME).sum()):
        columns.find("no duration", f"{counted(unknown, 'event')} without a duration, which counts as 0")
    if endless := int((_is_beyond(start, duration) & is_kept).sum()):
        columns.find("impossible times", f"{counted(endless, 'event')} without a duration: it exceeds 64 bits")
    if negative := int(((duration < 0) & (duration != NO_TIME)).sum()):
        columns.find("impossible times", f"{counted(negative, 'event')} without a duration: it ends before it starts")
    if NONE in columns.keys.kind:
        is_kept &= np.array(columns.keys.kind)[np.frombuffer(columns.key, np.int32)] != NONE
    return slice(None) if is_kept.all() else is_kept


def _elapsed(start: Whole, duration: Whole) -> Whole:
    """Return the ticks of each slice. A missing duration counts as 0, and one that is too large is unknown."""
    is_unknown = duration == NO_TIME
    elapsed = np.where(is_unknown, 0, duration) if is_unknown.any() else duration
    is_beyond = _is_beyond(start, elapsed)
    return np.where(is_beyond, UNKNOWN, elapsed) if is_beyond.any() else elapsed


def _is_beyond(start: Whole, duration: Whole) -> npt.NDArray[np.bool_]:
    """Return which slices end at a time beyond 64 bits, or last longer."""
    length = np.where(duration == NO_TIME, 0, duration)
    found: npt.NDArray[np.bool_] = np.abs(np.clip(start, -BEYOND, BEYOND) + length) >= BEYOND
    return found | (np.abs(length) >= BEYOND)


def _slack(start: Whole) -> Whole:
    """Return by how many ticks each slice may end after its parent. It is the precision of the slice's microseconds as
    a float, because other tools compute times as floats.
    """
    slack = np.ceil(np.spacing(np.abs(start) / 1000) * 1000).astype(np.int64)
    return np.where(slack < 2, 0, slack)
