"""The command about overviews: what a team watches, kept under a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from etq.analysis.series import check_keys
from etq.analysis.watched import COMPARISONS, ITEMS, Watched, changes_of_overview, verdict_of
from etq.cli import main
from etq.cli.noting import note_here
from etq.cli.options import output_options, warehouse_option
from etq.cli.targets import open_existing
from etq.cli.trends import item_of, item_options, order_options
from etq.errors import EtqError, printable
from etq.render.writers import write, write_rows

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

_ALL: Final = """
    SELECT
        o.overview, count(*) FILTER (WHERE o.is_item) AS watched,
        count(*) FILTER (WHERE NOT o.is_item) AS comparisons
    FROM (
        SELECT i.overview, true AS is_item FROM overview_items AS i
        UNION ALL SELECT c.overview, false FROM overview_comparisons AS c
    ) AS o
    GROUP BY o.overview ORDER BY o.overview
"""
_PERIOD: Final = re.compile(r"(\d{1,6})([hdw])", re.ASCII)
_UNITS: Final = {"h": "hours", "d": "days", "w": "weeks"}


def _moment(text: str | None) -> float | None:
    """Return a time, one so long ago, or the beginning of this week, in milliseconds since 1970; None for a label.

    Raises `click.BadParameter` for a period that is too long.
    """
    from etq.annotations.labels import moment_of

    try:
        if text == "week":
            today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            return (today - timedelta(days=today.weekday())).timestamp() * 1000
        if found := _PERIOD.fullmatch(text or ""):
            return (datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})).timestamp() * 1000
        return moment_of(text or "").replace(tzinfo=UTC).timestamp() * 1000
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long ago; write 7d, 12h, 2w or 2026-11-15") from None
    except EtqError:
        return None


def _since(warehouse: Warehouse, text: str) -> float:
    """Return when changes since a text began: a time, or the first capture with a label of that value."""
    moment = _moment(text)
    if moment is None:
        query = """
            SELECT epoch_ms(min(_recorded_at(c.captured_at, c.ingested_at)))
            FROM captures AS c
            JOIN labels AS l USING (capture_id)
            WHERE l.value = $text OR l.key = 'commit' AND starts_with(l.value, $text)
        """
        [(moment,)] = warehouse.rows(query, text=text)[1]
    if moment is None:
        what = f"{printable(text)!r} is neither a time nor a label of captures"
        raise EtqError(f"--since: {what}; write week, 7d, 12h, 2w, 2026-11-15, a build or a commit")
    return float(moment)


@main.command()
@click.argument("name", required=False)
@click.option(
    "--add",
    metavar="[SELECTOR]",
    is_flag=False,
    flag_value="",
    multiple=True,
    help="Watch the series of these captures; without a selector, of all. May be repeated.",
)
@item_options
@order_options
@click.option("--remove", metavar="NUMBER", type=int, multiple=True, help="Watch that no more; may be repeated.")
@click.option(
    "--add-comparison",
    metavar="BASE NEW",
    nargs=2,
    multiple=True,
    help="Show the verdict on these two sides, too; may be repeated.",
)
@click.option("--remove-comparison", metavar="NUMBER", type=int, multiple=True, help="Show that no more.")
@click.option("--since", metavar="WHEN", help="Show what changed since then: week, 7d, 2026-11-15, a build or commit.")
@click.option("--comparisons", "compares", is_flag=True, help="Show the verdicts on its comparisons.")
@warehouse_option
@output_options
def overview(
    name: str | None,
    add: tuple[str, ...],
    op: str | None,
    module: str | None,
    metric: str | None,
    over: str | None,
    by: str | None,
    remove: tuple[int, ...],
    add_comparison: tuple[tuple[str, str], ...],
    remove_comparison: tuple[int, ...],
    since: str | None,
    compares: bool,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
) -> None:
    """Show or change an overview, the series that a team watches.

    Each series is shown with its last value; with --since, what changed in them. Without a name,
    list all overviews. The page of etq serve draws them: /overview?name=NAME.

    \b
    etq overview kernels --add device=pixel8 --op linear --over build --db lab.duckdb
    etq overview kernels --since 7d
    etq overview kernels --add-comparison branch=main branch=next
    etq overview kernels --comparisons
    etq overview kernels --remove 1
    """
    what, item = item_of(op, module, metric)
    if not add and (item or over or by):
        raise click.UsageError("--op, --module, --metric, --over and --by go with --add")
    changes = add or remove or add_comparison or remove_comparison
    if name is None and (changes or since is not None or compares):
        raise click.UsageError("--add, --remove, --since and --comparisons go with the name of an overview")
    if since is not None and compares:
        raise click.UsageError("give one of --since and --comparisons")
    with open_existing(db, read_only=not changes) as warehouse:
        if name is None:
            write(warehouse, _ALL, format, output, force=force)
            return
        if add:
            check_keys(warehouse, {"over": over, "by": by})
        for selector in add:
            number = warehouse.watch(name, selector or None, what=what, item=item, over=over, by=by)
            about = {"overview": name, "selector": selector, "what": what, "item": item, "number": number}
            note_here(db, "overview", about)
            click.echo(f"{printable(name)}: watches it, number {number}", err=True)
        for base, new in add_comparison:
            number = warehouse.watch_comparison(name, base, new)
            note_here(db, "overview", {"overview": name, "base": base, "new": new, "number": number})
            click.echo(f"{printable(name)}: shows that comparison, number {number}", err=True)
        for number in remove:
            warehouse.unwatch(name, number)
            note_here(db, "overview", {"overview": name, "remove": number})
            click.echo(f"{printable(name)}: number {number} removed", err=True)
        for number in remove_comparison:
            warehouse.unwatch_comparison(name, number)
            note_here(db, "overview", {"overview": name, "remove_comparison": number})
            click.echo(f"{printable(name)}: comparison {number} removed", err=True)
        if not changes:
            show = _compared if compares else _last if since is None else partial(_changed, since=since)
            columns, rows = show(warehouse, name)
            write_rows(columns, rows, format, output, force=force)


def _last(warehouse: Warehouse, name: str) -> tuple[list[str], list[Sequence[Any]]]:
    """Return a row for each series, with its last value."""
    rows: list[Sequence[Any]] = []
    for number, watched in _watched(warehouse, name):
        query, given = watched.values()
        last = f"""
            SELECT
                v.series, count(*), arg_max(v.label, v.position), arg_max(v.value, v.position), any_value(v.unit)
            FROM ({query}) AS v GROUP BY v.series ORDER BY v.series
        """
        for series, captures, label, value, unit in _rows(warehouse, number, last, given):
            rows.append((number, series, watched.item or watched.what, value, unit, label, captures))
    return ["number", "series", "of", "value", "unit", "label", "captures"], rows


def _changed(warehouse: Warehouse, name: str, since: str) -> tuple[list[str], list[Sequence[Any]]]:
    """Return a row for each change since a time or label."""
    begin = _since(warehouse, since)
    changes, problems = changes_of_overview(warehouse, name)
    for number, problem in problems.items():
        _note(number, problem)
    columns = ("number", "series", "what", "op", "module_path", "instruction_id", "verdict", "change_percent",
               "last_good", "first_bad", "recorded_at", "is_accepted", "comment", "author")  # fmt: skip
    rows: list[Sequence[Any]] = []
    for change in changes:
        if change.recorded >= begin:
            recorded = datetime.fromtimestamp(change.recorded / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            rows.append([recorded if each == "recorded_at" else getattr(change, each) for each in columns])
    return [*columns], rows


def _compared(warehouse: Warehouse, name: str) -> tuple[list[str], list[Sequence[Any]]]:
    """Return a row for each comparison, with the verdict on the total."""
    rows: list[Sequence[Any]] = []
    for _, number, base, new, *options in (row for row in warehouse.rows(COMPARISONS)[1] if row[0] == name):
        try:
            rows.append((number, base, new, *verdict_of(warehouse, base, new, *options)))
        except EtqError as error:
            _note(number, str(error))
    return ["number", "base", "new", "verdict", "line"], rows


def _watched(warehouse: Warehouse, name: str) -> Iterator[tuple[int, Watched]]:
    """Yield what an overview watches, by number; what there is no trend of any more is said, and left out."""
    items = [row for row in warehouse.rows(ITEMS)[1] if row[0] == name]
    if not items and not any(row[0] == name for row in warehouse.rows(COMPARISONS)[1]):
        raise EtqError(f"overview {printable(name)}: there is none; add what it watches: etq overview NAME --add")
    for _, number, *watched in items:
        try:
            yield number, Watched.of(warehouse, *watched)
        except EtqError as error:
            _note(number, str(error))


def _rows(warehouse: Warehouse, number: int, query: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
    try:
        return warehouse.rows(query, **given)[1]
    except EtqError as error:
        _note(number, str(error))
        return []


def _note(number: int, problem: str) -> None:
    click.echo(f"Note: number {number}: {printable(problem)}", err=True)
