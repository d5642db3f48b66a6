"""Commands over many captures: trends and changes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from etq import catalog
from etq.analysis.series import KEPT, change_text, check_keys, counted, is_part, series_of, short, shown_text
from etq.choices import PHASES
from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import (
    DEFAULT_WAREHOUSE,
    alpha_option,
    output_options,
    percentage,
    together,
    unit_option,
    warehouse_option,
)
from etq.cli.targets import opened, use_named_view
from etq.errors import printable
from etq.render import pager
from etq.render.selection import selection
from etq.render.table import p_value, table
from etq.render.terminal import sparkline, style_of, wrapped
from etq.render.times import range_text
from etq.render.writers import Output, write, write_rows, write_text
from etq.verdicts import words

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse


# Options that state which captures form a series, and in which order.
order_options: Final = together(
    click.option("--by", metavar="KEY,...", help="Labels that separate series.  [default: model,device,backend]"),
    click.option(
        "--over",
        metavar="KEY",
        help="Label to order by, or captured_at.  [default: for each series build, commit or captured_at]",
    ),
)


_series_options: Final = together(
    alpha_option("change"),
    click.option(
        "--min-effect", metavar="PERCENT", callback=percentage, help="Smallest change to report.  [default: 3%]"
    ),
    click.option("--phase", type=click.Choice(PHASES), help="Only runs of that phase."),
    unit_option(None),
    order_options,
)


# Options for the subject of a trend.
item_options: Final = together(
    click.option("--metric", metavar="NAME", help="Trend of a metric, by its name in etq show metric_values."),
    click.option("--module", metavar="PATH", help="Trend of a module, by its path."),
    click.option("--op", metavar="OP", help="Trend of an op: its family or op type, or one with @instruction."),
)


def item_of(op: str | None, module: str | None, metric: str | None) -> tuple[str, str | None]:
    """Return the subject of a trend and its name: the total unless one of the options is given."""
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
    output: Output,
    **options: Any,
) -> None:
    """Show a trend over captures, and where it changed. The trend is of a total, an op, a module or a metric.

    \b
    etq trend model=mlp --db lab.duckdb
    etq trend --op linear --over commit model=mlp
    """
    what, item = item_of(op, module, metric)
    arguments = {"what": what, "item": item, "selector": selector, **options}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    with opened(db) as warehouse:
        check_keys(warehouse, options)
        series = series_of(warehouse, selector, options["over"], options["by"], options["phase"])
        view = catalog.named("trend")
        use_named_view(warehouse, [selector], [column.name for column in view.columns])
        query = f"FROM trend({catalog.arguments(arguments)})"
        is_drawn = output.is_screen
        if is_drawn:
            text, captures = _drawn(warehouse, query, arguments)
            write_text(text, output, is_printable=True)
        else:
            write(warehouse, query, output, view=view, **arguments)
            captures = []
            accepted = "SELECT 1 FROM change_comments WHERE verdict = 'accepted' LIMIT 1"
            if item is not None or warehouse.rows(accepted)[1]:
                captures = [row for (row,) in warehouse.rows(f"SELECT t {query} AS t", **arguments)[1]]
        if captures:
            series = series.of_trend(item, captures)
        has_changes = not is_drawn or any(at["change_percent"] is not None for at in captures)
        _say_notes(series.missing if has_changes else series.unchanged(), series.mixed)


@main.command()
@click.argument("selector", required=False)
@click.option("--since", metavar="LABEL", help="Only changes at this label or later.")
@click.option(
    "--accepted", "with_accepted", is_flag=True, help="List changes that were accepted, too: see etq comment."
)
@_series_options
@warehouse_option
@output_options
def regressions(selector: str | None, db: str, output: Output, **options: Any) -> None:
    """Show changes of totals and ops in all series. Kept changes come first, the most costly before others.

    \b
    etq regressions --db lab.duckdb
    etq regressions model=mlp --over build --since 120
    """
    is_all = options["with_accepted"]
    if not is_all:
        del options["with_accepted"]
    arguments = {name: value for name, value in {"selector": selector, **options}.items() if value is not None}
    with opened(db) as warehouse:
        check_keys(warehouse, options)
        series = series_of(warehouse, selector, options["over"], options["by"], options["phase"])
        query = f"FROM regressions({catalog.arguments(arguments)})"
        view = catalog.named("regressions")
        use_named_view(warehouse, [selector], [column.name for column in view.columns])
        view = view if is_all else view.without(("is_accepted",))
        changes: list[Mapping[str, Any]] = []
        if not output.is_to_read:
            has_rows = write(warehouse, query, output, view=view, **arguments)
        else:
            # Accepted changes of ops explain totals, even where they aren't listed.
            columns = selection.get().columns_of(view, True)
            arguments["with_accepted"] = True
            query = f"FROM regressions({catalog.arguments(arguments)})"
            names, found = warehouse.rows(f"SELECT {columns}, r {query} AS r", **arguments)
            changes = [row[-1] for row in found]
            found = [row for row in found if is_all or not row[-1]["is_accepted"]]
            has_rows = bool(found)
            if has_rows or output.path is not None:
                write_rows(names[:-1], [row[:-1] for row in found], output, view=view)
        order = f"captures are in the order of {series.order}"
        if not has_rows:
            what = "change of a total or an op" + (" that isn't accepted" if changes else "")
            _say_notes(f"{series.unchanged(what)}; for the values: etq trend; {order}", series.mixed)
            return
        parts = [counted(changes), series.missing, order, "times: p25 of all runs of a capture"]
        _say_notes("; ".join(filter(None, parts)), series.mixed)
        if output.is_screen:
            _note_shifts(changes)
            _print_next(found[0][-1], db)


def _say_notes(*notes: str | None) -> None:
    for note in filter(None, notes):
        say(f"Note: {note}")


def _note_shifts(changes: Sequence[Mapping[str, Any]]) -> None:
    """Print which totals changed although no op did, and why."""
    ops = [change for change in changes if change["what"] == "op"]
    for change in changes:
        if (
            change["what"] == "total"
            and change["stage"] == KEPT
            and not change["is_accepted"]
            and not any(is_part(op, change) for op in ops)
        ):
            where = f"{change['series'] or 'the total'} at {change['first_bad']}"
            say(f"Note: {where}: {words.no_op_changed(change['is_same_program'])}")


def _print_next(change: Mapping[str, Any], db: str) -> None:
    """Print the command that compares the captures before and after a change."""
    base, new = change["base"], change["new"]
    if base is not None:
        command = ["etq", "compare", base, new, *([] if db == DEFAULT_WAREHOUSE else ["--db", db])]
        pager.after(partial(click.echo, printable(f"Next: {shlex.join(command)}"), err=True))


def _drawn(warehouse: Warehouse, query: str, arguments: dict[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Return each series of values of one unit as bars from its smallest to its largest value, with its changes; few
    captures also as a table.
    """
    view = catalog.named("trend").without(("series",))
    names, rows = warehouse.rows(f"SELECT {view.to_read}, t {query} AS t", **arguments)
    style = style_of(sys.stdout)
    parts = []
    for (series, _), group in groupby(rows, key=lambda row: (row[-1]["series"], row[-1]["unit"])):
        shown = list(group)
        captures = [row[-1] for row in shown]
        values = [capture["normalized"] for capture in captures if capture["normalized"] is not None]
        unit = captures[0]["unit"] or ""
        head = f"{series}: " if series else ""
        span = range_text((min(values), max(values)), unit).rstrip() if values else "no values"
        ends = [short(capture["label"]) for capture in (captures[0], captures[-1]) if capture["label"]]
        statistic = "" if arguments["what"] == "metric" else "; times: p25 of all runs of a capture"
        if len(captures) == 1:
            span = range_text(values[:1], unit).rstrip() if values else "no values"
            title = f"{head}1 capture, {''.join(ends[:1]) or 'without a label'}; {span}{statistic}"
        else:
            between = f"{captures[0]['ordered_by']}{', ' * bool(ends)}{' to '.join(ends)}"
            title = f"{head}{len(captures)} captures in the order of {between}; {span}{statistic}"
        lines = [style.styled(wrapped(printable(title), style), "bold"), sparkline(values, style)]
        for at in captures:
            if (change := at["change_percent"]) is None:
                continue
            if (line := change_text(at, at["label"], at["capture"], p_value(at["p"]))) is None:
                continue
            line += f"; {'accepted: ' if at['is_accepted'] else ''}{at['comment']}" if at["comment"] else ""
            # For times, larger is worse; for a metric, the direction in which it is better decides.
            is_judged = at["stage"] == KEPT and not at["is_accepted"] and arguments["what"] != "metric"
            colours = ["red" if change > 0 else "green"] if is_judged else []
            lines.append(style.styled(printable(line), *colours))
        if next_change := shown_text(captures[-1]["shown_percent"]):
            lines.append(next_change)
        parts.append("\n".join(lines) + "\n")
        if len(captures) <= 20:
            parts.append(table(names[:-1], [row[:-1] for row in shown], style, foremost=view.foremost))
    return "\n".join(parts), [row[-1] for row in rows]
