"""Commands about the SQL interface: queries, the list of views, the demo."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import click

from etq import confined
from etq.cli import ARGUMENTS, main
from etq.cli.commands import refuse_command
from etq.cli.interrupts import cancelled_by
from etq.cli.options import is_given, output_options, warehouse_option
from etq.cli.targets import opened
from etq.database.limits import SAFE_MEGABYTES, SAFE_SECONDS, limits, set_limits
from etq.errors import EtqError, QueryError, place_in
from etq.render.progress import working
from etq.render.terminal import style_of
from etq.render.writers import Output, write_each, write_rows

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

# The longest text of statements.
_LONGEST: Final = 2**24


@main.command()
@click.argument("query", required=False)
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("-f", "--file", metavar="FILE", help="Read the statements from a file; - is stdin.")
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    help="Engine that runs the query.  [default: duckdb]",
)
@click.option("--lake", metavar="DIR", help="With --engine spark: the lake to query.")
@click.option(
    "--captures", metavar="SELECTOR", help="With --engine spark: run the query for each of these captures, as $capture."
)
@click.option("--external-access", is_flag=True, help="Allow the query to read and write other files.")
@click.option("--safe", is_flag=True, help="For SQL that isn't trusted: one SELECT, within limits (10 s, 512 MB).")
@warehouse_option
@output_options
def sql(
    query: str | None,
    files: tuple[str, ...],
    file: str | None,
    engine: str,
    lake: str | None,
    captures: str | None,
    external_access: bool,
    safe: bool,
    db: str,
    output: Output,
) -> None:
    """Run SQL queries on a warehouse, a lake or files.

    The warehouse or lake of --db is opened for reading only. With --engine spark, Spark queries the lake of --lake.
    FILE is a profiling file, a folder or a pattern: each file is a capture with its name, and nothing is stored.

    Without QUERY, statements are read from stdin, on a terminal with a prompt. The result of each is printed. At the
    prompt, each line of statements opens the warehouse again, so others can write between them.

    \b
    etq sql "FROM op_totals('run', unit := 'us') LIMIT 5" --db lab.duckdb
    etq sql "SELECT name, captured_at FROM captures" --format csv -o captures.csv
    etq sql "SELECT name, op, total FROM captures JOIN all_op_totals USING (capture_id)" *.etdp
    etq sql --db lab.duckdb
    etq sql -f questions.sql --db lab.duckdb
    etq sql "FROM regressions('device=pixel8')" --engine spark --lake fleet
    etq sql 'FROM op_totals($capture)' --captures model=mlp --engine spark --lake fleet
    etq sql --external-access "FROM captures JOIN 'devices.csv' USING (name)"
    etq sql --safe "SELECT count(*) FROM events" --seconds 2 --megabytes 256
    """
    if (engine == "spark") != (lake is not None):
        raise click.UsageError("--engine spark and --lake DIR need each other")
    seconds, megabytes = limits().query_seconds, limits().query_megabytes
    if lake is None and captures is not None:
        raise click.UsageError("--captures needs --engine spark")
    if files and (lake is not None or is_given("db")):
        raise click.UsageError("FILE can't be used with --db or --lake: the captures are those of the files")
    if external_access and safe:
        raise click.UsageError("--external-access can't be used with --safe")
    if lake is not None and (external_access or safe or seconds is not None):
        raise click.UsageError("--external-access, --safe and --seconds can't be used with --engine spark")

    def source() -> Warehouse:
        from etq.warehouse.warehouse import open

        if files:
            return _read(files, external_access=external_access)
        return open(db, read_only=True, external_access=external_access)

    def answer(statements: str) -> int:
        if lake is not None:
            from etq.spark.local import rows_of

            columns, rows = rows_of(lake, statements, captures, megabytes)
            write_rows(columns, rows, output)
        elif confined.given() is not None:
            set_limits(query_megabytes=megabytes or SAFE_MEGABYTES)
            with source() as warehouse:
                columns, rows = warehouse.safe_sql(statements, seconds=seconds or SAFE_SECONDS)
            write_rows(columns, rows, output)
        elif safe:
            return _confined(statements, seconds or SAFE_SECONDS, megabytes or SAFE_MEGABYTES, has_files=bool(files))
        else:
            _answer(source, statements, output, external_access=external_access)
        return 0

    if (given := confined.given()) is not None:
        answer(given)
    elif query is None and file is None and lake is None and output.path is None and is_prompt():
        _prompt(db, answer)
    else:
        sys.exit(answer(_query(query, file)))


def _confined(statements: str, seconds: float, megabytes: int, *, has_files: bool) -> int:
    """Run this command with these statements in a confined process; return its exit status."""
    from etq.ingest.memory import available

    context = click.get_current_context()
    to_read = available() >> 21 if has_files else 0
    try:
        sys.stdout.fileno()
    except OSError:  # a caller in Python
        shown = None
    else:
        shown = sys.stdout
    asked = confined.ask(
        "etq.__main__",
        context.meta[ARGUMENTS],
        statements,
        seconds=seconds,
        megabytes=megabytes,
        beside=to_read,
        output=shown,
    )
    click.echo(asked.stdout or "", nl=False)
    click.echo(asked.stderr or "", nl=False, err=True)
    return asked.returncode


def is_prompt() -> bool:
    """Whether a person types and reads: stdin and stdout are terminals."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _prompt(db: str, answer: Callable[[str], object]) -> None:
    from etq.cli.prompt import run_prompt

    with opened(db) as warehouse:
        names = [name for (name,) in warehouse.rows("SELECT k.name FROM captures AS k ORDER BY ALL LIMIT 500")[1]]
    run_prompt(answer, lambda name: show_views(name, Output()), names)


def _read(files: Sequence[str], *, external_access: bool) -> Warehouse:
    """Read files into a warehouse in memory; without `external_access`, queries can read nothing else."""
    from etq.database.connection import withdraw_access
    from etq.warehouse.ephemeral import read

    with working(f"Reading {files[0]}{' …' if len(files) > 1 else ''}", sys.stderr):
        warehouse = read(*files)
    if not external_access:
        withdraw_access(warehouse.connection)
    return warehouse


def _answer(source: Callable[[], Warehouse], statements: str, output: Output, *, external_access: bool) -> None:
    with source() as warehouse, cancelled_by(warehouse.connection.interrupt):
        try:
            write_each(warehouse, statements, output)
        except QueryError as error:
            from etq.database.connection import is_without_access

            if is_without_access(error.__cause__) and not external_access:
                raise QueryError(f"{error}; allow it with --external-access") from error
            if not error.place and isinstance(error.__cause__, Exception):
                error.place = place_in(statements, error.__cause__)
            raise


def _query(query: str | None, file: str | None) -> str:
    """Return the statements: from the command line, a file, or stdin."""
    if query is not None and file is not None:
        raise click.UsageError("QUERY and --file can't be used together")
    if query is not None and query != "-":
        if not query.strip():
            raise click.UsageError("the query is empty")
        if os.path.exists(query) or (query.endswith(".sql") and len(query.split()) == 1):
            how = "give statements with -f FILE, a warehouse with --db FILE, a profiling file after the query"
            raise click.UsageError(f"{query} names a file and is not a query: {how}")
        return _checked(query, "the query")
    if file in (None, "-"):
        if sys.stdin.isatty() and query is None and file is None:
            raise click.UsageError(
                "no query; give one: etq sql 'FROM captures', or statements in a file: -f FILE, or on stdin: -f -"
            )
        return _all(sys.stdin, "stdin")
    try:
        with Path(file).open(encoding="utf-8") as opened:
            return _all(opened, file)
    except UnicodeDecodeError as error:
        raise EtqError(f"{file}: not UTF-8 text") from error


def _all(opened: TextIO, name: str) -> str:
    """Return the text of a file, which may also be a pipe or a device without an end."""
    text = opened.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise EtqError(f"{name}: more than {_LONGEST:,} characters; give fewer statements")
    return _checked(text, name)


def _checked(text: str, name: str) -> str:
    """Return a text. Raises `EtqError` if it has bytes that aren't UTF-8, which arguments and stdin may have."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EtqError(f"{name}: not UTF-8 text") from error
    return text


@main.command()
@click.argument("name", required=False)
@output_options
def views(name: str | None, output: Output) -> None:
    """List all tables, views and macros, or document one. The documentation has columns and parameters, with units and
    the meaning of NULL.

    Query a view with parameters in etq sql as FROM NAME('capture', parameter := value).

    \b
    etq views
    etq views op_totals
    """
    show_views(name, output)


def show_views(name: str | None, output: Output) -> None:
    """Print the list of tables, views and macros, or the documentation of one. Raises `EtqError` for an unknown one."""
    from etq import catalog

    if name is None:
        rows = [[known.name, known.kind, known.summary] for known in catalog.public_objects()]
        write_rows(["name", "kind", "what a row is"], rows, output)
        return
    refuse_command(name)
    target = catalog.public_object(name)
    if output.is_screen:
        width = min(style_of(sys.stdout).width or 100, 100)
        click.echo(f"{target.name} ({target.kind})\n\n{click.wrap_text(target.text, width)}\n")
    listed = [("parameter", parameter) for parameter in target.parameters] + [
        ("column", column) for column in target.columns
    ]
    rows = [
        [part, documented.name, documented.type or documented.default or "", documented.text]
        for part, documented in listed
    ]
    columns = ["", "name", "type" if target.kind == "table" else "default", "meaning"]
    write_rows(columns, rows, output, long=["meaning"])


@main.command()
@click.option("--db", metavar="FILE", help="Keep the warehouse there; by default it is in memory.")
def demo(db: str | None) -> None:
    """Show an example with bundled captures of small models.

    \b
    etq demo
    etq demo --db demo.duckdb
    """
    from etq.demo import run

    run(db)
