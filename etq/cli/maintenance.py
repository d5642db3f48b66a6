"""The commands of `etq db`, which keep warehouses in order."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from etq.cli import main
from etq.cli.messages import say
from etq.cli.numbers import IntRange
from etq.cli.options import (
    as_output,
    column_names,
    file_output_options,
    query_limits,
    warehouse_argument,
    warehouse_option,
)
from etq.cli.targets import open_existing, report_unmatched
from etq.errors import EtqError, counted, printable
from etq.render.writers import Output, write

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse


@main.group()
def db() -> None:
    """Check, copy, merge and compact warehouses; remove captures. Save views under names.

    Check, remove, prune and view take a lake, too.

    \b
    etq db check lab.duckdb
    etq db remove run --db lab.duckdb
    """


@db.command()
@click.argument("files", metavar="WAREHOUSE...", nargs=-1, required=True)
@query_limits
@click.option("-o", "--output", metavar="FILE", required=True, help="The new warehouse.")
def merge(files: tuple[str, ...], output: str) -> None:
    """Make a new warehouse from all content of several others. These are only read.

    The same content is stored once, with the labels, metrics, phases and links of all; where these differ, those of the
    first warehouse are kept, and the difference is printed. A name that is taken by other content is extended.

    \b
    etq db merge phone.duckdb watch.duckdb -o lab.duckdb
    """
    from etq.maintenance.merge import merge

    merged = merge(files, output)
    for conflict in merged.conflicts:
        say(f"Note: {conflict}")
    say(f"{output}: {counted(merged.captures, 'capture')}; {merged.known} in several files")


@db.command()
@warehouse_argument
@click.option("-o", "--output", metavar="FILE", required=True, help="The copy.")
@click.option("--force", is_flag=True, help="Overwrite an existing copy.")
def backup(db: str, output: str, force: bool) -> None:
    """Copy a warehouse as it is at one moment. Other processes may use it meanwhile: those that write wait.

    The copy appears when it is complete. It is a warehouse like any other, without free space.

    \b
    etq db backup lab.duckdb -o copy.duckdb
    """
    from etq.maintenance.copying import backup

    backup(db, output, overwrite=force)
    say(f"{output}: {Path(output).stat().st_size / 1e6:.1f} MB")


@db.command()
@warehouse_argument
@click.option(
    "--files",
    metavar="FOLDER",
    default=".",
    type=click.Path(exists=True, file_okay=False),
    help="The folder that files were read from.  [default: the current one]",
)
@click.option("--all", "is_whole", is_flag=True, help="Compute times and rollups of all captures again.")
def check(db: str, files: str, is_whole: bool) -> None:
    """Check that a warehouse or a lake is undamaged and consistent.

    All tables are read: rows that others refer to must exist, rollups must equal those computed from the events, and
    files of the folder that they were read from must have the same content. Each problem is a line; with a problem, the
    status is 1. Times and rollups are computed again of 500 captures, of others each time, or with --all of all. The
    warehouse is only read; writers wait meanwhile. A lake is checked as it is when the check begins, as a whole.

    \b
    etq db check lab.duckdb
    etq db check lab.duckdb --files captures
    etq db check --db fleet
    """
    from etq.database.connection import is_lake_path

    if is_lake_path(db):
        from etq.lake.checking import check as check_lake

        parts = check_lake(db, folder=files)
    else:
        from etq.maintenance.checking import check as check_file

        parts = check_file(db, folder=files, is_whole=is_whole)
    problems = 0
    for part in parts:
        problems += len(part.problems)
        click.echo(f"{part.what}: {counted(len(part.problems), 'problem') if part.problems else 'ok'}")
        for problem in part.problems:
            click.echo(printable(f"  {problem}"))
    if problems:
        raise EtqError(f"{db}: {counted(problems, 'problem')}")


@db.command()
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True)
@click.option("--all", "several", is_flag=True, help="Remove all captures that match, if a selector matches several.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
@warehouse_option
def remove(captures: tuple[str, ...], several: bool, yes: bool, db: str) -> None:
    """Remove captures from a warehouse or a lake, with their annotations. Records and the profiling files stay.

    \b
    etq db remove run --db lab.duckdb
    etq db remove --all device=broken -y
    """
    with open_existing(db) as warehouse:
        resolved = {
            capture.capture_id: capture
            for selector in captures
            for capture in _resolved_captures(warehouse, selector, several)
        }
        _confirm("Remove", [capture.name for capture in resolved.values()], yes)
        warehouse.remove(*resolved.values())
        say(f"{counted(len(resolved), 'capture')} removed; {_until_compacted(db)}")


def _until_compacted(db: str) -> str:
    """Return a text on how the space of removed rows becomes free."""
    from etq.database.connection import is_lake_path

    if is_lake_path(db):
        return "etq lake compact frees the space a week later"
    return "etq db compact frees the space in the file"


def _resolved_captures(warehouse: Warehouse, selector: str, several: bool) -> list[Capture]:
    """Return the captures that a selector matches: one, unless `several`. Raises `QueryError` if none matches."""
    from etq.warehouse.warehouse import Capture

    query = """
        SELECT c.capture_id, c.name, c.sha256, c.format FROM _matching_captures($selector) AS m
        JOIN captures AS c ON c.capture_id = m.capture_id
        ORDER BY c.capture_id
    """
    resolved = [Capture(*row) for row in warehouse.rows(query, selector=selector)[1]] if several else []
    return resolved or [warehouse.capture(selector)]


@db.command()
@click.argument("selectors", metavar="[SELECTOR]...", nargs=-1)
@click.option(
    "--keep-last", type=IntRange(0), required=True, metavar="N", help="Number of captures of each group to keep."
)
@click.option("--by", metavar="KEY,...", default="", help="Labels that captures of a group have in common.")
@click.option("--over", metavar="KEY", help="Label by which the latest are found, such as build, or captured_at.")
@click.option("--keep-rollups", is_flag=True, help="Remove only their events: captures can still be compared.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
@warehouse_option
def prune(
    selectors: tuple[str, ...],
    keep_last: int,
    by: str,
    over: str | None,
    keep_rollups: bool,
    dry_run: bool,
    yes: bool,
    db: str,
) -> None:
    """Remove all captures but the latest of each group from a warehouse or a lake. With selectors, only captures that
    match any of them are removed.

    The latest captures are those recorded last, as with @latest. If the time of recording is unknown, the time of
    ingest is used; files are ingested in the order of the command line. With --over, the latest are the last by a
    label; captures without this label stay. With --keep-rollups, captures keep their labels, metrics and what
    comparisons need; views of their events report that they were pruned, and ingesting the file again restores the
    events.

    \b
    etq db prune --keep-last 10 --by model,device --keep-rollups --dry-run
    etq db prune --keep-last 10 --by model,device --over build
    etq db prune --keep-last 0 build=nightly -y
    """
    keys = [key.strip() for key in by.split(",") if key.strip()]
    chosen: dict[str, Any] = {"selectors": list(selectors) or None, "over": over, "keep_rollups": keep_rollups}
    with open_existing(db, read_only=dry_run) as warehouse:
        if selectors:
            report_unmatched(warehouse, selectors)
        resolved = warehouse.prune(keep_last, keys, dry_run=True, **chosen)
        names = [capture.name for capture in resolved]
        if dry_run:
            for name in names:
                click.echo(printable(name))
        if dry_run or not names:
            say(f"{counted(len(names), 'capture')} to prune")
            return
        _confirm("Prune the events of" if keep_rollups else "Remove", names, yes)
        warehouse.prune(keep_last, keys, **chosen)
        say(f"{counted(len(names), 'capture')} pruned; {_until_compacted(db)}")


@db.command()
@warehouse_argument
def compact(db: str) -> None:
    """Rewrite a warehouse's file to give back free space.

    This needs space for both files; the old one stays until the new one is complete.

    \b
    etq db compact --db lab.duckdb
    """
    with open_existing(db) as warehouse:
        before, after = warehouse.compact()
    say(f"{db}: {after / 1e6:.1f} MB, before {before / 1e6:.1f} MB")


# All named views, in the order of their names.
_VIEWS: Final = """
    SELECT
        '@' || v.name AS name, v.selector, v.sort_by, array_to_string(v.shown, ',') AS "columns",
        strftime(v.saved_at, '%Y-%m-%d %H:%M:%S') AS saved_at
    FROM named_views AS v
    ORDER BY v.name
"""


@db.command()
@click.argument("name", required=False)
@click.argument("selector", required=False)
@click.option("--sort-by", metavar="COLUMN", help="Column or label by which tables that have it are sorted.")
@click.option("--columns", metavar="A,B,...", callback=column_names, help="Of tables, show those of these columns.")
@click.option("--remove", is_flag=True, help="Remove the view of that name; its captures stay.")
@warehouse_option
@file_output_options
@as_output
def view(
    name: str | None,
    selector: str | None,
    sort_by: str | None,
    columns: tuple[str, ...] | None,
    remove: bool,
    db: str,
    output: Output,
) -> None:
    """Save a selector, with an order and columns, under a name. Without a name, list all views.

    @NAME is then a selector, for commands, pages and Python; @NAME,build>90 chooses among its captures. Tables are
    sorted by the view's column and show its columns, as far as they have these, unless the command says otherwise. A
    view of the same name is replaced.

    \b
    etq db view pixels model=mlp,device=pixel8 --sort-by build --columns name,labels,runs --db lab.duckdb
    etq captures @pixels
    etq ops @pixels,@latest
    etq db view
    etq db view pixels --remove
    """
    is_saved = name is not None and not remove
    if is_saved != (selector is not None) or (not is_saved and (sort_by or columns)) or (remove and name is None):
        raise click.UsageError("give NAME and SELECTOR to save a view, NAME --remove to remove it, neither to list all")
    with open_existing(db, read_only=name is None) as warehouse:
        if name is None:
            if not write(warehouse, _VIEWS, output, needs_rows=True):
                say("Note: no view has a name; etq db view NAME SELECTOR saves one")
        elif selector is None:
            warehouse.remove_view(name.removeprefix("@"))
            say(f"@{name.removeprefix('@')} removed")
        else:
            warehouse.save_view(name.removeprefix("@"), selector, sort_by=sort_by, columns=columns)
            report_unmatched(warehouse, [selector])
            say(f"@{name.removeprefix('@')} saved: etq captures @{name.removeprefix('@')}")


def _confirm(what: str, names: list[str], yes: bool) -> None:
    """Ask for confirmation to remove captures. Raises `EtqError` without a terminal; the answer no ends the command."""
    if yes:
        return
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    if not sys.stdin.isatty():
        raise EtqError(f"{counted(len(names), 'capture')} would be removed ({printable(shown)}); confirm with -y")
    click.confirm(printable(f"{what} {counted(len(names), 'capture')} ({shown})?"), abort=True, err=True)
