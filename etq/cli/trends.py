"""Commands over many captures: trends and lasting changes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from etq.analysis.series import check_keys, order_of
from etq.choices import PHASES, UNITS
from etq.cli import main
from etq.cli.commands import ANSWERS
from etq.cli.messages import say
from etq.cli.options import DEFAULT_WAREHOUSE, output_options, percentage, warehouse_option
from etq.errors import printable
from etq.render.selection import selection
from etq.render.table import table
from etq.render.terminal import sparkline, style_of
from etq.render.writers import TO_READ, format_of, write, write_rows, write_text

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse


# The columns of regressions that people read; an item is named as trend --op takes it.
_SHOWN: Final = """series, what,
    CASE what WHEN 'total' THEN 'total of ' || op ELSE op || coalesce('@' || instruction_id, '') END AS item,
    verdict, change_percent, first_bad, last_good, cost, unit, share_percent, module_path, kind,
    per_capture_percent, captures_before, captures_after, p, q, position"""


def order_options(command: Any) -> Any:
    """Add the options for which captures form a series, and their order."""
    for option in (
        click.option(
            "--over",
            metavar="KEY",
            help="Label to order by, or captured_at.  [default: build, else commits, else captured_at]",
        ),
        click.option("--by", metavar="KEY,...", help="Labels that separate series.  [default: model,device,backend]"),
    ):
        command = option(command)
    return command


def _series_options(command: Any) -> Any:
    command = order_options(command)
    for option in (
        click.option(
            "--unit", type=click.Choice(UNITS), help="Unit of times.  [default: us; cycles where ticks are cycles]"
        ),
        click.option("--phase", type=click.Choice(PHASES), help="Only runs of that phase."),
        click.option(
            "--min-effect", metavar="PERCENT", callback=percentage, help="Smallest change to report.  [default: 3%]"
        ),
    ):
        command = option(command)
    return command


@main.command()
@click.argument("selector", required=False)
@click.option("--op", metavar="OP", help="Trend of an op: its family or op type, or one with @instruction.")
@click.option("--module", metavar="PATH", help="Trend of a module, by its path.")
@click.option("--metric", metavar="NAME", help="Trend of a metric, by its name in etq metric.")
@_series_options
@warehouse_option
@output_options
def trend(
    selector: str | None,
    op: str | None,
    module: str | None,
    metric: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Show a trend over captures, and where it changed. It is that of a total, an op, a module or a metric.

    \b
    etq trend model=mlp --db lab.duckdb
    etq trend --op linear --over commit model=mlp
    """
    from etq.warehouse.warehouse import open

    open_target = {"op": op, "module": module, "metric": metric}
    items = [(what, item) for what, item in open_target.items() if item is not None]
    if len(items) > 1:
        raise click.UsageError("give one of --op, --module and --metric, or none for the total")
    what, item = items[0] if items else ("total", None)
    arguments = {"what": what, "item": item, "selector": selector, **options}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    with open(db, read_only=True) as warehouse:
        check_keys(warehouse, options)
        arguments["over"] = order_of(warehouse, selector, options["over"])
        query = f"FROM trend({_arguments(arguments)})"
        if format in (None, "table") and output is None:
            write_text(_drawn(warehouse, query, arguments), None, is_printable=True)
        else:
            write(warehouse, query, format, output, force=force, **arguments)


@main.command()
@click.argument("selector", required=False)
@click.option("--since", metavar="LABEL", help="Only changes there or later.")
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Probability of reporting a change where none is.  [default: 0.05]",
)
@_series_options
@warehouse_option
@output_options
def regressions(
    selector: str | None, db: str, format: str | None, output: str | None, force: bool, **options: Any
) -> None:
    """Show lasting changes of totals and ops in all series. The most costly comes first.

    \b
    etq regressions --db lab.duckdb
    etq regressions model=mlp --over build --since 120
    """
    from etq.warehouse.warehouse import open

    arguments = {name: value for name, value in {"selector": selector, **options}.items() if value is not None}
    with open(db, read_only=True) as warehouse:
        check_keys(warehouse, options)
        arguments["over"] = over = order_of(warehouse, selector, options["over"])
        query = f"FROM regressions({_arguments(arguments)})"
        foremost = ANSWERS["regressions"]
        order = f"captures are in the order of {over}"
        if (format or format_of(output)) not in TO_READ:
            has_rows = write(warehouse, query, format, output, force=force, **arguments)
        else:
            shown = _SHOWN if selection.get().columns is None else "*"
            columns, rows = warehouse.rows(f"SELECT {shown} {query}", **arguments)
            write_rows(columns, rows, format, output, force=force, foremost=foremost)
            has_rows = bool(rows)
        if not has_rows:
            text = "no total and no op changed its level for good; for the values: etq trend"
            say(f"Note: {text}; {order}")
        elif format in (None, "table"):
            say(f"Note: {order}")
            if output is None and "item" in columns:
                changes = [dict(zip(columns, row, strict=True)) for row in rows]
                _note_shifts(changes)
                _print_next(changes, selector, over, db)


def _note_shifts(changes: Sequence[Mapping[str, Any]]) -> None:
    """Print which totals changed where no op changed more than the others."""
    of_ops = {(change["series"], change["first_bad"]) for change in changes if change["what"] == "op"}
    for change in changes:
        if change["what"] == "total" and (change["series"], change["first_bad"]) not in of_ops:
            where = f"{change['series'] or 'the total'} at {change['first_bad']}"
            text = "no op changed more than the others: all changed alike, as with the device, or what is outside ops"
            say(f"Note: {where}: {text}")


def _print_next(changes: Sequence[Mapping[str, Any]], selector: str | None, over: str, db: str) -> None:
    """Print the command that compares the captures before and after the first change, without those of others."""
    first = changes[0]
    if first["kind"] != "step" or not (over == "captured_at" or first["first_bad"].isdigit()):
        return
    others = [
        change["first_bad"]
        for change in changes[1:]
        if (change["series"], change["item"], change["kind"]) == (first["series"], first["item"], "step")
    ]
    place = (lambda label: label) if over == "captured_at" else int
    earlier = [label for label in others if place(label) < place(first["first_bad"])]
    later = [label for label in others if place(label) > place(first["first_bad"])]
    chosen = selector if selector and "=" in selector and "@" not in selector else ""
    labels = [part for part in dict.fromkeys(f"{chosen},{first['series']}".split(",")) if part]
    base = [*labels, *(f"{over}>={label}" for label in sorted(earlier, key=place)[-1:]), f"{over}<{first['first_bad']}"]
    new = [*labels, f"{over}>={first['first_bad']}", *(f"{over}<{label}" for label in sorted(later, key=place)[:1])]
    words = ["etq", "compare", ",".join(base), ",".join(new), *([] if db == DEFAULT_WAREHOUSE else ["--db", db])]
    click.echo(printable(f"Next: {shlex.join(words)}"), err=True)


def _arguments(arguments: dict[str, Any]) -> str:
    return ", ".join(f'"{name}" := ${name}' for name in arguments)


def _drawn(warehouse: Warehouse, query: str, arguments: dict[str, Any]) -> str:
    """Return each series as bars from its least to its greatest value, with its changes; few captures as a table,
    too.
    """
    _, rows = warehouse.rows(
        f"SELECT series, label, normalized, unit, change_percent, p, capture, runs {query}", **arguments
    )
    style = style_of(sys.stdout)
    parts = []
    for series, group in groupby(rows, key=lambda row: row[0]):
        captures = list(group)
        values = [row[2] for row in captures if row[2] is not None]
        unit = captures[0][3] or ""
        head = f"{series}: " if series else ""
        span = f"{min(values):.6g} to {max(values):.6g} {unit}" if values else "no values"
        ends = [label for label in (captures[0][1], captures[-1][1]) if label]
        if len(captures) == 1:
            span = f"{values[0]:.6g} {unit}" if values else "no values"
            title = f"{head}1 capture, {''.join(ends[:1]) or 'without a label'}; {span}"
        else:
            between = f", {' to '.join(ends)}" if ends else ""
            title = f"{head}{len(captures)} captures in the order of {arguments['over']}{between}; {span}"
        lines = [style.styled(printable(title), "bold"), sparkline(values, style)]
        good = dict(zip([row[1] for row in captures[1:]], [row[1] for row in captures], strict=False))
        for _, label, _, _, change, p, capture, _ in captures:
            if change is not None:
                line = f"{change:+.1f} % at {label} ({capture}), last good {good[label]}; p {p:.2g}"
                # For times, more is worse; for a metric, its direction decides.
                colours = [] if arguments["what"] == "metric" else ["red" if change > 0 else "green"]
                lines.append(style.styled(printable(line), *colours))
        parts.append("\n".join(lines) + "\n")
        if len(captures) <= 20:
            shown = [(label, value, unit, runs, capture) for _, label, value, unit, _, _, capture, runs in captures]
            parts.append(table(["label", "value", "unit", "runs", "capture"], shown, style))
    return "\n".join(parts)
