"""The command that writes a report."""

from __future__ import annotations

from typing import Any

import click

from etq.cli import main
from etq.cli.options import asked, file_options, taken_file_options, unit_option, warehouse_option
from etq.errors import EtqError
from etq.output import printable, write_text


@main.command()
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="Write there; - is stdout.  [default: the capture's name.html]")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@unit_option(None)
@warehouse_option
@click.option("--pte", metavar="FILE", help="Of a file: its program, for planned memory.")
@file_options
def report(
    captures: tuple[str, ...], output: str | None, force: bool, unit: str | None, db: str, **options: Any
) -> None:
    """Write what there is to see of a capture into one HTML file, which needs no network and opens anywhere.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file, which is read and not stored.

    \b
    etq report run -o run.html --db lab.duckdb
    etq report run.etdp --etrecord model.etrecord --pte model.pte
    """
    from etq.report import page_of
    from etq.report.single import VIEWS

    if len(captures) > 1:
        raise EtqError(f"a report is of one capture, not of {len(captures)}")
    said = taken_file_options(options)
    with asked(captures[0], db, list(VIEWS), said) as (warehouse, selector):
        capture = warehouse.capture(selector)
        path = None if output == "-" else output or f"{_file_name(capture.name)}.html"
        write_text(page_of(warehouse, [capture], unit=unit), path, force=force)
    if path is not None:
        click.echo(f"{printable(path)}: the report of {printable(capture.name)}", err=True)


def _file_name(name: str) -> str:
    """A capture's name as a file's: no folders, nothing hidden, nothing that a terminal would obey."""
    kept = "".join(letter if letter.isalnum() or letter in "-_.@=" else "_" for letter in name)
    return kept.strip(".")[:100] or "report"
