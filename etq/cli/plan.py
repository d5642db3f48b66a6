"""The command that prints an order to measure two builds in."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

import click

from etq.bench.order import Plan
from etq.cli import main
from etq.cli.options import output_options
from etq.errors import EtqError, printable
from etq.render.writers import write_rows


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
@output_options
def plan(
    base: str,
    new: str,
    captures: int,
    seed: int,
    name: str | None,
    out_dir: str | None,
    suffix: str,
    format: str | None,
    output: str | None,
    force: bool,
) -> None:
    """Print an order to measure two builds in by hand. Nothing is measured; etq bench measures.

    A machine drifts: captures taken first and later differ in more than the build. So each pair of neighbouring
    captures has one of each side, and every second pair mirrors the pair before it (A B B A or B A A B, by the seed).

    \b
    etq plan --base main --new fast-gelu --captures 10
    """
    try:
        made = Plan(
            f"{datetime.now(UTC):%Y%m%d-%H%M%S}" if name is None else name, base, new, captures, seed, out_dir, suffix
        )
    except EtqError as error:
        raise click.UsageError(str(error)) from error
    rows = [[step.number, step.side, step.path] for step in made.steps]
    write_rows(["number", "side", "file"], rows, format, output, force=force)
    labels = f"--label side=SIDE --label plan={shlex.quote(made.name)} --label plan_position=NUMBER"
    click.echo(printable(f"Ingest each: etq ingest FILE {labels} --captured-at TIME"), err=True)
