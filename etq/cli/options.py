"""Options that commands share, and how those that print a view go about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from etq.analysis.runs import check_method, has_one_method, left_out
from etq.choices import PHASES, RUNS, UNITS
from etq.cli.no_rows import naming_other_view, note_no_rows
from etq.errors import EtqError, printable
from etq.render.delimited import escaping_formulas
from etq.render.selection import Selection, selection
from etq.render.writers import FORMATS, TO_READ, format_of, write

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Record, Warehouse

DEFAULT_WAREHOUSE: Final = "etq.duckdb"
SCHEDULE: Final = {
    "skip_first": "Number of runs to leave out at the start.",
    "wait": "Number of runs of a cycle to leave out first.",
    "warmup": "Number of runs of a cycle to leave out after these.",
    "active": "Number of runs of a cycle to use after these.",
    "repeat": "Number of cycles; 0: up to the last run.",
    "skip_first_wait": "Not 0: skip the wait in the first cycle.",
}

Command = TypeVar("Command", bound=Callable[..., Any])


def warehouse_option(command: Command) -> Command:
    return click.option(
        "--db",
        metavar="FILE",
        envvar="ETQ_DB",
        default=DEFAULT_WAREHOUSE,
        help="The warehouse.  [default: $ETQ_DB, or etq.duckdb in this folder]",
    )(command)


def _escape_formulas(_: click.Context, __: click.Parameter, is_set: bool) -> None:
    escaping_formulas.set(is_set)


def _file_of_output(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    return None if path == "-" else path


def output_options(command: Command) -> Command:
    """Options of commands that print a table."""
    return row_options(file_output_options(command))


def file_output_options(command: Command) -> Command:
    """The format and file of what a command prints."""
    text = "In CSV and TSV: put an apostrophe before texts that begin like formulas."
    command = click.option("--escape-formulas", is_flag=True, expose_value=False, callback=_escape_formulas, help=text)(
        command
    )
    command = click.option("--force", is_flag=True, help="Overwrite an existing file of -o.")(command)
    text = "Write to that file instead of stdout (-)."
    command = click.option("-o", "--output", metavar="FILE", callback=_file_of_output, help=text)(command)
    text = "Format of the output.  [default: by the ending of -o, else table]"
    return click.option("--format", "format", type=click.Choice(FORMATS), help=text)(command)


def row_options(command: Command) -> Command:
    """Which rows of a table are printed, and in which order."""
    text = "Sort by that column: numbers from the largest, texts from A to Z."
    command = click.option("--sort-by", metavar="COLUMN", expose_value=False, callback=_sort_by, help=text)(command)
    return limit_option(command)


def limit_option(command: Command) -> Command:
    """The number of rows of a table, for a command that sorts itself."""
    text = "Show only the first N."
    return click.option("--limit", type=click.IntRange(1), metavar="N", expose_value=False, callback=_limit, help=text)(
        command
    )


def _limit(context: click.Context, _: click.Parameter, limit: int | None) -> None:
    if limit is not None:
        _select(context, replace(selection.get(), limit=limit))


def _sort_by(context: click.Context, _: click.Parameter, column: str | None) -> None:
    if column is not None:
        _select(context, replace(selection.get(), sort_by=column))


def _select(context: click.Context, chosen: Selection) -> None:
    """Select rows of what this command prints."""
    token = selection.set(chosen)
    context.call_on_close(lambda: selection.reset(token))


def unit_option(default: str | None) -> Callable[[Command], Command]:
    text = "ms" if default else "us; cycles where ticks are cycles"
    return click.option("--unit", type=click.Choice(UNITS), default=default, help=f"Unit of times.  [default: {text}]")


def schedule_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that select runs of a capture."""
    text = "Only runs of that phase, as set with `etq phase`."
    return step_options(click.option("--phase", type=click.Choice(PHASES), help=text)(command))


def method_option(command: Command) -> Command:
    return click.option("--method", metavar="METHOD", help="Only runs of that method.")(command)


def runs_option(default: str) -> Callable[[Command], Command]:
    text = f"Only typical runs, which took about as long as most of their kind, or all.  [default: {default}]"
    return click.option("--runs", type=click.Choice(RUNS), help=text)


def run_options(runs: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options that select runs of a capture: by schedule, phase, method, and --runs with this default, unless None."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return schedule_options(method_option(command if runs is None else runs_option(runs)(command)))

    return decorate


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that select runs of a capture or a file; the command gets them as `steps`, the text that views take."""

    @wraps(command)
    def with_steps(*args: Any, **options: Any) -> Any:
        numbers = {name: options.pop(name) for name in SCHEDULE}
        pairs = [f"{name}={number}" for name, number in numbers.items() if number is not None]
        return command(*args, steps=",".join(pairs) or None, **options)

    decorated: Callable[..., Any] = with_steps
    for name, text in reversed(SCHEDULE.items()):
        decorated = click.option(f"--{name.replace('_', '-')}", type=click.IntRange(0), help=text)(decorated)
    return decorated


def percentage(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Parse a percentage: 3% and 0.03 are both 0.03."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a fraction; write 3% or 0.03") from None
    if not text.endswith("%") and value >= 1:
        raise click.BadParameter(f"{text} would be {value:.0%} of a time; did you mean {text}%?")
    if not 0 <= value < 10:
        raise click.BadParameter(f"{text} is not a fraction of a time; write 3% or 0.03")
    return value


@dataclass(frozen=True)
class FileOptions:
    """Options for a file that is read on the command line."""

    time_scale: str | None = None
    clock_bits: str | None = None
    etrecord: str | None = None
    debug_buffer: str | None = None
    pte: str | None = None


def file_options(command: Command) -> Command:
    """Options for a file; a capture in a warehouse has them from its ingest."""
    for option in (
        click.option("--etrecord", metavar="FILE", help="For a file: the ETRecord of its program."),
        click.option(
            "--clock-bits", type=click.Choice(["32", "64"]), help="For a file: width of the clock's counter in bits."
        ),
        click.option("--time-scale", type=click.Choice(UNITS), help="For a file: unit of one tick.  [default: ns]"),
    ):
        command = option(command)
    return command


def pop_file_options(options: dict[str, Any]) -> FileOptions:
    """The options of `file_options`, removed from a command's."""
    return FileOptions(**{field.name: options.pop(field.name, None) for field in fields(FileOptions)})


def open_file(file: str, views: list[str], read_options: FileOptions) -> tuple[Warehouse, Capture]:
    """Load a file into a warehouse in memory that has these views."""
    from etq.warehouse.ephemeral import open_ephemeral

    warehouse, capture = open_ephemeral(
        file,
        views,
        time_scale=read_options.time_scale,  # type: ignore[arg-type]  # click has checked it
        clock_bits=None if read_options.clock_bits is None else int(read_options.clock_bits),  # type: ignore[arg-type]
        etrecord=read_options.etrecord,
        debug_buffer=read_options.debug_buffer,
        program=read_options.pte,
    )
    report_findings(warehouse, capture.capture_id)
    return warehouse, capture


@contextmanager
def open_existing(db: str, *, read_only: bool = False) -> Iterator[Warehouse]:
    """Open a warehouse that exists, to change it. Raises `EtqError` if it doesn't: its name may be mistyped."""
    from etq.database.connection import NONE_THERE
    from etq.warehouse.warehouse import open

    if not os.path.exists(db):
        raise EtqError(f"{db}: {NONE_THERE.format(db)}")
    with open(db, read_only=read_only) as warehouse:
        yield warehouse


def is_file(capture: str, db: str) -> bool:
    """Whether an argument names a file: one that exists, unless it is a plain word and the warehouse exists."""
    is_path = os.sep in capture or "." in capture
    return os.path.exists(capture) and (is_path or not os.path.exists(db))


def is_record(argument: str) -> bool:
    """Whether an argument is a file that begins like a zip archive, as ETRecords do."""
    if not Path(argument).is_file():
        return False
    with Path(argument).open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


@contextmanager
def open_target(capture: str, db: str, views: list[str], read_options: FileOptions) -> Iterator[tuple[Warehouse, str]]:
    """A warehouse that holds the capture, and its name there; a file is loaded into one in memory."""
    from etq.warehouse.warehouse import open

    if is_file(capture, db):
        warehouse, target = open_file(capture, views, read_options)
        with warehouse:
            yield warehouse, target.sha256
    elif not os.path.exists(db) and (os.sep in capture or capture.endswith((".etdp", ".bin"))):
        raise EtqError(f"{capture}: no such file")
    else:
        names = [f"--{name.replace('_', '-')}" for name, value in asdict(read_options).items() if value is not None]
        if names:
            verb = "applies" if len(names) == 1 else "apply"
            raise EtqError(f"{capture} is not a file; {' and '.join(names)} only {verb} to files")
        with open(db, read_only=True) as warehouse:
            yield warehouse, capture


def check_phase(warehouse: Warehouse, selector: str, phase: str | None) -> None:
    """Raise `EtqError` for a phase of a file, which has none, and print a note if no run of a capture has the phase."""
    if phase is None:
        return
    if warehouse.path is None:
        raise EtqError("files have no phases; ingest the file and set the phases of its runs with etq phase")
    query = """SELECT count(*) FROM runs AS r
        WHERE r.capture_id = _capture_id($capture) AND r.phase = $phase"""
    if warehouse.rows(query, capture=selector, phase=phase)[1] == [(0,)]:
        click.echo(
            f"Note: no run of {printable(selector)} is of phase {phase}; set phases of runs with etq phase", err=True
        )


def note_excluded_runs(warehouse: Warehouse, selector: str, view: str, options: Mapping[str, Any]) -> None:
    """Print how many runs a view leaves out as not typical, and what they would change."""
    takes_typical = options.get("runs") != "all" and _takes_typical(view)
    others = left_out(warehouse, selector, options) if takes_typical else None
    if others is not None:
        slow = "; etq slow shows what slow runs do differently" if others.slower else ""
        click.echo(f"Note: {others.text}; --runs all counts all{slow}", err=True)


def _attach_baseline(warehouse: Warehouse, baseline: str, capture: str, read_options: FileOptions) -> str:
    """Load a baseline that is a file into the warehouse in memory that holds the capture."""
    if warehouse.path is not None:
        raise EtqError(f"{baseline} is a file and {capture} is not; ingest the baseline, too")
    return warehouse.attach_second(baseline, time_scale=read_options.time_scale).sha256


def report_findings(warehouse: Warehouse, capture_id: int) -> None:
    """Print the findings about a capture; that its record is another program's, as a warning."""
    for rule, detail in findings_of(warehouse, capture_id):
        _report(rule, detail)


def findings_of(warehouse: Warehouse, capture_id: int) -> list[tuple[str, str]]:
    """The rule and detail of each finding about a capture."""
    query = "SELECT f.rule, f.detail FROM findings AS f WHERE f.capture_id = ?"
    return warehouse.connection.execute(query, [capture_id]).fetchall()


def report_warnings(warehouse: Warehouse, capture: Capture) -> None:
    """Print a warning if a capture's record or program is another program's."""
    query = "SELECT f.rule, f.detail FROM findings AS f WHERE f.capture_id = ? AND starts_with(f.rule, 'foreign ')"
    for rule, detail in warehouse.connection.execute(query, [capture.capture_id]).fetchall():
        _report(rule, detail, capture.name)


def report_record_findings(warehouse: Warehouse, record: Record) -> None:
    """Print the findings about a record."""
    query = "SELECT f.rule, f.detail FROM record_findings AS f WHERE f.record_id = ?"
    for rule, detail in warehouse.connection.execute(query, [record.record_id]).fetchall():
        _report(rule, detail, record.name)


def _report(rule: str, detail: str, name: str | None = None) -> None:
    word = "Warning" if rule.startswith("foreign ") else "Note"
    text = f"{word}: {rule}: {detail}" if name is None else f"{word}: {name}: {rule}: {detail}"
    click.secho(printable(text), err=True, bold=word == "Warning")


def show_view(
    view: str,
    capture: str,
    db: str,
    output: tuple[str | None, str | None, bool],
    read_options: FileOptions,
    *,
    query: str = "FROM {view}",
    people_query: str | None = None,
    long: Collection[str] = (),
    **options: Any,
) -> None:
    """Print a view of a capture.

    query         query of the output, with {view} for the call of the view
    people_query  query for a terminal, instead of `query`
    long          columns of long texts, see `write`
    """
    baseline = options.get("baseline")
    with open_target(capture, db, views_for(view), read_options) as (warehouse, selector):
        if baseline is not None and Path(baseline).is_file():
            options["baseline"] = _attach_baseline(warehouse, baseline, capture, read_options)
        check_runs(warehouse, selector, options)
        parameters = {"capture": selector, **{name: value for name, value in options.items() if value is not None}}
        arguments = ", ".join("$capture" if name == "capture" else f'"{name}" := ${name}' for name in parameters)
        is_for_people = (output[0] or format_of(output[1])) in TO_READ
        statement = (people_query if people_query is not None and is_for_people else query).format(
            view=f"{view}({arguments})"
        )
        if is_for_people:
            statement = without_method(warehouse, selector, view, statement)
        with naming_other_view(warehouse, view, selector):
            has_rows = write(warehouse, statement, output[0], output[1], force=output[2], long=long, **parameters)
        if not has_rows:
            note_no_rows(warehouse, view, capture, selector, options)
        note_excluded_runs(warehouse, selector, view, options)


def views_for(view: str) -> list[str]:
    """A view, with those that `note_excluded_runs` and `without_method` query."""
    parameters = _defaults(view)
    about_method = [] if "method" not in parameters else ["runs", "signatures"]
    about_steps = ["_is_recorded"] if "steps" in parameters else []
    return [view, *about_method, *about_steps, *(["typical_runs"] if _takes_typical(view) else [])]


def _defaults(view: str) -> dict[str, str | None]:
    from etq import catalog

    return {each.name: each.default for each in catalog.named(view).parameters}


def _takes_typical(view: str) -> bool:
    return _defaults(view).get("runs") == "'typical'"


def check_runs(warehouse: Warehouse, selector: str, options: Mapping[str, Any]) -> None:
    """Raise `EtqError` for a phase of a file and for an unknown method; print a note for a phase without runs."""
    check_phase(warehouse, selector, options.get("phase"))
    check_method(warehouse, selector, options.get("method"))


def without_method(warehouse: Warehouse, selector: str, view: str, query: str) -> str:
    """A query of a view for people, without the column `method` if the capture has only one."""
    from etq import catalog

    has_column = any(each.name == "method" for each in catalog.named(view).columns)
    if not has_column or "method" not in _defaults(view) or not has_one_method(warehouse, selector):
        return query
    return f"SELECT * EXCLUDE (method) FROM ({query})"
