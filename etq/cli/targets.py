"""The file or capture that a command is about, and notes about it."""

from __future__ import annotations

import glob
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from etq import catalog
from etq.choices import UNITS
from etq.cli.messages import say
from etq.cli.options import Decorated, classes_option, common_option, is_given
from etq.errors import EtqError, MissingFileError, QueryError, nearest_files, printable
from etq.render.progress import working

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Program, Record, Warehouse

Loaded = TypeVar("Loaded")
_FILE_ENDINGS: Final = (".etdp", ".bin", ".json", ".gz", ".etrecord", ".pte", ".pickle", ".pftrace", ".txt", ".log")


class FileOptions(NamedTuple):
    """Options for reading a file on the command line."""

    time_scale: str | None = None
    clock_bits: str | None = None
    etrecord: str | None = None
    debug_buffer: str | None = None
    pte: str | None = None
    graph_capture: tuple[str, ...] | None = None
    assume: str | None = None


def file_options(command: Decorated, without: Collection[str] = ()) -> Decorated:
    """Add options for a file, except those in `without`; captures in a warehouse got them when they were ingested."""
    for name, option in {
        "pte": common_option("--pte", metavar="FILE", help="For a file: its program."),
        "etrecord": common_option("--etrecord", metavar="FILE", help="For a file: the ETRecord of its program."),
        "clock_bits": common_option(
            "--clock-bits", type=click.Choice(["32", "64"]), help="For a file: width of the clock's counter in bits."
        ),
        "time_scale": common_option(
            "--time-scale", type=click.Choice(UNITS), help="For a file: unit of one tick.  [default: ns]"
        ),
        "graph_capture": graph_capture_option("For a trace", common_option),
        "assume": assume_option("For the file of a trace: sizes", common_option),
    }.items():
        if name not in without:
            command = option(command)
    return classes_option(command)


def not_for(view: str) -> Collection[str]:
    """Return the options of `file_options` that don't apply to files of the view's formats."""
    needs = next(iter(catalog.named(view).needs), "")
    return {"dump": ["graph_capture", "assume"], "torch_trace": ["pte"]}.get(needs, [])


def graph_capture_option(what: str, add: Any = click.option) -> Callable[[Decorated], Decorated]:
    """Return the option for traces in which graphs were captured."""
    option: Callable[[Decorated], Decorated] = add(
        "--graph-capture",
        metavar="TRACE",
        multiple=True,
        callback=lambda context, parameter, files: files or None,
        help=f"{what}: trace of the capture of its CUDA or HIP graphs, annotations of their kernels, or a folder; may "
        "be repeated.",
    )
    return option


def assume_option(what: str, add: Any = click.option) -> Callable[[Decorated], Decorated]:
    """Return the option for sizes that a trace lacks."""
    option: Callable[[Decorated], Decorated] = add(
        "--assume",
        metavar="SIZES",
        help=f"{what} that it lacks, such as top_k=4,experts=128. Costs that depend on them are marked.",
    )
    return option


def pop_file_options(options: dict[str, Any]) -> FileOptions:
    """Remove the options of `file_options` from a command's options and return them."""
    return FileOptions(**{name: options.pop(name, None) for name in FileOptions._fields})


def open_file(file: str, read_options: FileOptions, *, is_for_all_runs: bool = False) -> tuple[Warehouse, Capture]:
    """Load a file into a warehouse in memory, as `open_ephemeral` does; return both."""
    from etq.warehouse.ephemeral import open_ephemeral

    with working(f"Reading {file}", sys.stderr):
        warehouse, capture = open_ephemeral(
            file,
            time_scale=read_options.time_scale,  # type: ignore[arg-type]  # click has checked it
            clock_bits=None if read_options.clock_bits is None else int(read_options.clock_bits),  # type: ignore[arg-type]
            etrecord=read_options.etrecord,
            debug_buffer=read_options.debug_buffer,
            program=read_options.pte,
            graph_captures=read_options.graph_capture or (),
            assume=read_options.assume,
            is_for_all_runs=is_for_all_runs,
        )
    report_findings(warehouse, capture.capture_id)
    return warehouse, capture


def open_record(file: str) -> tuple[Warehouse, Record]:
    """Load an ETRecord into a warehouse in memory, and print the findings about it; return both."""
    from etq.warehouse.warehouse import open

    warehouse = open()
    record = warehouse.ingest_record(file)
    report_record_findings(warehouse, record)
    return warehouse, record


def open_program(file: str) -> tuple[Warehouse, Program]:
    """Load a program into a warehouse in memory; return both."""
    from etq.warehouse.warehouse import open

    warehouse = open()
    return warehouse, warehouse.ingest_program(file)


def open_unrun(file: str) -> tuple[Warehouse, Record | Program]:
    """Load an ETRecord or a program into a warehouse in memory; return both."""
    return open_record(file) if is_record(file) else open_program(file)


def opened(db: str) -> Warehouse:
    """Open a warehouse or a lake for reading. Raises `EtqError` if an argument of the command is a warehouse, or a file
    and the warehouse doesn't exist.
    """
    from etq.warehouse.warehouse import open

    for argument in _arguments():
        if os.path.isfile(argument):  # noqa: PTH113 - false for a text that is too long for a path
            refuse_warehouse(argument, "write")
            if not is_there(db):
                raise EtqError(f"{argument}: this command takes captures of a warehouse, not files; ingest it first")
    return open(db, read_only=True)


def _arguments() -> Iterator[str]:
    """Yield the words of the command line that belong to no option."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.params.get(parameter.name or "") if isinstance(parameter, click.Argument) else None
        yield from given if isinstance(given, tuple) else [given] if isinstance(given, str) else []


@contextmanager
def open_existing(db: str, *, read_only: bool = False) -> Iterator[Warehouse]:
    """Open an existing warehouse to change it. Raises `EtqError` if it doesn't exist: its name may be mistyped.

    In a lake, changes begun by killed commands are completed first.
    """
    from etq.database.connection import NONE_THERE, is_lake_path
    from etq.warehouse.warehouse import open

    if not is_there(db):
        raise EtqError(f"{db}: {NONE_THERE.format(db)}")
    with open(db, read_only=read_only) as warehouse:
        if not is_lake_path(db) or read_only:
            yield warehouse
            return
        from etq.lake.reading.tables import Lake
        from etq.lake.writing.loads import finish

        with without_panics():
            finish(Lake.at(db))
            yield warehouse


@contextmanager
def without_panics() -> Iterator[None]:
    """Hide what deltalake's threads print when a disk is full, because the raised error says the same in one line."""
    with os.fdopen(os.dup(2), "w", errors="backslashreplace") as kept, open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
        try:
            with redirect_stderr(kept if sys.stderr is sys.__stderr__ else sys.stderr):
                yield
        finally:
            os.dup2(kept.fileno(), 2)


def is_there(db: str) -> bool:
    """Whether a warehouse exists; a lake in an object store only shows it when it is opened."""
    return "://" in db or os.path.exists(db)


def is_warehouse(argument: str) -> bool:
    """Whether an argument is the path or address of a warehouse or a lake."""
    if "://" in argument or Path(argument, "captures", "_delta_log").is_dir():
        return True
    if not Path(argument).is_file():
        return False
    with Path(argument).open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def refuse_warehouse(argument: str, instead: str = "name a capture and") -> None:
    """Raise `EtqError` for a warehouse given as a capture, with what to do `instead`."""
    if argument.startswith(("http://", "https://")):
        opened(argument)  # raises an error
    if is_warehouse(argument):
        named = f"--db {shlex.quote(argument)}"
        raise EtqError(f"{argument}: a warehouse; {instead} {named}; etq captures {named} lists them")


def is_file(capture: str, db: str) -> bool:
    """Whether an argument names an existing file; a plain word is a capture's name if the warehouse exists.

    Raises `click.UsageError` for a file beside --db.
    """
    is_path = os.sep in capture or "." in capture
    is_one = os.path.exists(capture) and (is_path or not is_there(db))
    if is_one:
        refuse_db(capture)
    return is_one


def is_folder(argument: str) -> bool:
    """Whether an argument names a folder of files; with --db, a plain word is a name of captures."""
    is_default = click.get_current_context().get_parameter_source("db") is ParameterSource.DEFAULT
    return os.path.isdir(argument) and (os.sep in argument or is_default)


def command_about(*words: str) -> str:
    """Return the line of another command about the same capture, with the same options for files, the warehouse and
    runs.
    """
    context = click.get_current_context()
    line = ["etq", *words, context.params["capture"]]
    for name in ("db", *FileOptions._fields, "unit", "steps", "phase", "method"):
        if is_given(name):
            given = context.params[name]
            line += [
                word
                for value in (given if isinstance(given, tuple) else [given])
                for word in (f"--{name.replace('_', '-')}", str(value))
            ]
    return printable(shlex.join(line))


def refuse_db(file: str) -> None:
    """Raise `click.UsageError` if the command line has --db, too."""
    if is_given("db"):
        raise click.UsageError(f"{file} and --db: give a file or a warehouse, not both")


def check_path(argument: str, db: str) -> None:
    """Raise `EtqError` for standard input; `MissingFileError` for a path without a file, and for the path of a file
    without its ending, if the default warehouse doesn't exist: then it can't be the name of a capture either.
    """
    if argument == "-":
        raise EtqError("-: standard input isn't read; save it as a file, and name that")
    if is_given("db") or is_there(db) or os.path.exists(argument):
        return
    if looks_like_path(argument) or glob.glob(f"{glob.escape(argument)}.*"):  # noqa: PTH207 - of a name with folders
        raise MissingFileError(argument)


def looks_like_path(argument: str) -> bool:
    """Whether an argument looks like a path, not a name or labels."""
    return "=" not in argument and (os.sep in argument or argument.endswith(_FILE_ENDINGS))


def is_record(argument: str) -> bool:
    """Whether an argument is an ETRecord's file."""
    from etq.ingest.recognition import RECORD, kind_of

    return kind_of(argument) == RECORD


def is_unrun(argument: str) -> bool:
    """Whether an argument is an ETRecord's or a program's file."""
    from etq.ingest.recognition import PROGRAM, RECORD, kind_of

    return kind_of(argument) in (RECORD, PROGRAM)


@contextmanager
def open_file_or_warehouse(
    argument: str, db: str, load: Callable[[str], tuple[Warehouse, Loaded]]
) -> Iterator[tuple[Warehouse, Loaded | None]]:
    """If an argument names a file, provide a warehouse in memory, and the result of `load`, which loads the file into
    it; otherwise the existing warehouse, and None.
    """
    refuse_warehouse(argument)
    if is_file(argument, db):
        warehouse, loaded = load(argument)
        with warehouse:
            yield warehouse, loaded
    else:
        check_path(argument, db)
        with opened(db) as warehouse:
            yield warehouse, None


@contextmanager
def open_graphs(base: str, new: str, db: str) -> Iterator[tuple[Warehouse, str, str]]:
    """Provide the warehouse and two sides with graphs; files of records are loaded into a warehouse in memory."""
    are_files = [is_record(side) for side in (base, new)]
    for side, is_one in zip((base, new), are_files, strict=True):
        check_path(side, "" if any(are_files) else db)
        if not is_one and is_file(side, db):
            raise EtqError(f"{side}: not an ETRecord; name two ETRecords, or two captures of a warehouse")
    if any(are_files) and not all(are_files):
        raise EtqError(f"{base} and {new}: one is a file and the other is not; name two files, or ingest the file")
    with open_file_or_warehouse(base, db, open_record) as (warehouse, record):
        if record is None:
            yield warehouse, base, new
            return
        other = warehouse.ingest_record(new)
        if other.is_new:
            report_record_findings(warehouse, other)
        yield warehouse, record.name, other.name


@contextmanager
def open_target(capture: str, db: str, read_options: FileOptions) -> Iterator[tuple[Warehouse, Capture]]:
    """Provide a warehouse and the capture in it that an argument names; a file is loaded into a warehouse in memory."""
    names = [f"--{name.replace('_', '-')}" for name, value in read_options._asdict().items() if value is not None]
    if names and not is_file(capture, db):
        check_path(capture, db)
        raise EtqError(
            f"{capture} is not a file{nearest_files(capture)}; only files take {' and '.join(names)}: to change a "
            f"stored capture, ingest its file again: etq ingest FILE {names[0]} ..."
        )
    with open_file_or_warehouse(capture, db, lambda file: open_file(file, read_options)) as (warehouse, loaded):
        yield warehouse, loaded or warehouse.capture(capture)


def use_named_view(warehouse: Warehouse, selectors: Sequence[str | None], columns: Collection[str]) -> None:
    """Apply the order and the columns of the named view whose name begins a selector to a table with these columns.

    Options of the command override the view. Columns that the table lacks are left out.
    """
    from etq.annotations.named_views import find
    from etq.render.display import show_as
    from etq.render.selection import selection
    from etq.render.table import title

    with warehouse.locked() as connection:
        view = next(filter(None, (find(connection, each) for each in selectors if each is not None)), None)
    if view is None:
        return
    known, given = {*columns, *map(title, columns)}, selection.get()
    shown = tuple(name for name in view.shown or () if name in known) or None
    if given.columns is None and shown is not None:
        given = given._replace(columns=shown)
        show_as(is_wide=True)
    if given.sort_by is None and view.sort_by in known:
        given = given._replace(sort_by=view.sort_by)
    selection.set(given)  # until the command ends, whose options reset it


def report_unmatched(warehouse: Warehouse, selectors: Sequence[str]) -> None:
    """Print a note with the reason about each selector that no capture matches."""
    query = """SELECT DISTINCT g.selector FROM (SELECT unnest($selectors::VARCHAR[]) AS selector) AS g,
        LATERAL (FROM _matching_captures(g.selector))"""
    selectors = [warehouse.expanded(selector) for selector in selectors]
    matched = {selector for (selector,) in warehouse.rows(query, selectors=selectors)[1]}
    for selector in selectors:
        if selector not in matched:
            try:
                warehouse.capture(selector)
            except QueryError as error:
                say(f"Note: {error}")


def report_findings(warehouse: Warehouse, capture_id: int) -> None:
    """Print the findings about a capture; if a record is of another program, this is a warning."""
    for rule, detail in findings_of(warehouse, capture_id):
        _report(rule, detail)


def findings_of(warehouse: Warehouse, capture_id: int) -> list[tuple[str, str]]:
    """Return the rule and detail of each finding about a capture."""
    query = "SELECT f.rule, f.detail FROM findings AS f WHERE f.capture_id = $key"
    return [(rule, detail) for rule, detail in warehouse.rows(query, key=capture_id)[1]]


def report_warnings(warehouse: Warehouse, capture: Capture) -> None:
    """Print a warning if a capture's record or program belongs to another program."""
    for rule, detail in findings_of(warehouse, capture.capture_id):
        if rule.startswith("foreign "):
            _report(rule, detail, capture.name)


def report_record_findings(warehouse: Warehouse, record: Record) -> None:
    """Print the findings about a record."""
    query = "SELECT f.rule, f.detail FROM record_findings AS f WHERE f.record_id = $key"
    for rule, detail in warehouse.rows(query, key=record.record_id)[1]:
        _report(rule, detail, record.name)


def _report(rule: str, detail: str, name: str | None = None) -> None:
    word = "Warning" if rule.startswith("foreign ") else "Note"
    text = f"{word}: {rule}: {detail}" if name is None else f"{word}: {name}: {rule}: {detail}"
    say(text, bold=True if word == "Warning" else None)
