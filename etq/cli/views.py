"""Commands that print a view of one capture."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import click

from etq.cli import main
from etq.cli.options import output_options, run_options, unit_option, warehouse_option
from etq.cli.showing import show_view
from etq.cli.targets import file_options, is_record, pop_file_options, report_record_findings
from etq.errors import EtqError, printable
from etq.render.writers import write


def view_options(command: Callable[..., Any], has_unit: bool = True) -> Callable[..., Any]:
    """Add the argument and the options of a command that prints a view; the command passes the options to `show`."""
    decorated: Callable[..., Any] = warehouse_option(file_options(command))
    return click.argument("capture")(output_options(unit_option(None)(decorated) if has_unit else decorated))


def show(view: str, capture: str, options: dict[str, Any], **of_view: Any) -> None:
    """Print a view of a capture. `options` are those of the command; those that `view_options` didn't add, and
    `of_view`, are the arguments of `show_view`.
    """
    read_options = pop_file_options(options)
    output = options.pop("format"), options.pop("output"), options.pop("force")
    show_view(view, capture, options.pop("db"), output, read_options, **options, **of_view)


def view_command(
    name: str,
    view: str,
    text: str,
    query: str = "FROM {view}",
    choosing: Callable[[Any], Any] | None = None,
    people_query: str | None = None,
    example: str | None = "run.etdp --format json",
    long: Collection[str] = (),
    has_unit: bool = True,
) -> None:
    """Make the command `etq NAME CAPTURE` that prints a view; see `show_view` for `query`, `people_query` and `long`.

    `example` is the name of a file for the help text, None if the view needs more than a file; `has_unit` states that
    the view has times.
    """

    def command(capture: str, **options: Any) -> None:
        show(view, capture, options, query=query, people_query=people_query, long=long)

    command.__doc__ = f"{text}\n\nCAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file.\n\n"
    command.__doc__ += f"\b\netq {name} run --db lab.duckdb" + ("" if example is None else f"\netq {name} {example}")
    decorated = view_options(command, has_unit)
    if choosing is not None:
        decorated = choosing(decorated)
    if view == "framework_tax":
        decorated = click.option(
            "--baseline", metavar="CAPTURE", help="A capture of the same program at level method_only."
        )(decorated)
    main.command(name)(decorated)


view_command(
    "events",
    "inspector_events",
    "Show a capture's events with statistics over their runs.",
    """SELECT i.block_index, i.event_block_name, i.method, i.slot, i.occurrence, i.event_name, i.instruction_id, i.p10,
    i.p50, i.p90, i.avg, i.min, i.max, i.unit FROM {view} AS i""",
    choosing=run_options("all"),
)
view_command(
    "breakdown",
    "execute_breakdown",
    "Show the parts of the time of the executes.",
    people_query="SELECT * EXCLUDE (chain_index, total_ticks) FROM {view}",
    choosing=run_options("typical"),
)
view_command("tax", "framework_tax", "Show what each run costs besides its work.", choosing=run_options("all"))
view_command("load", "load_breakdown", "Show what loading and the first run cost.")
view_command(
    "modules",
    "module_totals",
    "Show the time of each module. Needs a linked record.",
    """SELECT m.method, CASE m.module_path WHEN '' THEN '(model)' ELSE m.module_path END AS module, m.module_class,
    m.calls, m.self_time, m.total, m.share_percent, m.mapping, m.unit FROM {view} AS m""",
    example="run.etdp --etrecord model.etrecord --format json",
    choosing=run_options("typical"),
)
view_command(
    "sources",
    "source_totals",
    "Show the time of each line of the model's source. Needs a linked record.",
    "SELECT s.source, s.method, s.calls, s.total, s.share_percent, s.unit FROM {view} AS s",
    example="run.etdp --etrecord model.etrecord --format json",
    choosing=run_options("typical"),
)
view_command(
    "decode",
    "decode_trend",
    "Show how long each token of a language model took. Needs phases, as set with etq phase.",
    example=None,
)
view_command(
    "delegates",
    "delegate_totals",
    "Show the delegates' calls and the events within them.",
    choosing=run_options("typical"),
)
view_command(
    "advice",
    "advice",
    "Show advice about a capture, the most costly finding first. Each finding has evidence, cost and remedy.",
    """SELECT a.severity, a.rule, a.finding, a.evidence, a.time_at_stake, a.unit, a.share_percent, a.remedy
    FROM {view} AS a""",
    long=("finding", "evidence", "remedy"),
    choosing=run_options("typical"),
)


view_command(
    "slow",
    "slow_runs",
    "Show the ops that take longer in slow runs.",
    """SELECT s.op, s.kind, s.method, s.instruction_id, s.typical, s.slow, s.excess, s.excess_percent, s.ratio, s.unit,
        s.typical_runs, s.slow_runs
    FROM {view} AS s""",
    choosing=run_options(),
)


view_command(
    "delegate-ops",
    "delegate_graph",
    "Show the ops of delegates' graphs, their nodes and times. Needs a linked program.",
    """SELECT d.method, d.instruction_id, d.op_index, d.op, d.node_name, d.outputs, d.event_name, d.calls, d.self_time,
        d.share_percent, d.unit
    FROM {view} AS d""",
    choosing=lambda command: run_options("typical")(
        click.option("--pte", metavar="FILE", help="For a file: its program, which has the graphs.")(command)
    ),
    example="run.etdp --etrecord model.etrecord --pte model.pte",
)

GUESSED = "Which nodes delegates took of ops that became several is a guess where basis is handles: give the --pte"


@main.command()
@click.argument("capture", metavar="CAPTURE|RECORD")
@run_options("typical")
@warehouse_option
@unit_option(None)
@file_options
@click.option("--pte", metavar="FILE", help="For a file: its program, which shows the kernels that run.")
@output_options
def coverage(
    capture: str, db: str, unit: str | None, format: str | None, output: str | None, force: bool, **options: Any
) -> None:
    """Show what delegates run and what fell back to kernels. A capture has times, too; an ETRecord is enough.

    If a delegate runs only some of the nodes that an op became, the program (--pte) shows which.

    \b
    etq coverage model.etrecord --pte model.pte
    etq coverage run --db lab.duckdb
    """
    read_options = pop_file_options(options)
    if not is_record(capture):
        show_view("delegate_coverage", capture, db, (format, output, force), read_options, unit=unit, **options)
        return
    method = options.pop("method")
    if any(value is not None for value in options.values()):
        raise click.UsageError("an ETRecord has no runs; of these options only --method applies to it")
    _show_record_coverage(capture, read_options.pte, method, (format, output, force))


def _show_record_coverage(
    path: str, pte: str | None, method: str | None, output: tuple[str | None, str | None, bool]
) -> None:
    """Print how many nodes of each op of an ETRecord run on delegates;
    the program decides where debug handles don't.
    """
    from etq.storage.linking import FITTING
    from etq.storage.programs import program_tables
    from etq.warehouse.ephemeral import open_ephemeral_record

    warehouse, record = open_ephemeral_record(path, [*program_tables(), "delegation", "_program_fit"])
    with warehouse:
        report_record_findings(warehouse, record)
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
        write(warehouse, query, output[0], output[1], force=output[2], **parameters)


@main.command()
@click.argument("capture")
@click.option(
    "-q",
    "--quantile",
    "quantiles",
    type=click.FloatRange(0, 1),
    multiple=True,
    help="A quantile from 0 to 1; may be repeated.  [default: 0.1 0.5 0.9]",
)
@unit_option(None)
@run_options("all")
@warehouse_option
@file_options
@output_options
def percentiles(
    capture: str,
    quantiles: tuple[float, ...],
    unit: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Show any percentiles of a capture's events, a column each.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file.

    \b
    etq percentiles run -q 0.5 -q 0.99 --db lab.duckdb
    etq percentiles run.etdp -q 0.999 --unit ms
    """
    columns = ", ".join(
        f'max(p.value) FILTER (WHERE p.quantile = {quantile}) AS "p{100 * quantile:.12g}"'
        for quantile in quantiles or (0.1, 0.5, 0.9)
    )
    query = f"""
        SELECT p.block_index, p.event_block_name, p.method, p.slot, p.occurrence, p.event_name, p.runs, {columns},
            p.unit
        FROM {{view}} AS p
        GROUP BY p.block_index, p.event_block_name, p.method, p.slot, p.occurrence, p.event_name, p.runs, p.unit
        ORDER BY p.block_index, p.slot, p.occurrence
    """
    read_options = pop_file_options(options)
    parameters = {"quantiles": list(quantiles) or None, "unit": unit, **options}
    show_view("percentiles", capture, db, (format, output, force), read_options, query=query, **parameters)
