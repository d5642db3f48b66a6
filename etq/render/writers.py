"""Writes results: as text tables for people; as CSV, TSV, JSON, Markdown, Parquet and Arrow for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from etq import catalog
from etq.database.publishing import new_file
from etq.database.temporary import temporary_folder
from etq.errors import EtqError, QueryError, displayed, message_of, place_in, printable_lines
from etq.render.delimited import DELIMITERS, delimited, write_delimited
from etq.render.display import display, shown_as
from etq.render.markdown import markdown_parts
from etq.render.pager import paged
from etq.render.selection import selection
from etq.render.table import Rows, fits, note, shown, table_parts, title
from etq.render.terminal import PLAIN, TerminalStyle, style_of
from etq.render.times import in_one_unit

if TYPE_CHECKING:
    import duckdb

    from etq.database.handles import Answers

FORMATS: Final = ("table", "csv", "tsv", "json", "markdown", "parquet", "arrow")
# Formats for people.
TO_READ: Final = ("table", "markdown")
SUFFIXES: Final = {
    ".csv": "csv", ".tsv": "tsv", ".json": "json", ".md": "markdown", ".parquet": "parquet", ".arrow": "arrow",
}  # fmt: skip
_TABLE_SUFFIXES: Final = ("", ".txt")
# Binary formats; Feather is also an Arrow IPC file.
BINARY: Final = frozenset({"parquet", "arrow"})


class Output(NamedTuple):
    """Where a command's result goes: by default, as a table to standard output.

    format  one of `FORMATS`, or a format of the command; by default that of the file's suffix, or a table
    path    a file; None: standard output
    force   whether to overwrite the file
    """

    format: str | None = None
    path: str | None = None
    force: bool = False

    @property
    def form(self) -> str:
        """The format, by default that of the file's ending. Raises `EtqError` for an unknown one."""
        return self.format or format_of(self.path)

    @property
    def is_to_read(self) -> bool:
        """Whether the format is for people."""
        return self.form in TO_READ

    @property
    def is_screen(self) -> bool:
        """Whether it is a table on standard output."""
        return self.format in (None, "table") and self.path is None

    @property
    def style(self) -> TerminalStyle:
        """The style of text in it: colours and a width are for tables on standard output."""
        return style_of(sys.stdout) if self.is_screen else PLAIN


def write(
    warehouse: Answers,
    query: str,
    output: Output,
    *,
    view: catalog.SqlObject | None = None,
    needs_rows: bool = False,
    marked: Callable[[Sequence[str], Rows], Rows] | None = None,
    **parameters: Any,
) -> bool:
    """Write a query's result. Returns whether it has rows; True for binary formats.

    view        the view of the rows: people get the columns of its line `Shown:`, and, without a unit among the
                parameters, times in a suitable unit, see `in_one_unit`
    marked      for people, changes rows so that cells have notes beside their values
    needs_rows  whether to omit the heading of a table without rows, because the caller explains why it has none

    Rows are written while they are read. Raises `EtqError` if the file exists and `force` is not set, for an unknown
    ending of the file's name, and for a binary format on a terminal. Raises `QueryError` if the query fails; no file is
    left then.
    """
    format = _checked_format(output)
    is_for_people = format in TO_READ
    if view is not None and (columns_read := selection.get().columns_of(view, is_for_people)) != "*":
        query = f"SELECT {columns_read} FROM ({query})"
    chosen = selection.get().with_unit(view) if view is not None and is_for_people else selection.get()
    query = chosen.query(warehouse, query, parameters)
    if format in BINARY:
        _write_binary(warehouse.connection, warehouse.relation(query, **parameters), format, output)
        return True
    if format in DELIMITERS:
        relation = warehouse.relation(query, **parameters)
        if relation is None:  # an empty query
            return False
        with _text_output(output) as stream, _query_errors():
            return write_delimited(warehouse.connection, relation, DELIMITERS[format], stream)
    with warehouse.rows_in_parts(query, **parameters) as (columns, parts):
        chooses = is_for_people and "unit" in columns and parameters.get("unit") is None
        remaining = iter(in_one_unit(columns, parts, view.times) if view and chooses else parts)
        if marked is not None and is_for_people:
            remaining = (marked(columns, rows) for rows in remaining)
        first = next(remaining, [])
        if columns and (first or output.path is not None or not (needs_rows and is_for_people)):
            with _text_output(output, is_printable=format == "table") as stream:
                _write_parts(columns, chain([first], remaining), format, output.style, stream, _Kept.of(query, view))
    return bool(first)


class _Kept(NamedTuple):
    """Columns of a view's table that are never left out, and columns whose texts become paragraphs."""

    foremost: Sequence[str] = ()
    long: Collection[str] = ()
    share: str = ""  # the wholes of shares

    @classmethod
    def of(cls, query: str, view: catalog.SqlObject | None) -> _Kept:
        if view is not None:
            return cls(view.foremost, view.long, f"share % {view.share}" if view.share else "")
        return cls(catalog.foremost_in(query))


def write_each(warehouse: Answers, script: str, output: Output) -> None:
    """Write the result of each statement as `write` does, with an empty line between results.

    Raises `EtqError` for several statements in a format whose files have only one result.
    """
    import duckdb

    try:
        statements = [each.query.strip() for each in duckdb.extract_statements(script)]
    except duckdb.Error as error:
        raise QueryError(catalog.corrected(message_of(error), script), place_in(script, error)) from error
    if len(statements) <= 1:
        with _in_full(script):
            write(warehouse, script, output)
        return
    format = _checked_format(output)
    if format in BINARY:
        raise EtqError(
            f"{format} holds the result of one statement, and there are {len(statements)}; run them one by one"
        )
    with _text_output(output, is_printable=format == "table") as stream:
        for at, statement in enumerate(statements):
            stream.write("\n" if at else "")
            with (
                _in_full(statement),
                warehouse.rows_in_parts(selection.get().query(warehouse, statement, {})) as (columns, parts),
            ):
                _write_parts(columns, parts, format, output.style, stream, _Kept.of(statement, None))


@contextmanager
def _in_full(statement: str) -> Iterator[None]:
    """If a statement names each of its columns, show all columns, even those that don't fit."""
    import json

    import duckdb

    is_wide = display().is_wide
    if not is_wide:
        with duckdb.connect() as connection:
            query = "SELECT json_serialize_sql($1)::VARCHAR"
            [(parsed,)] = connection.execute(query, [statement]).fetchall()
        nodes = [parts["node"] for parts in json.loads(parsed).get("statements", [])]
        is_wide = bool(nodes) and all(part["class"] != "STAR" for node in nodes for part in node.get("select_list", []))
    with shown_as(is_wide=is_wide):
        yield


def write_rows(
    columns: Sequence[str],
    rows: Rows,
    output: Output,
    *,
    view: catalog.SqlObject | None = None,
    long: Collection[str] = (),
) -> None:
    """Write rows in the way in which `write` writes a query's result. With a `view`, only the columns that are to be
    written.

    long  columns with long texts, if no view states them
    """
    format = _checked_format(output)
    columns, rows = selection.get().rows(columns, rows)
    if format not in BINARY:
        with _text_output(output, is_printable=format == "table") as stream:
            kept = _Kept((), long) if view is None else _Kept.of("", view)
            _write_parts(columns, [rows], format, output.style, stream, kept)
        return
    import duckdb

    lists = {f"c{index}": [row[index] for row in rows] for index in range(len(columns))}
    selected = ", ".join(
        f'unnest(${name}::VARCHAR[]) AS "{column}"' for name, column in zip(lists, columns, strict=True)
    )
    with duckdb.connect() as connection:
        _write_binary(connection, connection.sql(f"SELECT {selected}", params=lists), format, output)


def write_text(text: str, output: Output, *, is_printable: bool = False) -> None:
    """Write a text. Raises `EtqError` if the file exists and is not to be overwritten.

    `is_printable` states that all names in the text are printable. If it isn't set, control characters are escaped on a
    terminal, so the text can't have colours.
    """
    refuse_existing(output.path, output.force)
    with _text_output(output, is_printable=is_printable) as stream:
        stream.write(text)


def _checked_format(output: Output) -> str:
    """Return the format. Raises `EtqError` for an output that can't be written."""
    refuse_existing(output.path, output.force)
    _refuse_compressed(output.path)
    format = output.form
    if display().escapes_formulas and format not in ("csv", "tsv"):
        raise EtqError(f"--escape-formulas only applies to csv and tsv, not to {format}")
    return format


def format_of(path: str | None) -> str:
    """Return the format of a file by the ending of its name; table if it has no ending. Raises `EtqError` for an
    unknown ending.
    """
    _refuse_compressed(path)
    ending = "" if path is None else Path(path).suffix.lower()
    if ending not in SUFFIXES and ending not in _TABLE_SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise EtqError(f"{path}: no format has the ending {ending}; use {known} or .txt, or name one with --format")
    return SUFFIXES.get(ending, "table")


def _refuse_compressed(path: str | None) -> None:
    if path is not None and path.lower().endswith((".gz", ".zst", ".bz2", ".xz")):
        raise EtqError(f"{path}: tables are not compressed; remove .gz, or write Parquet, which is compressed")


def file_of(path: str | None, force: bool) -> str | None:
    """Return the path of an output option, None for stdout (-). Raises `EtqError` as `refuse_existing` does."""
    path = None if path == "-" else path
    refuse_existing(path, force)
    return path


def refuse_existing(path: str | None, force: bool) -> None:
    """Before output is written, raise `EtqError` if a path is empty, or if its file exists and `force` is not set."""
    if path == "":
        raise EtqError("the name of the output is empty; name a file, or - for stdout")
    if path is not None and os.path.isdir(path):
        raise EtqError(f"{path}: is a directory; name a file in it")
    if path is not None and os.path.exists(path) and not force:
        raise EtqError(f"{path}: exists; overwrite it with --force")


@contextmanager
def _query_errors() -> Iterator[None]:
    """Convert errors of the query, which may occur while its result is written, to `QueryError`."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise QueryError(message_of(error)) from error
    except OSError as error:
        if error.errno is None:  # Arrow's error while reading
            raise QueryError(message_of(error)) from error
        raise


def _write_parts(
    columns: Sequence[str], parts: Iterable[Rows], format: str, style: TerminalStyle, stream: IO[str], kept: _Kept
) -> None:
    if format in DELIMITERS:
        stream.write(delimited(columns, [row for rows in parts for row in rows], DELIMITERS[format]))
        return
    if kept.long and format == "table":
        whole = [row for rows in parts for row in rows]
        parts = [whole]
        # Without a terminal, a single long column ends each line, so that other programs can search lines.
        if (style.width or len(kept.long) > 1) and not fits(columns, whole, style):
            from etq.render.records import paragraphs

            cells = [[shown(value) for value in row] for row in whole]
            stream.write(paragraphs(columns, whole, cells, kept.long, style))
            if kept.share and "share_percent" in columns:
                stream.write(f"\n{note(kept.share, style)}")
            return
    sorted_by = [name for name in columns if selection.get().sort_by in (name, title(name))]
    foremost = [*sorted_by, *kept.foremost]
    writers = {
        "table": lambda: table_parts(columns, parts, style, foremost=foremost, share=kept.share),
        "json": lambda: _json_parts(columns, parts),
        "markdown": lambda: markdown_parts(columns, parts),
    }
    for text in writers[format]():
        stream.write(text)


class _PrintableLines:
    """Writes lines of text to a terminal, with control characters escaped."""

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal = terminal

    def write(self, text: str) -> int:
        return self._terminal.write(printable_lines(text))


@contextmanager
def _text_output(output: Output, *, is_printable: bool = False) -> Iterator[Any]:
    """Provide a stream to standard output, or to a file, which appears when it is complete."""
    if output.path is None:
        with paged() as stream:
            # Names are written unchanged to files and pipes. On a terminal, they are escaped, because it would
            # interpret control characters.
            yield _PrintableLines(stream) if sys.stdout.isatty() and not is_printable else stream
        return
    with (
        new_file(output.path, overwrite=output.force) as written,
        Path(written).open("w", encoding="utf-8", newline="\n") as file,
    ):
        yield file


def _plain(value: Any) -> Any:
    """Return a value for JSON in full precision."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and value - value != 0 else value


def _json_parts(columns: Sequence[str], parts: Iterable[Rows]) -> Iterator[str]:
    import json

    begin, end = "[", "]\n"
    for rows in parts:
        if rows:
            text = json.dumps(json_objects(columns, rows), indent=1, ensure_ascii=False, default=str)
            yield begin + text.removeprefix("[").removesuffix("\n]")
            begin, end = ",", "\n]\n"
    yield end if begin == "," else begin + end


def json_objects(columns: Sequence[str], rows: Rows) -> list[dict[str, Any]]:
    """Return rows as objects. NaN and infinities, which JSON lacks, become null, as in other tools."""
    columns = _unique(columns)
    return [dict(zip(columns, map(_plain, row), strict=True)) for row in rows]


def _unique(columns: Sequence[str]) -> list[str]:
    """Make names distinct, because an object in JSON has one value per name."""
    return [
        name if name not in columns[:at] else f"{name}_{columns[:at].count(name)}" for at, name in enumerate(columns)
    ]


def _write_binary(
    connection: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation, format: str, output: Output
) -> None:
    if output.path is not None:
        with new_file(output.path, overwrite=output.force) as written, _query_errors():
            _BINARY_WRITERS[format](connection, relation, written)
        return
    if sys.stdout.isatty():
        raise EtqError(f"{format.capitalize()} can't be shown in a terminal; name a file with -o")
    with temporary_folder() as folder, _query_errors():
        written_file = os.path.join(folder, "result")
        _BINARY_WRITERS[format](connection, relation, written_file)
        stream: IO[bytes] = sys.stdout.buffer
        stream.write(Path(written_file).read_bytes())


def _write_parquet(connection: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation, path: str) -> None:
    types = [str(each) for each in relation.types]
    if "HUGEINT" in types:
        # Parquet has no integers of 128 bits; written as floats, they would lose digits.
        kept = ["#{0}::DECIMAL(38, 0) AS {1}" if each == "HUGEINT" else "#{0} AS {1}" for each in types]
        names = [catalog.identifier(name) for name in relation.columns]
        relation = relation.project(
            ", ".join(each.format(*of) for each, of in zip(kept, enumerate(names, 1), strict=True))
        )
    if displayed(path) != path:
        raise EtqError(f"{displayed(path)}: the path of a Parquet file must be UTF-8")
    from etq.database.connection import with_access

    with with_access(connection, relation) as other:
        other.table("rows").write_parquet(path)


def _write_arrow(_: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation, path: str) -> None:
    import pyarrow as pa

    rows = relation.to_arrow_reader()
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


_BINARY_WRITERS: Final = {"parquet": _write_parquet, "arrow": _write_arrow}
