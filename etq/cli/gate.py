"""The command that reports a verdict about a build as its exit status."""

from __future__ import annotations

import sys
from typing import Any

import click

from etq.analysis.comparison import Comparison
from etq.cli import main
from etq.cli.compare import (
    REGRESSION,
    find_worse,
    find_worse_startup,
    judging_options,
    report_worse,
    side_arguments,
    sides,
)
from etq.cli.judged import COLUMNS, FOR_CI, Judged, text_of
from etq.cli.messages import say
from etq.cli.options import formats_option, warehouse_option
from etq.errors import EtqError
from etq.render.writers import TO_READ, Output, write_rows, write_text
from etq.verdicts import words

# The exit status by which `git bisect run` recognises a build that can't be tested.
SKIP = 125


@main.command()
@side_arguments
@click.option("--bisect", is_flag=True, help="Exit with 0 good, 1 bad, 125 unclear, as `git bisect run` expects.")
@click.option("--total", is_flag=True, help="Judge only the total, not ops.")
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Judge this metric, not times; may be repeated."
)
@click.option("--startup", is_flag=True, help="Judge only loading and first executes.")
@judging_options
@warehouse_option
@formats_option(
    FOR_CI,
    "Format of the output: also github, annotations of GitHub Actions, and junit, a report in XML.  [default: by the "
    "ending of -o, else table]",
)
def gate(
    base: str,
    new: str,
    bisect: bool,
    total: bool,
    metrics: tuple[str, ...],
    startup: bool,
    step_name: str | None,
    etrecord: str | None,
    db: str,
    output: Output,
    **options: Any,
) -> None:
    """Exit with 3 if NEW is slower than BASE or unstable. Otherwise, even if the result is unclear, exit with 0.

    Unstable means that some captures of NEW are slower than the others, and that BASE has fewer such captures.

    It judges the total, its slow runs, each op and, where files have them, loading and memory, and says what it judged.

    Sides are as in etq compare, which shows more. --format prints a row for each of these; markdown is a comment.

    \b
    etq gate build=41 build=42 --db lab.duckdb
    etq gate side=base side=new --format github
    git bisect run sh -c './measure new || exit 125; etq gate "good/*.etdp" "new/*.etdp" --bisect'
    """
    if startup and (total or metrics):
        raise click.UsageError("--startup excludes --total and --metric, which judge other numbers")
    try:
        with sides(base, new, db, etrecord) as (warehouse, base_selector, new_selector):
            comparison = Comparison(warehouse, base_selector, new_selector, {**options, "unit": None}, step_name)
            for line in comparison.label_lines():
                say(f"Note: {line}")
            of_once = not total
            if not (startup or total or metrics) and comparison.has_few_common_ops():
                say(f"Note: {words.FEW_COMMON_OPS}: fewer than half of the ops are in both; no op is judged")
                total = True
            found = find_worse_startup(comparison) if startup else find_worse(comparison, not total, metrics, of_once)
            judged = Judged(comparison, not total, metrics, startup, of_once)
            if output.form in (*TO_READ, *FOR_CI):
                text = text_of(judged, found, output)
                write_text(text, output, is_printable=output.form != "markdown")
            else:
                write_rows(COLUMNS, judged.rows(), output)
            if output.form != "github" or output.path is not None:  # the log would contain each sentence twice
                report_worse(found)
    except EtqError as error:
        if not bisect:
            raise
        # To `git bisect run`, status 1 means a bad build.
        say(f"Error: {error!s}")
        sys.exit(SKIP)
    if found.worse:
        sys.exit(1 if bisect else REGRESSION)
    if found.unclear and bisect:
        sys.exit(SKIP)
    if found.unstable:
        sys.exit(REGRESSION)
    if found.unclear or found.open:
        say("Note: an unclear result passes, with status 0")
