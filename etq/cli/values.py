"""Commands about the values that a runtime logged: values, gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from etq import catalog
from etq.cli import main
from etq.cli.messages import say
from etq.cli.no_rows import note_no_rows
from etq.cli.numbers import IntRange
from etq.cli.options import output_options, warehouse_option
from etq.cli.showing import show_view
from etq.cli.targets import FileOptions, opened
from etq.errors import counted
from etq.render.writers import Output, write

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

METRICS: Final = ("mse", "l1", "snr", "cosine", "max_abs", "max_rel")


@main.command()
@click.argument("capture")
@click.option("--debug-buffer", metavar="FILE", help="For a file: the debug buffer with its values.")
@click.option("--etrecord", metavar="FILE", help="For a file: the ETRecord of its program.")
@warehouse_option
@output_options
def values(
    capture: str,
    debug_buffer: str | None,
    etrecord: str | None,
    db: str,
    output: Output,
) -> None:
    """Show the values that a runtime logged. Tensors have statistics.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file.

    \b
    etq values run.etdp --debug-buffer run.bin
    etq values run --db lab.duckdb
    """
    read_options = FileOptions(etrecord=etrecord, debug_buffer=debug_buffer)
    show_view("logged_values", capture, db, output, read_options)


@main.command()
@click.argument("base")
@click.argument("new")
@click.option(
    "--metric",
    type=click.Choice(METRICS, case_sensitive=False),
    default="mse",
    show_default=True,
    help="Measure of distance.",
)
@click.option(
    "--worst",
    type=IntRange(1),
    metavar="N",
    help="Show only the N worst; a note counts those that can't be compared.",
)
@warehouse_option
@output_options
def gap(base: str, new: str, metric: str, worst: int | None, db: str, output: Output) -> None:
    """Show how far the values of NEW are from those of BASE. One row per op, the worst first.

    Both are captures of a warehouse that were ingested with --debug-buffer and --values and are linked to their
    ETRecords, or references (etq ingest --reference). SNR is in dB; l1 is the sum of absolute differences.

    \b
    etq gap mlp-reference mlp_debug --metric snr --worst 10 --db lab.duckdb
    etq gap portable xnnpack --metric max_rel --db lab.duckdb
    """
    with opened(db) as warehouse:
        query = "FROM numeric_gap($base, $new, metric := $metric)"
        parameters: dict[str, Any] = {"base": base, "new": new, "metric": metric}
        if worst is not None:
            _note_problems(warehouse, query, parameters)
            query += " WHERE gap IS NOT NULL LIMIT $worst"
            parameters["worst"] = worst
        if not write(warehouse, query, output, view=catalog.named("numeric_gap"), needs_rows=True, **parameters):
            _note_missing(warehouse, base, new)


def _note_missing(warehouse: Warehouse, *sides: str) -> None:
    """Print which side has no values, or that none of one op has any on both."""
    captures = {side: warehouse.capture(side) for side in sides}
    query = "SELECT 1 FROM debug_values AS v WHERE v.capture_id = $key LIMIT 1"
    missing = {
        side: capture
        for side, capture in captures.items()
        if capture.format != "reference" and not warehouse.rows(query, key=capture.capture_id)[1]
    }
    for side, capture in missing.items():
        note_no_rows(warehouse, "logged_values", side, capture, {})
    if not missing:
        say("Note: no op has a value in both captures")


def _note_problems(warehouse: Warehouse, query: str, parameters: dict[str, Any]) -> None:
    counts = f"SELECT g.problem, count(*) FROM ({query}) AS g WHERE g.gap IS NULL GROUP BY g.problem ORDER BY 2 DESC, 1"
    for problem, count in warehouse.rows(counts, **parameters)[1]:
        say(f"Note: {counted(count, 'value')} can't be compared: {problem}")
