"""The command that measures programs in turns until it is clear which is slower."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from etq.cli import main
from etq.cli.compare import REGRESSION, find_worse, report_worse, whole
from etq.cli.interrupts import allow
from etq.cli.labels import parsed_labels
from etq.cli.messages import say
from etq.cli.numbers import IntRange
from etq.cli.options import check_alone, percentage, together
from etq.errors import EtqError, counted, printable
from etq.render.display import show_as, shown_as
from etq.render.progress import Progress
from etq.render.terminal import style_of
from etq.render.times import range_text
from etq.render.writers import Output, write_rows, write_text
from etq.selectors import selector_of

if TYPE_CHECKING:
    from etq.analysis.comparison import Comparison
    from etq.bench.bench import Bench
    from etq.verdicts.sequential import Standing
    from etq.warehouse.warehouse import Warehouse

# Seconds that a measured command has to end after an interrupt.
GRACE: Final = 6
MOST_ROUNDS: Final = 20
# The probability that a benchmark reports a difference where none exists.
ALPHA: Final = 0.05
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|)")
# The hint about hidden columns: another command has the option that shows all.
_HINT: Final = "the command etq compare below has --wide and --columns"
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def _seconds(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse a duration: 90, 90s, 10m, 1h."""
    if text is None:
        return None
    match = _TIME.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise click.BadParameter(f"{text!r} is no time; write 90s, 10m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


_options: Final = together(
    click.option("--base", "base_command", metavar="CMD", help="Instead of programs: the command that measures base."),
    click.option("--new", "new_command", metavar="CMD", help="The command that measures new."),
    click.option(
        "--runner", metavar="PATH", help="executor_runner with the event tracer.  [default: $ETQ_RUNNER, or on PATH]"
    ),
    click.option("--method", metavar="NAME", help="The method to run.  [default: forward, or the first]"),
    click.option(
        "--inputs",
        metavar="FILE",
        default="random",
        show_default=True,
        help="Inputs: .npz or .pt, random, bundled in the programs, or ones (executor_runner's own).",
    ),
    click.option("--runs", metavar="N", type=IntRange(1), default=100, show_default=True, help="Runs per capture."),
    click.option(
        "--rounds",
        metavar="N",
        type=IntRange(1, 1000),
        default=MOST_ROUNDS,
        show_default=True,
        help="Most rounds to measure, each of two captures per side.",
    ),
    click.option("--max-time", metavar="TIME", callback=_seconds, help="Start no round after this time: 90s, 10m, 1h."),
    click.option(
        "--timeout",
        metavar="TIME",
        callback=_seconds,
        default="600s",
        show_default=True,
        help="Time limit of one capture.",
    ),
    click.option("--name", help="Name of the benchmark: label bench, and folder bench-NAME.  [default: the time]"),
    click.option("--resume", is_flag=True, help="Resume the benchmark with this --name."),
    click.option("--order", "prints_order", is_flag=True, help="Measure nothing: print in which order to measure."),
    click.option(
        "--db",
        metavar="FILE",
        envvar="ETQ_DB",
        help="The warehouse.  [default: $ETQ_DB, or bench.duckdb in its folder]",
    ),
    click.option(
        "--label",
        "labels",
        metavar="KEY=VALUE",
        multiple=True,
        callback=parsed_labels,
        help="A label of all captures; may be repeated.",
    ),
    click.option(
        "--etrecord", metavar="FILE", help="The ETRecord of both sides.  [default: PROGRAM.etrecord, if it exists]"
    ),
    click.option(
        "--min-effect", metavar="PERCENT", callback=percentage, help="Smallest difference that counts.  [default: 2%]"
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(["table", "markdown", "json", "line"]),
        default="table",
        show_default=True,
        help="Format of the result; line: only the verdicts.",
    ),
)


@main.command()
@click.argument("programs", metavar="[BASE.pte] [NEW.pte]", nargs=-1)
@_options
def bench(programs: tuple[str, ...], **options: Any) -> None:
    """Measure which of two programs is slower.

    With one program, its latency is measured.

    A round is two captures of each side, each in a process of its own: base new new base, or new base base new. After
    some rounds, the sides are compared. The benchmark ends when the result is clear, with at most 5 % false verdicts in
    all. The exit status is 3 if the total or an op of new is slower, as with etq gate. After an interrupt, --resume
    continues. --order only prints the order, for measuring by hand; BASE and NEW are then names.

    Programs are run by executor_runner, built with the event tracer (--runner, $ETQ_RUNNER, or on PATH), else by the
    runtime of the executorch wheel (pip install 'etq[bench]'), which times executes, not ops. For any other runner,
    give commands: {out} is the file to write, {round}, {side} and {number} are the capture's.

    \b
    etq bench base.pte new.pte
    etq bench base.pte new.pte --runner ./executor_runner --runs 200 --max-time 10m
    etq bench --base './run old {out}' --new './run new {out}'
    etq bench main fast --order --rounds 5
    """
    from etq.cli.bench_options import made_bench

    if options.pop("prints_order"):
        _print_order(programs or ("base", "new"), options)
        return
    allow(GRACE)
    show_as(is_paged=False)  # a benchmark ends by itself, and prints lines after the result
    if options["db"] is not None:
        _check_db(options["db"])
    with made_bench(programs, options) as made:
        done = made.begin(resume=options["resume"])
        db = options["db"] or os.path.join(made.folder, "bench.duckdb")
        measured = _Measured(made, db, options, done)
        try:
            _announce(made, done)
            measured.run()
        except (EtqError, OSError, KeyboardInterrupt) as error:
            for line in getattr(error, "output", ()):
                click.echo(f"| {printable(line)}", err=True)
            measured.keep()
            raise
        status = measured.report()
    sys.exit(status)


def _check_db(path: str) -> None:
    """Raise `EtqError` for a file that is no warehouse, or a folder that doesn't exist: measuring takes long."""
    from etq.database.publishing import check_folder
    from etq.warehouse.warehouse import open

    if os.path.exists(path):
        open(path).close()
    else:
        check_folder(path)


def _print_order(names: Sequence[str], options: dict[str, Any]) -> None:
    """Print the captures to take, and how to ingest them."""
    from etq.cli.bench_options import ordered

    check_alone("--order", "name", "rounds", "format")
    planned = ordered(names, options)
    slots = [slot for round in range(1, planned.rounds + 1) for slot in planned.slots(round)]
    rows = [[number, slot.side.name, slot.path] for number, slot in enumerate(slots, 1)]
    with shown_as(is_wide=True):  # names of files must be copyable
        write_rows(["number", "side", "file"], rows, Output(options["form"]))
    labels = f"--label bench={shlex.quote(planned.name)} --label side=SIDE --label position=NUMBER"
    _echo(f"Ingest each: etq ingest FILE {labels} --captured-at TIME")


def _announce(made: Bench, done: int) -> None:
    side = made.sides[0]
    names = " and ".join(measured.name for measured in made.sides)
    begun = f", {done} of them done" if done else ""
    say(f"Measuring {names} by {side.runner.name}: at most {counted(made.rounds, 'round')}{begun}")
    if not side.runner.has_ops:
        say(
            "Note: that runtime has no event tracer: executes are timed, ops are not. For ops, build executor_runner "
            "with -DEXECUTORCH_ENABLE_EVENT_TRACER=ON -DEXECUTORCH_BUILD_DEVTOOLS=ON, and give --runner"
        )


class _Measured:
    """The state of a benchmark: what is measured and stored, and the result of the last look."""

    def __init__(self, made: Bench, db: str, options: dict[str, Any], done: int) -> None:
        self._bench, self._db, self._options = made, db, options
        self._done = done  # rounds stored before this command
        self._pending: list[int] = []  # rounds that are not stored
        self._round = 0
        self._alpha = ALPHA
        self._started = time.monotonic()

    def run(self) -> None:
        """Measure until the result is decided, the last round is done, or the time is over."""
        in_round = len(self._bench.slots(1))
        total = in_round * self._bench.rounds
        with Progress("Measuring", total, sys.stderr) as progress:
            for round in range(1, self._bench.rounds + 1):
                self._pending.append(round)
                for slot in self._bench.slots(round):
                    progress.begin()
                    if not slot.is_taken:
                        self._bench.take(slot)
                    progress.advance()
                self._round = round
                if round < self._done:  # a repeated look would also see later captures
                    continue
                is_last = round == self._bench.rounds or self._is_over()
                if self._is_enough(round, is_last, progress) or is_last:
                    if is_last and round < self._bench.rounds:
                        progress.clear()
                        say(f"Ended by --max-time after {round} of {counted(self._bench.rounds, 'round')}")
                    break

    def _is_over(self) -> bool:
        most = self._options["max_time"]
        return most is not None and time.monotonic() - self._started >= most

    def _is_enough(self, round: int, is_last: bool, progress: Progress) -> bool:
        """If a round is followed by a look, compare the captures so far, and print the result."""
        from etq.verdicts.sequential import alpha_of

        rounds = self._bench.rounds
        level = alpha_of(round, ALPHA, rounds, is_last=is_last)
        if level is None and not is_last:
            return False
        self._alpha = ALPHA if level is None else level
        with self._stored() as warehouse:
            standing = self._look(warehouse, round)
        progress.relabel(f"Round {round} of {rounds}")
        progress.clear()
        say(f"Round {round}: {standing.sentence}")
        return standing.is_decided

    @contextmanager
    def _stored(self) -> Iterator[Warehouse]:
        """The warehouse with all captures of the benchmark."""
        from etq.warehouse.warehouse import open

        with open(self._db) as warehouse:
            self._bench.store(warehouse, self._pending)
            self._pending.clear()
            yield warehouse

    def _look(self, warehouse: Warehouse, round: int) -> Standing:
        from etq.verdicts.sequential import precision

        if len(self._bench.sides) == 1:
            latencies, _ = self._bench.latencies(warehouse, self._bench.sides[0])
            return precision(latencies, rounds=self._bench.rounds)
        with closing(self._comparison(warehouse)) as comparison:
            return comparison.standing(round)

    def _comparison(self, warehouse: Warehouse) -> Comparison:
        from etq.analysis.comparison import OPTIONS, Comparison

        base, new = map(self._bench.selector, self._bench.sides)
        options = {**dict.fromkeys(OPTIONS), "alpha": self._alpha, "min_effect": self._options["min_effect"]}
        return Comparison(warehouse, base, new, options)

    def keep(self) -> None:
        """Store captures that were measured before an error, and print how to resume."""
        taken = [slot for at in range(1, self._bench.rounds + 1) for slot in self._bench.slots(at) if slot.is_taken]
        if taken:
            # If they can't be stored, as on a full disk, --resume stores them from their files.
            with suppress(EtqError, OSError), self._stored():
                pass
            resuming = f"--name {shlex.quote(self._bench.name)} --resume"
            captures = counted(len(taken), "capture")
            say(f"Kept: {captures} in {self._bench.folder}. The same command with {resuming} continues")

    def report(self) -> int:
        """Print the result and the next commands; return the exit status."""
        with self._stored() as warehouse:
            if len(self._bench.sides) == 1:
                self._report_one(warehouse)
                status = 0
            else:
                status = self._report_both(warehouse)
        is_summary = len(self._bench.sides) == 1 and self._options["form"] == "table"
        if is_summary:
            self._summarize_one()
        self._say_next(has_summary=is_summary)
        return status

    def _report_one(self, warehouse: Warehouse) -> None:
        from etq.verdicts.sequential import precision

        side = self._bench.sides[0]
        latencies, unit = self._bench.latencies(warehouse, side)
        if not latencies:
            raise EtqError(f"{side.name}: the captures have no executes or steps; see etq inspect on one of them")
        known = precision(latencies)
        if self._options["form"] == "json":
            values = {"name": side.name, "latency": known.typical, "low": known.low, "high": known.high, "unit": unit}
            text = json.dumps({**values, "captures": len(latencies)}, indent=1) + "\n"
            click.echo(text, nl=False)
            return
        text = f"{side.name}: {range_text([known.typical or 0.0], unit)}"
        if known.low is not None and known.high is not None:
            text += f" (95 %: {range_text((known.low, known.high), unit)})"
        runs = self._options["runs"]
        median = "" if runs == 1 else f", the median of {runs} runs in each"
        text += f"; {counted(len(latencies), 'capture')}{median}"
        click.echo(printable(text))

    def _summarize_one(self) -> None:
        """Print the summary of the last capture."""
        from etq.cli.summary import lines_of_capture
        from etq.cli.targets import FileOptions

        style = style_of(sys.stdout)
        for line in ("", *lines_of_capture(self._last(), self._db, FileOptions(), style)):
            click.echo(line)

    def _last(self) -> str:
        """The selector of the last capture."""
        position = len(self._bench.slots(1)) * self._round
        return selector_of({"bench": self._bench.name, "position": str(position)})

    def _report_both(self, warehouse: Warehouse) -> int:
        form = self._options["form"]
        with closing(self._comparison(warehouse)) as comparison:
            found = find_worse(comparison)
            if form == "line":
                text = f"{printable('; '.join(text for text, _ in comparison.lines()))}\n"
            else:
                text = whole(comparison, Output(form), hint=_HINT)
            write_text(text, Output(), is_printable=form in ("table", "line"))
            report_worse(found)
        return REGRESSION if found.worse or found.unstable else 0

    def _say_next(self, *, has_summary: bool) -> None:
        bench, seconds = self._bench, time.monotonic() - self._started
        if bench.measured:
            captures = counted(bench.measured, "capture")
            say(f"Measured: {captures} in {bench.seconds:.1f} s of runs, {seconds:.1f} s in all")
        if has_summary:  # the summary ends with the next commands
            return
        db = shlex.quote(self._db)
        selectors = " ".join(shlex.quote(self._bench.selector(side)) for side in self._bench.sides)
        if len(self._bench.sides) == 2:
            _echo(f"Next: etq compare {selectors} --db {db}")
            _echo(f"      etq report {selectors} --db {db} --open")
        else:
            _echo(f"Next: etq report {shlex.quote(self._last())} --db {db} --open")


def _echo(text: str) -> None:
    """Print a command on one line, so that it can be copied."""
    click.echo(printable(text), err=True)
