"""Stores many files. Small files share a transaction, because a transaction takes longer than storing a small file."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import duckdb

from etq.annotations.discovery import Discovered
from etq.annotations.labels import CAPTURED_AT
from etq.database.connection import FULL, explained, is_of_file
from etq.database.rollups import PRUNED
from etq.database.schema import in_transaction
from etq.errors import EtqError, StoreError, WarehouseError
from etq.ingest.arrow import Rows
from etq.ingest.registry import GZIP, is_json, read_capture
from etq.storage.capture import Links, NewCapture, Options, new_capture, store, store_new
from etq.storage.naming import names_for
from etq.storage.other_process import OtherProcess, is_for_other_process, processes
from etq.storage.sources import Source, source_of

# The most files, and the most bytes, that one transaction stores.
FILES: Final = 64
BYTES: Final = 32 * 2**20
# Larger files are streamed, each in its own transaction, whose cost hardly matters for them.
SMALL: Final = 4 * 2**20

# The result for a file: its capture_id and whether it is new; or the error.
Outcome = tuple[int, bool] | EtqError
# The content of a file after reading: tables with their rows.
Tables: TypeAlias = "list[tuple[str, Rows]]"


@dataclass(frozen=True)
class FileToStore:
    """A file to store, with its options and the annotations found for it."""

    source: Source
    options: Options


@dataclass(frozen=True)
class Batch:
    """Files that are stored together, and what was read from them: results by hash, or the process that reads a large
    trace.
    """

    files: Sequence[FileToStore | EtqError]
    tables: Mapping[str, Future[Tables]]
    process: OtherProcess | None = None
    on_read: Callable[[], None] = lambda: None  # called after each read of a file, before the commit


def files_of(
    sources: Iterable[str | os.PathLike[str] | bytes], options: Options, find: Callable[[str | None], Discovered]
) -> Iterator[FileToStore | EtqError]:
    """Yield each file with its options and the annotations found for its path, or the reason why it can't be read.

    Raises `StoreError` for a store that can't be read, because reading each of its files would wait in vain.
    """
    for source in sources:
        try:
            discovered = find(None if isinstance(source, bytes) else os.fspath(source))
            file = source_of(source)
            assume = options.assume if is_json(file.content) else None  # for other files, no sizes are assumed
            yield FileToStore(file, replace(options, discovered=discovered, assume=assume))
        except StoreError:
            raise
        except EtqError as error:
            yield error


def store_many(
    connection: duckdb.DuckDBPyConnection,
    files: Iterable[FileToStore | EtqError],
    links: Links,
    on_read: Callable[[], None] = lambda: None,
) -> Iterator[list[Outcome]]:
    """Store files, and link their captures. Yields lists of committed outcomes, in the files' order.

    Each file is stored completely or not at all; a failure doesn't stop the others. An error among `files` is returned
    as the outcome. Files are read on another thread, large traces in other processes, while earlier ones are written.
    `on_read` is called after each read of a file that shares a transaction.

    Raises `WarehouseError` if the database can't be written at all, for example because its disk is full.
    """
    pool, most = ThreadPoolExecutor(1), processes()
    waiting: deque[Batch] = deque()
    try:
        for together in _batches(files):
            # The first file is read in this process, as there is nothing to store meanwhile.
            process = _process_for(connection, together) if waiting and most else None
            waiting.append(Batch(together, _read_ahead(connection, together, pool), process, on_read))
            if len(waiting) > max(most, 1):
                yield from _store_next(connection, waiting, links)
        while waiting:
            yield from _store_next(connection, waiting, links)
    finally:
        pool.shutdown(cancel_futures=True)
        for each in waiting:
            if each.process is not None:
                each.process.stop()


def _store_next(connection: duckdb.DuckDBPyConnection, waiting: deque[Batch], links: Links) -> Iterator[list[Outcome]]:
    """Store the oldest waiting batch, and end its process, if it has one. Raises as `store_many` does, after yielding
    the outcomes so far.
    """
    batch = waiting[0]
    outcomes, failure = _store_together(connection, batch, links)
    yield outcomes
    if failure is not None:
        raise failure
    if batch.process is not None:
        batch.process.stop()
    waiting.popleft()


def _process_for(connection: duckdb.DuckDBPyConnection, files: Sequence[FileToStore | EtqError]) -> OtherProcess | None:
    """Start a process that reads a batch's only file, if it is a large trace of new content."""
    match files:
        case [FileToStore() as file] if _unpacked_bytes(file.source) > SMALL and is_for_other_process(file.source):
            if not _known(connection, [file]):
                # If the system's limits allow no process or file, the file is read here.
                with suppress(OSError):
                    return OtherProcess(file.source, file.options.assume)
    return None


def _read_ahead(
    connection: duckdb.DuckDBPyConnection, files: Sequence[FileToStore | EtqError], pool: Executor
) -> dict[str, Future[Tables]]:
    """Start reading the files that share a transaction and whose content is new; return the results to come,
    by hash.
    """
    readable = [file for file in files if isinstance(file, FileToStore)]
    if len(readable) < 2:
        return {}
    known = _known(connection, readable)
    new: dict[str, FileToStore] = {}
    for each in readable:
        if each.source.sha256 not in known:
            # If several files have the same content, an error names the first of them.
            new.setdefault(each.source.sha256, each)
    return {sha256: pool.submit(_read, each) for sha256, each in new.items()}


def _read(file: FileToStore) -> Tables:
    return list(read_capture(file.source.content, file.source.uri, file.options.given))


def _batches(files: Iterable[FileToStore | EtqError]) -> Iterator[list[FileToStore | EtqError]]:
    gathered: list[FileToStore | EtqError] = []
    total = 0
    for file in files:
        size = 0 if isinstance(file, EtqError) else _unpacked_bytes(file.source)
        if gathered and (size > SMALL or len(gathered) == FILES or total + size > BYTES):
            yield gathered
            gathered, total = [], 0
        gathered.append(file)
        total += size
        if size > SMALL:
            yield gathered
            gathered, total = [], 0
    if gathered:
        yield gathered


def _unpacked_bytes(source: Source) -> int:
    """Return the size of the content in bytes; for a gzip file, as its last bytes state it."""
    if bytes(source.content[:2]) == GZIP:
        return max(len(source.content), int.from_bytes(source.content[-4:], "little"))
    return len(source.content)


def _store_together(
    connection: duckdb.DuckDBPyConnection, batch: Batch, links: Links
) -> tuple[list[Outcome], WarehouseError | None]:
    """Return the outcomes of files. New files share a transaction; each known file has its own, if anything changes.

    If the database can't be written, return the outcomes of earlier files, and the error.
    """
    outcomes: dict[int, Outcome] = {at: each for at, each in enumerate(batch.files) if isinstance(each, EtqError)}
    readable = {at: each for at, each in enumerate(batch.files) if isinstance(each, FileToStore)}
    if len(readable) > 1:
        known = _known(connection, readable.values())
        new: dict[str, int] = {}
        for at, each in readable.items():
            stored = known.get(each.source.sha256)
            if stored is None:
                new.setdefault(each.source.sha256, at)
            elif not stored.is_changed_by(each.options, links):
                outcomes[at] = stored.capture_id, False
        outcomes |= _store_new(connection, {at: readable[at] for at in new.values()}, batch, links)
    for at, each in readable.items():
        if at not in outcomes:
            outcomes[at] = outcome = _store_alone(connection, each, links, batch.process)
            if isinstance(outcome, WarehouseError) and is_of_file(outcome.__cause__):
                return [outcomes[before] for before in range(at)], outcome
    return [outcomes[at] for at in range(len(batch.files))], None


@dataclass(frozen=True)
class _Stored:
    """A stored capture, with the properties that may change when its file is stored again."""

    capture_id: int
    clock_bits: int | None
    time_scale: str
    links: Mapping[str, int | None]
    labels: Mapping[str, str]
    has_moment: bool
    is_pruned: bool

    def is_changed_by(self, options: Options, links: Links) -> bool:
        """Whether `store` with these options and links would write anything."""
        found = options.discovered
        return (
            self.is_pruned
            or (options.name, options.captured_at, options.debug_buffer) != (None, None, None)
            or bool(options.metrics or found.metrics)
            or options.clock_bits not in (None, self.clock_bits)
            or options.assume is not None
            or options.time_scale not in (None, self.time_scale)
            or any(self.labels.get(key) != value for key, value in options.labels.items())
            or any(key not in self.labels and not (key == CAPTURED_AT and self.has_moment) for key in found.labels)
            or any(self.links[column] != key for column, key in links)
        )


def _known(connection: duckdb.DuckDBPyConnection, files: Iterable[FileToStore]) -> dict[str, _Stored]:
    """Return the captures that the warehouse already has for the files' contents, by hash."""
    query = f"""
        SELECT
            c.sha256,
            c.capture_id,
            c.clock_bits,
            c.time_scale,
            {{record_id: c.record_id, program_id: c.program_id}},
            c.labels,
            c.captured_at IS NOT NULL,
            f.capture_id IS NOT NULL
        FROM labelled_captures AS c
        LEFT JOIN (
            SELECT DISTINCT f.capture_id FROM findings AS f WHERE f.rule = '{PRUNED}'
        ) AS f ON f.capture_id = c.capture_id
        WHERE c.sha256 IN (SELECT unnest($hashes::VARCHAR[]))
    """
    hashes = [file.source.sha256 for file in files]
    rows = connection.execute(query, {"hashes": hashes}).fetchall()
    return {sha256: _Stored(*values) for sha256, *values in rows}


def _store_alone(
    connection: duckdb.DuckDBPyConnection, file: FileToStore, links: Links, process: OtherProcess | None
) -> Outcome:
    reading = None if process is None else process.tables()
    try:
        return in_transaction(connection, lambda: store(connection, file.source, file.options, links, reading))
    except EtqError as error:
        return error
    except duckdb.Error as error:
        failure = WarehouseError(f"{file.source.uri}: {explained('the warehouse', error, FULL)}")
        failure.__cause__ = error
        return failure


def _store_new(
    connection: duckdb.DuckDBPyConnection, files: Mapping[int, FileToStore], batch: Batch, links: Links
) -> dict[int, Outcome]:
    """Return the outcomes of files of new content; empty if the database rejects the transaction."""
    outcomes: dict[int, Outcome] = {}
    captures: dict[int, NewCapture] = {}
    taken = _taken(connection, files.values())
    for at, each in files.items():
        try:
            read = batch.tables.get(each.source.sha256)
            rows = _read(each) if read is None else read.result()
            captures[at] = new_capture(_free_name(each.source, taken), each.source, each.options, rows)
        except EtqError as error:
            outcomes[at] = error
        else:
            taken.add(captures[at].name)
        batch.on_read()
    if captures:
        try:
            keys = in_transaction(connection, lambda: store_new(connection, list(captures.values()), links))
        except duckdb.Error:
            # At least one file caused the error, but others may be stored: the caller stores each file in its own
            # transaction.
            return outcomes
        outcomes |= {at: (key, True) for at, key in zip(captures, keys, strict=True)}
    return outcomes


def _taken(connection: duckdb.DuckDBPyConnection, files: Iterable[FileToStore]) -> set[str]:
    """Return the names that captures already have, among the names that the files may get."""
    names = [name for file in files for name in _names(file.source)]
    query = "SELECT c.name FROM captures AS c WHERE c.name IN (SELECT unnest($names::VARCHAR[]))"
    return {name for (name,) in connection.execute(query, {"names": names}).fetchall()}


def _free_name(source: Source, taken: Container[str]) -> str:
    names = list(_names(source))
    return next((name for name in names if name not in taken), names[-1])


def _names(source: Source) -> Iterator[str]:
    return names_for(source.uri, lambda: source.sha256)
