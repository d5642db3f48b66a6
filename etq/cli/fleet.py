"""The command `etq fleet`: each device against all others."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from etq import catalog
from etq.choices import PHASES, given_options
from etq.cli import main
from etq.cli.options import (
    alpha_option,
    output_options,
    percentage,
    quantile_option,
    together,
    unit_option,
    warehouse_option,
)
from etq.cli.targets import opened
from etq.errors import printable
from etq.render.terminal import style_of
from etq.render.writers import Output, write
from etq.verdicts.outliers import sentence

_options: Final = together(
    click.option("--by", metavar="KEY", default="device", show_default=True, help="Label whose values are compared."),
    click.option("--ops", "is_by_op", is_flag=True, help="Show the ops of each value, all instances of one together."),
    quantile_option,
    click.option("--phase", type=click.Choice(PHASES), help="Only runs of that phase."),
    alpha_option("verdict among all values"),
    click.option(
        "--min-effect", metavar="PERCENT", callback=percentage, help="Smallest change to report.  [default: 2% or 3%]"
    ),
    click.option("--allow-mismatch", is_flag=True, help="Compare captures of different models or conditions, too."),
    unit_option(None),
)
_ROWS: Final = "etq_fleet_rows"


@main.command()
@click.argument("selector", required=False)
@_options
@warehouse_option
@output_options
def fleet(
    selector: str | None,
    by: str,
    is_by_op: bool,
    db: str,
    output: Output,
    **options: Any,
) -> None:
    """Show which devices are slower than all others.

    The first line says whether all ops of a device are slower, or which. The accepted probability of a false verdict is
    for all devices together. --by compares the values of another label.

    \b
    etq fleet model=mlp --db lab.duckdb
    etq fleet model=mlp,build=140 --by soc
    """
    arguments = given_options({"selector": selector, "by": by, **options})
    with opened(db) as warehouse:
        totals = f"FROM outliers({catalog.arguments(arguments)})"
        query = f"FROM outliers({catalog.arguments({**arguments, 'what': 'op'})})" if is_by_op else totals
        if is_by_op:
            arguments["what"] = "op"
        elif output.is_to_read:
            # Outliers are computed once, for the sentence and the table.
            warehouse.rows(f"CREATE OR REPLACE TEMP TABLE {_ROWS} AS {totals}", **arguments)
            query, arguments = f"FROM {_ROWS}", {name: arguments[name] for name in ("unit",) if name in arguments}
            rows = [row for (row,) in warehouse.rows(f"SELECT r FROM {_ROWS} AS r")[1]]
            style = style_of(sys.stdout)
            click.echo(style.styled(printable(sentence(rows, by)), "bold"))
        write(warehouse, query, output, view=catalog.named("outliers"), **arguments)
