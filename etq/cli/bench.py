"""The command that measures programs in turns until it is known which is slower."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from etq.choices import UNITS
from etq.cli import main
from etq.cli.compare import REGRESSION, find_worse, find_worse_startup, report_worse, whole
from etq.cli.interrupts import allow
from etq.cli.labels import parsed_labels
from etq.cli.messages import say
from etq.cli.options import percentage, together
from etq.errors import EtqError, printable
from etq.render import pager
from etq.render.progress import Progress
from etq.render.terminal import style_of
from etq.render.writers import write_text

if TYPE_CHECKING:
    from etq.analysis.comparison import Comparison
    from etq.bench.bench import Bench
    from etq.verdicts.sequential import Standing
    from etq.warehouse.warehouse import Warehouse

# How long a command that is measured has to end after an interrupt, in seconds.
GRACE: Final = 6
MOST_ROUNDS: Final = 20
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|)")
# How to see all columns of the result: by a command that has the option.
_HINT: Final = "etq compare, as below, has --wide and --columns"
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def _seconds(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse a duration: 90, 90s, 10m, 1h."""
    if text is None:
        return None
    match = _TIME.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise click.BadParameter(f"{text!r} is no time; write 90s, 10m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _until(_: click.Context, __: click.Parameter, text: str) -> int | None:
    """Parse the number of rounds; None: until it is decided."""
    if text == "decided":
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise click.BadParameter(f"{text!r} is neither decided nor a number of rounds from 1 to 1000")
    return int(text)


_options: Final = together(
    click.option("--base", "base_command", metavar="CMD", help="Instead of programs: the command that measures base."),
    click.option("--new", "new_command", metavar="CMD", help="The command that measures new."),
    click.option("--etdump", metavar="PATH", help="The file that the commands write.  [default: {out}]"),
    click.option("--pull", metavar="CMD", help="Command that copies that file from a device to {out}."),
    click.option("--script", metavar="CMD", help="Instead of programs: a script of PyTorch, which is profiled."),
    click.option("--base-git", metavar="REF", help="For --script: the commit of base, in a worktree of its own."),
    click.option("--base-python", metavar="PYTHON", help="The Python of base.  [default: this one]"),
    click.option("--new-python", metavar="PYTHON", help="The Python of new.  [default: this one]"),
    click.option("--base-name", default="base", show_default=True, help="The label side of the first."),
    click.option("--new-name", default="new", show_default=True, help="The label side of the second."),
    click.option(
        "--runner", metavar="PATH", help="executor_runner with the event tracer.  [default: $ETQ_RUNNER, or of PATH]"
    ),
    click.option("--method", metavar="NAME", help="The method that is run.  [default: forward, or the first]"),
    click.option(
        "--inputs",
        metavar="FILE",
        default="random",
        show_default=True,
        help="Inputs: .npz or .pt, random, bundled in the programs, or ones (executor_runner's own).",
    ),
    click.option("--runs", metavar="N", type=click.IntRange(1), default=100, show_default=True, help="Runs a capture."),
    click.option("--warmup", metavar="N", type=click.IntRange(0), default=5, show_default=True, help="Runs before."),
    click.option("--cold", is_flag=True, help="One run a capture, without warm-up: loading and first executes."),
    click.option(
        "--rounds",
        metavar="N",
        type=click.IntRange(1, 1000),
        default=MOST_ROUNDS,
        show_default=True,
        help="The most rounds, of two captures of each side.",
    ),
    click.option(
        "--until", metavar="decided|N", callback=_until, default="decided", show_default=True, help="When to end."
    ),
    click.option("--max-time", metavar="TIME", callback=_seconds, help="Start no round after that: 90s, 10m, 1h."),
    click.option(
        "--timeout",
        metavar="TIME",
        callback=_seconds,
        default="600s",
        show_default=True,
        help="The most time of one capture.",
    ),
    click.option("--pause", metavar="TIME", callback=_seconds, help="Time before each capture."),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the order and inputs."),
    click.option("--adb", metavar="SERIAL", is_flag=False, flag_value="", help="Measure on the Android device of adb."),
    click.option("--ssh", metavar="HOST", help="Measure on that machine."),
    click.option(
        "--pin/--no-pin", default=None, help="Fix the clocks where root allows, until the end.  [default: with --adb]"
    ),
    click.option("--max-celsius", type=click.FloatRange(0), help="Wait until the machine is cooler than that."),
    click.option("--name", help="Name of the benchmark, its label bench.  [default: the time, as in 20261120-140500]"),
    click.option("--resume", is_flag=True, help="Go on with the benchmark of that --name."),
    click.option("--out-dir", metavar="FOLDER", help="Folder of the captures.  [default: bench-NAME]"),
    click.option(
        "--db",
        metavar="FILE",
        envvar="ETQ_DB",
        help="The warehouse.  [default: $ETQ_DB, or bench.duckdb in its folder]",
    ),
    click.option("--to", metavar="URL", help="Send the captures to that team's server, too, as etq push does."),
    click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, callback=parsed_labels, help="A label."),
    click.option("--etrecord", metavar="FILE", help="The ETRecord of both.  [default: PROGRAM.etrecord, if it exists]"),
    click.option("--base-etrecord", metavar="FILE", help="The ETRecord of base, if it has its own."),
    click.option("--new-etrecord", metavar="FILE", help="The ETRecord of new, if it has its own."),
    click.option("--time-scale", type=click.Choice(UNITS), help="Unit of one tick.  [default: ns]"),
    click.option("--min-effect", metavar="PERCENT", callback=percentage, help="Smallest difference that counts: 3%."),
    click.option(
        "--alpha",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.05,
        show_default=True,
        help="Probability of a verdict without a difference, of the whole benchmark.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(["table", "markdown", "json", "line"]),
        default="table",
        show_default=True,
        help="Format of the result; line: the verdicts alone.",
    ),
    click.option("-o", "--output", metavar="FILE", help="Write the result to that file instead of stdout."),
    click.option("--force", is_flag=True, help="Overwrite an existing file of -o."),
    click.option("-q", "--quiet", is_flag=True, help="Show no progress."),
)


@main.command()
@click.argument("programs", metavar="[BASE.pte] [NEW.pte]", nargs=-1)
@_options
def bench(programs: tuple[str, ...], **options: Any) -> None:
    """Measure which of two programs is slower.

    With one program, its latency is measured.

    A round is two captures of each side, each in a process of its own: base new new base, or new base base new. After
    some rounds the comparison is asked; it ends when it is decided, with at most 5 % false verdicts in all. The exit
    status is 3 if the total or an op of new is slower, as with etq gate. Interrupted, --resume goes on.

    Programs are run by executor_runner, built with the event tracer (--runner, $ETQ_RUNNER, or on PATH), else by the
    runtime of the executorch wheel (pip install etq[bench]), which times executes, not ops. For any other runner, give
    commands: {out} is the file to write, {round}, {side} and {number} are the capture's.

    \b
    etq bench base.pte new.pte
    etq bench base.pte new.pte --runner ./executor_runner --runs 200 --max-time 10m
    etq bench --base './run old {out}' --new './run new {out}'
    etq bench net.pte --adb --runner ./executor_runner
    etq bench --script 'train.py --steps 20' --base-git main
    """
    from etq.cli.bench_options import made_bench

    allow(GRACE)
    pager.allowed.set(False)  # a benchmark ends by itself, and its last lines come below the result
    rounds = options["until"] or options["rounds"]
    db: str | None = options["db"]
    with made_bench(programs, rounds, options) as made:
        done = made.begin(resume=options["resume"])
        db = db or os.path.join(made.folder, "bench.duckdb")
        measured = _Measured(made, db, options, done)
        try:
            with _machines(made, options):
                _announce(made, done, options)
                measured.run()
        except (EtqError, OSError, KeyboardInterrupt) as error:
            for line in getattr(error, "output", ()):
                click.echo(f"| {printable(line)}", err=True)
            measured.keep()
            raise
        status = measured.report()
        measured.send()
    sys.exit(status)


@contextmanager
def _machines(made: Bench, options: dict[str, Any]) -> Iterator[None]:
    """Connect to the machines, put on them what is run, and leave them as they were."""
    from etq.bench.conditions import pin

    hosts = {id(side.host): side.host for side in made.sides}
    is_pinned = options["pin"] if options["pin"] is not None else options["adb"] is not None
    with ExitStack() as opened:
        for host in hosts.values():
            opened.callback(host.close)
            host.connect()
            if is_pinned:
                pinned, groups = pin(host)
                if pinned < groups or not groups:
                    say(f"Note: {host.name}: the clocks of {pinned} of {groups} groups of processors were fixed")
        for side in made.sides:
            side.runner.prepare(side.host)
        yield


def _announce(made: Bench, done: int, options: dict[str, Any]) -> None:
    if options["quiet"]:
        return
    side = made.sides[0]
    names = " and ".join(each.name for each in made.sides)
    begun = f", {done} of them done" if done else ""
    rounds = "1 round" if made.rounds == 1 else f"{made.rounds} rounds"
    rounds = rounds if options["until"] is not None else f"at most {rounds}"
    say(f"Measuring {names} on {side.host.name} by {side.runner.name}: {rounds}{begun}")
    if not side.runner.has_ops:
        say(
            "Note: that runtime has no event tracer: executes are timed, ops are not. For ops, build executor_runner "
            "with -DEXECUTORCH_ENABLE_EVENT_TRACER=ON -DEXECUTORCH_BUILD_DEVTOOLS=ON, and give --runner"
        )


class _Measured:
    """The course of a benchmark: what is measured and stored, and what the last look at it showed."""

    def __init__(self, made: Bench, db: str, options: dict[str, Any], done: int) -> None:
        self._bench, self._db, self._options = made, db, options
        self._done = done  # rounds that were there at the beginning
        self._pending: list[int] = []  # rounds that are not stored
        self._round = 0
        self._alpha: float = options["alpha"]
        self._started = time.monotonic()

    def run(self) -> None:
        """Measure until it is decided, until the last round, or until the time is over."""
        in_round = len(self._bench.slots(1))
        total = in_round * self._bench.rounds
        with Progress("Measuring", total, sys.stderr, is_quiet=self._options["quiet"]) as progress:

            def say_below(text: str) -> None:
                progress.clear()
                say(text)

            self._bench.say = say_below
            for round in range(1, self._bench.rounds + 1):
                self._pending.append(round)
                for slot in self._bench.slots(round):
                    progress.begin()
                    if not slot.is_taken:
                        self._bench.take(slot)
                    progress.advance()
                self._round = round
                if round < self._done:  # looks at fewer captures than there are would be others than those
                    continue
                is_last = round == self._bench.rounds or self._is_over()
                if self._is_enough(round, is_last, progress) or is_last:
                    if is_last and round < self._bench.rounds and not self._options["quiet"]:
                        progress.clear()
                        say(f"Ended: --max-time is over after {round} of {self._bench.rounds} rounds")
                    break

    def _is_over(self) -> bool:
        most = self._options["max_time"]
        return most is not None and time.monotonic() - self._started >= most

    def _is_enough(self, round: int, is_last: bool, progress: Progress) -> bool:
        """Look at what was measured, if there is a look after a round, and say what it showed."""
        from etq.verdicts.sequential import alpha_of

        alpha, rounds = self._options["alpha"], self._bench.rounds
        if self._options["until"] is not None:
            level = alpha if is_last else None
        else:
            level = alpha_of(round, alpha, rounds, is_last=is_last)
        if level is None and not is_last:
            return False
        self._alpha = alpha if level is None else level
        with self._stored() as warehouse:
            standing = self._look(warehouse, round)
        progress.relabel(f"Round {round} of {rounds}")
        if not self._options["quiet"]:
            progress.clear()
            say(f"Round {round}: {standing.sentence if self._options['until'] is None else 'the last'}")
        return standing.is_decided and self._options["until"] is None

    @contextmanager
    def _stored(self) -> Iterator[Warehouse]:
        """The warehouse with all that was measured."""
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
            return comparison.standing(
                round, self._bench.rounds, alpha=self._options["alpha"], of_startup=self._options["cold"]
            )

    def _comparison(self, warehouse: Warehouse) -> Comparison:
        from etq.analysis.comparison import OPTIONS, Comparison

        base, new = map(self._bench.selector, self._bench.sides)
        options = {**dict.fromkeys(OPTIONS), "alpha": self._alpha, "min_effect": self._options["min_effect"]}
        return Comparison(warehouse, base, new, options)

    def keep(self) -> None:
        """Store what was measured before an error, and say how to go on."""
        taken = [slot for at in range(1, self._bench.rounds + 1) for slot in self._bench.slots(at) if slot.is_taken]
        if taken:
            # If they can't be stored, as on a full disk, they are when it is resumed: from their files.
            with suppress(EtqError, OSError), self._stored():
                pass
            resuming = f"--name {shlex.quote(self._bench.name)} --resume"
            captures = "1 capture" if len(taken) == 1 else f"{len(taken)} captures"
            say(f"Kept: {captures} in {self._bench.folder}. The same command with {resuming} goes on")

    def report(self) -> int:
        """Print the result and the next commands; return the exit status."""
        with self._stored() as warehouse:
            if len(self._bench.sides) == 1:
                self._report_one(warehouse)
                status = 0
            else:
                status = self._report_both(warehouse)
        is_summary = len(self._bench.sides) == 1 and self._options["form"] == "table" and not self._options["output"]
        if is_summary:
            self._summarize_one()
        if not self._options["quiet"]:
            self._say_next(has_summary=is_summary)
        return status

    def send(self) -> None:
        """Send the captures to the server of `--to`, each side with its program and record."""
        url: str | None = self._options["to"]
        if url is None:
            return
        from etq.cli.pushed import push_files

        taken = [each for round in range(1, self._round + 1) for each in self._bench.slots(round) if each.is_taken]
        for side in self._bench.sides:
            files = [each.path for each in taken if each.side is side]
            try:
                push_files(
                    url, files, pte=side.program, etrecord=side.etrecord, time_scale=self._bench.time_scale,
                    quiet=self._options["quiet"],
                )  # fmt: skip
            except EtqError as error:
                resuming = f"etq push {shlex.quote(url)} {shlex.quote(self._bench.folder)}"
                raise EtqError(f"{error}; the captures are kept, send them by {resuming}") from error

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
            write_text(text, self._options["output"], force=self._options["force"])
            return
        text = f"{side.name}: {known.typical:.4g} {unit}"
        if known.low is not None and known.high is not None:
            text += f" (95 %: {known.low:.4g} to {known.high:.4g} {unit})"
        runs = 1 if self._options["cold"] else self._options["runs"]
        median = "" if runs == 1 else f", the median of {runs} runs in each"
        text += f"; {len(latencies)} captures{median}"
        write_text(f"{printable(text)}\n", self._options["output"], force=self._options["force"], is_printable=True)

    def _summarize_one(self) -> None:
        """Print what is most worth knowing of the last capture."""
        from etq.cli.summary import lines_of_capture
        from etq.cli.targets import FileOptions

        style = style_of(sys.stdout)
        for line in ("", *lines_of_capture(self._last(), self._db, FileOptions(), style)):
            click.echo(line)

    def _last(self) -> str:
        """The selector of the last capture."""
        position = len(self._bench.slots(1)) * self._round
        return f"bench={self._bench.name},position={position}"

    def _report_both(self, warehouse: Warehouse) -> int:
        form, output = self._options["form"], self._options["output"]
        with closing(self._comparison(warehouse)) as comparison:
            found = find_worse(comparison, True, ())
            if self._options["cold"]:
                found = found.with_others(find_worse_startup(comparison))
            lines = comparison.startup_lines() if self._options["cold"] else []
            if form == "line":
                line = "; ".join(lines or [text for text, _ in comparison.lines()])
                text = f"{printable(line)}\n"
            else:
                text = whole(comparison, form, 10, output is not None, found.worse, _HINT)
                if lines and form == "table":
                    text = "".join(f"{printable(line)}\n" for line in lines) + f"\n{text}"
            write_text(text, output, force=self._options["force"], is_printable=form in ("table", "line"))
            if not self._options["quiet"]:
                report_worse(found)
        return REGRESSION if found.worse or found.unstable else 0

    def _say_next(self, *, has_summary: bool) -> None:
        bench, seconds = self._bench, time.monotonic() - self._started
        if bench.measured:
            say(f"Measured: {bench.measured} captures in {bench.seconds:.1f} s of runs, {seconds:.1f} s in all")
        if has_summary:  # which ends with the next commands
            return
        db = shlex.quote(self._db)
        selectors = " ".join(shlex.quote(self._bench.selector(side)) for side in self._bench.sides)
        if len(self._bench.sides) == 2:
            _echo(f"Next: etq compare {selectors} --db {db}")
            _echo(f"      etq report {selectors} --db {db} --open")
        else:
            _echo(f"Next: etq report {shlex.quote(self._last())} --db {db} --open")


def _echo(text: str) -> None:
    """Print a command, which is copied whole: it isn't wrapped."""
    click.echo(printable(text), err=True)
