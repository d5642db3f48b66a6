"""The command that measures two builds in turn."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from etq.choices import UNITS
from etq.cli import main
from etq.cli.interrupts import allow
from etq.cli.labels import parsed_labels
from etq.cli.options import Command, output_options, warehouse_option
from etq.cli.targets import report_findings
from etq.errors import EtqError, printable
from etq.render.writers import write_rows

if TYPE_CHECKING:
    from etq.analysis.ab_plan import Measured, Plan
    from etq.warehouse.warehouse import Warehouse

# Options that only affect running the command, not printing the order.
_OF_RUNNING: Final = (
    click.option("--resume", is_flag=True, help="Take the missing captures of that --plan, with the same command."),
    click.option(
        "--warm-up",
        metavar="N",
        type=click.IntRange(0),
        default=0,
        help="Runs of each side to discard before the plan.",
    ),
    click.option(
        "--pause", metavar="SECONDS", type=click.FloatRange(0), default=0, help="Seconds to wait between runs."
    ),
    click.option(
        "--label",
        "labels",
        metavar="KEY=VALUE",
        multiple=True,
        callback=parsed_labels,
        help="A label of all captures; may be repeated.",
    ),
    click.option("--etrecord", metavar="FILE", help="The ETRecord of the program; it is linked to all captures."),
    click.option("--base-etrecord", metavar="FILE", help="The ETRecord of base, if it has its own."),
    click.option("--new-etrecord", metavar="FILE", help="The ETRecord of new, if it has its own."),
    click.option("--time-scale", type=click.Choice(UNITS), help="Unit of one tick.  [default: ns]"),
)


def _options_of_running(command: Command) -> Command:
    for option in reversed(_OF_RUNNING):
        command = option(command)
    return command


@main.command()
@click.option("--base", metavar="NAME", default="A", show_default=True, help="Name of the side to compare with.")
@click.option("--new", metavar="NAME", default="B", show_default=True, help="Name of the side to compare.")
@click.option(
    "--captures",
    metavar="N",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Captures of each side; use 5 or more for a clear result.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the order.")
@click.option("--plan", "name", metavar="NAME", help="Name of the plan.  [default: the time, as in 20261120-140500]")
@click.option("--out-dir", metavar="FOLDER", help="Folder of the files.  [default: plan-NAME]")
@click.option("--suffix", default=".etdp", show_default=True, help="Ending of the files' names.")
@click.option(
    "--run", "command", metavar="CMD", help="Run this command for each row; {side}, {out}, {number} are the row's."
)
@_options_of_running
@warehouse_option
@output_options
def plan(
    base: str,
    new: str,
    captures: int,
    seed: int,
    name: str | None,
    out_dir: str | None,
    suffix: str,
    command: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
    **running: Any,
) -> None:
    """Print an order to take captures of two builds in. Captures in this order can be compared; with --run, take them.

    A machine drifts: captures taken first and later differ in more than the build. So each pair of neighbouring
    captures has one of each side, and every second pair mirrors the pair before it (A B B A or B A A B, by the seed).

    CMD is run without a shell, and must write the file {out}. Each capture is ingested at once, with the labels side,
    plan and plan_position, and the start time of its command. If CMD fails, measuring stops; --resume continues it.

    \b
    etq plan --base main --new fast-gelu --captures 10
    etq plan --base main --new fast-gelu --run './bench-{side} --etdump_path {out}' --db lab.duckdb
    etq plan --base main --new fast-gelu --run '…' --plan 20261120-140500 --resume --db lab.duckdb
    """
    from etq.analysis.ab_plan import split_command

    _check_usage(command, name, running)
    try:
        made = _plan(name, base=base, new=new, captures=captures, seed=seed, folder=out_dir, suffix=suffix)
        words = [] if command is None else split_command(command)
    except EtqError as error:
        raise click.UsageError(str(error)) from error
    rows = [[step.number, step.side, step.path] for step in made.steps]
    write_rows(["number", "side", "file"], rows, format, output, force=force)
    if command is None:
        labels = f"--label side=SIDE --label plan={shlex.quote(made.name)} --label plan_position=NUMBER"
        click.echo(printable(f"Ingest each: etq ingest FILE {labels} --captured-at TIME"), err=True)
        return
    if not any("{side}" in word for word in words):
        click.echo("Note: the command has no {side}: both sides run the same", err=True)
    sys.stdout.flush()  # readers of the rows want them now, before the first capture is taken
    _run(made, command, db, running)
    selectors = " ".join(shlex.quote(f"side={side},plan={made.name}") for side in (base, new))
    click.echo(printable(f"Compare: etq compare {selectors} --db {shlex.quote(db)}"), err=True)


def _check_usage(command: str | None, name: str | None, running: dict[str, Any]) -> None:
    from etq.analysis.ab_plan import LABELS

    context = click.get_current_context()
    for option in running:
        if command is None and context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            flag = next(parameter.opts[0] for parameter in context.command.params if parameter.name == option)
            raise click.UsageError(f"{flag} goes with --run")
    if running["resume"] and name is None:
        raise click.UsageError("--resume needs --plan, the name of the plan to continue")
    if taken := [key for key in running["labels"] if key in LABELS]:
        raise click.UsageError(f"--label {taken[0]}=… is the plan's own")


def _plan(name: str | None, **options: Any) -> Plan:
    from datetime import UTC, datetime

    from etq.analysis.ab_plan import Plan

    return Plan(f"{datetime.now(UTC):%Y%m%d-%H%M%S}" if name is None else name, **options)


def _run(plan: Plan, command: str, db: str, running: dict[str, Any]) -> None:
    """Take the captures of a plan, and print each; if a command fails, print its output."""
    from etq.analysis.ab_plan import GRACE, CommandError, run

    allow(GRACE + 1)
    taken: list[str] = []

    def report(warehouse: Warehouse, measured: Measured) -> None:
        taken.append(measured.capture.name)
        number, side = measured.step.number, measured.step.side
        text = f"{number}/{2 * plan.captures} {side}: {measured.capture.name} ingested, {measured.seconds:.1f} s"
        click.echo(printable(text), err=True)
        report_findings(warehouse, measured.capture.capture_id)

    both, *of_sides = (running.pop(name) for name in ("etrecord", "base_etrecord", "new_etrecord"))
    records = {side: own or both for side, own in zip((plan.base, plan.new), of_sides, strict=True) if own or both}
    try:
        run(plan, command, db, etrecords=records, on_capture=report, **running)
    except (EtqError, KeyboardInterrupt) as error:
        for line in error.output if isinstance(error, CommandError) else ():
            click.echo(f"| {printable(line)}", err=True)
        if taken or (running["resume"] and isinstance(error, CommandError | KeyboardInterrupt)):
            text = (
                f"Ingested: {len(taken)}. The same command with --resume --plan {shlex.quote(plan.name)} takes the rest"
            )
            click.echo(printable(text), err=True)
        raise
    if not taken:
        click.echo("All captures of the plan are there", err=True)
