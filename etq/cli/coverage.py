"""The command about what delegates run."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from etq import catalog
from etq.cli import main
from etq.cli.options import output_options, run_options, total_option, unit_option, warehouse_option
from etq.cli.showing import show_view
from etq.cli.targets import file_options, is_record, open_record, pop_file_options
from etq.errors import EtqError, printable
from etq.render.writers import write

GUESSED = "Where basis is handles, it is a guess which nodes of a decomposed op a delegate took: give the --pte"


@main.command()
@click.argument("capture", metavar="CAPTURE|RECORD")
@run_options("typical")
@warehouse_option
@unit_option(None)
@partial(file_options, without=["graph_capture"])
@total_option
@output_options
def coverage(
    capture: str,
    db: str,
    unit: str | None,
    total: bool,
    format: str | None,
    output: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Show what delegates run and what fell back to kernels. An ETRecord is enough for the nodes; a capture adds their
    time in an execute.

    If a delegate runs only some of the nodes that an op became, the program (--pte) shows which.

    \b
    etq coverage model.etrecord --pte model.pte
    etq coverage run --db lab.duckdb
    """
    read_options = pop_file_options(options)
    if not is_record(capture):
        show_view(
            "delegate_coverage", capture, db, (format, output, force), read_options, total=total, unit=unit, **options
        )
        return
    method = options.pop("method")
    if total or any(value is not None for value in options.values()):
        raise click.UsageError("an ETRecord has no runs; of these options only --method applies to it")
    _show_record_coverage(capture, read_options.pte, method, (format, output, force))


def _show_record_coverage(
    path: str, pte: str | None, method: str | None, output: tuple[str | None, str | None, bool]
) -> None:
    """Print how many nodes of each op of an ETRecord run on delegates;
    the program decides where debug handles don't.
    """
    from etq.storage.linking import FITTING

    warehouse, record = open_record(path)
    with warehouse:
        methods = [name for (name,) in warehouse.rows("SELECT DISTINCT method FROM graphs ORDER BY ALL")[1]]
        if method not in (None, *methods):
            raise EtqError(f"the record has no method {method!r}; its methods are {', '.join(methods)}")
        query = """
            SELECT d.backend, count(*) FROM delegates AS d
            WHERE d.method = coalesce($method, d.method) GROUP BY ALL ORDER BY ALL
        """
        for backend, count in warehouse.rows(query, method=method)[1]:
            click.echo(f"{count} calls of {printable(backend)}", err=True)
        program = None
        if pte is not None:
            stored = warehouse.ingest_program(pte)
            fit = "SELECT _program_fit(r.record_id, p.program_id) < $fitting FROM records AS r, programs AS p"
            if warehouse.rows(fit, fitting=FITTING)[1] == [(True,)]:
                raise EtqError(
                    f"the program {stored.name} was not exported with the record {record.name}: their instructions "
                    "differ; use the program that was exported with it"
                )
            program = stored.sha256
        query = "FROM delegation($record, program := $program) AS d WHERE d.method = coalesce($method, d.method)"
        parameters: dict[str, Any] = {"record": record, "program": program, "method": method}
        if warehouse.sql(f"{query} AND d.basis = 'handles'", **parameters).fetchall():
            click.echo(GUESSED, err=True)
        write(warehouse, query, *output[:2], force=output[2], view=catalog.named("delegation"), **parameters)
