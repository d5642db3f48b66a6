"""A benchmark: measures captures of one or two sides in turns, in rounds, until the result is clear.

Its folder has its whole state: each capture, and a sidecar with the capture's labels and metrics. The sidecar is
written last, so a capture with a sidecar is complete. `--resume` measures the missing ones. The warehouse can be made
from the folder again (`etq ingest FOLDER`).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from etq.bench.child import Ended, last_lines
from etq.bench.conditions import Conditions, metrics_of, read_conditions
from etq.bench.machine import CommandError, run
from etq.bench.order import in_a_path, order
from etq.bench.runners import Runner
from etq.errors import EtqError
from etq.selectors import selector_of
from etq.verdicts.sequential import CAPTURES

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

# Labels that a benchmark gives its captures.
LABELS: Final = ("bench", "side", "round", "position")
_SETTINGS: Final = "bench.json"


@dataclass(frozen=True)
class Side:
    """A side: its name, and the program that it measures."""

    name: str
    runner: Runner
    labels: Mapping[str, str] = field(default_factory=dict)
    etrecord: str | None = None
    program: str | None = None


@dataclass(frozen=True)
class Slot:
    """A capture to take: its round, its position in the round (both from 1), its side, and its file."""

    round: int
    position: int
    side: Side
    path: str

    @property
    def sidecar(self) -> str:
        """The file with its labels and metrics."""
        return f"{self.path}.json"

    @property
    def is_taken(self) -> bool:
        """Whether the capture is complete."""
        return os.path.exists(self.sidecar) and os.path.exists(self.path)


@dataclass
class Bench:
    """A benchmark.

    name         the label `bench` of its captures, which distinguishes them from those of other benchmarks
    folder       where files are written
    sides        base and new, or a single side
    rounds       the most rounds
    seed         of the order
    timeout      most seconds of one run; None: no limit
    labels       of all captures
    settings     settings that `resume` must not change, as a JSON object

    Raises `EtqError` for names that a selector can't contain.
    """

    name: str
    folder: str
    sides: Sequence[Side]
    rounds: int
    seed: int = 0
    timeout: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, name in (("bench", self.name), *(("side", side.name) for side in self.sides)):
            if not name.strip() or "," in name:
                raise EtqError(f"the name {name!r} of a {what}: expected a text without commas")
        if len({side.name for side in self.sides}) < len(self.sides):
            raise EtqError(f"base and new are both {self.sides[0].name!r}; they need names of their own")
        self._digests: dict[str, str] = {}
        self._order = order(CAPTURES * self.rounds, self.seed)
        self.measured = 0  # the number of captures taken by this process, and the seconds that they took
        self.seconds = 0.0

    def selector(self, side: Side) -> str:
        """Return the selector of a side's captures."""
        return selector_of({"side": side.name, "bench": self.name})

    def slots(self, round: int) -> list[Slot]:
        """Return the captures of a round, in their order."""
        sides = [self.sides[0]] * CAPTURES
        if len(self.sides) == 2:
            names = self._order[2 * CAPTURES * (round - 1) : 2 * CAPTURES * round]
            sides = [self.sides[name == "new"] for name in names]
        width = max(2, len(str(self.rounds)))
        return [
            Slot(round, at, side, self._path(f"{round:0{width}}-{at}-{in_a_path(side.name)}.etdp"))
            for at, side in enumerate(sides, 1)
        ]

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def begin(self, *, resume: bool) -> int:
        """Make the folder, or find the captures of an interrupted benchmark in it; return the number of complete
        rounds.

        Raises `EtqError` for a folder with another benchmark, and, when resuming, for a folder without this benchmark.
        """
        there = self._read_settings()
        if there is None and resume:
            raise EtqError(f"{self.folder}: has no benchmark to resume")
        if there is not None and not resume:
            raise EtqError(
                f"{self.folder}: has a benchmark already: --resume goes on with it, or name another with --name"
            )
        if there is not None:
            for key in sorted({*there, *self.settings}):
                if there.get(key) != self.settings.get(key):
                    differ = f"{key} {json.dumps(there.get(key))}, not {json.dumps(self.settings.get(key))}"
                    what = "other programs, inputs or commands" if key == "sides" else differ
                    raise EtqError(
                        f"{self.folder}: was begun with {what}; resume it with the same, or name another with --name"
                    )
        else:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            left = sorted(path.name for path in Path(self.folder).iterdir() if path.is_file())
            if left:
                raise EtqError(f"{self._path(left[0])}: exists; move it away, or name another with --name")
            _write(self._path(_SETTINGS), json.dumps(self.settings, indent=1) + "\n")
        for slot in (slot for round in range(1, self.rounds + 1) for slot in self.slots(round) if slot.is_taken):
            self._digests[digest_of(slot.path)] = slot.path
        return next((at - 1 for at in range(1, self.rounds + 1) if not self._is_whole(at)), self.rounds)

    def _is_whole(self, round: int) -> bool:
        return all(slot.is_taken for slot in self.slots(round))

    def _read_settings(self) -> dict[str, Any] | None:
        try:
            found = json.loads(Path(self._path(_SETTINGS)).read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise EtqError(f"{self._path(_SETTINGS)}: can't be read: {error}") from None
        if not isinstance(found, dict):
            raise EtqError(f"{self._path(_SETTINGS)}: expected an object of JSON")
        return found

    def take(self, slot: Slot) -> None:
        """Measure a capture, and write its file and its sidecar.

        Raises `CommandError` if its command fails, takes too long or writes no capture, and `EtqError` if it writes a
        damaged or a known capture. After an error, no file is kept.
        """
        if os.path.exists(slot.path):
            Path(slot.path).replace(f"{slot.path}.old")
        part = f"{slot.path}.part"
        Path(part).unlink(missing_ok=True)
        values = {"round": str(slot.round), "side": slot.side.name, "number": str(slot.position)}
        before, captured_at = read_conditions(), datetime.now(UTC)
        try:
            ended = self._run(slot, slot.side.runner.command(str(Path(part).absolute()), values), part)
            after = read_conditions()
            self._check(slot, part)
            Path(part).replace(slot.path)
        finally:
            with suppress(OSError):
                Path(part).unlink(missing_ok=True)
        self.measured += 1
        self.seconds += ended.seconds
        sidecar = self._sidecar(slot, ended, before, after, captured_at)
        _write(slot.sidecar, json.dumps(sidecar, indent=1) + "\n")

    def _run(self, slot: Slot, words: Sequence[str], part: str) -> Ended:
        ended = run(words, self.timeout)
        output = last_lines(ended.output)
        if ended.status:
            raise CommandError(f"{_named(slot)}: {words[0]} {_ending(ended.status)}", output)
        if not Path(part).is_file():
            raise CommandError(f"{_named(slot)}: {words[0]} wrote no {part}", output)
        return ended

    def _check(self, slot: Slot, part: str) -> None:
        """Raise an error for an incomplete capture, and for one with the bytes of a known capture, because then nothing
        was measured.
        """
        from etq.ingest.registry import read_capture

        content = Path(part).read_bytes()
        for _ in read_capture(content, slot.path):
            pass
        digest = hashlib.sha256(content).hexdigest()
        if digest in self._digests:
            raise EtqError(
                f"{_named(slot)}: the same bytes as {self._digests[digest]}; the command measured nothing new"
            )
        self._digests[digest] = slot.path

    def _sidecar(
        self, slot: Slot, ended: Ended, before: Conditions, after: Conditions, captured_at: datetime
    ) -> dict[str, Any]:
        metrics: dict[str, Any] = {**metrics_of(before, after)}
        if ended.peak_bytes is not None:
            metrics["peak_memory"] = {"value": ended.peak_bytes, "unit": "B"}
        labels = {
            **before.labels(),
            **self.labels,
            **slot.side.labels,
            "bench": self.name,
            "side": slot.side.name,
            "round": str(slot.round),
            "position": str(len(self.sides) * CAPTURES * (slot.round - 1) + slot.position),
        }
        return {"captured_at": captured_at.isoformat(), "labels": labels, "metrics": metrics}

    def store(self, warehouse: Warehouse, rounds: Sequence[int]) -> None:
        """Ingest the complete captures of some rounds, with the records of their sides."""
        for side in self.sides:
            slots = [each for round in rounds for each in self.slots(round) if each.side is side and each.is_taken]
            if not slots:
                continue
            links: list[Any] = [] if side.etrecord is None else [warehouse.ingest_record(side.etrecord)]
            if side.program is not None:
                links.insert(0, warehouse.ingest_program(side.program))
            for result in warehouse.ingest_many([slot.path for slot in slots], link_to=links):
                if isinstance(result, EtqError):
                    raise result

    def latencies(self, warehouse: Warehouse, side: Side) -> tuple[list[float], str]:
        """Return the median of the runs of each capture of a side, in the order of measurement, and their unit."""
        query = "SELECT t.median, t.unit FROM trend(selector := $selector, \"by\" := 'bench') AS t ORDER BY t.position"
        rows = warehouse.rows(query, selector=self.selector(side))[1]
        return [median for median, _ in rows], rows[0][1] if rows else "us"


def _ending(status: int) -> str:
    """Return a text on how a failed command ended."""
    if status > 0:
        return f"failed with exit status {status}"
    known = -status in {*signal.Signals}
    return f"was ended by {signal.Signals(-status).name if known else f'signal {-status}'}"


def _named(slot: Slot) -> str:
    return f"round {slot.round}, capture {slot.position} of {slot.side.name}"


def _write(path: str, text: str) -> None:
    """Write a file completely or not at all."""
    part = f"{path}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(part).unlink(missing_ok=True)
        raise


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
