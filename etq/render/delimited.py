"""CSV and TSV: quoted as in RFC 4180, with lines that end in a newline."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import IO, TYPE_CHECKING, Any, Final

from etq.render.display import display

if TYPE_CHECKING:
    import duckdb

DELIMITERS: Final = {"csv": ",", "tsv": "\t"}
# Spreadsheets also take texts for formulas that begin with full-width signs.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_CHUNK: Final = 1 << 20
_NUMBER: Final = "CASE WHEN isnan({0}) THEN 'nan' ELSE {0}::VARCHAR END"  # otherwise, some NaNs would be -nan
# Expressions for cells, by type, for types that DuckDB would write differently from `_text`.
_CELLS: Final = {
    "BOOLEAN": "CASE {0} WHEN true THEN 'True' WHEN false THEN 'False' END",
    "DOUBLE": _NUMBER,
    "FLOAT": _NUMBER,
    "BLOB": "lower(hex({0}))",
}


def delimited(columns: Sequence[str], rows: Sequence[Sequence[Any]], delimiter: str) -> str:
    """Return a header line and a line for each row."""
    special = re.compile(f'[{delimiter}"\r\n]')
    escapes = display().escapes_formulas

    def cell(value: Any) -> str:
        text = _text(value)
        if escapes and isinstance(value, str) and text.startswith(_FORMULA):
            text = f"'{text}"
        return '"' + text.replace('"', '""') + '"' if special.search(text) else text

    # A row with a single empty cell would be an empty line, which readers skip.
    return "".join((delimiter.join(map(cell, row)) or '""') + "\n" for row in [columns, *rows])


def _text(value: Any) -> str:
    """Return a value in full; an empty text for NULL."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_text)
    return str(value)


def write_delimited(
    connection: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation, delimiter: str, stream: IO[str]
) -> bool:
    """Write a query's result in the form of `delimited`, but with DuckDB's writer, which is many times faster.

    Returns whether there are rows. Raises `duckdb.Error`.
    """
    from etq.database.connection import with_access
    from etq.database.temporary import temporary_folder

    cells = [_cell(index, str(kind)) for index, kind in enumerate(relation.types, 1)]
    if len(cells) == 1:
        cells = [f"coalesce(({cells[0]})::VARCHAR, '')"]  # avoids an empty line, as in `delimited`
    stream.write(delimited(relation.columns, [], delimiter))
    has_rows = False
    with temporary_folder() as folder:
        path = os.path.join(folder, "rows")
        with with_access(connection, relation.project(", ".join(cells))) as other:
            other.table("rows").write_csv(path, sep=delimiter, header=False)
        with open(path, encoding="utf-8", newline="") as file:
            while text := file.read(_CHUNK):
                stream.write(text)
                has_rows = True
    return has_rows


def _cell(index: int, kind: str) -> str:
    """Return the SQL for a column's cells, from the column's position and type."""
    column = f"#{index}"
    if kind == "VARCHAR" and display().escapes_formulas:
        starts = ", ".join(f"chr({ord(each)})" for each in _FORMULA)
        return f"CASE WHEN left({column}, 1) IN ({starts}) THEN concat(chr(39), {column}) ELSE {column} END"
    if kind in _CELLS:
        return _CELLS[kind].format(column)
    if kind.startswith("TIMESTAMP"):
        return f"replace({column}::VARCHAR, ' ', 'T')"
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP")):
        return f"to_json({column})"
    return column
