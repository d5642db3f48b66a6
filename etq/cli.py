"""The command line: `etq COMMAND`. It asks the warehouse's views and prints what they say."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

import etq
from etq.errors import EtqError
from etq.output import FORMATS, printable, table, write

if TYPE_CHECKING:
    from datetime import datetime

    from etq.warehouse import Warehouse

DEFAULT_WAREHOUSE: Final = "etq.duckdb"
UNITS: Final = ("ns", "us", "ms", "s", "cycles")
SCHEDULE: Final = {
    "skip_first": "Runs to leave out at the start.",
    "wait": "Runs of a cycle to leave out.",
    "warmup": "Runs of a cycle to leave out behind these.",
    "active": "Runs of a cycle to use behind these.",
    "repeat": "Number of cycles; 0: to the end.",
    "skip_first_wait": "Not 0: no wait in the first cycle.",
}

Command = TypeVar("Command", bound=Callable[..., Any])


class _Group(click.Group):
    """Turns expected failures into one line on stderr and status 1; with --debug, into a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except EtqError as error:
            _fail(str(error), context)
        except BrokenPipeError:
            # The reader of a pipe has seen enough; Python must not complain at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except Exception as error:
            if type(error).__module__ not in ("duckdb", "_duckdb"):
                raise
            from etq.warehouse import message_of

            _fail(message_of(error), context)  # type: ignore[arg-type]


def _fail(message: str, context: click.Context) -> NoReturn:
    if context.params.get("debug"):
        raise  # noqa: PLE0704 - called while an exception is handled
    click.echo(f"Error: {printable(message)}", err=True)
    sys.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(etq.__version__, prog_name="etq")
@click.option("--debug", is_flag=True, help="Show a traceback at an error.")
def main(debug: bool) -> None:
    """Turn profiling files of PyTorch models on devices into SQL tables, and ask them.

    \b
    etq demo                          see it work on bundled captures
    etq inspect run.etdp              one file, nothing stored
    etq ingest *.etdp --db lab.duckdb
    etq ops run --db lab.duckdb
    """


def _warehouse_option(command: Command) -> Command:
    return click.option(
        "--db",
        metavar="FILE",
        envvar="ETQ_DB",
        default=DEFAULT_WAREHOUSE,
        help="The warehouse; by default $ETQ_DB, or etq.duckdb here.",
    )(command)


def _output_options(command: Command) -> Command:
    command = click.option("--force", is_flag=True, help="Overwrite the file of -o.")(command)
    command = click.option("-o", "--output", metavar="FILE", help="Write there, not to stdout.")(command)
    return click.option("--format", "format", type=click.Choice(FORMATS), default="table", show_default=True)(command)


def _unit_option(default: str | None) -> Callable[[Command], Command]:
    text = "ms" if default else "us; cycles where ticks are cycles"
    return click.option("--unit", type=click.Choice(UNITS), default=default, help=f"Unit of times.  [default: {text}]")


def _schedule_options(command: Command) -> Command:
    for name, text in reversed(SCHEDULE.items()):
        command = click.option(f"--{name.replace('_', '-')}", type=int, help=text)(command)
    return command


@contextmanager
def _asked(capture: str, db: str, view: str) -> Iterator[tuple[Warehouse, str]]:
    """A warehouse that holds the capture, and its name there: the file in memory, where the argument is a file."""
    from etq.warehouse import look_at, open

    if os.path.exists(capture):
        warehouse, found = look_at(capture, [view])
        with warehouse:
            _tell_findings(warehouse, found.capture_id)
            yield warehouse, found.sha256
    elif not os.path.exists(db) and (os.sep in capture or capture.endswith(".etdp")):
        raise EtqError(f"{capture}: no such file")
    else:
        with open(db, read_only=True) as warehouse:
            yield warehouse, capture


def _tell_findings(warehouse: Warehouse, capture_id: int) -> None:
    query = "SELECT f.rule, f.detail FROM findings AS f WHERE f.capture_id = ?"
    for rule, detail in warehouse.connection.execute(query, [capture_id]).fetchall():
        click.echo(f"Note: {rule}: {detail}", err=True)


def _show_view(
    view: str, capture: str, db: str, output: tuple[str, str | None, bool], *, query: str = "FROM {view}", **given: Any
) -> None:
    """Print what a view says of a capture; `query` may choose of it, with the call of the view for {view}."""
    with _asked(capture, db, view) as (warehouse, selector):
        parameters = {"capture": selector, **{name: value for name, value in given.items() if value is not None}}
        arguments = ", ".join("$capture" if name == "capture" else f'"{name}" := ${name}' for name in parameters)
        relation = warehouse.sql(query.format(view=f"{view}({arguments})"), **parameters)
        write(relation, output[0], output[1], force=output[2])


@main.command()
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--time-scale", type=click.Choice(UNITS), default="ns", show_default=True, help="What one tick is.")
@click.option("--clock-bits", type=click.Choice(["32", "64"]), help="Width of the clock's counter.")
@click.option("--repeats", type=click.Choice(["all", "last"]), help="Occurrences in a run: all, or only the last.")
@click.option("--all", "everything", is_flag=True, help="Show OPERATOR_CALL rows too.")
@_unit_option("ms")
@_schedule_options
@_output_options
def inspect(
    file: str,
    time_scale: str,
    clock_bits: str | None,
    repeats: str | None,
    everything: bool,
    unit: str,
    format: str,
    output: str | None,
    force: bool,
    **schedule: int | None,
) -> None:
    """Show a file's events with statistics over their runs, as the Inspector does. Nothing is stored.

    \b
    etq inspect run.etdp
    etq inspect run.etdp --unit us --skip-first 5 --format csv -o run.csv
    """
    from etq.warehouse import look_at

    if time_scale == "cycles":
        unit = "cycles"
    given = {name: value for name, value in {"repeats": repeats, **schedule}.items() if value is not None}
    arguments = "".join(f", {name} := ${name}" for name in given)
    warehouse, capture = look_at(
        file,
        ["inspector_events"],
        time_scale=time_scale,  # type: ignore[arg-type]  # click has checked it
        clock_bits=None if clock_bits is None else int(clock_bits),  # type: ignore[arg-type]
    )
    with warehouse:
        _tell_findings(warehouse, capture.capture_id)
        relation = warehouse.sql(
            f"""
            SELECT
                i.event_block_name, i.event_name, i.occurrence, i.p10, i.p50, i.p90, i.avg, i.min, i.max, i.unit,
                i.delegate_debug_identifier
            FROM inspector_events($capture, unit := $unit{arguments}) AS i
            WHERE $everything OR i.kind <> 'operator_call'
            """,
            capture=capture,
            unit=unit,
            everything=everything,
            **given,
        )
        write(relation, format, output, force=force)


def _parsed_labels(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE")
        labels[key.strip()] = value
    return labels


@main.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--name", help="Name of the capture; with one file only.")
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, callback=_parsed_labels, help="May be repeated.")
@click.option("--captured-at", type=click.DateTime(), help="When it was measured, in UTC.")
@click.option("--time-scale", type=click.Choice(UNITS), help="What one tick is.  [default: ns]")
@click.option("--clock-bits", type=click.Choice(["32", "64"]), help="Width of the clock's counter.")
@_warehouse_option
def ingest(
    files: tuple[str, ...],
    name: str | None,
    labels: dict[str, str],
    captured_at: datetime | None,
    time_scale: str | None,
    clock_bits: str | None,
    db: str,
) -> None:
    """Read profiling files into a warehouse. One that is there already adds nothing but the options given.

    A file that can't be read is told, and the others go on; the exit status is then 1.

    \b
    etq ingest *.etdp --db lab.duckdb --label device=pixel8 --label build=abc123
    """
    from etq.warehouse import open

    if name is not None and len(files) > 1:
        raise click.UsageError("--name goes with one file")
    failed = 0
    with open(db) as warehouse:
        for file in _with_progress(files):
            try:
                capture = warehouse.ingest(
                    file,
                    name=name,
                    labels=labels,
                    captured_at=captured_at,
                    time_scale=time_scale,  # type: ignore[arg-type]
                    clock_bits=None if clock_bits is None else int(clock_bits),  # type: ignore[arg-type]
                )
            except EtqError as error:
                failed += 1
                click.echo(f"Error: {printable(str(error))}", err=True)
                continue
            what = "ingested" if capture.is_new else "known already, options applied"
            click.echo(f"{printable(capture.name)}: {what}", err=True)
            if capture.is_new:
                _tell_findings(warehouse, capture.capture_id)
    if failed:
        click.echo(f"{failed} of {len(files)} files could not be ingested", err=True)
        sys.exit(1)


def _with_progress(files: tuple[str, ...]) -> Iterator[str]:
    if len(files) == 1 or not sys.stderr.isatty():
        yield from files
        return
    with click.progressbar(files, file=sys.stderr, label="Ingesting") as bar:
        yield from bar


@main.command()
@_warehouse_option
@_output_options
def captures(db: str, format: str, output: str | None, force: bool) -> None:
    """List the captures of a warehouse.

    \b
    etq captures --db lab.duckdb
    """
    from etq.warehouse import open

    with open(db, read_only=True) as warehouse:
        write(warehouse.captures(), format, output, force=force)


def _view_command(name: str, view: str, text: str, query: str = "FROM {view}", schedule: bool = True) -> None:
    """Make the command `etq NAME CAPTURE` that prints a view."""

    def command(
        capture: str, db: str, unit: str | None, format: str, output: str | None, force: bool, **options: Any
    ) -> None:
        _show_view(view, capture, db, (format, output, force), query=query, unit=unit, **options)

    command.__doc__ = f"{text}\n\nCAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file.\n\n"
    command.__doc__ += f"\b\netq {name} run --db lab.duckdb\netq {name} run.etdp --format json"
    decorated: Callable[..., Any] = _output_options(_unit_option(None)(_warehouse_option(command)))
    if schedule:
        decorated = _schedule_options(decorated)
    if view == "op_totals":
        decorated = click.option("--by", type=click.Choice(["family", "label", "instance"]), help="What is one op.")(
            decorated
        )
    if view == "framework_tax":
        decorated = click.option("--baseline", metavar="CAPTURE", help="The same program at level method_only.")(
            decorated
        )
    main.command(name)(click.argument("capture")(decorated))


_view_command(
    "events",
    "inspector_events",
    "Show a capture's events with statistics over their runs.",
    """SELECT i.block_index, i.event_block_name, i.slot, i.occurrence, i.event_name, i.instruction_id, i.p10, i.p50,
    i.p90, i.avg, i.min, i.max, i.unit FROM {view} AS i""",
)
_view_command("ops", "op_totals", "Show where the time of the executes went, op by op.")
_view_command("breakdown", "execute_breakdown", "Show what the time of the executes is made of.")
_view_command("tax", "framework_tax", "Show what each run costs beside its work.")
_view_command("load", "load_breakdown", "Show what loading and the first run cost.", schedule=False)
_view_command("delegates", "delegate_totals", "Show the delegates' calls, and what their own events explain of them.")


@main.command()
@click.argument("capture")
@_warehouse_option
@_output_options
def memory(capture: str, db: str, format: str, output: str | None, force: bool) -> None:
    """Show what each allocator allocated.

    \b
    etq memory run --db lab.duckdb
    """
    _show_view("memory_totals", capture, db, (format, output, force))


@main.command()
@click.argument("capture")
@click.option("-q", "--quantile", "quantiles", type=click.FloatRange(0, 1), multiple=True, help="May be repeated.")
@_unit_option(None)
@_schedule_options
@_warehouse_option
@_output_options
def percentiles(
    capture: str,
    quantiles: tuple[float, ...],
    unit: str | None,
    db: str,
    format: str,
    output: str | None,
    force: bool,
    **schedule: int | None,
) -> None:
    """Show any percentiles of a capture's events, a column each.

    \b
    etq percentiles run -q 0.5 -q 0.99 --db lab.duckdb
    """
    columns = ", ".join(
        f'max(p.value) FILTER (WHERE p.quantile = {quantile}) AS "p{100 * quantile:g}"'
        for quantile in quantiles or (0.1, 0.5, 0.9)
    )
    query = f"""
        SELECT p.block_index, p.event_block_name, p.slot, p.occurrence, p.event_name, p.runs, {columns}, p.unit
        FROM {{view}} AS p
        GROUP BY p.block_index, p.event_block_name, p.slot, p.occurrence, p.event_name, p.runs, p.unit
        ORDER BY p.block_index, p.slot, p.occurrence
    """
    given = {"quantiles": list(quantiles) or None, "unit": unit, **schedule}
    _show_view("percentiles", capture, db, (format, output, force), query=query, **given)


@main.command()
@click.argument("query")
@_warehouse_option
@_output_options
def sql(query: str, db: str, format: str, output: str | None, force: bool) -> None:
    """Ask the warehouse in SQL. It is opened for reading only.

    \b
    etq sql "FROM op_totals('run', unit := 'us') LIMIT 5" --db lab.duckdb
    """
    from etq.warehouse import open

    with open(db, read_only=True) as warehouse:
        relation = warehouse.sql(query)
        if relation is None:
            return
        write(relation, format, output, force=force)


@main.command()
@click.argument("name", required=False)
def views(name: str | None) -> None:
    """List all tables, views and macros, or document one: its columns and parameters.

    \b
    etq views
    etq views op_totals
    """
    from etq import catalog

    if name is None:
        rows = [[each.name, each.kind, each.text.split(". ")[0].rstrip(".")] for each in catalog.public_objects()]
        sys.stdout.write(table(["name", "kind", "what a row is"], rows, sys.stdout.isatty()))
        return
    found = catalog.objects().get(name)
    if found is None or not found.is_public:
        import difflib

        near = difflib.get_close_matches(name, [each.name for each in catalog.public_objects()])
        raise EtqError(f"no table, view or macro {name!r}" + (f"; the nearest are {', '.join(near)}" if near else ""))
    click.echo(f"{found.name} ({found.kind})\n\n{click.wrap_text(found.text, 100)}")
    for title, listed in (("Parameters", found.parameters), ("Columns", found.columns)):
        if listed:
            described = [[each.name, each.type or each.default or "", each.text] for each in listed]
            second = "type" if found.kind == "table" else "default" if title == "Parameters" else ""
            click.echo(f"\n{title}\n")
            sys.stdout.write(table([title[:-1].lower(), second, "meaning"], described, sys.stdout.isatty()))


@main.command()
@click.option("--db", metavar="FILE", help="Keep the warehouse there; by default it is in memory.")
def demo(db: str | None) -> None:
    """See etq work on captures that come with it: real runs of small models.

    \b
    etq demo
    etq demo --db demo.duckdb
    """
    from etq.demo import run

    run(db)
