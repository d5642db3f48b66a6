"""The command about overviews: what a team watches, kept under a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from etq.analysis.series import check_keys
from etq.analysis.watched import ITEMS, Watched
from etq.cli import main
from etq.cli.options import output_options, warehouse_option
from etq.cli.targets import open_existing
from etq.cli.trends import item_of, item_options, order_options
from etq.errors import EtqError, printable
from etq.render.writers import write, write_rows

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

_ALL: Final = """
    SELECT o.overview, count(*) AS watched FROM overview_items AS o GROUP BY o.overview ORDER BY o.overview
"""
_PERIOD: Final = re.compile(r"(\d{1,6})([hdw])", re.ASCII)
_UNITS: Final = {"h": "hours", "d": "days", "w": "weeks"}


def _moment(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Return a time, or one so long ago, in milliseconds since 1970."""
    from etq.annotations.labels import moment_of

    if text is None:
        return None
    try:
        if found := _PERIOD.fullmatch(text):
            moment = datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})
        else:
            moment = moment_of(text).replace(tzinfo=UTC)
    except (EtqError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a time; write 7d, 12h, 2w or 2026-11-15") from None
    return moment.timestamp() * 1000


@main.command()
@click.argument("name", required=False)
@click.option(
    "--add",
    metavar="[SELECTOR]",
    is_flag=False,
    flag_value="",
    help="Watch the series of these captures; without a selector, of all.",
)
@item_options
@order_options
@click.option("--remove", metavar="NUMBER", type=int, multiple=True, help="Watch that no more; may be repeated.")
@click.option("--since", metavar="TIME", callback=_moment, help="Show what changed since then: 7d, 12h, 2026-11-15.")
@warehouse_option
@output_options
def overview(
    name: str | None,
    add: str | None,
    op: str | None,
    module: str | None,
    metric: str | None,
    over: str | None,
    by: str | None,
    remove: tuple[int, ...],
    since: float | None,
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
    etq overview kernels --remove 1
    """
    what, item = item_of(op, module, metric)
    if add is None and (item or over or by):
        raise click.UsageError("--op, --module, --metric, --over and --by go with --add")
    if name is None and (add is not None or remove or since is not None):
        raise click.UsageError("--add, --remove and --since go with the name of an overview")
    with open_existing(db, read_only=add is None and not remove) as warehouse:
        if name is None:
            write(warehouse, _ALL, format, output, force=force)
            return
        if add is not None:
            check_keys(warehouse, {"over": over, "by": by})
            number = warehouse.watch(name, add or None, what=what, item=item, over=over, by=by)
            click.echo(f"{printable(name)}: watches it, number {number}", err=True)
        for number in remove:
            warehouse.unwatch(name, number)
            click.echo(f"{printable(name)}: number {number} removed", err=True)
        if add is None and not remove:
            columns, rows = (_last if since is None else _changed)(warehouse, name, since or 0)
            write_rows(columns, rows, format, output, force=force)


def _last(warehouse: Warehouse, name: str, _: float) -> tuple[list[str], list[Sequence[Any]]]:
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


def _changed(warehouse: Warehouse, name: str, since: float) -> tuple[list[str], list[Sequence[Any]]]:
    """Return a row for each change since a time."""
    rows: list[Sequence[Any]] = []
    for number, watched in _watched(warehouse, name):
        query, given = watched.changes()
        chosen = f"""
            SELECT
                c.series, c.what, c.op, c.module_path, c.instruction_id, c.change_percent, c.last_good, c.first_bad,
                strftime(make_timestamp_ms(c.recorded), '%Y-%m-%d %H:%M:%S')
            FROM ({query}) AS c WHERE c.recorded >= $since
        """
        rows += [(number, *row) for row in _rows(warehouse, number, chosen, {**given, "since": since})]
    columns = ["number", "series", "what", "op", "module_path", "instruction_id", "change_percent", "last_good"]
    return [*columns, "first_bad", "recorded_at"], rows


def _watched(warehouse: Warehouse, name: str) -> Iterator[tuple[int, Watched]]:
    """Yield what an overview watches, by number; what there is no trend of any more is said, and left out."""
    items = [row for row in warehouse.rows(ITEMS)[1] if row[0] == name]
    if not items:
        raise EtqError(f"overview {printable(name)}: there is none; add what it watches: etq overview NAME --add")
    for _, number, *watched in items:
        try:
            yield number, Watched.of(warehouse, *watched)
        except EtqError as error:
            _note(number, error)


def _rows(warehouse: Warehouse, number: int, query: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
    try:
        return warehouse.rows(query, **given)[1]
    except EtqError as error:
        _note(number, error)
        return []


def _note(number: int, error: EtqError) -> None:
    click.echo(f"Note: number {number}: {printable(str(error))}", err=True)
