"""The command that opens what an argument names in a browser."""

from __future__ import annotations

from typing import Any

import click

from etq.cli import main
from etq.cli.options import warehouse_option
from etq.cli.summary import WAREHOUSE, kind_of_argument


@main.command("open")
@click.argument("captures", metavar="[FILE | CAPTURE | BASE NEW]", nargs=-1)
@click.option("--etrecord", metavar="FILE", help="For a file: the ETRecord of its program.")
@warehouse_option
@click.pass_context
def open_page(context: click.Context, captures: tuple[str, ...], etrecord: str | None, db: str) -> None:
    """Open a warehouse, capture, program or comparison as a page.

    A warehouse has pages, a capture or a comparison a report, a program or ETRecord its graph. The command is
    etq serve --open for a warehouse or if nothing is named, etq graph --open for an ETRecord or a program, and
    else etq report --open.

    \b
    etq open run.etdp
    etq open lab.duckdb
    etq open base.etdp new.etdp
    etq open net.pte
    """
    from etq.ingest.recognition import PROGRAM, RECORD

    given: dict[str, Any]
    kind = kind_of_argument(captures[0], db) if len(captures) == 1 else None
    if not captures or kind == WAREHOUSE:
        name, given = "serve", {"db": captures[0] if captures else db}
    elif kind in (RECORD, PROGRAM):
        name, given = "graph", {"capture": captures[0], "db": db}
    else:
        name, given = "report", {"captures": captures, "etrecord": etrecord, "graph_capture": None, "db": db}
    command = main.get_command(context, name)
    assert command is not None
    context.invoke(command, opens=True, **given)
