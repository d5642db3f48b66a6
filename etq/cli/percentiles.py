"""The command about percentiles of events."""

from __future__ import annotations

from typing import Any

import click

from etq.cli import main
from etq.cli.options import output_options, run_options, unit_option, warehouse_option
from etq.cli.showing import show_view
from etq.cli.targets import file_options, pop_file_options


@main.command()
@click.argument("capture")
@click.option(
    "-q",
    "--quantile",
    "quantiles",
    type=click.FloatRange(0, 1),
    multiple=True,
    help="A quantile from 0 to 1; may be repeated.  [default: 0.1 0.5 0.9]",
)
@unit_option(None)
@run_options("all")
@warehouse_option
@file_options
@output_options
def percentiles(
    capture: str,
    quantiles: tuple[float, ...],
    unit: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Show any percentiles of a capture's events, a column each.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file.

    \b
    etq percentiles run -q 0.5 -q 0.99 --db lab.duckdb
    etq percentiles run.etdp -q 0.999 --unit ms
    """
    columns = ", ".join(
        f'max(p.value) FILTER (WHERE p.quantile = {quantile}) AS "p{100 * quantile:.12g}"'
        for quantile in quantiles or (0.1, 0.5, 0.9)
    )
    query = f"""
        SELECT p.block_index, p.event_block_name, p.method, p.slot, p.occurrence, p.event_name, p.runs, {columns},
            p.unit
        FROM {{view}} AS p
        GROUP BY p.block_index, p.event_block_name, p.method, p.slot, p.occurrence, p.event_name, p.runs, p.unit
        ORDER BY p.block_index, p.slot, p.occurrence
    """
    read_options = pop_file_options(options)
    parameters = {"quantiles": list(quantiles) or None, "unit": unit, **options}
    show_view("percentiles", capture, db, (format, output, force), read_options, query=query, **parameters)
