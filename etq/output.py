"""Results on their way out: as text tables for people, as CSV, TSV, JSON, Markdown and Parquet for all else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from etq.errors import EtqError, printable, printable_lines

if TYPE_CHECKING:
    import duckdb

    from etq.warehouse import Warehouse

FORMATS: Final = ("table", "csv", "tsv", "json", "markdown", "parquet")
SUFFIXES: Final = {".csv": "csv", ".tsv": "tsv", ".json": "json", ".md": "markdown", ".parquet": "parquet"}
_SHORTEST_TEXT: Final = 12

Rows = Sequence[Sequence[Any]]


def write(
    warehouse: Warehouse, query: str, format: str | None, path: str | None, *, force: bool = False, **parameters: Any
) -> None:
    """Write a query's result to a file or to standard output.

    format  one of `FORMATS`; by default that of the file's suffix, or a table

    Raises `EtqError` where the file exists and `force` is not set, or where Parquet would go to a terminal.
    """
    _refuse_existing(path, force)
    format = format or format_of(path)
    if format == "parquet":
        _write_parquet(warehouse.sql(query, **parameters), path)
    else:
        columns, rows = warehouse.rows(query, **parameters)
        if columns:
            _write_text(columns, rows, format, path)


def write_rows(
    columns: Sequence[str], rows: Rows, format: str | None, path: str | None, *, force: bool = False
) -> None:
    """Write rows of texts as `write` does a result."""
    _refuse_existing(path, force)
    format = format or format_of(path)
    if format != "parquet":
        _write_text(columns, rows, format, path)
        return
    import duckdb

    lists = {f"c{index}": [row[index] for row in rows] for index in range(len(columns))}
    selected = ", ".join(
        f'unnest(${name}::VARCHAR[]) AS "{column}"' for name, column in zip(lists, columns, strict=True)
    )
    with duckdb.connect() as connection:
        _write_parquet(connection.sql(f"SELECT {selected}", params=lists), path)


def write_text(text: str, path: str | None, *, force: bool = False) -> None:
    """Write a text to a file or to standard output. Raises `EtqError` where the file exists and `force` is not set."""
    _refuse_existing(path, force)
    _put(text, path)


def format_of(path: str | None) -> str:
    return "table" if path is None else SUFFIXES.get(Path(path).suffix.lower(), "table")


def _refuse_existing(path: str | None, force: bool) -> None:
    if path is not None and os.path.exists(path) and not force:
        raise EtqError(f"{path}: exists; overwrite it with --force")


def _write_text(columns: Sequence[str], rows: Rows, format: str, path: str | None) -> None:
    _put(_WRITERS[format](columns, rows, path is None and sys.stdout.isatty()), path)


def _put(text: str, path: str | None) -> None:
    if path is None:
        # Files and pipes get names as they are; a terminal would obey them.
        sys.stdout.write(printable_lines(text) if sys.stdout.isatty() else text)
        return
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise EtqError(f"{path}: can't be written: {(error.strerror or str(error)).lower()}") from error


def table(columns: Sequence[str], rows: Rows, on_terminal: bool = False) -> str:
    """A table of aligned text; on a terminal, texts are shortened so that lines fit where that is possible."""
    columns = [printable(name) for name in columns]
    cells = [[_shown(value) for value in row] for row in rows]
    is_number = [
        all(isinstance(row[index], int | float | None) for row in rows) and not _all_flags(rows, index)
        for index in range(len(columns))
    ]
    widths = [max(len(name), *(len(row[index]) for row in cells), 0) for index, name in enumerate(columns)]
    if on_terminal:
        _narrow(widths, is_number, columns, shutil.get_terminal_size().columns)
    lines = [
        "  ".join(
            _fitted(cell, width, right) for cell, width, right in zip(row, widths, is_number, strict=True)
        ).rstrip()
        for row in [list(columns), ["-" * width for width in widths], *cells]
    ]
    return "\n".join(lines) + "\n"


def _all_flags(rows: Rows, index: int) -> bool:
    return any(isinstance(row[index], bool) for row in rows)


def _narrow(widths: list[int], is_number: list[bool], columns: Sequence[str], room: int) -> None:
    """Take from the widest texts what doesn't fit, down to a width that still tells something."""
    texts = [index for index, number in enumerate(is_number) if not number]
    while texts and sum(widths) + 2 * (len(widths) - 1) > room:
        widest = max(texts, key=lambda index: widths[index])
        if widths[widest] <= max(_SHORTEST_TEXT, len(columns[widest])):
            return
        widths[widest] -= 1


def _fitted(cell: str, width: int, right: bool) -> str:
    if len(cell) > width:
        cell = cell[: width - 1] + "…"
    return cell.rjust(width) if right else cell.ljust(width)


def _shown(value: Any) -> str:  # noqa: PLR0911 - a case a line
    """A value for people: numbers to 6 digits, nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.1f}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, list):
        return "[" + ", ".join(_shown(each) for each in value) + "]"
    return printable(str(value))


def _plain(value: Any) -> Any:
    """A value for machines: in full."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _csv(columns: Sequence[str], rows: Rows, _: bool) -> str:
    return _delimited(columns, rows, ",")


def _tsv(columns: Sequence[str], rows: Rows, _: bool) -> str:
    return _delimited(columns, rows, "\t")


def _delimited(columns: Sequence[str], rows: Rows, delimiter: str) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(value) for value in row] for row in rows)
    return text.getvalue()


def _json(columns: Sequence[str], rows: Rows, _: bool) -> str:
    import json

    return json.dumps(json_objects(columns, rows), indent=1, ensure_ascii=False, default=str) + "\n"


def json_objects(columns: Sequence[str], rows: Rows) -> list[dict[str, Any]]:
    """Rows as objects. NaN and infinities have no JSON; null is what other tools write."""
    columns = _told_apart(columns)
    return [dict(zip(columns, (_finite(_plain(value)) for value in row), strict=True)) for row in rows]


def _told_apart(columns: Sequence[str]) -> list[str]:
    """Names of which none comes twice: an object holds one value of a name."""
    return [
        name if name not in columns[:at] else f"{name}_{columns[:at].count(name)}" for at, name in enumerate(columns)
    ]


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and value - value != 0 else value


def markdown(columns: Sequence[str], rows: Rows, _: bool = False) -> str:
    """A table in Markdown."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells) + " |\n"

    rule = "|" + " --- |" * len(columns) + "\n"
    return (
        line([printable(name) for name in columns])
        + rule
        + "".join(line([_shown(value) for value in row]) for row in rows)
    )


_WRITERS: Final[dict[str, Callable[[Sequence[str], Rows, bool], str]]] = {
    "table": table,
    "csv": _csv,
    "tsv": _tsv,
    "json": _json,
    "markdown": markdown,
}


def _write_parquet(relation: duckdb.DuckDBPyRelation, path: str | None) -> None:
    if path is not None:
        relation.write_parquet(path)
        return
    if sys.stdout.isatty():
        raise EtqError("Parquet is no text for a terminal; name a file with -o")
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "result.parquet")
        relation.write_parquet(made)
        stream: IO[bytes] = sys.stdout.buffer
        stream.write(Path(made).read_bytes())
