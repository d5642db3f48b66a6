"""Commands about files: inspect, ingest, link."""

from __future__ import annotations

import atexit
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import click
from click.core import ParameterSource

from etq import catalog
from etq.choices import UNITS
from etq.cli import main
from etq.cli.jobs import note_ranks
from etq.cli.labels import check_pattern, found_options, parsed_labels
from etq.cli.messages import note_left_out, say
from etq.cli.no_rows import note_no_rows
from etq.cli.numbers import IntRange
from etq.cli.old_flags import inspect_as_before, old_flags, pop_old_flags
from etq.cli.options import check_alone, classes_option, output_options, step_options, unit_option, warehouse_option
from etq.cli.targets import (
    assume_option,
    file_options,
    findings_of,
    graph_capture_option,
    is_there,
    open_existing,
    open_file,
    pop_file_options,
    refuse_warehouse,
    report_findings,
    report_record_findings,
)
from etq.database.locking import refuse_open
from etq.errors import EtqError, MissingFileError, StoreError, WarehouseError, counted
from etq.ingest.found_files import found_files
from etq.ingest.memory import limit
from etq.ingest.stores import is_address
from etq.render.progress import Progress
from etq.render.writers import Output, write

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from etq.storage.again import Again
    from etq.warehouse.warehouse import Capture, Program, Record, Warehouse


# The columns that identify the events of a file.
_PLACE: Final = {"block_index", "slot"}
# Up to this many files, a command prints a line for each.
LISTED: Final = 20


@main.command()
@click.argument("file", metavar="FILE", type=str, required=False)
@partial(file_options, without=["graph_capture", "assume"])
@click.option("--repeats", type=click.Choice(["all", "last"]), help="Occurrences in a run: all, or only the last.")
@click.option("--all", "everything", is_flag=True, help="Show OPERATOR_CALL rows too.")
@unit_option("ms")
@step_options
@output_options
@old_flags
def inspect(
    file: str | None,
    repeats: str | None,
    everything: bool,
    unit: str | None,
    output: Output,
    **options: Any,
) -> None:
    """Show a file's events with statistics over their runs. The columns are the Inspector's. Nothing is stored.

    With the program's ETRecord, events have the ops and the module that they belong to.

    \b
    etq inspect run.etdp
    etq inspect run.etdp --etrecord model.etrecord
    etq inspect run.etdp --unit us --skip-first 5 --format csv -o run.csv
    etq inspect --etdump_path run.etdp --etrecord_path model.etrecord

    With the flags of executorch's inspector_cli, as in the last line, it prints what inspector_cli prints, even where
    that is wrong.
    """
    context = click.get_current_context()
    if (flags := pop_old_flags(context, options)) is not None:
        inspect_as_before(flags)
        return
    if file is None:
        raise click.MissingParameter(ctx=context, param=context.command.params[0])
    refuse_warehouse(file, "for its captures, use etq show inspector_events CAPTURE")
    read_options = pop_file_options(options)
    # The Inspector's unit is milliseconds, in which short times would be shown as 0.
    is_given = context.get_parameter_source("unit") is not ParameterSource.DEFAULT
    if read_options.time_scale == "cycles" or (not is_given and output.is_to_read):
        unit = None
    schedule = {name: value for name, value in {"repeats": repeats, **options}.items() if value is not None}
    view, joined = catalog.named("inspector_events"), ""
    if read_options.etrecord is not None:
        ops = catalog.named("event_ops")
        known = ", ".join({column.name for column in view.columns} & {column.name for column in ops.columns} - _PLACE)
        view = view.beside(ops)
        joined = f"LEFT JOIN (SELECT * EXCLUDE ({known}) FROM event_ops($capture)) USING ({', '.join(sorted(_PLACE))})"
    warehouse, capture = open_file(file, read_options, is_for_all_runs=True)
    with warehouse:
        query = f"""
        SELECT * EXCLUDE (raw, start_ticks)
        FROM inspector_events($capture{catalog.more_arguments(["unit", *schedule])}) {joined}
        WHERE $everything OR kind <> 'operator_call' ORDER BY block_index, slot, occurrence
        """
        parameters = {"capture": capture, "unit": unit, "everything": everything, **schedule}
        if not write(warehouse, query, output, view=view, needs_rows=True, **parameters):
            note_no_rows(warehouse, "inspector_events", file, capture, schedule)


# Options of `ingest` that need a single file.
_OF_ONE: Final = ("name", "debug_buffer", "graph_capture", "metrics")


def _moment(_: click.Context, __: click.Parameter, text: str | None) -> datetime | None:
    from etq.annotations.labels import moment_of

    return None if text is None else moment_of(text)


def _files_unless_again(context: click.Context, argument: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    """Raise `click.MissingParameter` if files are needed, but none is given."""
    if not files and not context.params.get("again") and not context.resilient_parsing:
        raise click.MissingParameter(ctx=context, param=argument)
    return files


def _not_verbose(context: click.Context, _: click.Parameter, is_quiet: bool) -> bool:
    """Raise `click.UsageError` if both -v and -q are given."""
    if is_quiet and context.params.get("verbose"):
        raise click.UsageError("--verbose and --quiet can't be used together")
    return is_quiet


def _limit_memory(context: click.Context, _: click.Parameter, megabytes: int | None) -> None:
    if megabytes is not None:
        context.call_on_close(partial(limit.reset, limit.set(megabytes * 10**6)))


@main.command()
@click.argument("files", metavar="FILE...", nargs=-1, type=str, callback=_files_unless_again)
@click.option("--name", help="Name of the capture; with one file only.")
@click.option(
    "--label", "labels", metavar="KEY=VALUE", multiple=True, callback=parsed_labels, help="A label; may be repeated."
)
@click.option("--job", metavar="NAME", help="The job that the files are ranks of: the label job.")
@found_options
@click.option(
    "--metrics", metavar="FILE", multiple=True, help="File of metrics to attach, too, as with etq label --metrics."
)
@click.option(
    "--captured-at",
    callback=_moment,
    metavar="TIME",
    help="Time of the measurement, in UTC if without an offset: 2026-05-01T12:00:00, or the day; by default that of a "
    "PyTorch trace.",
)
@click.option("--time-scale", type=click.Choice(UNITS), help="Unit of one tick.  [default: ns]")
@click.option("--clock-bits", type=click.Choice(["32", "64"]), help="Width of the clock's counter in bits.")
@click.option("--etrecord", metavar="FILE", help="The ETRecord of the files' program; it is ingested and linked.")
@click.option("--pte", metavar="FILE", help="The files' program; it is ingested and linked.")
@graph_capture_option("With one trace only")
@assume_option("For traces: sizes")
@click.option("--debug-buffer", metavar="FILE", help="Debug buffer with the logged values; with one file only.")
@click.option("--values", is_flag=True, help="Keep the values themselves, not only their statistics.")
@click.option(
    "--megabytes",
    type=IntRange(256, 2**20),
    expose_value=False,
    callback=_limit_memory,
    help="Memory limit of the process in MB: a file that needs more is refused.",
)
@click.option(
    "--reference",
    metavar="[GRAPH]",
    is_flag=False,
    flag_value="exported_program",
    help="Run a graph of an ETRecord and store the values of its ops.  [default graph: exported_program]",
)
@click.option(
    "--again",
    is_flag=True,
    is_eager=True,
    help="Read the files of all stored captures anew. FILE is then a folder in which they are, or its address in a "
    "store.  [default: here, and beside the warehouse]",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    is_eager=True,
    help="Show each file, also of more than 20, and each that was left out.",
)
@click.option("-q", "--quiet", is_flag=True, callback=_not_verbose, help="Show only errors and warnings.")
@classes_option
@warehouse_option
def ingest(
    files: tuple[str, ...],
    name: str | None,
    labels: dict[str, str],
    job: str | None,
    metrics: tuple[str, ...],
    captured_at: datetime | None,
    time_scale: str | None,
    clock_bits: str | None,
    etrecord: str | None,
    pte: str | None,
    graph_capture: tuple[str, ...] | None,
    assume: str | None,
    debug_buffer: str | None,
    values: bool,
    reference: str | None,
    again: bool,
    verbose: bool,
    quiet: bool,
    db: str,
    **label_options: Any,
) -> None:
    """Read profiling files into a warehouse. For a known file, only the options are applied.

    A file that can't be read is reported, and the others are still read; the exit status is then 1. From a folder, all
    profiling files in it and below are read, whatever their names, and a line lists what was left out; the traces of
    several ranks and workers get a label each. A pattern may be quoted. For more than 20 files, only failures and a
    line with totals are printed. FILE may be an address in an object store, also of a folder or with a pattern.

    A trace into which SGLang or TraceLens merged those of several ranks becomes a capture of each rank, unless it is
    given a --name.

    If several give a label, the first of these counts: --label, a sidecar (run.etdp.json or run.etdp.toml next to
    run.etdp), --label-from, --label-git. Only --label replaces labels of a known capture.

    With --reference, torch or executorch runs the program of model.etrecord on its representative inputs. The capture
    model-reference has the values; etq gap compares those of runtimes with them.

    With --again, each stored capture becomes what this version of etq reads from its file; labels, metrics, phases,
    comments and links stay. A capture whose file isn't found, or has other content, is listed and stays as it is. It
    takes a lake, too.

    \b
    etq ingest *.etdp --db lab.duckdb --label device=pixel8 --label build=41
    etq ingest --again --db lab.duckdb
    etq ingest lab/*/*/*.etdp --label-from '{model}/{device}/{build}.etdp' --label-git=.
    etq ingest traces/ --job train-7b
    etq ingest s3://lab/raw/
    etq ingest model.etrecord --reference
    """
    from etq.warehouse.warehouse import open

    if again:
        check_alone("--again", "db", "verbose", "quiet", "megabytes", "classes")
        _ingest_again(files, db, verbose=verbose, quiet=quiet)
        return
    if reference is not None:
        _ingest_reference(files, reference, name, db)
        return
    of_one = [option for option in _OF_ONE if click.get_current_context().params[option]]
    if len(files) > 1 and of_one:
        raise click.UsageError(f"--{of_one[0].replace('_', '-')} needs a single file")
    if values and debug_buffer is None:
        raise click.UsageError("--values needs --debug-buffer")
    if job is not None and labels.setdefault("job", job) != job:
        raise click.UsageError(f"--job {job} and --label job={labels['job']} differ")
    files, left = found_files(files)
    note_left_out([] if quiet else left, lists_all=verbose)
    if not any(is_address(file) or os.path.exists(file) for file in files):
        raise MissingFileError(files[0])
    check_pattern(label_options["label_from"], files)
    ingest_options: dict[str, Any] = {
        "labels": labels,
        "captured_at": captured_at,
        "time_scale": time_scale,
        "clock_bits": None if clock_bits is None else int(clock_bits),
        "assume": assume,
        **label_options,
    }
    with _NewWarehouse(db) as made, open(db) as warehouse:
        record = None if etrecord is None else warehouse.ingest_record(etrecord)
        program = None if pte is None else warehouse.ingest_program(pte)
        links = [link for link in (program, record) if link is not None]
        made.has_content = bool(links)
        if record is not None:
            report_record_findings(warehouse, record)
        if len(files) == 1:
            ingest_options |= {"name": name, "debug_buffer": debug_buffer, "keep_values": values, "metrics": metrics}
            ingest_options["graph_captures"] = graph_capture or ()
        is_read_again = bool(links or debug_buffer or graph_capture)
        applied = is_read_again or assume is not None
        applied |= any(value for option, value in ingest_options.items() if option != "sidecar")
        printed = _Printed(
            warehouse, made, len(files), is_read_again, name, applied=applied, verbose=verbose, quiet=quiet
        )
        of_ranks = {"labels": labels, "captured_at": captured_at, "assume": assume, **label_options}
        files = files if of_one else _without_merged(warehouse, files, of_ranks, printed)
        if len(files) == 1:
            _ingest_one(warehouse, files[0], links, printed, ingest_options)
        elif files:
            _ingest_many(warehouse, files, links, printed, ingest_options)
        if "job" in labels and not quiet:
            note_ranks(warehouse, labels["job"])
    printed.end()
    if printed.failed:
        sys.exit(1)


def _without_merged(
    warehouse: Warehouse, files: Sequence[str], options: Mapping[str, Any], printed: _Printed
) -> tuple[str, ...]:
    """Ingest the traces of several ranks, a capture for each rank, and print the results; return the other files."""
    from etq.ingest.recognition import has_several_ranks

    others = []
    for file in files:
        try:
            captures = warehouse.ingest_ranks(file, **options) if has_several_ranks(file) else []
        except StoreError:
            raise
        except EtqError as error:
            printed.result(file, error)
            continue
        for capture in captures:
            printed.result(capture.name, capture)
        if not captures:
            others.append(file)
    return tuple(others)


def _ingest_again(folders: tuple[str, ...], db: str, *, verbose: bool, quiet: bool) -> None:
    """Read the files of all stored captures anew, and print what became of them."""
    if missing := [folder for folder in folders if not is_address(folder) and not os.path.isdir(folder)]:
        raise EtqError(f"{missing[0]}: not a folder; --again takes folders in which the files of captures are")
    numbers = Counter[str]()
    with open_existing(db) as warehouse:
        [(count,)] = warehouse.rows("SELECT count(*) FROM captures")[1]
        with Progress("Reading anew", count, sys.stderr, is_quiet=quiet) as progress:

            def report(each: Again) -> None:
                what = "read anew" if each.left is None else "failed" if each.error is not None else "left as they are"
                numbers[what] += 1
                is_listed = each.left is not None or verbose or (count <= LISTED and not quiet)
                if is_listed:
                    progress.clear()
                    if each.error is not None:
                        say(f"Error: {each.capture.name}: stays as it is: {each.error}")
                    elif each.left is not None:
                        say(f"Note: {each.capture.name}: stays as it is: {each.left}")
                    else:
                        say(f"{each.capture.name}: read anew")
                progress.advance()

            warehouse.ingest_again(folders=folders, progress=report)
    if not quiet:
        say(f"{counted(count, 'capture')}: {', '.join(f'{number} {what}' for what, number in numbers.items())}")
    if numbers["failed"]:
        sys.exit(1)


def _ingest_reference(files: tuple[str, ...], graph: str, name: str | None, db: str) -> None:
    """Run the program of an ETRecord, and store its values as a capture."""
    from etq.torch.reference import reference_values
    from etq.warehouse.warehouse import open

    check_alone("--reference", "name", "db")
    if len(files) > 1:
        raise click.UsageError("--reference needs a single file, an ETRecord")
    values = reference_values(files[0], graph)
    with open(db) as warehouse:
        record = warehouse.ingest_record(files[0])
        capture = warehouse.ingest_reference(record, values, graph=graph, name=name)
        what = "ingested" if capture.is_new else "known already, options applied"
        say(f"{capture.name}: {what}, {counted(len(values), 'op')}")


def _ingest_one(
    warehouse: Warehouse, file: str, links: list[Record | Program], printed: _Printed, ingest_options: dict[str, Any]
) -> None:
    """Ingest one file, and print the result."""
    # A known capture may be renamed.
    names = dict(warehouse.rows("SELECT c.capture_id, c.name FROM captures AS c")[1])
    try:
        capture = warehouse.ingest(file, **ingest_options)
        for link in links:
            warehouse.link(capture, link)
    except EtqError as error:
        printed.result(file, error)
    else:
        printed.result(file, capture, names.get(capture.capture_id))


def _ingest_many(
    warehouse: Warehouse,
    files: tuple[str, ...],
    links: list[Record | Program],
    printed: _Printed,
    ingest_options: dict[str, Any],
) -> None:
    """Ingest files, and print the results."""
    with Progress("Ingesting", len(files), sys.stderr, is_quiet=printed.is_quiet) as progress:

        def report(file: object, result: Capture | EtqError) -> None:
            if printed.has_lines(result):
                progress.clear()
            printed.result(str(file), result)
            progress.advance()

        try:
            warehouse.ingest_many(files, link_to=links, progress=report, on_read=progress.begin, **ingest_options)
        except KeyboardInterrupt:
            progress.clear()
            say(f"Interrupted after {progress.done} of {counted(len(files), 'file')}")
            raise


class _NewWarehouse:
    """Removes the warehouse that this command created if it is interrupted before anything is stored.

    An interrupt during a long library call ends the process and runs only the functions registered for that.
    """

    def __init__(self, db: str) -> None:
        self._db, self.has_content = db, is_there(db)

    def __enter__(self) -> Self:
        atexit.register(self._remove)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        atexit.unregister(self._remove)
        if kind is KeyboardInterrupt:
            self._remove()

    def _remove(self) -> None:
        for path in () if self.has_content else (self._db, f"{self._db}.wal"):
            with suppress(OSError):
                Path(path).unlink()


class _Printed:
    """Prints the results of files: of each file, or, for more than `LISTED` files,
    only failures and a line with totals.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        made: _NewWarehouse,
        files: int,
        is_read_again: bool,
        given_name: str | None,
        *,
        applied: bool,
        verbose: bool,
        quiet: bool,
    ) -> None:
        self.is_quiet = quiet
        self._known = "known already, options applied" if applied else "known already"
        self._given_name = given_name
        self._made = made
        self._warehouse, self._files, self._is_read_again = warehouse, files, is_read_again
        self._lists = not quiet and (verbose or files <= LISTED)
        self._numbers = Counter[str]()
        self._rules = Counter[str]()

    @property
    def failed(self) -> int:
        """The number of files that could not be ingested."""
        return self._numbers["failed"]

    def has_lines(self, result: Capture | EtqError) -> bool:
        """Whether the result of a single file is printed before the end."""
        return self._lists or isinstance(result, EtqError)

    def result(self, file: str, result: Capture | EtqError, name: str | None = None) -> None:
        """Print the result of a file, or count it. `name` is the former name of its capture."""
        if isinstance(result, EtqError):
            self._numbers["failed"] += 1
            say(f"Error: {result!s}")
            return
        self._made.has_content = True
        self._numbers["new" if result.is_new else "known already"] += 1
        if self._lists:
            if result.is_new:
                text = f"{result.name}: ingested"
                if (stem := result.name.removesuffix(f"-{result.sha256[:12]}")) != result.name:
                    text += f", as other content has the name {stem}"
            elif name not in (None, result.name):
                text = f"{file}: known already as {name}, renamed to {result.name}"
            elif result.name == self._given_name or Path(file).name.startswith(Path(result.name).name):
                text = f"{result.name}: {self._known}"
            else:
                applied = self._known.removeprefix("known already")
                text = f"{file}: known already as {result.name}{applied}; --name renames it"
            say(text)
        if result.is_new or self._is_read_again:
            if self._lists:
                report_findings(self._warehouse, result.capture_id)
            else:
                self._rules.update({rule for rule, _ in findings_of(self._warehouse, result.capture_id)})

    def end(self) -> None:
        """Print the totals of all files."""
        for rule, number in self._rules.items():
            is_warning = rule.startswith("foreign ")
            if is_warning or not self.is_quiet:
                word = "Warning" if is_warning else "Note"
                files = f"{number} of {self._files} files" if self._files > 1 else "1 file"
                say(f"{word}: {files}: {rule}", bold=is_warning)
        if self._files <= LISTED:
            if self.failed and self._files > 1:
                say(f"{self.failed} of {self._files} files could not be ingested")
        elif not self.is_quiet:
            numbers = self._numbers
            shown = [f"{numbers[what]} {what}" for what in ("new", "known already", "failed") if numbers[what]]
            number = numbers.total() - self.failed
            captures = f", {number} captures" if number > self._files - self.failed else ""  # of merged traces
            say(f"{self._files} files{captures}: {', '.join(shown)}")


@main.command()
@click.argument("capture")
@click.argument("record")
@click.option("--force", is_flag=True, help="Link even a record of another program.")
@warehouse_option
def link(capture: str, record: str, force: bool, db: str) -> None:
    """Link a capture to its program's record. RECORD is a record's name or hash prefix, or a file.

    A file is an ETRecord, or the program itself (.pte), which has the methods of runs; it is ingested. It may be in an
    object store. Captures of a lake are linked, too.

    \b
    etq link run model.etrecord --db lab.duckdb
    """
    from etq.ingest.recognition import PROGRAM, kind_of
    from etq.warehouse.warehouse import Record

    with open_existing(db) as warehouse:
        target = warehouse.capture(capture)
        given = _record_or_file(warehouse, record)
        is_file = not isinstance(given, Record)
        is_program = is_file and kind_of(record) == PROGRAM
        before = _linked_before(warehouse, target, "program" if is_program else "record")
        try:
            linked = warehouse.link(target, given, force=force)
        except WarehouseError as error:
            stays = "" if before is None else f", and stays linked to {before}"
            raise EtqError(f"{target.name}: not linked{stays}: {error}; --force links it anyway") from error
        if is_file and isinstance(linked, Record):
            report_record_findings(warehouse, linked)
        report_findings(warehouse, target.capture_id)
        instead = "" if before in (None, linked.name) else f" instead of {before}"
        say(f"{target.name}: linked to {linked.name}{instead}")


def _linked_before(warehouse: Warehouse, capture: Capture, kind: str) -> str | None:
    """Return the name of the record or program that a new link replaces."""
    query = f"""
        SELECT r.name FROM captures AS c JOIN {kind}s AS r ON r.{kind}_id = c.{kind}_id WHERE c.capture_id = $capture
    """
    names = [name for (name,) in warehouse.rows(query, capture=capture.capture_id)[1]]
    return names[0] if names else None


def _record_or_file(warehouse: Warehouse, named: str) -> Record | Path | str:
    """Return a record, the path of a file, or its address in a store."""
    if is_address(named):
        return named
    if not Path(named).is_file():
        return warehouse.record(named)
    refuse_open(named)
    return Path(named)
