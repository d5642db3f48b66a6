"""The command about programs: their parts and their planned memory."""

from __future__ import annotations

from typing import Any

import click

from etq.cli import main
from etq.cli.options import output_options, warehouse_option
from etq.cli.targets import open_file_or_warehouse
from etq.render.writers import write


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
    from etq.warehouse.ephemeral import open_ephemeral_program

    if method is not None and not memory:
        raise click.UsageError("--method goes with --memory")
    with open_file_or_warehouse(program, db, open_ephemeral_program) as (warehouse, loaded):
        selector = program if loaded is None else loaded.sha256
        query = "FROM planned_memory($program, method := $method)" if memory else "FROM program_size($program)"
        arguments: dict[str, Any] = {"method": method} if memory else {}
        write(warehouse, query, format, output, force=force, program=selector, **arguments)
