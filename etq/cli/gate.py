"""The command that reports a verdict about a build as its exit status."""

from __future__ import annotations

import sys
from typing import Any

import click

from etq.analysis.comparison import Comparison
from etq.cli import main
from etq.cli.compare import REGRESSION, find_worse, find_worse_startup, headline, judging_options, report_worse, sides
from etq.cli.messages import say
from etq.cli.options import query_limits, warehouse_option
from etq.errors import EtqError, printable

# The exit status that `git bisect run` takes for a build that can't be tested.
SKIP = 125


@main.command()
@click.argument("base")
@click.argument("new")
@click.option("--bisect", is_flag=True, help="Exit with 0 good, 1 bad, 125 unclear, as `git bisect run` expects.")
@click.option("--total", is_flag=True, help="Judge only the total, not ops.")
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Judge this metric, not times; may be repeated."
)
@click.option("--startup", is_flag=True, help="Judge only loading and first executes.")
@judging_options
@query_limits
@warehouse_option
def gate(
    base: str,
    new: str,
    bisect: bool,
    total: bool,
    metrics: tuple[str, ...],
    startup: bool,
    step_name: str | None,
    db: str,
    quantile: str | None,
    **options: Any,
) -> None:
    """Exit with 3 if NEW is slower than BASE or unstable. Otherwise exit with 0; an unclear result is printed.

    Unstable means that some captures of NEW are slower than the others, and that BASE has fewer such captures.

    Sides are as in etq compare, which shows more.

    \b
    etq gate build=41 build=42 --db lab.duckdb
    git bisect run sh -c './measure new && etq gate "good/*.etdp" "new/*.etdp" --bisect'
    """
    if startup and (total or metrics):
        raise click.UsageError("--startup excludes --total and --metric, which judge other numbers")
    arguments = {**options, "unit": None, "quantile": None if quantile is None else float(quantile)}
    try:
        with sides(base, new, db, None) as (warehouse, base_selector, new_selector):
            comparison = Comparison(warehouse, base_selector, new_selector, arguments, step_name)
            if startup:
                click.echo("".join(f"{printable(line)}\n" for line in comparison.startup_lines()), nl=False)
                found = find_worse_startup(comparison)
            else:
                found = find_worse(comparison, not total, metrics)
                if metrics:
                    lines = comparison.metric_lines(metrics)
                    click.echo("".join(f"{printable(line)}\n" for line in lines), nl=False)
                else:
                    click.echo(headline(comparison, "table", of_ops=not total), nl=False)
            report_worse(found)
    except EtqError as error:
        if not bisect:
            raise
        # `git bisect run` takes status 1 for a bad build.
        say(f"Error: {error!s}")
        sys.exit(SKIP)
    if found.worse:
        sys.exit(1 if bisect else REGRESSION)
    if found.unclear and bisect:
        sys.exit(SKIP)
    if found.unstable:
        sys.exit(REGRESSION)
