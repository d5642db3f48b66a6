"""Commands over many captures: trends and lasting changes."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final

import click

from etq import catalog
from etq.analysis.series import check_keys, left_out, order_of, too_short
from etq.choices import PHASES
from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import DEFAULT_WAREHOUSE, output_options, percentage, together, unit_option, warehouse_option
from etq.errors import printable
from etq.render import pager
from etq.render.selection import selection
from etq.render.table import p_value, table
from etq.render.terminal import sparkline, style_of, wrapped
from etq.render.times import range_text
from etq.render.writers import is_to_read, write, write_rows, write_text
from etq.verdicts import words

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse


# Which captures form a series, and their order.
order_options: Final = together(
    click.option("--by", metavar="KEY,...", help="Labels that separate series.  [default: model,device,backend]"),
    click.option(
        "--over",
        metavar="KEY",
        help="Label to order by, or captured_at.  [default: build, commit or captured_at, which most have]",
    ),
)


_series_options: Final = together(
    click.option(
        "--min-effect", metavar="PERCENT", callback=percentage, help="Smallest change to report.  [default: 3%]"
    ),
    click.option("--phase", type=click.Choice(PHASES), help="Only runs of that phase."),
    unit_option(None),
    order_options,
)


# What a trend is of.
item_options: Final = together(
    click.option("--metric", metavar="NAME", help="Trend of a metric, by its name in etq show metric_values."),
    click.option("--module", metavar="PATH", help="Trend of a module, by its path."),
    click.option("--op", metavar="OP", help="Trend of an op: its family or op type, or one with @instruction."),
)


def item_of(op: str | None, module: str | None, metric: str | None) -> tuple[str, str | None]:
    """Return what a trend is of, and its name: the total unless one of the options is given."""
    given = {"op": op, "module": module, "metric": metric}
    items = [(what, item) for what, item in given.items() if item is not None]
    if len(items) > 1:
        raise click.UsageError("give one of --op, --module and --metric, or none for the total")
    return items[0] if items else ("total", None)


@main.command()
@click.argument("selector", required=False)
@item_options
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

    what, item = item_of(op, module, metric)
    arguments = {"what": what, "item": item, "selector": selector, **options}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    with open(db, read_only=True) as warehouse:
        check_keys(warehouse, options)
        arguments["over"] = order_of(warehouse, selector, options["over"])
        query = f"FROM trend({catalog.arguments(arguments)})"
        if format in (None, "table") and output is None:
            text, has_changes = _drawn(warehouse, query, arguments)
            write_text(text, None, is_printable=True)
            if not has_changes:
                say(f"Note: {_no_change(warehouse, arguments)}")
        else:
            write(warehouse, query, format, output, force=force, view=catalog.named("trend"), **arguments)
        _note_left_out(warehouse, arguments)


@main.command()
@click.argument("selector", required=False)
@click.option("--since", metavar="LABEL", help="Only changes there or later.")
@click.option(
    "--accepted", "with_accepted", is_flag=True, help="List changes that were accepted, too: see etq comment."
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Accepted probability of a false change.  [default: 0.05]",
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

    if not options["with_accepted"]:
        del options["with_accepted"]
    arguments = {name: value for name, value in {"selector": selector, **options}.items() if value is not None}
    with open(db, read_only=True) as warehouse:
        check_keys(warehouse, options)
        arguments["over"] = over = order_of(warehouse, selector, options["over"])
        query = f"FROM regressions({catalog.arguments(arguments)})"
        view = catalog.named("regressions")
        view = view if "with_accepted" in arguments else view.without(("is_accepted",))
        order = f"captures are in the order of {over}"
        if not is_to_read(format, output):
            has_rows = write(warehouse, query, format, output, force=force, view=view, **arguments)
        else:
            columns = selection.get().columns_of(view, True)
            names, found = warehouse.rows(f"SELECT {columns}, r {query} AS r", **arguments)
            rows = [row[:-1] for row in found]
            has_rows = bool(rows)
            if has_rows or output is not None:
                write_rows(names[:-1], rows, format, output, force=force, view=view)
        if not has_rows:
            text = too_short(warehouse, selector, over, options["by"]) or "no total and no op has a lasting change"
            say(f"Note: {text}; for the values: etq trend; {order}")
        elif format in (None, "table"):
            say(f"Note: {order}; times: p25 of all runs of a capture")
            if output is None:
                changes = [row[-1] for row in found]
                _note_shifts(changes)
                _print_next(changes, db)
        _note_left_out(warehouse, arguments)


def _note_shifts(changes: Sequence[Mapping[str, Any]]) -> None:
    """Print which totals changed where no op did, and why."""
    of_ops = {(change["series"], change["first_bad"]) for change in changes if change["what"] == "op"}
    for change in changes:
        if change["what"] == "total" and (change["series"], change["first_bad"]) not in of_ops:
            where = f"{change['series'] or 'the total'} at {change['first_bad']}"
            say(f"Note: {where}: {words.no_op_changed(change['is_same_program'])}")


def _print_next(changes: Sequence[Mapping[str, Any]], db: str) -> None:
    """Print the command that compares the captures before and after the first change."""
    base, new = changes[0]["base"], changes[0]["new"]
    if base is not None:
        command = ["etq", "compare", base, new, *([] if db == DEFAULT_WAREHOUSE else ["--db", db])]
        pager.after(partial(click.echo, printable(f"Next: {shlex.join(command)}"), err=True))


def _note_left_out(warehouse: Warehouse, arguments: dict[str, Any]) -> None:
    """Print a note if captures are in no series."""
    if missing := left_out(warehouse, arguments.get("selector"), arguments["over"]):
        say(f"Note: {missing}; --over KEY chooses another order")


def _no_change(warehouse: Warehouse, arguments: Mapping[str, Any]) -> str:
    """Return that no series has a change, and which one would not be seen yet."""
    from etq.verdicts.changes import HELD

    if missing := too_short(warehouse, arguments.get("selector"), arguments["over"], arguments.get("by")):
        return missing
    [default] = [each.default for each in catalog.named("trend").parameters if each.name == "min_effect"]
    least = f"{100 * float(arguments.get('min_effect', default)):.3g} %"
    return (
        f"no lasting change; one of {least} is reported after {HELD} captures with it, a larger one sooner; etq gate "
        f"may find {least} in fewer"
    )


def _drawn(warehouse: Warehouse, query: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """Return each series as bars from its least to its greatest value, with its changes, and whether one has changes;
    few captures as a table, too.
    """
    view = catalog.named("trend").without(("series",))
    names, rows = warehouse.rows(f"SELECT {view.to_read}, t {query} AS t", **arguments)
    style = style_of(sys.stdout)
    parts = []
    for series, group in groupby(rows, key=lambda row: row[-1]["series"]):
        shown = list(group)
        captures = [row[-1] for row in shown]
        values = [capture["normalized"] for capture in captures if capture["normalized"] is not None]
        unit = captures[0]["unit"] or ""
        head = f"{series}: " if series else ""
        span = range_text((min(values), max(values)), unit).rstrip() if values else "no values"
        ends = [_short(capture["label"]) for capture in (captures[0], captures[-1]) if capture["label"]]
        statistic = "" if arguments["what"] == "metric" else "; times: p25 of all runs of a capture"
        if len(captures) == 1:
            span = range_text(values[:1], unit).rstrip() if values else "no values"
            title = f"{head}1 capture, {''.join(ends[:1]) or 'without a label'}; {span}{statistic}"
        else:
            between = f", {' to '.join(ends)}" if ends else ""
            title = f"{head}{len(captures)} captures in the order of {arguments['over']}{between}; {span}{statistic}"
        lines = [style.styled(wrapped(printable(title), style), "bold"), sparkline(values, style)]
        # Neighbours, as captures may have equal labels.
        for before, at in pairwise(captures):
            if (change := at["change_percent"]) is not None:
                line = f"{change:+.1f} % at {_short(at['label'])} ({at['capture']}), "
                line += f"last good {_short(before['label'])}; p {p_value(at['p'])}"
                line += f"; {'accepted: ' if at['is_accepted'] else ''}{at['comment']}" if at["comment"] else ""
                # For times, more is worse; for a metric, its direction decides.
                is_judged = not at["is_accepted"] and arguments["what"] != "metric"
                colours = ["red" if change > 0 else "green"] if is_judged else []
                lines.append(style.styled(printable(line), *colours))
        parts.append("\n".join(lines) + "\n")
        if len(captures) <= 20:
            parts.append(table(names[:-1], [row[:-1] for row in shown], style, foremost=view.foremost))
    return "\n".join(parts), any(row[-1]["change_percent"] is not None for row in rows)


def _short(label: str) -> str:
    """Return a label as people write it: the first 12 digits of a commit."""
    return label[:12] if re.fullmatch("[0-9a-f]{40}", label) else label
