"""The command about what delegates run, with or without a capture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from etq import catalog
from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import output_options, run_options, total_option, unit_option, warehouse_option
from etq.cli.showing import show_view
from etq.cli.targets import FileOptions, file_options, is_unrun, open_unrun, pop_file_options
from etq.errors import EtqError, counted, listed, printable
from etq.render.writers import Output, write

if TYPE_CHECKING:
    from etq.database.handles import Record
    from etq.warehouse.warehouse import Warehouse

GUESSED = "If basis is handles, etq guesses which nodes of a decomposed op a delegate took; --pte tells exactly"
_DELEGATES: Final = {
    True: "SELECT d.method, d.instruction_id, d.backend, d.outputs FROM delegates AS d",
    False: """
        SELECT i.method, i.instruction_id, d.backend, nullif(count(o.op), 0) AS ops,
            any_value(d.blob_bytes) AS blob_bytes
        FROM instructions AS i
        JOIN program_delegates AS d USING (program_id, method, delegate_index)
        LEFT JOIN delegate_ops AS o ON o.program_id = d.program_id AND o.blob_offset = d.byte_offset
        GROUP BY ALL
    """,
}


@main.command()
@click.argument("capture", metavar="CAPTURE|RECORD|PROGRAM")
@run_options
@warehouse_option
@unit_option(None)
@partial(file_options, without=["graph_capture", "assume"])
@total_option
@output_options
def coverage(capture: str, db: str, output: Output, **options: Any) -> None:
    """Show what delegates run and what fell back to kernels. An ETRecord or program is enough for the nodes; a capture
    adds their time in an execute.

    If a delegate runs only some of the nodes that an op became, the program (--pte) shows which.

    \b
    etq coverage model.etrecord --pte model.pte
    etq coverage run --db lab.duckdb
    """
    read_options = pop_file_options(options)
    if is_unrun(capture):
        show_unrun("coverage", capture, read_options, output, **options)
    else:
        show_view("delegate_coverage", capture, db, output, read_options, **options)


def show_unrun(
    command: str,
    path: str,
    read_options: FileOptions,
    output: Output,
    *,
    method: str | None = None,
    **of_runs: Any,
) -> None:
    """Print the op types of an ETRecord or a program, with the number of their nodes that delegates run.

    For the command `delegates`, print its calls of delegates instead. For a record, the program decides where debug
    handles don't.
    """
    from etq.database.handles import Record

    if any(of_runs.values()):
        raise click.UsageError("an ETRecord or program has no runs; of these options only --method applies to it")
    warehouse, link = open_unrun(path)
    with warehouse:
        methods = [name for (name,) in warehouse.rows("SELECT method FROM graphs UNION SELECT method FROM methods")[1]]
        if method not in (None, *methods):
            raise EtqError(f"{path} has no method {method!r}; its {listed('method', sorted(methods))}")
        chosen = "FROM ({}) AS d WHERE d.method = coalesce($method, d.method) "
        calls = chosen.format(_DELEGATES[isinstance(link, Record)])
        if command == "delegates":
            query = f"{calls} ORDER BY ALL"
            if not write(warehouse, query, output, needs_rows=True, method=method):
                say(f"Note: {path} calls no delegate; for its ops: etq coverage {path}")
            return
        counts = f"SELECT d.backend, count(*) {calls} GROUP BY ALL ORDER BY ALL"
        for backend, count in warehouse.rows(counts, method=method)[1]:
            click.echo(f"{counted(count, 'call')} of {printable(backend)}", err=True)
        query = chosen.format("FROM _program_delegation(1)")
        parameters: dict[str, Any] = {"method": method}
        if isinstance(link, Record):
            query = chosen.format("FROM delegation($record, program := $program)")
            parameters |= {"record": link, "program": _program_of(warehouse, link, read_options.pte)}
        if warehouse.rows(f"{query} AND d.basis = 'handles'", **parameters)[1]:
            click.echo(GUESSED, err=True)
        query += " ORDER BY d.method, d.not_delegated DESC, d.op_type"
        write(warehouse, query, output, view=catalog.named("delegation"), **parameters)


def _program_of(warehouse: Warehouse, record: Record, pte: str | None) -> str | None:
    """Ingest the program of a record; return its hash. Raises `EtqError` for a program of another export."""
    from etq.storage.methods import FITTING

    if pte is None:
        return None
    stored = warehouse.ingest_program(pte)
    fit = "SELECT _program_fit(r.record_id, p.program_id) < $fitting FROM records AS r, programs AS p"
    if warehouse.rows(fit, fitting=FITTING)[1] == [(True,)]:
        raise EtqError(
            f"the program {stored.name} was not exported with the record {record.name}: their instructions differ; use "
            "the program that was exported with it"
        )
    return stored.sha256
