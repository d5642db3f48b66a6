"""`prof_result.bin`: entries that ExecuTorch's profiler before ETDump logged, as tables.

The one public function is `read_prof_result`. `blocks` finds the blocks' positions, `checks` compares iterations;
grouping, nesting and rows use the code for ETDumps. Two things differ from ETDumps. Entries are in the order of their
starts, so the order of their ends must be found first. Iterations repeat their keys byte for byte, so each distinct
sequence of keys is decoded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import batch, numbers
from etq.ingest.events import classify as signatures
from etq.ingest.events import rows as event_rows
from etq.ingest.events.blocks import Blocks
from etq.ingest.events.detached import Misfits, find_detached
from etq.ingest.events.event import PROFILE, EventKey
from etq.ingest.events.host_clock import WRAP, HostClock
from etq.ingest.events.keys import Indexes, Keys
from etq.ingest.events.own_times import Settling, unsettled
from etq.ingest.events.rows import Place, Runs
from etq.ingest.prof_result.blocks import ENTRY, KEY, Block, decoded_name, find_blocks
from etq.ingest.prof_result.checks import Checks

# How many entries are read at a time.
GROUP: Final = 65536
# How many sequences of keys are remembered. If all blocks of a file differ, remembering all would fill memory.
SEQUENCES: Final = 2048

Batch = tuple[str, pa.RecordBatch]


def read_prof_result(data: Any, path: str, clock_bits: int | None = None) -> Iterator[Batch]:
    """Read a `prof_result.bin` and yield pairs of base table and rows, as `read_etdump` does.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages, `clock_bits` as for ETDumps. Every
    block is a run of its name; allocations follow its entries, by event_index. If a block's table lacks an allocator
    that the block's allocations use, the allocator is taken from the last block of the file that has it.

    Findings report iterations of one name that differ, and allocators that no block has. Raises `FormatError`,
    naming the byte, for files of another version, truncated ones, counts that the file can't hold, and names that are
    not UTF-8.
    """
    yield from _Reader(data, path, clock_bits).read()


class _Reader:
    def __init__(self, data: Any, path: str, clock_bits: int | None) -> None:
        self.data = data
        self.path = path
        self.clock = HostClock(clock_bits)
        self.keys = Keys()
        self.blocks = Blocks(self.keys)
        self.checks = Checks(lambda code: self.keys.keys[code].name)
        self.runs = Runs()
        self.misfits = Misfits()
        self.settling = Settling(self.keys, self.clock)
        self._codes: dict[bytes, Indexes] = {}

    def read(self) -> Iterator[Batch]:
        found = find_blocks(self.data, self.path)
        tables = [self._allocator_table(block) for block in found]
        of_file = {id: name for table in tables for id, name in table.items()}
        for group in _groups(found):
            first = group.start
            members, own = found[first : group.stop], tables[first : group.stop]
            codes = [self._entry_codes(block) for block in members]
            yield "event_ticks", self._event_ticks(first, members, codes)
            allocations = [block.allocations.read(self.data) for block in members]
            for block, block_codes, allocated in zip(members, codes, allocations, strict=True):
                self.checks.compare(block, block_codes, allocated)
            if any(map(len, allocations)):
                yield "allocations", _allocation_rows(first, members, allocations)
                for block, allocated, table in zip(members, allocations, own, strict=True):
                    self._find_allocators(block, allocated, table, of_file)
            if any(own):
                yield "allocators", _allocator_rows(first, own)
        yield from self._closing_tables()

    def _entry_codes(self, block: Block) -> Indexes:
        """Return the code of each entry's key."""
        keys = block.entries.read(self.data)["key"].tobytes()
        codes = self._codes.get(keys)
        if codes is None:
            if len(self._codes) >= SEQUENCES:
                self._codes.clear()
            codes = self._codes[keys] = self._decoded_codes(block, keys)
        return codes

    def _decoded_codes(self, block: Block, keys: bytes) -> Indexes:
        rows = np.frombuffer(keys, f"V{KEY.size}")
        _, first, which = np.unique(rows, return_index=True, return_inverse=True)
        distinct = []
        for entry in first.tolist():
            name, chain, instruction = KEY.unpack_from(keys, entry * KEY.size)
            at = block.entries.start + entry * ENTRY.itemsize
            text = decoded_name(name, self.path, f"the name of entry {entry}", at)
            distinct.append(EventKey(PROFILE, text, chain, instruction))
        return self.keys.codes(distinct)[which.ravel()]

    def _event_ticks(self, first: int, members: Sequence[Block], codes: Sequence[Indexes]) -> pa.RecordBatch:
        """Return rows of consecutive blocks; the first block is run `first` of the file."""
        entries = np.concatenate([block.entries.read(self.data) for block in members])
        counts = np.array([block.entries.count for block in members], np.int64)
        ends = np.cumsum(counts)
        run = np.repeat(np.arange(len(members)), counts)
        before = (ends - counts)[run]
        start = entries["start"].view(np.int64)
        elapsed = (entries["end"] - entries["start"]).view(np.int64)
        times, wrapped = self.clock.comparable_starts(start, elapsed, start, ends, np.ones(len(start), np.bool_))
        # An entry with impossible times ends where it starts.
        ended = times + np.maximum(np.where(wrapped[run] & (elapsed < 0), elapsed + WRAP, elapsed), 0)
        # Of entries that end together, the one that began first contains the others. If they also began together, it is
        # the one in the first slot.
        order = np.lexsort((-np.arange(len(run)), -times, ended, run))
        names = [block.name for block in members]
        patterns, structure = self.blocks.structure(
            names,
            [-1] * len(members),
            np.concatenate(codes),
            times,
            ends,
            order - before,
        )
        self.runs.add(names, dump_index=0)
        self.runs.block_index += [pattern.block_index for pattern in patterns]
        place = Place(first + run, np.arange(len(run)) - before)
        joined = np.concatenate(codes)
        detached = find_detached(self.keys, self.clock, structure, joined, start, elapsed, before)
        self.misfits.note(detached, structure.signature)
        own = self.settling.own_times(structure, joined, start, elapsed, before, detached.events, None)
        self.runs.times.add(self.blocks.signatures, structure, own, before, run, len(members))
        return event_rows.event_ticks(place, structure, start, elapsed, [], None, detached.events, own)

    def _allocator_table(self, block: Block) -> dict[int, str]:
        """Return the names of a block's allocators by id. If an id occurs twice, the last name is used."""
        table: dict[int, str] = {}
        rows = block.allocators.read(self.data)
        for row, (raw, id) in enumerate(zip(rows["name"].tolist(), rows["id"].view(np.int64).tolist(), strict=True)):
            at = block.allocators.start + row * rows.itemsize
            name = decoded_name(raw, self.path, f"the name of allocator {row}", at)
            if table.get(id, name) != name:
                self.checks.note("allocators of one id", block, f"{id} is {table[id]!r} and {name!r}")
            table[id] = name
        return table

    def _find_allocators(
        self, block: Block, allocations: npt.NDArray[Any], table: dict[int, str], of_file: dict[int, str]
    ) -> None:
        """Add the allocators that a block's allocations use but its table lacks, under their names in other blocks."""
        ids, first = np.unique(allocations["allocator_id"], return_index=True)
        for id, allocation in zip(ids.tolist(), first.tolist(), strict=True):
            if id in table:
                continue
            if id in of_file:
                table[id] = of_file[id]
            else:
                what = f"allocation {allocation} is from allocator {id}, which no block names"
                self.checks.note("unknown allocator", block, what)

    def _closing_tables(self) -> Iterator[Batch]:
        yield "runs", self.runs.rows()
        found = self.blocks.signatures
        yield "signatures", event_rows.signature_rows(found, np.zeros((len(found), 3), np.int64))
        names = dict(zip(self.runs.block_index, self.runs.name, strict=True))
        detached = self.misfits.findings([row.key for row in found], [names[row.block_index] for row in found])
        findings = [*self.checks.findings(), *self.clock.findings(), *detached]
        if findings:
            yield "findings", event_rows.findings(findings)
        if not self.settling.is_settled(None):
            yield unsettled()
        level = signatures.profiling_level(self.keys.keys)
        yield "captures", event_rows.capture("prof_result", self.clock.bits(), level)


def _groups(blocks: Sequence[Block]) -> Iterator[range]:
    """Yield ranges of consecutive blocks with about `GROUP` entries together, in order."""
    first = entries = 0
    for at, block in enumerate(blocks):
        if at > first and entries + block.entries.count > GROUP:
            yield range(first, at)
            first = at
            entries = 0
        entries += block.entries.count
    if blocks:
        yield range(first, len(blocks))


def _allocation_rows(first: int, members: Sequence[Block], allocations: Sequence[npt.NDArray[Any]]) -> pa.RecordBatch:
    rows = np.concatenate(allocations)
    run = np.repeat(np.arange(len(members)), [len(allocation) for allocation in allocations])
    begins = np.concatenate([np.arange(block.allocations.count) + block.entries.count for block in members])
    return batch(
        {
            "run_index": numbers((first + run).astype(np.int32)),
            "event_index": numbers(begins.astype(np.int32)),
            "allocator_id": numbers(rows["allocator_id"].astype(np.int64)),
            "size_bytes": numbers(rows["size_bytes"].astype(np.int64)),
        }
    )


def _allocator_rows(first: int, tables: Sequence[dict[int, str]]) -> pa.RecordBatch:
    run = np.repeat(np.arange(first, first + len(tables)), [len(table) for table in tables])
    ids = np.array([id for table in tables for id in sorted(table)], np.int64)
    return event_rows.allocators(run, ids, [table[id] for table in tables for id in sorted(table)])
