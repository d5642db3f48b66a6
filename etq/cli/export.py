"""The command that writes a capture as a file for another tool."""

from __future__ import annotations

import sys
from typing import Any

import click

from etq.choices import OPS_BY
from etq.cli import main
from etq.cli.options import query_limits, schedule_options, unit_option, warehouse_option
from etq.cli.showing import check_phase
from etq.cli.targets import file_options, open_target, pop_file_options
from etq.errors import EtqError
from etq.export import FORMATS, parts, to_file
from etq.render.writers import refuse_existing

GRAPHS = ("edge_dialect_exported_program", "exported_program")


_HELP = """\
CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file. An output that ends in
.gz is compressed. Delegates' events with a clock of their own are placed in their calls, and marked as "estimated".

\b
etq export run --to chrome -o run.trace.json.gz --db lab.duckdb
etq export run.etdp --etrecord model.etrecord --to model-explorer -o times.json
"""
_LISTED = "\n".join(f"{name:<14}  {each.text}" for name, each in FORMATS.items())


@main.command(help=f"Write a capture as a file for another tool.\n\n\b\n{_LISTED}\n\n{_HELP}")
@click.argument("capture")
@click.option("--to", type=click.Choice([*FORMATS]), required=True, help="The format.")
@click.option(
    "-o", "--output", metavar="FILE", help="Write to that file; - is stdout, the default if stdout is a pipe."
)
@click.option("--force", is_flag=True, help="Overwrite the file of -o.")
@click.option(
    "--run", "runs", type=click.IntRange(0), multiple=True, metavar="N",
    help="chrome, speedscope: only that run_index; may be repeated.",
)  # fmt: skip
@click.option(
    "--counters", is_flag=True, default=None,
    help="chrome, of PyTorch traces: add counters: queue lengths of streams, bandwidth of copies.",
)  # fmt: skip
@click.option("--by", type=click.Choice(OPS_BY), help="hud: add ops, grouped as in etq ops.")
@click.option("--method", metavar="NAME", help="model-explorer: the method, if several ran.")
@click.option("--graph", type=click.Choice(GRAPHS), help="model-explorer: the graph.  [default: the first]")
@unit_option(None)
@schedule_options
@query_limits
@warehouse_option
@file_options
def export(capture: str, to: str, output: str | None, force: bool, db: str, **options: Any) -> None:
    """Write a capture as a file for another tool."""
    read_options = pop_file_options(options)
    path = None if output == "-" else output
    if output is None and sys.stdout.isatty():
        raise EtqError(f"{to} can't be shown in a terminal; name a file with -o")
    refuse_existing(path, force)
    with open_target(capture, db, read_options) as (warehouse, selector):
        check_phase(warehouse, selector, options.get("phase"))
        runs = list(options.pop("runs")) or None
        to_file(parts(warehouse, selector, to, runs=runs, **options), path, overwrite=force)
