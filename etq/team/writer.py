"""The process that stores what a team's server was sent, one batch after the other.

It is the server's only writer, and a process of its own: a hostile file may end it, or take much memory. It ends when
nothing waits, and may be killed at any time: what was stored and not noted is found by its content when it is stored
again. Its standard output is lines for the server: `begun` with the bytes that it stores together, then `stored`; or
why it waits. At the end of its input it ends.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from etq.annotations.discovery import Discovered
from etq.annotations.labels import moment_of
from etq.database.connection import is_lake_path, is_of_file
from etq.database.locking import lock_timeout
from etq.errors import EtqError, WarehouseError
from etq.ingest.metrics.sidecar import read_sidecar
from etq.remote.protocol import Push, Sent, State
from etq.serve.freed_memory import give_back, keep_little, megabytes
from etq.storage.bulk import FileToStore
from etq.storage.capture import Options
from etq.storage.sources import Source, source_of
from etq.team.changes import Changes
from etq.team.changing import make_changes
from etq.team.folder import TeamFolder
from etq.team.queue import Ended, PushQueue
from etq.warehouse.warehouse import Capture, Warehouse, open

if TYPE_CHECKING:
    import pyarrow as pa

STORED: Final = "stored"
BEGUN: Final = "begun"
# Characters of a text that the server or a sender is told; findings of a capture, and characters of each.
LONGEST: Final = 2000
MOST_FINDINGS: Final = 50
LONGEST_FINDING: Final = 500
LOCK: Final = "writer.lock"
# Seconds to wait for a warehouse that another process holds, before that is said; and before it is tried again.
WAIT: Final = 10.0
PAUSES: Final = (0.5, 10.0)
# Seconds to wait for more, before it ends.
IDLE: Final = 2.0
# A process that takes more memory ends, and another one goes on.
MEGABYTES: Final = 200
_GONE: Final = "was removed from the warehouse while this waited; push it again"
_KEPT: Final = ("known already", "a lake keeps the labels and links that a capture has")

Outcome = Capture | EtqError


class Writer:
    """Stores pushes of a queue in a warehouse or lake."""

    def __init__(self, path: str, queue: PushQueue) -> None:
        self._path, self._queue = path, queue

    def store(self, pushes: Sequence[Push], said: Callable[[str], None]) -> None:
        """Store pushes, and note what became of each. Raises `WarehouseError` if the warehouse can't be written now."""
        if is_lake_path(self._path):
            said(self._begun(pushes))
            self._store_in_lake(pushes)
            said(STORED)
            return
        with open(self._path) as warehouse:
            keep_little(warehouse.connection)
            for together in _together(pushes):
                said(self._begun(together))
                self._queue.begin(together)
                outcomes = self._ingest(warehouse, together)
                states = [
                    _state(push, each, () if isinstance(each, EtqError) else _findings(warehouse, each))
                    for push, each in zip(together, outcomes, strict=True)
                ]
                self._end(together, states, keeps_links=False)
                said(STORED)

    def _begun(self, pushes: Sequence[Push]) -> str:
        """Return what the server is told before pushes are stored: it gives them time by their files."""
        hashes = {each.sha256 for push in pushes for each in (push.file, *push.linked, *push.others)}
        return f"{BEGUN} {self._queue.size(hashes)}"

    def _store_in_lake(self, pushes: Sequence[Push]) -> None:
        """Store pushes in a warehouse of their own, and add that to the lake, as `etq lake add` does."""
        from etq.database.temporary import temporary_folder
        from etq.lake import export
        from etq.lake.reading.state import read
        from etq.lake.reading.tables import Lake
        from etq.lake.writing.publishing import known_of

        lake = Lake.at(self._path)
        self._queue.begin(pushes)
        before = known_of(read(lake), "capture")
        outcomes: dict[str, Outcome] = {}
        findings: dict[str, tuple[tuple[str, str], ...]] = {}
        with temporary_folder() as folder, open(Path(folder) / "added.duckdb") as warehouse:
            keep_little(warehouse.connection)
            new = [push for push in pushes if push.file.sha256 not in before]
            for together in _together(new):
                for push, each in zip(together, self._ingest(warehouse, together), strict=True):
                    outcomes[push.id] = each
                    findings[push.id] = () if isinstance(each, EtqError) else _findings(warehouse, each)
            if outcomes:
                export(lake, warehouse)
        names = known_of(read(lake), "capture") if outcomes else before
        states = []
        for push in pushes:
            outcome = outcomes.get(push.id)
            found = names.get(push.file.sha256)
            if isinstance(outcome, EtqError) or found is None:
                states.append(_state(push, outcome or WarehouseError(f"{push.file.name}: {_GONE}"), ()))
                continue
            is_new = outcome is not None and outcome.is_new
            notes = findings.get(push.id, (_KEPT,))
            states.append(State(push.id, "stored", push.file.name, found.name, is_new, notes))
        self._end(pushes, states, keeps_links=True)

    def _end(self, pushes: Sequence[Push], states: Sequence[State], *, keeps_links: bool) -> None:
        """Note what became of pushes. A warehouse has their programs and records then; a lake's are linked anew."""
        self._queue.end(
            Ended(state, (push.file, *push.others, *(() if keeps_links else push.linked)))
            for push, state in zip(pushes, states, strict=True)
        )

    def _ingest(self, warehouse: Warehouse, pushes: Sequence[Push]) -> list[Outcome]:
        """Ingest pushes that are linked to the same program and record."""
        outcomes: dict[str, Outcome] = {}
        files: dict[str, FileToStore] = {}
        try:
            program = self._linked(warehouse, pushes[0].pte, "program")
            record = self._linked(warehouse, pushes[0].etrecord, "record")
        except EtqError as error:
            return [error] * len(pushes)
        for push in pushes:
            try:
                files[push.id] = self._opened(warehouse, push)
            except EtqError as error:
                outcomes[push.id] = error
        try:
            ingested = warehouse.ingest_opened(files.values(), program=program, record=record) if files else []
        except EtqError as error:  # of the program or record
            ingested = [error] * len(files)
        for each in ingested:
            if isinstance(each, EtqError) and is_of_file(each.__cause__):
                raise each  # it is tried again
        outcomes |= dict(zip(files, ingested, strict=True))
        return [outcomes[push.id] for push in pushes]

    def _opened(self, warehouse: Warehouse, push: Push) -> FileToStore:
        """Return the file of a push with its options. None of them names a file of this machine."""
        labels = dict(push.found_labels)
        metrics: list[pa.RecordBatch] = []
        if push.sidecar is not None:
            content = self._received(push.sidecar).content
            for table, rows in read_sidecar(bytes(content), push.sidecar.name):
                if table == "labels":
                    labels |= {row["key"]: row["value"] for row in rows.to_pylist()}
                else:
                    metrics.append(rows)
        debug_buffer = push.debug_buffer
        options = Options(
            push.name,
            push.labels,
            _moment(push.captured_at),
            push.time_scale,
            push.clock_bits,
            None if debug_buffer is None else self._received(debug_buffer),
            push.values,
            Discovered(labels, tuple(metrics)),
            tuple(map(self._received, push.metrics)),
            tuple(map(self._received, push.graph_captures)),
        )
        return FileToStore(self._source(warehouse, push.file, "capture"), options)

    def _linked(self, warehouse: Warehouse, sent: Sent | None, kind: str) -> Source | None:
        return None if sent is None else self._source(warehouse, sent, kind)

    def _source(self, warehouse: Warehouse, sent: Sent, kind: str) -> Source:
        """Return a file; only its hash if it isn't there because the warehouse has it. Raises `EtqError`."""
        if self._queue.path(sent.sha256).exists():
            return self._received(sent)
        query = f"SELECT 1 FROM {kind}s WHERE sha256 = ?"
        if not warehouse.connection.execute(query, [sent.sha256]).fetchall():
            raise EtqError(f"{sent.name}: {_GONE}")
        return Source.known(sent.sha256, sent.name)

    def _received(self, sent: Sent) -> Source:
        return source_of(self._queue.path(sent.sha256)).named(sent.name)


def _together(pushes: Iterable[Push]) -> Iterator[list[Push]]:
    """Yield pushes that share transactions: in a row, with the same links, and none with a name or other traces."""

    def key(push: Push) -> tuple[object, ...]:
        is_alone = push.name is not None or bool(push.graph_captures)
        return (push.id if is_alone else None, *(each.sha256 for each in push.linked), push.pte is None)

    for _, together in groupby(pushes, key):
        yield [*together]


def _findings(warehouse: Warehouse, capture: Capture) -> tuple[tuple[str, str], ...]:
    query = "SELECT f.rule, left(f.detail, ?) FROM findings AS f WHERE f.capture_id = ? LIMIT ?"
    found = warehouse.connection.execute(query, [LONGEST_FINDING, capture.capture_id, MOST_FINDINGS])
    return tuple((rule, detail) for rule, detail in found.fetchall())


def _state(push: Push, outcome: Outcome, findings: tuple[tuple[str, str], ...]) -> State:
    if isinstance(outcome, EtqError):
        return State(push.id, "failed", push.file.name, error=str(outcome)[:LONGEST])
    return State(push.id, "stored", push.file.name, outcome.name, outcome.is_new, findings)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else moment_of(text)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process writes for the folder."""
    with closing(os.fdopen(os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600))) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _has_ended(seconds: float) -> bool:
    """Wait for a word of the server; return whether there will be none."""
    ready, _, _ = select.select([0], [], [], seconds)
    return bool(ready) and not os.read(0, 4096)


def _say(text: str) -> None:
    """Tell the server. If it is gone, this process ends."""
    try:
        print(text.replace("\n", " ")[:LONGEST], flush=True)
    except BrokenPipeError:
        os._exit(0)


def main() -> None:
    """Store what waits for the warehouse `argv[1]` in the folder `argv[2]`, and end when nothing does."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, see prctl(2): it ends with the server
    lock_timeout.set(WAIT)
    path, folder = sys.argv[1], Path(sys.argv[2])
    queue, changes = PushQueue(TeamFolder(folder)), Changes(TeamFolder(folder))
    os.chdir(folder)  # names of files are relative to no folder of this machine
    with _alone(folder):
        writer, pause = Writer(path, queue), PAUSES[0]
        is_over = False
        while not is_over:
            pushes = [each.push for each in queue.take()]
            is_changed = changes.has_waiting()
            if not pushes and not is_changed:
                is_over = _has_ended(IDLE) or not (queue.has_waiting() or changes.has_waiting())
                continue
            try:
                if is_changed:
                    make_changes(path, changes)
                    _say(STORED)
                if pushes:
                    writer.store(pushes, _say)
                pause = PAUSES[0]
                is_over = _has_ended(0)
            except (EtqError, OSError) as error:  # of the warehouse, not of a file
                _say(str(error))
                is_over = _has_ended(pause)
                pause = min(2 * pause, PAUSES[1])
            give_back()
            is_over |= megabytes() > MEGABYTES
    os._exit(0)


if __name__ == "__main__":
    main()
