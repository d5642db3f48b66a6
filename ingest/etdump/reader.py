"""ETDump (`.etdp`): events and values that an ExecuTorch runtime logged, as tables.

The one public function is `read_etdump`. Two threads decode slices of events (`run_groups`, `slices`). The steps that
need the events in order, such as finding event blocks, process one group of runs at a time: memory use does not grow
with the file.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.dictionary import encode_strings
from etq.ingest.etdump.containers import Dump, dumps_in_log, find_dumps, is_etdump, is_text, zeros_before
from etq.ingest.etdump.run_groups import decoded_groups
from etq.ingest.etdump.schema import ALLOCATOR, ETDUMP, RUN_DATA
from etq.ingest.events import classify as signatures
from etq.ingest.events import rows as event_rows
from etq.ingest.events.blocks import Blocks, Structure
from etq.ingest.events.detached import Misfits, find_detached, leave_out_unended
from etq.ingest.events.event import DEBUG, OUTPUT, PROFILE, EventSlice, Ticks
from etq.ingest.events.host_clock import HostClock
from etq.ingest.events.keys import NOWHERE, Indexes, Keys
from etq.ingest.events.own_times import Settling, unsettled
from etq.ingest.events.rows import Mask, Place, Runs
from etq.ingest.flatbuffers.reader import REFERENCE, Buffer, Tables
from etq.ingest.other_files import other_file

# The number of runs whose tables are read at a time. The tables are spread over the file, and each page that is read
# stays in memory.
RUNS: Final = 4096
# After this many groups of runs, about 35 MB, the pages of a mapped file are released.
RELEASE_EVERY: Final = 8
# A debug buffer is recognised by its name, as it has nothing but the bytes of tensors.
_NAMED_BUFFER: Final = re.compile(r"debug[^/]*\.bin$")
_DEBUG_BUFFER: Final = (
    "perhaps a debug buffer, not an ETDump; give the .etdp of the run, and this to etq ingest as --debug-buffer"
)
# The kinds of events that only an execute logs.
_OPS: Final = frozenset(("kernel", "operator_call", "delegate_call", "delegate"))
# How many runs a finding lists.
_LISTED: Final = 5

Batch = tuple[str, pa.RecordBatch]


def read_etdump(data: Any, path: str, clock_bits: int | None = None) -> Iterator[Batch]:
    """Read one or several ETDumps, or a log with ETDumps in base64, and yield pairs of base table and rows.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages. `clock_bits` (32 or 64) is the
    width of the clock's counter, if known; otherwise it is taken to be 32 as soon as an event whose times are below
    2**32 ends before it starts. Rows lack the key `capture_id`, which the warehouse assigns. The table `captures` has
    one row and comes last; rows of a table come in the order of its key.

    Raises `FormatError`, naming the byte, for files that are damaged, truncated or not an ETDump.
    """
    if is_etdump(data):
        yield from _Reader(clock_bits).read([(data, path)])
        return
    logged = dumps_in_log(data, path) if is_text(data) else []
    if not logged:
        raise FormatError(path, _DEBUG_BUFFER if _NAMED_BUFFER.search(path) else _what_it_is(data))
    yield from _Reader(clock_bits).read([(dump, f"{path} (base64 dump {index})") for index, dump in enumerate(logged)])


def _what_it_is(data: Any) -> str:
    size, head = len(data), bytes(data[:12])
    if size == 0:
        return "the file is empty; copy or record it again"
    if head[4:8] == b"ET12":
        return (
            "this is an ExecuTorch program (.pte), not an ETDump; give the .etdp of a run, with this as --pte; etq "
            "FILE shows its ops and delegates, etq show planned_memory FILE its memory"
        )
    if head.startswith(b"PK"):
        return "this is a zip, perhaps an ETRecord, not an ETDump; give the .etdp of a run, with this as --etrecord"
    if (other := other_file(data)) is not None:
        return other
    if not any(data[: min(size, 4096)]):
        return "the file holds zeros; expected a profiling file"
    return (
        "not a profiling file; etq reads ETDumps (.etdp, also in a log as base64), PyTorch traces (.json, .json.gz), "
        "prof_result.bin, and with etq FILE also ETRecords (.etrecord), programs (.pte) and warehouses (.duckdb)"
    )


class _Facts:
    """Properties of a whole file that are only known at its end."""

    def __init__(self) -> None:
        self.types: set[int] = set()
        # Runs with an execute that did not end.
        self.unended: list[int] = []
        # For each signature of a delegate: the number of its events, of its bare values (which start at 0), and of its
        # events on a clock other than the host's.
        self.clocks: npt.NDArray[np.int64] = np.zeros((0, 3), np.int64)
        # For each signature, whether its events count ticks, of any clock.
        self.count_ticks: list[bool] = []


class _Reader:
    def __init__(self, clock_bits: int | None) -> None:
        self.clock = HostClock(clock_bits)
        self.keys = Keys()
        self.blocks = Blocks(self.keys)
        self.runs = Runs()
        self.facts = _Facts()
        self.misfits = Misfits()
        self.settling = Settling(self.keys, self.clock)
        self.findings: list[tuple[str, str]] = []
        self.dumps = 0

    def read(self, sources: list[tuple[Any, str]]) -> Iterator[Batch]:
        for data, path in sources:
            buffer = Buffer(data, path)
            dumps, trailing = find_dumps(data, path)
            if zeros := zeros_before(data):
                self._find("leading zeros", f"{zeros} zeros before the first dump are ignored")
            if trailing:
                self._find("trailing bytes", f"{trailing} bytes after the last dump belong to none and are ignored")
            for dump in dumps:
                yield from self._read_dump(buffer.part(dump.start, dump.end), dump, data)
        if self.dumps > 1:
            self._find("several dumps", f"{self.dumps} ETDumps in one file; dump_index distinguishes their runs")
        yield from self._closing_tables()

    def _find(self, rule: str, detail: str) -> None:
        self.findings.append((rule, detail))

    def _read_dump(self, buffer: Buffer, dump: Dump, data: Any) -> Iterator[Batch]:
        start = np.array([dump.start], np.int64)
        root = Tables(buffer, ETDUMP, start + buffer.gather(start, REFERENCE, "the reference to the root table"))
        run_data = root.spans("run_data", 4)
        dump_index, self.dumps = self.dumps, self.dumps + 1
        self.clock.begin_dump()
        buffer.claim(4 * run_data.total(), "ETDump.run_data")
        for first in range(0, run_data.total(), RUNS):
            runs = root.elements(run_data, RUN_DATA, first, min(first + RUNS, run_data.total()))
            yield from self._read_runs(runs, dump_index, data)

    def _read_runs(self, runs: Tables, dump_index: int, data: Any) -> Iterator[Batch]:
        codes, names = encode_strings(runs.buffer, runs.spans("name", 1), "RunData.name")
        first_run = len(self.runs)
        names_of_runs = [names[code] or "" for code in codes.tolist()]
        self.runs.add(names_of_runs, dump_index, runs.scalar("bundled_input_index").tolist())
        yield from self._allocators(runs, first_run)
        spans = runs.spans("events", 4)
        runs.buffer.claim(4 * spans.total(), "RunData.events")
        for number, (group, slices) in enumerate(decoded_groups(runs, spans)):
            here = slice(group.start, group.stop)
            yield from self._read_group(first_run + group.start, spans.count[here], spans.present[here], slices)
            if number % RELEASE_EVERY == 0 and isinstance(data, mmap.mmap):
                # Decoded pages needn't stay in memory: they can be read from the file again.
                data.madvise(mmap.MADV_DONTNEED)

    def _allocators(self, runs: Tables, first_run: int) -> Iterator[Batch]:
        spans = runs.spans("allocators", 4)
        if not spans.total():
            return
        runs.buffer.claim(4 * spans.total(), "RunData.allocators")
        found = runs.elements(spans, ALLOCATOR, 0, spans.total())
        codes, names = encode_strings(runs.buffer, found.spans("name", 1), "Allocator.name")
        run_index = np.repeat(np.arange(len(runs)), spans.count)
        # AllocationEvent.allocator_id counts a run's allocators from 1.
        allocator_id = np.arange(spans.total()) - (np.cumsum(spans.count) - spans.count)[run_index] + 1
        yield (
            "allocators",
            event_rows.allocators(run_index + first_run, allocator_id, [names[code] for code in codes.tolist()]),
        )

    def _read_group(self, first_run: int, counts: Indexes, listed: Mask, slices: list[EventSlice]) -> Iterator[Batch]:
        """Yield the rows of consecutive runs from `first_run` on. Run i has `counts[i]` events; the slices have all
        events of these runs. Runs that aren't `listed` have no list of events and no block, as in the Inspector.
        """
        codes = np.concatenate([self.keys.codes(part.keys)[part.codes] for part in slices])
        start = np.concatenate([part.start for part in slices])
        elapsed = np.concatenate([part.elapsed for part in slices])
        type = self.keys.column(Keys.TYPE)[codes]
        self.facts.types.update(np.flatnonzero(np.bincount(type)).tolist())
        ends = np.cumsum(counts)
        is_host = (type == PROFILE) & (self.keys.column(Keys.ROLE)[codes] != Keys.DELEGATE)
        times, _ = self.clock.comparable_starts(start, elapsed, start + elapsed, ends, is_host)
        runs = range(first_run, first_run + len(counts))
        of_blocks = (first_run + np.flatnonzero(listed)).tolist()
        patterns, structure = self.blocks.structure(
            [self.runs.name[run] for run in of_blocks],
            [self.runs.bundled_input_index[run] for run in of_blocks],
            codes,
            times,
            ends[listed],
        )
        block_of = dict(zip(of_blocks, (pattern.block_index for pattern in patterns), strict=True))
        self.runs.block_index += [block_of.get(run, NOWHERE) for run in runs]
        before = np.repeat(ends - counts, counts)
        place = Place(np.repeat(np.arange(runs.start, runs.stop), counts), np.arange(len(codes)) - before)
        unended = leave_out_unended(structure, start, elapsed, before)
        self.facts.unended += sorted({*place.run_index[unended].tolist()})
        detached = self._detached(structure, codes, start, elapsed, before)
        own = self.settling.own_times(structure, codes, start, elapsed, before, detached, self._are_host_ticks())
        self.runs.times.add(self.blocks.signatures, structure, own, before, place.run_index - first_run, len(counts))
        chosen = None if self.facts.types == {PROFILE} else type == PROFILE
        yield "event_ticks", event_rows.event_ticks(place, structure, start, elapsed, slices, chosen, detached, own)
        base = 0
        for part in slices:
            if len(part.allocations[0]):
                yield "allocations", event_rows.allocations(place, base + part.allocations[0], part)
            if part.values is not None:
                at = base + part.values.at
                keys = [self.keys.keys[code] for code in codes[at].tolist()]
                yield "debug_values", event_rows.debug_values(place, at, keys, part.values)
            base += len(part.codes)

    def _detached(
        self, structure: Structure, codes: Indexes, start: Ticks, elapsed: Ticks, before: Indexes
    ) -> npt.NDArray[np.bool_] | None:
        """Find the detached events, and set the likely clock of the signatures of delegates' events."""
        found = find_detached(self.keys, self.clock, structure, codes, start, elapsed, before)
        self.misfits.note(found, structure.signature)
        rows = len(self.blocks.signatures)
        if rows > len(self.facts.clocks):
            grown = np.zeros((rows, 3), np.int64)
            grown[: len(self.facts.clocks)] = self.facts.clocks
            self.facts.clocks = grown
        roles = self.keys.column(Keys.ROLE)
        if (roles == Keys.DELEGATE).any():
            delegate = np.flatnonzero((roles[codes] == Keys.DELEGATE) & (structure.signature != NOWHERE))
            signature = structure.signature[delegate]
            elsewhere = structure.signature[found.delegates[found.elsewhere]]
            is_bare = start == 0
            is_bare[found.delegates[found.counted]] = False
            for column, counted in enumerate((signature, signature[is_bare[delegate]], elsewhere)):
                self.facts.clocks[:, column] += np.bincount(counted, minlength=rows)
        return found.events

    def _are_host_ticks(self) -> npt.NDArray[np.bool_] | None:
        """Return for each signature whether its events are in ticks of the host's clock, according to the events so
        far; None if all signatures are. The runtime's events always are.
        """
        if not (self.keys.column(Keys.ROLE) == Keys.DELEGATE).any():
            return None
        counted = self.facts.count_ticks
        new = self.blocks.signatures[len(counted) :]
        counted += [signatures.event_value_unit(row.key, False) == "ticks" for row in new]
        is_host: npt.NDArray[np.bool_] = event_rows.clocks_of(self.facts.clocks) == event_rows.HOST
        return is_host & np.array(counted, np.bool_)

    def _failed_runs(self, names: Mapping[int, str]) -> list[tuple[str, str]]:
        """Return findings (rule, detail) about runs whose execute has no end, and about runs that log ops but no
        execute although other runs of the name log one. The runtime logs an execute at its end, unless an op fails.
        `names` has the name of each block's runs.
        """
        rows = self.blocks.signatures
        executes = {row.block_index for row in rows if row.key.name in (signatures.EXECUTE, signatures.STEP)}
        ops = {row.block_index for row in rows if signatures.event_kind(row.key) in _OPS}
        failed = {block for block in ops - executes if names[block] in {names[execute] for execute in executes}}
        without = [run for run, block in enumerate(self.runs.block_index) if block in failed]
        causes = {
            "did not end: Method::execute has no end": self.facts.unended,
            "log ops but no Method::execute: their execute failed": without,
        }
        return [
            (
                "failed runs",
                f"{len(runs)} of {len(self.runs)} runs {cause}, and their times are in no total (run_index "
                f"{', '.join(map(str, runs[:_LISTED]))}{', ...' if len(runs) > _LISTED else ''})",
            )
            for cause, runs in causes.items()
            if runs
        ]

    def _closing_tables(self) -> Iterator[Batch]:
        yield "runs", self.runs.rows()
        yield "signatures", event_rows.signature_rows(self.blocks.signatures, self.facts.clocks)
        rows = self.blocks.signatures
        names = dict(zip(self.runs.block_index, self.runs.name, strict=True))
        detached = self.misfits.findings([row.key for row in rows], [names[row.block_index] for row in rows])
        findings = [*self.findings, *self.clock.findings(), *detached, *self._failed_runs(names)]
        if findings:
            yield "findings", event_rows.findings(findings)
        is_debug = self.facts.types & {DEBUG, OUTPUT}
        if not self.settling.is_settled(self._are_host_ticks()):
            yield unsettled()
        level = "debug" if is_debug else signatures.profiling_level(self.keys.keys)
        yield "captures", event_rows.capture("etdump", self.clock.bits(), level)
