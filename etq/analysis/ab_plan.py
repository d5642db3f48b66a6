"""Measuring two builds for a comparison: captures of both are taken in turn, and each is ingested at once.

plan = Plan("decoder", base="v1", new="v2", captures=10)
run(plan, "./bench-{side} --etdump {out}", "lab.duckdb", labels={"device": "pixel8"})
"""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal

from etq.errors import EtqError

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Record, TimeScale, Warehouse

FilePath = str | os.PathLike[str]
LABELS: Final = ("side", "plan", "plan_position")
SUFFIX: Final = ".etdp"
# How much of a failed command's output is kept.
LAST_BYTES: Final = 8192
LAST_LINES: Final = 20
# Seconds between terminating a command and killing it.
GRACE: Final = 5.0


class CommandError(EtqError):
    """A command failed or wrote no file; `output` has the last lines of its output."""

    def __init__(self, what: str, output: Sequence[str]) -> None:
        super().__init__(what)
        self.output = list(output)


def order(captures: int, seed: int = 0) -> list[Literal["base", "new"]]:
    """Return the order in which to measure the sides, for `captures` captures of each.

    Each pair of neighbours has one base and one new, and every second pair mirrors the pair before it: base new new
    base, or new base base new. The seed decides at random which of the two, so that no periodic disturbance always hits
    the same side; the mirroring cancels a steady drift of the machine within each four. A shorter order is the
    beginning of a longer one with the same seed.
    """
    if captures < 1:
        raise EtqError(f"{captures} captures of each side: at least 1 is needed")
    chosen = random.Random(seed)
    sides: list[Literal["base", "new"]] = []
    while len(sides) < 2 * captures:
        sides += ["base", "new", "new", "base"] if chosen.random() >= 0.5 else ["new", "base", "base", "new"]
    return sides[: 2 * captures]


@dataclass(frozen=True)
class Step:
    """One capture to take: its number, from 1 on (0: a warm-up), its side, and the file to write."""

    number: int
    side: str
    path: str


@dataclass(frozen=True)
class Measured:
    """A capture that was taken and ingested; `captured_at` is when its command started, in UTC."""

    step: Step
    capture: Capture
    captured_at: datetime
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What to measure: two sides with equally many captures, in an order that the seed determines.

    name       name of the plan, which distinguishes its captures from those of others
    base, new  the sides' names in labels and in the command
    captures   number of captures of each side
    folder     where files are written; by default plan-NAME
    suffix     ending of the files' names

    Raises `EtqError` for names that a selector can't contain.
    """

    name: str
    base: str = "A"
    new: str = "B"
    captures: int = 10
    seed: int = 0
    folder: str | None = None
    suffix: str = SUFFIX

    def __post_init__(self) -> None:
        for what, name in (("plan", self.name), ("side", self.base), ("side", self.new)):
            if not name.strip() or "," in name:
                raise EtqError(f"the name {name!r} of a {what}: expected a text without commas")
        if self.base == self.new:
            raise EtqError(f"base and new are both {self.base!r}; they need names of their own")

    @property
    def steps(self) -> list[Step]:
        """Return the captures to take, in order."""
        folder = f"plan-{_in_a_path(self.name)}" if self.folder is None else self.folder
        width = max(2, len(str(2 * self.captures)))
        steps = []
        for number, which in enumerate(order(self.captures, self.seed), 1):
            side = self.base if which == "base" else self.new
            file = f"{_in_a_path(self.name)}-{number:0{width}}-{_in_a_path(side)}{self.suffix}"
            steps.append(Step(number, side, os.path.join(folder, file)))
        return steps


def split_command(command: str) -> list[str]:
    """Return the words of a command, split as a shell would. Raises `EtqError` if no word has {out}."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise EtqError(f"the command can't be split into words: {str(error).lower()}") from error
    if not any("{out}" in word for word in words):
        raise EtqError("the command has no {out}; put it in place of the file that the command writes")
    return words


def run(
    plan: Plan,
    command: str,
    db: FilePath,
    *,
    labels: Mapping[str, str] | None = None,
    etrecords: Mapping[str, FilePath] | None = None,
    time_scale: TimeScale | None = None,
    warm_up: int = 0,
    pause: float = 0.0,
    resume: bool = False,
    on_capture: Callable[[Warehouse, Measured], None] | None = None,
) -> None:
    """Take the captures of a plan one after another, and ingest each as soon as its file exists.

    The warehouse is closed while a command runs: others may read it, and no other work disturbs the measurement. The
    captures have the labels `side`, `plan` and `plan_position`, and the start time of their command as captured_at.

    command     run without a shell; {side}, {out} and {number} in its words are replaced by those of the step
    labels      labels for all captures
    etrecords   the ETRecord of the program of each side
    time_scale  unit of one tick; ns by default
    warm_up     number of runs of each side before the plan, whose files are deleted
    pause       seconds between runs
    resume      continue a plan that is in the warehouse: take the missing captures
    on_capture  called after each capture; the warehouse is open then

    Raises `CommandError` if the command fails or writes no file, `EtqError` for a plan that the warehouse already has,
    or has in another form, for a file that exists at a step's path, and for a command that writes a known file again;
    other errors are those of `Warehouse.ingest`. Captures ingested before an error stay.
    """
    from etq.warehouse.warehouse import open

    words = split_command(command)
    if taken := sorted(set(labels or {}) & set(LABELS)):
        raise EtqError(f"the label {taken[0]} is the plan's own")
    if unknown := sorted(set(etrecords or {}) - {plan.base, plan.new}):
        raise EtqError(f"an ETRecord of {unknown[0]!r}; the sides are {plan.base!r} and {plan.new!r}")
    with open(db) as warehouse:
        missing = _missing(plan, warehouse, resume)
        records = {side: warehouse.ingest_record(path) for side, path in (etrecords or {}).items()}
    if not missing:
        return
    rest = _Pause(pause)
    _warm_up(plan, words, warm_up, rest)
    for step in missing:
        rest()
        Path(step.path).parent.mkdir(parents=True, exist_ok=True)
        if os.path.exists(step.path):
            # A file left by an interrupted run must not be taken for the command's output.
            Path(step.path).replace(f"{step.path}.old")
        captured_at, started = datetime.now(UTC), time.monotonic()
        _execute(step, words)
        seconds = time.monotonic() - started
        step_labels = {**(labels or {}), "side": step.side, "plan": plan.name, "plan_position": str(step.number)}
        with open(db) as warehouse:
            capture = _ingested(warehouse, step.path, step_labels, captured_at, time_scale, records.get(step.side))
            if on_capture is not None:
                on_capture(warehouse, Measured(step, capture, captured_at, seconds))


def _missing(plan: Plan, warehouse: Warehouse, resume: bool) -> list[Step]:
    """Return the steps of a plan for which the warehouse has no capture."""
    query = """
        SELECT try_cast(p.value AS INTEGER), s.value
        FROM labels AS l
        JOIN labels AS p ON p.capture_id = l.capture_id AND p.key = 'plan_position'
        JOIN labels AS s ON s.capture_id = l.capture_id AND s.key = 'side'
        WHERE l.key = 'plan' AND l.value = $name
    """
    there = dict(warehouse.rows(query, name=plan.name)[1])
    if there and not resume:
        raise EtqError(
            f"{warehouse.path}: has {len(there)} captures of plan {plan.name}; continue it with --resume, "
            "or name another"
        )
    if resume and not there:
        raise EtqError(f"{warehouse.path}: has no captures of plan {plan.name} to continue")
    for step in plan.steps:
        if there.get(step.number, step.side) != step.side:
            raise EtqError(
                f"plan {plan.name} has {there[step.number]} at position {step.number}, where this order has "
                f"{step.side}; resume it with the sides and the seed that it was begun with"
            )
    missing = [step for step in plan.steps if step.number not in there]
    if not resume and (in_the_way := [step.path for step in missing if os.path.exists(step.path)]):
        raise EtqError(f"{in_the_way[0]}: exists; move it away, or name another folder with --out-dir")
    return missing


def _warm_up(plan: Plan, words: Sequence[str], times: int, rest: Callable[[], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="etq-plan-") as folder:
        for index, side in enumerate([plan.base, plan.new] * times):
            rest()
            _execute(Step(0, side, os.path.join(folder, f"warm-up-{index + 1}{plan.suffix}")), words)


def _execute(step: Step, words: Sequence[str]) -> None:
    """Run the command for a step. Raises `CommandError` if it fails or writes no file."""
    values = {"{side}": step.side, "{out}": str(Path(step.path).absolute()), "{number}": str(step.number)}
    arguments = [re.sub(r"\{(?:side|out|number)\}", lambda match: values[match.group()], word) for word in words]
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        except OSError as error:
            raise CommandError(f"{arguments[0]}: can't be run: {(error.strerror or str(error)).lower()}", []) from error
        try:
            status = process.wait()
        except BaseException:
            _end(process)
            Path(step.path).unlink(missing_ok=True)
            raise
        which = f"capture {step.number}" if step.number else "a warm-up"
        if status != 0:
            raise CommandError(f"{which} of {step.side}: {shlex.join(arguments)} {_ending(status)}", _last(output))
        if not Path(step.path).is_file():
            raise CommandError(f"{which} of {step.side}: {shlex.join(arguments)} wrote no {step.path}", _last(output))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command whose result is no longer needed."""
    process.terminate()
    try:
        process.wait(GRACE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _ending(status: int) -> str:
    if status > 0:
        return f"failed with exit status {status}"
    known = -status in set(signal.Signals)
    return f"was ended by {signal.Signals(-status).name if known else f'signal {-status}'}"


def _last(output: IO[bytes]) -> list[str]:
    """Return the last lines of a command's output."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - LAST_BYTES))
    return output.read().decode(errors="backslashreplace").splitlines()[-LAST_LINES:]


def _ingested(
    warehouse: Warehouse,
    path: str,
    labels: Mapping[str, str],
    captured_at: datetime,
    time_scale: TimeScale | None,
    record: Record | None,
) -> Capture:
    """Ingest the file that a command wrote. Raises `EtqError` if its content is known:
    the command measured nothing new.
    """
    from etq.storage.sources import source_of

    known = "SELECT c.name FROM captures AS c WHERE c.sha256 = $sha256"
    for (name,) in warehouse.rows(known, sha256=source_of(path).sha256)[1]:
        raise EtqError(
            f"{path}: the same bytes as the capture {name} in the warehouse; the command measured nothing new"
        )
    capture = warehouse.ingest(path, labels=labels, captured_at=captured_at, time_scale=time_scale)
    if record is not None:
        warehouse.link(capture, record)
    return capture


class _Pause:
    """Sleeps at each call except the first."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_first = True

    def __call__(self) -> None:
        if not self._is_first:
            time.sleep(self._seconds)
        self._is_first = False


def _in_a_path(name: str) -> str:
    """Return a name as a part of a path: letters, digits and harmless characters."""
    return re.sub(r"[^\w.+-]+", "_", name)
