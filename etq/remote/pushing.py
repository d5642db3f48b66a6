"""Sends captures to a team's server: files that it lacks, then what they are, in one connection."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final

import msgspec

from etq.errors import EtqError, FormatError, displayed
from etq.remote.client import Client, ServerError
from etq.remote.protocol import Hashes, Identifiers, Missing, Push, Pushes, Sent, State, States

# Captures, and bytes of their files, that are acknowledged together: what is acknowledged isn't sent again.
AT_ONCE: Final = 50
BYTES_AT_ONCE: Final = 64 * 2**20
# How often files may be missing again when captures are sent.
MOST_ROUNDS: Final = 20
# Seconds that one answer about captures that wait may take.
WAIT: Final = 20


class LocalFile:
    """A file of this machine, with its hash. Raises `FormatError` for one that can't be read."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            if not Path(path).is_file():
                missing = not Path(path).exists()
                raise FormatError(displayed(path), "no such file" if missing else "can't be read: not a regular file")
            with Path(path).open("rb") as file:
                self.sha256 = file_digest(file, "sha256").hexdigest()
                self.size = file.tell()
        except OSError as error:
            what = (error.strerror or str(error)).lower()
            raise FormatError(displayed(path), f"can't be read: {what}") from error

    @property
    def sent(self) -> Sent:
        """How the server is told of it: by its path below the present folder, else by its name and folder."""
        path = Path(self.path)
        try:
            shown = path.absolute().relative_to(Path.cwd())
        except ValueError:
            shown = Path(path.absolute().parent.name, path.name)
        return Sent(self.sha256, displayed(shown.as_posix()))

    @contextmanager
    def read_from(self, offset: int) -> Iterator[Callable[[int], bytes]]:
        """Provide a function that reads the next bytes. Raises `FormatError` if the file has changed."""
        left = self.size - offset
        with Path(self.path).open("rb") as file:
            file.seek(offset)

            def read(count: int) -> bytes:
                nonlocal left
                block = file.read(min(count, left))
                left -= len(block)
                if not block and left:
                    raise FormatError(displayed(self.path), "has changed while it was sent; send it again")
                return block

            yield read


@dataclass
class ToPush:
    """A capture to push, with its files by hash."""

    push: Push
    files: dict[str, LocalFile] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the capture's own file."""
        return self.files[self.push.file.sha256].size


@dataclass
class Pusher:
    """Pushes captures to a server.

    begun   called with each file whose sending begins, and its bytes
    sent    called with each file that is being sent, and how many bytes of it are there
    pushed  called with each capture that the server has taken
    ended   called with each capture that is stored or failed
    noted   called with the reason, once, if the server can't store anything now
    """

    client: Client
    begun: Callable[[LocalFile], None] = lambda _: None
    sent: Callable[[LocalFile, int], None] = lambda _, __: None
    pushed: Callable[[ToPush], None] = lambda _: None
    ended: Callable[[State], None] = lambda _: None
    noted: Callable[[str], None] = lambda _: None
    most_bytes: int = 0

    def push(self, captures: Iterable[ToPush], *, waits: bool = True) -> list[State]:
        """Push captures; return what became of each, in their order. Those that can't be sent have failed.

        Raises `ServerError` if the server can't be reached or takes nothing.
        """
        ids: list[str] = []
        states: dict[str, State] = {}
        for together in _batches(captures):
            ids += [each.push.id for each in together]
            for state in self._push(together):
                states[state.id] = state
                if state.state != "waiting":
                    self.ended(state)
            if waits:
                # What was stored meanwhile is told meanwhile.
                self._look(states, 0)
        while waits and self._waiting(states):
            self._look(states, WAIT)
        return [states[each] for each in ids]

    def _push(self, together: Sequence[ToPush]) -> Iterator[State]:
        """Send captures together; yield what becomes of each."""
        files = {sha256: file for each in together for sha256, file in each.files.items()}
        others = {sent.sha256 for each in together for sent in each.push.others}
        others |= {each.push.file.sha256 for each in together if each.push.is_read_again}
        asked = Hashes([each for each in files if each not in others], sorted(others))
        answer = self.client.post("/files/missing", asked, Missing)
        self.most_bytes = answer.most_bytes
        missing = answer.missing
        left = [*together]
        for is_last in [*[False] * MOST_ROUNDS, True]:
            if not files.keys() >= {*missing}:
                raise self._strange()
            failed = self._send([files[each] for each in missing])
            for each in [each for each in left if failed.keys() & each.files.keys()]:
                left.remove(each)
                error = next(failed[sha256] for sha256 in each.files if sha256 in failed)
                yield State(each.push.id, "failed", each.push.file.name, error=error)
            if not left:
                return
            try:
                states = self.client.post("/pushes", Pushes([each.push for each in left]), States)
            except ServerError as error:
                if error.status != 409 or is_last:
                    raise
                # Others' captures, with which it came, were stored and their files removed.
                try:
                    missing = msgspec.json.decode(error.body, type=Missing).missing
                except (msgspec.DecodeError, UnicodeDecodeError):
                    raise error from None
                continue
            self._check([each.push.id for each in left], states)
            for each in left:
                self.pushed(each)
            yield from states.pushes
            return

    def _check(self, ids: Sequence[str], answer: States) -> None:
        """Raise `ServerError` unless an answer is about these captures: else it would be asked for ever."""
        if {each.id for each in answer.pushes} != {*ids}:
            raise self._strange()

    def _strange(self) -> ServerError:
        return ServerError(
            f"{self.client.origin}: answers about other captures than it was asked for; is it one server, which still "
            "has its folder?"
        )

    def _send(self, files: Sequence[LocalFile]) -> dict[str, str]:
        """Send files; return the errors of those that the server doesn't take, by hash."""
        failed = {}
        for file in files:
            if 0 < self.most_bytes < file.size:
                most = self.most_bytes / 1e6
                failed[file.sha256] = (
                    f"{displayed(file.path)}: {file.size / 1e6:,.0f} MB; the server takes files of up to {most:,.0f} MB"
                )
                continue
            self.begun(file)
            try:
                self.client.send(f"/files/{file.sha256}", file, lambda count, file=file: self.sent(file, count))  # type: ignore[misc]
            except FormatError as error:
                failed[file.sha256] = str(error)
            except ServerError as error:
                if error.status not in (413, 422):
                    raise
                failed[file.sha256] = f"{displayed(file.path)}: {error}"
        return failed

    def _waiting(self, states: Mapping[str, State]) -> list[str]:
        return [each.id for each in states.values() if each.state == "waiting"]

    def _look(self, states: dict[str, State], seconds: int) -> None:
        """Ask what became of captures that wait."""
        waiting = self._waiting(states)
        for start in range(0, len(waiting), 500):
            path = f"/pushes/states?wait={seconds}"
            asked = waiting[start : start + 500]
            answer = self.client.post(path, Identifiers(asked), States)
            self._check(asked, answer)
            for state in answer.pushes:
                states[state.id] = state
                if state.state != "waiting":
                    self.ended(state)
                elif state.note is not None:
                    self.noted(state.note)
                    self.noted = lambda _: None


def prepared(
    path: str,
    shared: Mapping[str, LocalFile],
    *,
    label_from: str | None = None,
    of_git: Mapping[str, str] | None = None,
    sidecar: bool = True,
    graph_captures: Sequence[str] = (),
    metrics: Sequence[str] = (),
    debug_buffer: str | None = None,
    **options: Any,
) -> ToPush:
    """Return a capture to push, as `Warehouse.ingest` takes it; `shared` are the record and the program.

    The labels of its path, of git and of its sidecar are found here. Raises `EtqError` for what can't be read.
    """
    from etq.annotations.discovery import discover, sidecar_of

    found = discover(path, label_from, of_git or {}, sidecar=False).labels
    beside = sidecar_of(path) if sidecar else None
    single = {
        name: LocalFile(each)
        for name, each in (("file", path), ("sidecar", beside), ("debug_buffer", debug_buffer))
        if each
    }
    single |= shared
    several = {"metrics": [*map(LocalFile, metrics)], "graph_captures": [*map(LocalFile, _traces(graph_captures))]}
    files = [*single.values(), *(each for them in several.values() for each in them)]
    fields: dict[str, Any] = dict(
        id=uuid.uuid4().hex,
        found_labels=found,
        **{name: each.sent for name, each in single.items()},
        **{name: tuple(each.sent for each in them) for name, them in several.items()},
        **{name: value for name, value in options.items() if value is not None},
    )
    return ToPush(Push(**fields), {each.sha256: each for each in files})


def _traces(paths: Sequence[str]) -> Iterator[str]:
    """Yield traces of the capture of graphs; of a folder, those in it."""
    for path in paths:
        if not Path(path).is_dir():
            yield path
            continue
        found = sorted(str(each) for each in Path(path).iterdir() if each.name.endswith((".json", ".json.gz")))
        if not found:
            raise EtqError(f"{displayed(path)}: has no traces (.json, .json.gz)")
        yield from found


def _batches(captures: Iterable[ToPush]) -> Iterator[list[ToPush]]:
    gathered: list[ToPush] = []
    for each in captures:
        gathered.append(each)
        if len(gathered) == AT_ONCE or sum(one.size for one in gathered) > BYTES_AT_ONCE:
            yield gathered
            gathered = []
    if gathered:
        yield gathered
