"""Staging: reads files into segments that don't belong to a lake yet, in one or many processes that share its folder.

A process that is killed leaves files that no log names. `etq.lake.publishing` makes the segments part of the lake.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

import duckdb

from etq.annotations.discovery import discover
from etq.errors import EtqError
from etq.lake import log
from etq.lake.log import Segment
from etq.lake.reading import files
from etq.lake.segments import MOST_CONTENTS, parts, write
from etq.storage.bulk import File, store_many
from etq.storage.capture import Links, Options, in_little_memory
from etq.storage.sources import Source
from etq.warehouse.warehouse import Warehouse, open


@dataclass(frozen=True)
class StagingJob:
    """How to add files: the lake, the prefix of segments' names, and the options for each file."""

    lake: str
    prefix: str
    options: Options
    label_from: str | None = None
    of_git: Mapping[str, str] = field(default_factory=dict)
    sidecar: bool = True
    record: bytes | None = None
    program: bytes | None = None


@dataclass(frozen=True)
class Staged:
    """A file whose capture was written to a segment, and the capture's name."""

    path: str
    sha256: str
    name: str
    segment: str


@dataclass(frozen=True)
class Known:
    """A file that was not written, as its content is known."""

    path: str


@dataclass(frozen=True)
class Rejected:
    """A file that was left out, and why."""

    path: str
    error: str


Result = Staged | Known | Rejected | Segment


def stage(job: StagingJob, files_given: Iterable[tuple[str, bytes]]) -> Iterator[Result]:
    """Stage the captures of files, (path, content) each. Yields the result for each file, and then the segments.

    Of files that hold the same, and of what the lake has, nothing is written again. What a segment may hold is on this
    machine's disk meanwhile, and some files in memory. Raises `WarehouseError` if the lake can't be written.
    """
    lake = _Lake(Path(job.lake))
    rest = iter(files_given)
    for first in rest:
        with tempfile.TemporaryDirectory(prefix="etq-") as folder, _open(folder) as warehouse:
            # The process that starts this one gives it one core.
            warehouse.connection.execute("SET threads = 1")
            yield from _write(job, warehouse, lake, chain([first], islice(rest, MOST_CONTENTS - 1)))


def _open(folder: str) -> Warehouse:
    """An empty warehouse, of this process alone, which writes files of the lake."""
    return open(Path(folder) / "staging.duckdb", external_access=True)


class _Lake:
    """The content of a lake when the object is made."""

    def __init__(self, lake: Path) -> None:
        self.connection = duckdb.connect(":memory:")
        self.connection.execute("SET threads = 1; CREATE TABLE known (sha256 VARCHAR)")
        if paths := files(lake, log.read(lake), "captures"):
            self.connection.execute("INSERT INTO known SELECT sha256 FROM read_parquet(?)", [paths])

    def has(self, sha256: str) -> bool:
        """Whether a capture is there."""
        return bool(self.connection.execute("SELECT 1 FROM known WHERE sha256 = ?", [sha256]).fetchall())


def _write(
    job: StagingJob, warehouse: Warehouse, lake: _Lake, files_given: Iterable[tuple[str, bytes]]
) -> Iterator[Result]:
    """The results for the files that an empty warehouse takes, and their segments."""
    links = _links(warehouse, job)
    find = partial(discover, pattern=job.label_from, of_git=job.of_git, sidecar=job.sidecar)
    known: list[str] = []
    paths: list[str] = []

    def files_to_store() -> Iterator[File | EtqError]:
        for path, content in files_given:
            source = Source(content, path)
            if lake.has(source.sha256):
                known.append(path)
                continue
            paths.append(path)
            try:
                file: File | EtqError = File(source, replace(job.options, discovered=find(path)))
            except EtqError as error:
                file = error
            yield file

    with in_little_memory(warehouse.connection):
        outcomes = [each for together in store_many(warehouse.connection, files_to_store(), links) for each in together]
    segments = _segments(job, warehouse)
    for path in known:
        yield Known(path)
    query = "SELECT capture_id, sha256, name FROM captures"
    captures = {key: (sha256, name) for key, sha256, name in warehouse.connection.execute(query).fetchall()}
    for path, outcome in zip(paths, outcomes, strict=True):
        if isinstance(outcome, EtqError):
            yield Rejected(path, str(outcome))
            continue
        key, is_new = outcome
        sha256, name = captures[key]
        yield Staged(path, sha256, name, segments[key].name) if is_new else Known(path)
    yield from {each.name: each for each in segments.values()}.values()


def _links(warehouse: Warehouse, job: StagingJob) -> Links:
    links: list[tuple[str, int]] = []
    if job.program is not None:
        links.append(("program_id", warehouse.ingest_program(job.program).program_id))
    if job.record is not None:
        links.append(("record_id", warehouse.ingest_record(job.record).record_id))
    return links


def _segments(job: StagingJob, warehouse: Warehouse) -> dict[int, Segment]:
    """Write all captures of a warehouse; the segment of each key."""
    connection = warehouse.connection
    rows = connection.execute("SELECT capture_id, name FROM captures ORDER BY capture_id").fetchall()
    names = dict(rows)
    segments: dict[int, Segment] = {}
    for part in parts(connection, "capture", [*names]):
        segment = write(connection, Path(job.lake), "capture", {key: names[key] for key in part}, job.prefix)
        segments |= dict.fromkeys(part, segment)
    return segments
