"""Commands that keep warehouses in order: merge, backup, check, upgrade, remove, prune, compact."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from etq.cli import main
from etq.cli.messages import say
from etq.cli.noting import note_here
from etq.cli.options import query_limits, warehouse_argument, warehouse_option
from etq.cli.targets import check_is_here, open_existing, report_unmatched
from etq.errors import EtqError, printable

if TYPE_CHECKING:
    from etq.team.folder import TeamFolder
    from etq.warehouse.warehouse import Capture, Warehouse


@main.command()
@click.argument("files", metavar="WAREHOUSE...", nargs=-1, required=True)
@query_limits
@click.option("-o", "--output", metavar="FILE", required=True, help="The new warehouse.")
def merge(files: tuple[str, ...], output: str) -> None:
    """Make a new warehouse from all content of several others. These are only read.

    The same content is stored once, with the labels, metrics, phases and links of all; where these differ, those of the
    first warehouse are kept, and the difference is printed. A name that other content has is extended.

    \b
    etq merge phone.duckdb watch.duckdb -o lab.duckdb
    """
    from etq.maintenance.merge import merge

    merged = merge(files, output)
    for conflict in merged.conflicts:
        say(f"Note: {conflict}")
    say(f"{output}: {merged.captures} captures; {merged.known} were in several")


@main.command()
@partial(warehouse_argument, metavar="[WAREHOUSE|URL]")
@click.option("-o", "--output", metavar="FILE", required=True, help="The copy.")
@click.option("--force", is_flag=True, help="Overwrite an existing copy.")
@click.option("--team", metavar="DIR", help="The folder of the server, if it isn't beside the warehouse.")
@click.option("--without-team", is_flag=True, help="Leave out the folder of the server.")
def backup(db: str, output: str, force: bool, team: str | None, without_team: bool) -> None:
    """Copy a warehouse as it is at one moment. Other processes may use it meanwhile: those that write wait.

    The copy is at its place when it is whole. It has no free space, and is a warehouse like any other. The folder of a
    server of etq serve, such as lab.duckdb.team, is copied with it, for users, tokens and captures that wait. By the
    address of a server, an administrator gets both from there; the token is that of $ETQ_TOKEN.

    \b
    etq backup lab.duckdb -o copy.duckdb
    etq backup http://lab:8650 -o lab-2026-11-25.duckdb
    """
    if db.startswith(("http://", "https://")):
        from etq.remote.backups import fetch_backup

        paths = fetch_backup(db, output, overwrite=force)
    else:
        paths = _backup(db, output, force, None if without_team else _folder_of(db, team))
    for path in paths:
        say(f"{path}: {_size_of(path) / 1e6:.1f} MB")


def _folder_of(db: str, team: str | None) -> TeamFolder | None:
    from etq.team.folder import TeamFolder, folder_of

    path = folder_of(db, team)
    folder = None if path is None else TeamFolder(path)
    if folder is not None and folder.exists:
        return folder
    if team is not None:
        raise EtqError(f"{team}: not the folder of a server; leave out --team, or name another one")
    return None


def _backup(db: str, output: str, force: bool, folder: TeamFolder | None) -> list[str]:
    from etq.maintenance.copying import backup

    if folder is None:
        backup(db, output, overwrite=force)
        return [output]
    from etq.team.copying import copied

    copy = f"{output}.team"
    backup(db, output, overwrite=force, beside=copied(folder, Path(copy), overwrite=force))
    return [output, copy]


def _size_of(path: str) -> int:
    found = Path(path)
    return found.stat().st_size if found.is_file() else sum(each.stat().st_size for each in found.rglob("*"))


@main.command()
@warehouse_argument
@click.option(
    "--files",
    metavar="FOLDER",
    default=".",
    type=click.Path(exists=True, file_okay=False),
    help="The folder that files were read from.  [default: the current one]",
)
def check(db: str, files: str) -> None:
    """Check that a warehouse is undamaged and its tables agree.

    All tables are read. Rows refer to rows that are there, and rollups are what events give when they are computed
    again. Files of the folder that they were read from have the same content. Each problem is a
    line; with a problem, the status is 1. The warehouse is only read; writers wait meanwhile.

    \b
    etq check lab.duckdb
    etq check lab.duckdb --files captures
    """
    from etq.maintenance.checking import check

    check_is_here(db)
    problems = 0
    for part in check(db, folder=files):
        problems += len(part.problems)
        click.echo(f"{part.what}: {_problems(len(part.problems)) if part.problems else 'ok'}")
        for problem in part.problems:
            click.echo(printable(f"  {problem}"))
    if problems:
        raise EtqError(f"{db}: {_problems(problems)}")


@main.command()
@warehouse_argument
@click.option("--no-backup", is_flag=True, help="Keep no copy of the file from before.")
def upgrade(db: str, no_backup: bool) -> None:
    """Upgrade a warehouse or lake of an earlier version of etq.

    Each command that writes to a warehouse does so, too. Nothing of it is lost, and no file is needed again. The copy
    from before stays beside it: lab.duckdb.schema-4. It is for the version of etq that made it. Former files of a
    lake stay until etq lake compact deletes them.

    \b
    etq upgrade lab.duckdb
    """
    from etq.database.connection import is_lake_path
    from etq.maintenance.upgrading import upgrade
    from etq.version import SCHEMA_VERSION

    check_is_here(db)
    if is_lake_path(db):
        from etq.lake.writing.upgrading import upgrade as upgrade_lake

        upgrade_lake(db)
        copy = None
    else:
        copy = upgrade(db, keep_old=not no_backup)
    what = f"of schema {SCHEMA_VERSION} now" + (f"; {copy} is the file from before" if copy else "")
    say(f"{db}: {what}")


def _problems(number: int) -> str:
    return f"{number} problem{'' if number == 1 else 's'}"


@main.command()
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True)
@click.option("--all", "several", is_flag=True, help="Remove all captures that match, if a selector matches several.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
@warehouse_option
def remove(captures: tuple[str, ...], several: bool, yes: bool, db: str) -> None:
    """Remove captures from a warehouse, with their annotations. Records and the profiling files stay.

    \b
    etq remove run --db lab.duckdb
    etq remove --all device=broken -y
    """
    with open_existing(db, may_be_server=True) as warehouse:
        resolved = {
            capture.capture_id: capture
            for selector in captures
            for capture in _resolved_captures(warehouse, selector, several)
        }
        _confirm("Remove", [capture.name for capture in resolved.values()], yes)
        warehouse.remove(*resolved.values())
        note_here(db, "removed", *({"capture": each.name, "sha256": each.sha256} for each in resolved.values()))
        say(f"{_number(len(resolved))} removed; etq compact gives the space back")


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


@main.command()
@click.argument("selectors", metavar="[SELECTOR]...", nargs=-1)
@click.option(
    "--keep-last", type=click.IntRange(0), required=True, metavar="N", help="Number of captures of each group to keep."
)
@click.option("--by", metavar="KEY,...", default="", help="Labels that captures of a group have in common.")
@click.option("--over", metavar="KEY", help="Label by which the latest are found, such as build, or captured_at.")
@click.option("--keep-rollups", is_flag=True, help="Remove only their events: captures can still be compared.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and keep it.")
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
    """Remove all captures but the latest of each group. With selectors, only captures that match any of them are
    removed.

    The latest captures are those recorded last, as with @latest. For files whose time of recording is unknown, the time
    of ingest stands for it; files are ingested in the order of the command line. With --over, the latest are the last
    by a label; captures without this label stay. With --keep-rollups, captures keep their labels, metrics and what
    comparisons need; views of their events report that they were pruned, and ingesting the file again restores the
    events.

    \b
    etq prune --keep-last 10 --by model,device --keep-rollups --dry-run
    etq prune --keep-last 10 --by model,device --over build
    etq prune --keep-last 0 build=nightly -y
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
            say(f"{_number(len(names))} to prune")
            return
        _confirm("Prune the events of" if keep_rollups else "Remove", names, yes)
        warehouse.prune(keep_last, keys, **chosen)
        say(f"{_number(len(names))} pruned; etq compact gives the space back")


@main.command()
@warehouse_argument
def compact(db: str) -> None:
    """Rewrite a warehouse's file to give back free space.

    This needs space for both files; the old one stays until the new one is complete.

    \b
    etq compact --db lab.duckdb
    """
    with open_existing(db) as warehouse:
        before, after = warehouse.compact()
    say(f"{db}: {after / 1e6:.1f} MB, before {before / 1e6:.1f} MB")


def _number(captures: int) -> str:
    return f"{captures} capture{'' if captures == 1 else 's'}"


def _confirm(what: str, names: list[str], yes: bool) -> None:
    """Ask for confirmation to remove captures. Raises `EtqError` without a terminal; the answer no ends the command."""
    if yes:
        return
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    if not sys.stdin.isatty():
        raise EtqError(f"{_number(len(names))} would be removed ({printable(shown)}); confirm with -y")
    click.confirm(printable(f"{what} {_number(len(names))} ({shown})?"), abort=True, err=True)
