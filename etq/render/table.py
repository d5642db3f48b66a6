"""Results on their way out: as text tables for people, as CSV, TSV, JSON, Markdown, Parquet and Arrow for all else."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from datetime import date, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from etq.errors import EtqError, printable, printable_lines
from etq.render.terminal import PLAIN, TerminalStyle, bar, style_of, width_of

if TYPE_CHECKING:
    import duckdb

    from etq.warehouse.warehouse import Warehouse

FORMATS: Final = ("table", "csv", "tsv", "json", "markdown", "parquet", "arrow")
# Of these, formats for people.
TO_READ: Final = ("table", "markdown")
SUFFIXES: Final = {
    ".csv": "csv", ".tsv": "tsv", ".json": "json", ".md": "markdown", ".parquet": "parquet", ".arrow": "arrow",
}  # fmt: skip
# Binary formats; Feather is also an Arrow IPC file.
BINARY: Final = frozenset({"parquet", "arrow"})
# Whether texts that a spreadsheet would take for formulas get an apostrophe in CSV and TSV.
escaping_formulas: Final[ContextVar[bool]] = ContextVar("escaping_formulas", default=False)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_SHORTEST_TEXT: Final = 12
# Columns that a wide terminal shows with bars: the first of those that a table has.
_SHARES: Final = ("share_percent", "self_cpu_percent", "share")
_REST: Final = ("(framework)", "(unattributed)", "(delegate layout)")
_BAR_WIDTHS: Final = (24, 16, 10)
VERDICT_STYLES: Final = {
    "slower": "red",
    "worse": "red",
    "faster": "green",
    "better": "green",
    "too few": "yellow",
    "can't judge": "yellow",
    "conditions differ": "yellow",
    "differs": "yellow",
}
_STYLES: Final = {
    "verdict": VERDICT_STYLES,
    "severity": {"high": "red", "medium": "yellow"},
}

Rows = Sequence[Sequence[Any]]


def write(
    warehouse: Warehouse,
    query: str,
    format: str | None,
    path: str | None,
    *,
    force: bool = False,
    long: Collection[str] = (),
    **parameters: Any,
) -> bool:
    """Write a query's result to a file or to standard output. Returns whether it has rows; True for binary formats.

    format  one of `FORMATS`; by default that of the file's suffix, or a table
    long    columns of texts to be read whole: where a terminal has no room for the table, they are paragraphs

    Raises `EtqError` if the file exists and `force` is not set, and for a binary format on a terminal.
    """
    refuse_existing(path, force)
    format = _checked_format(format, path)
    if format in BINARY:
        _write_binary(warehouse.sql(query, **parameters), format, path)
        return True
    columns, rows = warehouse.rows(query, **parameters)
    if columns:
        _write_text(columns, rows, format, path, long)
    return bool(rows)


def write_rows(
    columns: Sequence[str],
    rows: Rows,
    format: str | None,
    path: str | None,
    *,
    force: bool = False,
    long: Collection[str] = (),
) -> None:
    """Write rows of texts as `write` does a result."""
    refuse_existing(path, force)
    format = _checked_format(format, path)
    if format not in BINARY:
        _write_text(columns, rows, format, path, long)
        return
    import duckdb

    lists = {f"c{index}": [row[index] for row in rows] for index in range(len(columns))}
    selected = ", ".join(
        f'unnest(${name}::VARCHAR[]) AS "{column}"' for name, column in zip(lists, columns, strict=True)
    )
    with duckdb.connect() as connection:
        _write_binary(connection.sql(f"SELECT {selected}", params=lists), format, path)


def write_text(text: str, path: str | None, *, force: bool = False, is_printable: bool = False) -> None:
    """Write a text to a file or to standard output. Raises `EtqError` if the file exists and `force` is not set.

    A terminal gets the text unchanged, with its colours, only if all names in it are printable (`is_printable`).
    """
    refuse_existing(path, force)
    _put(text, path, is_printable=is_printable)


def _checked_format(format: str | None, path: str | None) -> str:
    if path is not None and path.lower().endswith((".gz", ".zst", ".bz2", ".xz")):
        raise EtqError(f"{path}: tables are not compressed; remove .gz, or write Parquet, which is compressed")
    format = format or format_of(path)
    if escaping_formulas.get() and format not in ("csv", "tsv"):
        raise EtqError(f"--escape-formulas only applies to csv and tsv, not to {format}")
    return format


def format_of(path: str | None) -> str:
    return "table" if path is None else SUFFIXES.get(Path(path).suffix.lower(), "table")


def refuse_existing(path: str | None, force: bool) -> None:
    """Raise `EtqError` if a file exists and `force` is not set."""
    if path is not None and os.path.exists(path) and not force:
        raise EtqError(f"{path}: exists; overwrite it with --force")


def _write_text(columns: Sequence[str], rows: Rows, format: str, path: str | None, long: Collection[str]) -> None:
    style = style_of(sys.stdout) if path is None else PLAIN
    if long and format == "table" and not _has_room(columns, rows, style):
        from etq.render.records import paragraphs

        text = paragraphs(columns, rows, [[shown(value) for value in row] for row in rows], long, style)
    else:
        text = _WRITERS[format](columns, rows, style)
    # What is in a table is printable, and may have colours.
    _put(text, path, is_printable=format == "table")


def _has_room(columns: Sequence[str], rows: Rows, style: TerminalStyle) -> bool:
    """Whether the table fits without anything in it shortened."""
    return style.width is None or max(map(width_of, table(columns, rows).splitlines())) <= style.width


def _put(text: str, path: str | None, *, is_printable: bool) -> None:
    if path is None:
        # Files and pipes get names as they are; a terminal would obey them.
        sys.stdout.write(printable_lines(text) if sys.stdout.isatty() and not is_printable else text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise EtqError(f"{path}: can't be written: {(error.strerror or str(error)).lower()}") from error


def table(columns: Sequence[str], rows: Rows, style: TerminalStyle = PLAIN) -> str:
    """Format aligned text. On a terminal, texts are shortened to make lines fit if possible, shares have bars if there
    is room, and verdicts are coloured if colours are on."""
    columns = [printable(name) for name in columns]
    cells = [[shown(value) for value in row] for row in rows]
    is_number = [
        all(isinstance(row[index], int | float | None) for row in rows) and not _all_flags(rows, index)
        for index in range(len(columns))
    ]
    widths = [max(width_of(name), *(width_of(row[index]) for row in cells), 0) for index, name in enumerate(columns)]
    if style.width is not None:
        _narrow(widths, is_number, columns, style.width)
    barred = next((columns.index(name) for name in _SHARES if name in columns and rows), None)
    room = (style.width or 0) - sum(widths) - 2 * len(widths)
    bar_width = 0 if barred is None else next((width for width in _BAR_WIDTHS if width <= room), 0)

    def line(row: Sequence[str], value: object, styles: Sequence[Sequence[str]]) -> str:
        parts = []
        for index, cell in enumerate(row):
            padded = fitted(cell, widths[index], is_number[index], style)
            parts.append(_styled(padded, style, styles[index]))
            if bar_width and index == barred:
                filled = bar(0, value / 100, bar_width, style) if isinstance(value, int | float) else ""
                parts.append(style.styled(filled, "cyan") + " " * (bar_width - len(filled)))
        return "  ".join(parts).rstrip()

    lines = [
        line(list(columns), None, [["bold"]] * len(columns)),
        line(["-" * width for width in widths], None, [["dim"]] * len(columns)),
    ]
    for row, texts in zip(rows, cells, strict=True):
        lines.append(line(texts, row[barred] if bar_width and barred is not None else None, _styles(columns, row)))
    return "\n".join(lines) + "\n"


def _styles(columns: Sequence[str], row: Sequence[Any]) -> list[list[str]]:
    """How each cell of a row looks: verdicts in colours, and what belongs to no op dim."""
    row_styles = [_STYLES.get(name, {}).get(str(value)) for name, value in zip(columns, row, strict=True)]
    styles = [[style] if style else [] for style in row_styles]
    if row and row[0] in _REST:
        styles[0] = ["dim"]
    return styles


def _styled(padded: str, style: TerminalStyle, styles: Sequence[str]) -> str:
    """A cell with its text in these styles, and plain blanks around it."""
    text = padded.strip(" ")
    return padded.replace(text, style.styled(text, *styles), 1) if text and styles else padded


def _all_flags(rows: Rows, index: int) -> bool:
    return any(isinstance(row[index], bool) for row in rows)


def _narrow(widths: list[int], is_number: list[bool], columns: Sequence[str], room: int) -> None:
    """Shorten the widest texts to fit, down to a width that is still readable."""
    texts = [index for index, number in enumerate(is_number) if not number]
    while texts and sum(widths) + 2 * (len(widths) - 1) > room:
        widest = max(texts, key=lambda index: widths[index])
        if widths[widest] <= max(_SHORTEST_TEXT, len(columns[widest])):
            return
        widths[widest] -= 1


def fitted(cell: str, width: int, right: bool, style: TerminalStyle) -> str:
    """A cell of just that width: filled up with blanks, or shortened."""
    if width_of(cell) > width:
        cell = cell[: width - 1]
        while width_of(cell) >= width:
            cell = cell[:-1]
        cell += "…" if style.has_blocks else "~"
    blanks = " " * (width - width_of(cell))
    return blanks + cell if right else cell + blanks


def shown(value: Any) -> str:  # noqa: PLR0911 - a case a line
    """A value for people: numbers to 6 digits, nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, list):
        return "[" + ", ".join(shown(each) for each in value) + "]"
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


def _csv(columns: Sequence[str], rows: Rows, _: object) -> str:
    return _delimited(columns, rows, ",")


def _tsv(columns: Sequence[str], rows: Rows, _: object) -> str:
    return _delimited(columns, rows, "\t")


def _delimited(columns: Sequence[str], rows: Rows, delimiter: str) -> str:
    """Quoted as in RFC 4180, with lines that end in a newline; the csv module would not quote a lone \\r then."""
    as_cell = _no_formula if escaping_formulas.get() else _plain
    special = re.compile(f'[{delimiter}"\\r\\n]')

    def cell(value: Any) -> str:
        value = as_cell(value)
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if special.search(text) else text

    # A row of one empty cell would be an empty line, which readers skip.
    return "".join((delimiter.join(map(cell, row)) or '""') + "\n" for row in [columns, *rows])


def _no_formula(value: Any) -> Any:
    """A value that a spreadsheet doesn't take for a formula, as names of files might make it."""
    value = _plain(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _json(columns: Sequence[str], rows: Rows, _: object) -> str:
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


def markdown(columns: Sequence[str], rows: Rows, _: object = None) -> str:
    """A table in Markdown."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells) + " |\n"

    rule = "|" + " --- |" * len(columns) + "\n"
    return (
        line([printable(name) for name in columns])
        + rule
        + "".join(line([shown(value) for value in row]) for row in rows)
    )


_WRITERS: Final[dict[str, Callable[[Sequence[str], Rows, TerminalStyle], str]]] = {
    "table": table,
    "csv": _csv,
    "tsv": _tsv,
    "json": _json,
    "markdown": markdown,
}


def _write_binary(relation: duckdb.DuckDBPyRelation, format: str, path: str | None) -> None:
    if path is not None:
        _BINARY_WRITERS[format](relation, path)
        return
    if sys.stdout.isatty():
        raise EtqError(f"{format.capitalize()} can't be shown in a terminal; name a file with -o")
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        written_file = os.path.join(folder, "result")
        _BINARY_WRITERS[format](relation, written_file)
        stream: IO[bytes] = sys.stdout.buffer
        stream.write(Path(written_file).read_bytes())


def _write_parquet(relation: duckdb.DuckDBPyRelation, path: str) -> None:
    types = [str(each) for each in relation.types]
    if "HUGEINT" in types:
        # Parquet has no whole numbers of 128 bits: they would be floats, and lose digits.
        kept = ["#{0}::DECIMAL(38, 0) AS {1}" if each == "HUGEINT" else "#{0} AS {1}" for each in types]
        names = ['"' + name.replace('"', '""') + '"' for name in relation.columns]
        relation = relation.project(
            ", ".join(each.format(*of) for each, of in zip(kept, enumerate(names, 1), strict=True))
        )
    relation.write_parquet(path)


def _write_arrow(relation: duckdb.DuckDBPyRelation, path: str) -> None:
    import pyarrow as pa

    rows = relation.to_arrow_reader()
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


_BINARY_WRITERS: Final = {"parquet": _write_parquet, "arrow": _write_arrow}
