"""Commands about lakes: export, add, compact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from etq.cli import main
from etq.cli.files import ingest
from etq.cli.messages import say
from etq.cli.options import warehouse_argument, warehouse_option
from etq.cli.targets import opened, without_panics
from etq.errors import counted

if TYPE_CHECKING:
    from etq.lake import Added

# Options of `ingest` that don't change captures that a lake already has.
_OF_NEW: Final = (
    "name", "metrics", "time_scale", "clock_bits", "etrecord", "pte", "graph_capture", "assume", "debug_buffer",
    "values",
)  # fmt: skip


@main.group()
def lake() -> None:
    """Keep the tables as Delta tables in a folder or a store. Use it for more data than one file should hold.
    Commands take it as --db DIR, or --db s3://lab/fleet, the address of an object store.

    \b
    etq lake add fleet lab/*/*/*.etdp --label-from '{model}/{device}/{build}.etdp'
    etq ops run --db fleet
    """


@lake.command()
@click.argument("folder", metavar="DIR")
@warehouse_option
@click.option("--replace", is_flag=True, help="Replace captures of the lake by those of the warehouse.")
def export(folder: str, db: str, replace: bool) -> None:
    """Add all content of a warehouse to a lake, which is created if it doesn't exist.

    Captures that the lake has already are unchanged, so doing it twice changes nothing. With --replace, those of the
    warehouse replace them, with their labels, metrics and links.

    \b
    etq lake export fleet --db lab.duckdb
    etq ops run --db fleet
    """
    from etq.lake import export

    with without_panics():
        _print_added(folder, export(folder, db, replace=replace))


@lake.command(
    params=[
        click.Argument(["folder"], metavar="DIR"),
        *(each for each in ingest.params if each.name not in ("db", "again")),
    ]
)
def add(folder: str, **options: Any) -> None:
    """Read profiling files into a lake, which is created if it doesn't exist. Options are those of etq ingest.

    A file that can't be read is reported, and the others are still read; the exit status is then 1. A known capture
    gets the labels that it lacks; those of --label, --job and --captured-at replace its own, and pruned events are
    restored. Other options are for new captures.

    \b
    etq lake add fleet lab/*/*/*.etdp --label-from '{model}/{device}/{build}.etdp'
    etq lake add s3://lab/fleet s3://lab/raw/
    """
    from pathlib import Path

    from etq.database.temporary import temporary_folder
    from etq.lake.reading.tables import Lake
    from etq.lake.writing.adding import check_place

    is_there = check_place(Lake.at(folder))
    with temporary_folder() as aside:
        # A file is used because the content may be too large for memory.
        options["db"] = str(Path(aside) / "added.duckdb")
        try:
            click.get_current_context().invoke(ingest, **options)
        except KeyboardInterrupt:
            Path(options["db"]).unlink(missing_ok=True)
            say(f"{folder}: nothing was added")
            raise
        finally:
            if Path(options["db"]).exists() and (is_there or _has_content(options["db"])):
                with without_panics():
                    _add_from(folder, options)


def _add_from(folder: str, options: dict[str, Any]) -> None:
    """Add what was read to a lake, with the labels of known captures, and print what was done."""
    from dataclasses import replace

    from etq.lake.writing.adding import export, update

    with opened(options["db"]) as warehouse:
        added = export(folder, warehouse)
        if added.known:
            given = {*options["labels"], *(key for key in ("job", "captured_at") if options[key] is not None)}
            labelled, restored = update(folder, warehouse, given)
            added = replace(added, labelled=labelled, restored=restored)
    _print_added(folder, added)
    if added.known and (
        left := [name for name in _OF_NEW if options.get(name) or (name, options.get(name)) == ("assume", "")]
    ):
        named = ", ".join(f"--{name.replace('_', '-')}" for name in left)
        say(f"Note: {named} changed no known capture; etq lake export --replace replaces captures as a whole")


@lake.command()
@warehouse_argument
@click.option("--all", "everything", is_flag=True, help="Also remove unfinished writes of the last hour.")
def compact(db: str, everything: bool) -> None:
    """Combine the many small files of a lake. Commands can read the lake meanwhile.

    Leftovers of killed writers are removed an hour after they began, or at once with --all: a writer still at work then
    fails and adds nothing. Files that the lake no longer needs are deleted a week later.

    \b
    etq lake compact fleet
    """
    from etq.lake.writing.compacting import LEAVE_SECONDS, compact

    with without_panics():
        before, after = compact(db, leave_seconds=0 if everything else LEAVE_SECONDS)
    say(f"{db}: {before} loads, now {after}")


def _has_content(db: str) -> bool:
    """Whether a warehouse has captures, records or programs."""
    query = "SELECT 1 FROM captures UNION ALL SELECT 1 FROM records UNION ALL SELECT 1 FROM programs LIMIT 1"
    with opened(db) as warehouse:
        return bool(warehouse.rows(query)[1])


def _print_added(folder: str, added: Added) -> None:
    words = [f"{added.new} new", f"{added.known} known", *([f"{added.replaced} replaced"] if added.replaced else [])]
    labelled = f"; labels of {counted(added.labelled, 'known capture')} changed" if added.labelled else ""
    restored = f"; pruned events of {counted(added.restored, 'known capture')} restored" if added.restored else ""
    say(f"{folder}: captures: {', '.join(words)}{labelled}{restored}")
