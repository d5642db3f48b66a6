"""The command about programs: their parts and their planned memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from etq.cli import main
from etq.cli.options import output_options, warehouse_option
from etq.cli.targets import is_there
from etq.errors import EtqError
from etq.render.writers import write

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse


@main.command()
@click.argument("program", metavar="FILE_OR_NAME")
@click.option("--memory", is_flag=True, help="Show the lifetime of each planned tensor, and the peak.")
@click.option("--method", help="Only that method; with --memory.")
@warehouse_option
@output_options
def program(
    program: str, memory: bool, method: str | None, db: str, format: str, output: str | None, force: bool
) -> None:
    """Show what an ExecuTorch program is made of. A file is read and not stored.

    \b
    etq program net.pte
    etq program net.pte --memory --method forward --format csv
    """
    if method is not None and not memory:
        raise click.UsageError("--method goes with --memory")
    view = "planned_memory" if memory else "program_size"
    with _open_program(program, db, view) as (warehouse, selector):
        query = "FROM planned_memory($program, method := $method)" if memory else "FROM program_size($program)"
        arguments: dict[str, Any] = {"method": method} if memory else {}
        write(warehouse, query, format, output, force=force, program=selector, **arguments)


@contextmanager
def _open_program(program: str, db: str, view: str) -> Iterator[tuple[Warehouse, str]]:
    """Provide a warehouse that contains the program, and its name there;
    a file is loaded into a warehouse in memory.
    """
    from etq.warehouse.ephemeral import open_ephemeral_program
    from etq.warehouse.warehouse import open

    if os.path.exists(program):
        warehouse, target = open_ephemeral_program(program)
        with warehouse:
            yield warehouse, target.sha256
    elif not is_there(db) and (os.sep in program or program.endswith(".pte")):
        raise EtqError(f"{program}: no such file")
    else:
        with open(db, read_only=True) as warehouse:
            yield warehouse, program
