"""Staging: reads files into loads that don't belong to a lake yet, in one or many processes that write to it.

A process that is killed leaves files that no table has. `etq.lake.writing.publishing` makes the loads part of the lake.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

from etq.annotations.discovery import discover
from etq.database.temporary import temporary_folder
from etq.errors import EtqError
from etq.lake.reading.state import read
from etq.lake.reading.tables import Lake
from etq.lake.writing.loads import MOST_CONTENTS, Load, parts, write
from etq.lake.writing.publishing import Content, known_of, publish
from etq.lake.writing.stores import writing
from etq.storage.bulk import FileToStore, store_many
from etq.storage.capture import Links, Options, in_little_memory
from etq.storage.sources import Source
from etq.warehouse.warehouse import Warehouse, open


@dataclass(frozen=True)
class StagingJob:
    """How to add files: the lake, the prefix of loads' names, and the options for each file."""

    lake: Lake
    prefix: str
    options: Options
    label_from: str | None = None
    of_git: Mapping[str, str] = field(default_factory=dict)
    sidecar: bool = True
    record: bytes | None = None
    program: bytes | None = None


@dataclass(frozen=True)
class Staged:
    """A file whose capture was written to a load, and the capture's name."""

    path: str
    sha256: str
    name: str
    load: str


@dataclass(frozen=True)
class Known:
    """A file that was not written, as its content is known."""

    path: str


@dataclass(frozen=True)
class Rejected:
    """A file that was left out, and why."""

    path: str
    error: str


Result = Staged | Known | Rejected | Load


def stage(job: StagingJob, files_given: Iterable[tuple[str, bytes]]) -> Iterator[Result]:
    """Stage the captures of files, (path, content) each. Yields the result for each file, and then the loads.

    Content that the lake has, or that an earlier file had, is not written again. Until a load is complete, its captures
    are in a temporary file of this machine. Raises `WarehouseError` if the lake can't be written.
    """
    with writing(job.lake):
        held = known_of(read(job.lake), "capture")
    rest = iter(files_given)
    for first in rest:
        with temporary_folder() as folder, _open(folder) as warehouse:
            # The process that starts this one gives it one core.
            warehouse.connection.execute("SET threads = 1")
            yield from _write(job, warehouse, held, chain([first], islice(rest, MOST_CONTENTS - 1)))


def _open(folder: str) -> Warehouse:
    """An empty warehouse, of this process alone, which writes files of the lake."""
    return open(Path(folder) / "staging.duckdb", external_access=True)


def _write(
    job: StagingJob, warehouse: Warehouse, held: Container[str], files_given: Iterable[tuple[str, bytes]]
) -> Iterator[Result]:
    """The results for the files that an empty warehouse takes, and their loads."""
    links = _links(warehouse, job)
    find = partial(discover, pattern=job.label_from, of_git=job.of_git, sidecar=job.sidecar)
    known: list[str] = []
    paths: list[str] = []

    def files_to_store() -> Iterator[FileToStore | EtqError]:
        for path, content in files_given:
            source = Source(content, path)
            if source.sha256 in held:
                known.append(path)
                continue
            paths.append(path)
            try:
                file: FileToStore | EtqError = FileToStore(source, replace(job.options, discovered=find(path)))
            except EtqError as error:
                file = error
            yield file

    with in_little_memory(warehouse.connection):
        outcomes = [each for together in store_many(warehouse.connection, files_to_store(), links) for each in together]
    loads = _loads(job, warehouse)
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
        yield Staged(path, sha256, name, loads[key].id) if is_new else Known(path)
    yield from {each.id: each for each in loads.values()}.values()


def _links(warehouse: Warehouse, job: StagingJob) -> Links:
    links: list[tuple[str, int]] = []
    if job.program is not None:
        links.append(("program_id", warehouse.ingest_program(job.program).program_id))
    if job.record is not None:
        links.append(("record_id", warehouse.ingest_record(job.record).record_id))
    return links


def _loads(job: StagingJob, warehouse: Warehouse) -> dict[int, Load]:
    """Write all captures of a warehouse; the load of each key."""
    connection = warehouse.connection
    keys = [key for (key,) in connection.execute("SELECT capture_id FROM captures ORDER BY capture_id").fetchall()]
    loads: dict[int, Load] = {}
    for part in parts(connection, "capture", keys):
        loads |= dict.fromkeys(part, write(connection, job.lake, "capture", part, job.prefix))
    return loads


def published(lake: Lake, results: Iterable[Result]) -> int:
    """Make what was staged part of the lake; returns how many captures are new.

    Of files with the same content, the first one stays. Names are those that `etq lake add` gives to files in this
    order. Raises `WarehouseError` as `publish` does.
    """
    results = [*results]
    contents = [
        Content("capture", each.sha256, each.name, each.path, each.load) for each in results if isinstance(each, Staged)
    ]
    loads = [each for each in results if isinstance(each, Load)]
    with writing(lake):
        return publish(lake, loads, contents, by_path=True).new
