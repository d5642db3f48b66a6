"""The result of a query as JSON for a page, or as a file: CSV, Parquet or Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, Final

from etq.errors import EtqError
from etq.report.columns import table
from etq.serve.payloads import Payload, of_data

# The rows that a page shows; files have all.
MOST_ROWS: Final = 10_000
# The largest whole number of a page's numbers without others that are equal to it.
MOST_EXACT: Final = 2**53 - 1

Rows = Sequence[tuple[Any, ...]]


def result_of(columns: Sequence[str], rows: Rows, format: str) -> Payload:
    """Return rows in a format: json (the first `MOST_ROWS`, and how many there are), csv, parquet or arrow.

    In csv, an apostrophe is before texts that begin like formulas: spreadsheets open what browsers download.

    Raises `EtqError` for another format.
    """
    if format == "json":
        kinds = [_kind(row[at] for row in rows[:MOST_ROWS]) for at in range(len(columns))]
        shown = [tuple(map(_exact, row)) for row in rows[:MOST_ROWS]]
        return of_data({"rows": table(columns, shown).as_data(), "kinds": kinds, "count": len(rows)})
    check_format(format)
    type, write = _FILES[format]
    return Payload(200, type, write(columns, rows), file=f"result.{format}")


def check_format(format: str) -> None:
    """Raise `EtqError` for a format that results don't have."""
    if format not in ("json", *_FILES):
        raise EtqError(f"{format}: no format of results; use json, {', '.join(_FILES)}")


def _exact(value: Any) -> Any:
    """Return a whole number that a page's numbers can't hold as text."""
    return str(value) if isinstance(value, int) and abs(value) > MOST_EXACT else value


def _kind(values: Any) -> str:
    """Return whether a column is of numbers or of texts, by its first value that isn't NULL."""
    first = next((value for value in values if value is not None), None)
    return "number" if isinstance(first, int | float) and not isinstance(first, bool) else "text"


def _csv(columns: Sequence[str], rows: Rows) -> bytes:
    from etq.render.delimited import delimited, escaping_formulas

    before = escaping_formulas.set(True)
    try:
        return delimited(columns, rows, ",").encode("utf-8", "replace")
    finally:
        escaping_formulas.reset(before)


def _parquet(columns: Sequence[str], rows: Rows) -> bytes:
    import pyarrow.parquet

    stream = BytesIO()
    pyarrow.parquet.write_table(_arrow_table(columns, rows), stream)
    return stream.getvalue()


def _arrow(columns: Sequence[str], rows: Rows) -> bytes:
    import pyarrow.ipc

    found = _arrow_table(columns, rows)
    stream = BytesIO()
    with pyarrow.ipc.new_file(stream, found.schema) as writer:
        writer.write_table(found)
    return stream.getvalue()


def _arrow_table(columns: Sequence[str], rows: Rows) -> Any:
    import pyarrow

    lists = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]
    return pyarrow.Table.from_arrays([_array(pyarrow, values) for values in lists], names=list(columns))


def _array(pyarrow: Any, values: list[Any]) -> Any:
    """Return values as an array of the type that they have; those that no type can hold, as texts."""
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError):
        texts = [None if value is None else str(value).encode("utf-8", "replace").decode() for value in values]
        return pyarrow.array(texts, pyarrow.string())


_FILES: Final[dict[str, tuple[str, Callable[[Sequence[str], Rows], bytes]]]] = {
    "csv": ("text/csv; charset=utf-8", _csv),
    "parquet": ("application/vnd.apache.parquet", _parquet),
    "arrow": ("application/vnd.apache.arrow.file", _arrow),
}
