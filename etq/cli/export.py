"""The command that writes a capture as a file for another tool."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from etq.choices import OPS_BY
from etq.cli import main
from etq.cli.messages import say
from etq.cli.numbers import IntRange
from etq.cli.options import query_limits, schedule_options, unit_option, warehouse_option
from etq.cli.showing import check_phase
from etq.cli.targets import FileOptions, check_path, file_options, is_file, open_target, opened, pop_file_options
from etq.errors import EtqError
from etq.export import FORMATS, captures_of, parts, to_file
from etq.render.progress import working
from etq.render.writers import refuse_existing

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

GRAPHS = ("edge_dialect_exported_program", "exported_program")


_HELP = """\
CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file. An output that ends in .gz
is compressed. Delegates' events with a clock of their own are placed in their calls, and marked as "estimated". The
script of replay calls the op with tensors of the sizes, types and strides of a trace that has shapes. With --to chrome,
several PyTorch traces (captures, files, or a selector of several) are written as one, with the clocks of the ranks
aligned as by etq show clock_offsets.

\b
etq export job=train --to chrome -o job.json.gz --db lab.duckdb
etq export run --to chrome -o run.trace.json.gz --db lab.duckdb
etq export run.etdp --etrecord model.etrecord --to model-explorer -o times.json
etq export train.pt.trace.json.gz --to replay --op aten::mm -o mm.py
"""
_LISTED = "\n".join(f"{name:<14}  {each.text}" for name, each in FORMATS.items())


@main.command(help=f"Write a capture as a file for another tool.\n\n\b\n{_LISTED}\n\n{_HELP}")
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True)
@click.option("--to", type=click.Choice([*FORMATS]), required=True, help="The format.")
@click.option(
    "-o", "--output", metavar="FILE", help="Write to that file; - is stdout, the default if stdout is a pipe."
)
@click.option("--force", is_flag=True, help="Overwrite the file of -o.")
@click.option(
    "--run", "runs", type=IntRange(0), multiple=True, metavar="N",
    help="chrome, speedscope: only that run_index; may be repeated.",
)  # fmt: skip
@click.option(
    "--counters", is_flag=True, default=None,
    help="chrome, of PyTorch traces: add counters: queue lengths of streams, bandwidth of copies.",
)  # fmt: skip
@click.option("--by", type=click.Choice(OPS_BY), help="hud: add ops, grouped as in etq ops.")
@click.option("--method", metavar="NAME", help="model-explorer: the method, if several ran.")
@click.option("--graph", type=click.Choice(GRAPHS), help="model-explorer: the graph.  [default: the first]")
@click.option("--op", metavar="NAME", help="replay: the op, such as aten::mm.")
@click.option(
    "--shapes", metavar="TEXT",
    help="replay: the op's inputs, as etq roofline shows them, or sizes as a JSON list.  [default: the costliest]",
)  # fmt: skip
@unit_option(None)
@schedule_options
@query_limits
@warehouse_option
@file_options
def export(captures: tuple[str, ...], to: str, output: str | None, force: bool, db: str, **options: Any) -> None:
    """Write a capture as a file for another tool."""
    read_options = pop_file_options(options)
    path = None if output == "-" else output
    if output is None and sys.stdout.isatty():
        raise EtqError(f"{to} can't be shown in a terminal; name a file with -o")
    refuse_existing(path, force)
    with _open_targets(captures, db, read_options, to) as (warehouse, targets):
        for target in targets:
            check_phase(warehouse, target, options.get("phase"))
        _note_unaligned(warehouse, targets)
        runs = list(options.pop("runs")) or None
        to_file(parts(warehouse, targets, to, runs=runs, **options), path, overwrite=force)


@contextmanager
def _open_targets(
    captures: tuple[str, ...], db: str, read_options: FileOptions, to: str
) -> Iterator[tuple[Warehouse, list[Capture]]]:
    """Provide a warehouse and the captures in it that the arguments name. Several files are loaded into a warehouse on
    disk.
    """
    from etq.warehouse.warehouse import open

    files = [capture for capture in captures if is_file(capture, db)]
    if len(captures) == 1 and (files or read_options != FileOptions()):
        with open_target(captures[0], db, read_options) as (warehouse, target):
            yield warehouse, [target]
    elif read_options != FileOptions():
        raise EtqError("options for reading a file need a single file")
    elif not files:
        for capture in captures:
            check_path(capture, db)
        with opened(db) as warehouse:
            found = [target for capture in captures for target in captures_of(warehouse, capture, to)]
            yield warehouse, [*dict.fromkeys(found)]
    elif len(files) < len(captures):
        raise EtqError(f"{files[0]} is a file, and others are captures of {db}; ingest it, or give files alone")
    else:
        with TemporaryDirectory() as folder, open(os.path.join(folder, "ranks.duckdb")) as warehouse:
            with working(f"Reading {len(files)} files", sys.stderr):
                results = warehouse.ingest_many(files)
            for result in results:
                if isinstance(result, EtqError):
                    raise result
            yield warehouse, [*dict.fromkeys(result for result in results if not isinstance(result, EtqError))]


def _note_unaligned(warehouse: Warehouse, captures: list[Capture]) -> None:
    """Print which of several traces are aligned only by the time of day, because no collective aligns their clocks."""
    if len(captures) == 1:
        return
    from etq.export.job_trace import NUMBERED

    query = f"""
        {NUMBERED}
        SELECT string_agg(c.name, ', ' ORDER BY c.name) FROM captures AS c
        WHERE list_contains($captures::INTEGER[], c.capture_id)
            AND c.capture_id NOT IN (SELECT o.capture_id FROM _clock_offsets('numbered') AS o)
    """
    [(names,)] = warehouse.rows(query, captures=[capture.capture_id for capture in captures])[1]
    if names is not None:
        why = "isn't known, see etq show clock_offsets; placed by the time at which it was recorded"
        say(f"Note: the clock of {names} {why}")
