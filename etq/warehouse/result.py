"""The rows of a query in Python: DuckDB's relation, shown as etq shows tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial, wraps
from importlib.util import find_spec
from threading import local
from typing import Any, Final

import duckdb

from etq.catalog import SqlObject, foremost_in
from etq.errors import ArgumentTypeError, EtqError, QueryError, WarehouseError, message_of, nearest_words
from etq.render.notebook import html_table
from etq.render.table import Rows, table
from etq.render.terminal import style_of, wrapped

ROWS: Final = 60
# The package that a method needs, and how to install it.
_NEEDS: Final = {**dict.fromkeys(("df", "fetchdf", "to_df"), ("pandas", "'etq[pandas]'")), "pl": ("polars", "polars")}
# A result has no place from which further rows are read.
_INSTEAD: Final = dict.fromkeys(
    ("fetchone", "fetchmany"), "; fetchall() returns all rows, limit(1).fetchall() the first"
)
_CLOSED: Final = "what this result was asked of is closed; read the rows before, such as in the with block"
_HINT: Final = ".select(NAME, ...) has those that you name"


class Result:
    """The rows of a query, which runs each time they are read; the query of a view with arguments runs once per thread.

    `show` prints them. All else is that of DuckDB's relation, `relation`: `fetchall()`, `df()` with pandas,
    `to_arrow_table()`, `columns`, `select("op", "total")`, `filter("total > 5")`, `limit(3)`. A method that reads rows
    reads all before it returns. Any thread may read a result, on its own connection.

    All methods raise `QueryError` for a wrong query and for errors in the data, and so does what shows a result.
    """

    def __init__(
        self,
        make: Callable[[], duckdb.DuckDBPyRelation],
        query: str = "",
        note: str = "",
        view: SqlObject | None = None,
        made: duckdb.DuckDBPyRelation | None = None,
    ) -> None:
        """`make` returns the relation for each thread; `made` is this thread's. `query` names the views that `show`
        looks at; `view` is the view whose rows these are, which decides the columns that people see; `note` says why
        there are no rows.
        """
        self._make = make
        self._of_thread = local()
        self._of_thread.relation = make() if made is None else made
        self._query = query
        self._note = note
        self._view = view

    @property
    def relation(self) -> duckdb.DuckDBPyRelation:
        """DuckDB's relation, of this thread's connection."""
        found = getattr(self._of_thread, "relation", None)
        if found is None:
            found = self._of_thread.relation = self._make()
        return found

    def show(self, rows: int = ROWS) -> None:
        """Print the first rows as a table: of a view the columns that people see, and on a terminal those that fit."""
        if not isinstance(rows, int) or rows < 1:
            raise ArgumentTypeError(f"show prints a number of rows, not {rows!r}")
        sys.stdout.write(self._text(*self._first(rows), rows))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        rows: list[tuple[Any, ...]] = self._answer("fetchall")
        return rows

    def arrow(self, batch_size: int | None = None) -> Any:
        """Return a `pyarrow.RecordBatchReader` of all rows."""
        return self.to_arrow_table().to_reader(batch_size)

    to_arrow_reader = fetch_arrow_reader = fetch_record_batch = arrow

    def _answer(self, name: str, /, *args: Any, **options: Any) -> Any:
        """Call a method of the relation, which takes and returns results."""

        def call() -> Any:
            given = [arg.relation if isinstance(arg, Result) else arg for arg in args]
            return getattr(self.relation, name)(*given, **options)

        try:
            answer = call()
        except (duckdb.Error, ModuleNotFoundError) as error:
            package, install = _NEEDS.get(name, (None, None))
            if package is not None and find_spec(package) is None:
                raise EtqError(f".{name}() needs {package}: pip install {install}") from error
            if isinstance(error, ModuleNotFoundError):
                raise
            if isinstance(error, duckdb.ConnectionException):
                raise WarehouseError(_CLOSED) from error
            raise QueryError(message_of(error)) from error
        return Result(call, note=self._note, made=answer) if isinstance(answer, duckdb.DuckDBPyRelation) else answer

    def _first(self, rows: int) -> tuple[list[str], Rows, list[str]]:
        """Return the columns that people see, the first rows, and notes on further rows and columns."""
        seen = self if self._view is None else self.project(self._view.to_read)
        found = seen.limit(rows + 1).fetchall()
        others = [name for name in self.relation.columns if name not in seen.columns]
        notes = [f"Further columns: {', '.join(others)}; {_HINT}"] if others else []
        return seen.columns, found[:rows], [f"The first {rows} rows; {{}}", *notes] if len(found) > rows else notes

    def _text(self, columns: list[str], found: Rows, notes: list[str], rows: int) -> str:
        if self._note and not found:
            return f"{self._note}\n"
        style = style_of(sys.stdout)
        text = table(columns, found, style, _HINT, foremost_in(self._query))
        more = "\n".join(notes).format(f"show({10 * rows}) has more")
        return text + (f"{wrapped(more, style)}\n" if more else "")

    def __repr__(self) -> str:
        return self._repr_mimebundle_()["text/plain"]

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the first rows as text and as HTML, from one execution."""
        columns, found, notes = self._first(ROWS)
        text = self._text(columns, found, notes, ROWS).rstrip("\n")
        note = ". ".join(notes).format(".fetchall(), .df() and .to_arrow_table() have all") if found else self._note
        return {"text/plain": text, "text/html": html_table(columns, found, note)}

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.relation)})

    def __len__(self) -> int:
        length: int = self._answer("__len__")
        return length

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())

    def __getitem__(self, column: str) -> Result:
        return Result(lambda: self.relation[column])

    def __contains__(self, column: str) -> bool:
        return column in self.relation

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.to_arrow_table().__arrow_c_stream__(schema)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            found = getattr(self.relation, name)
        except AttributeError:
            known = [] if name.startswith("_") else dir(self)
            near = _INSTEAD.get(name) or nearest_words(name, known)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{near}") from None
        return wraps(found)(partial(self._answer, name)) if callable(found) else found


def run_once(make: Callable[[], duckdb.DuckDBPyRelation]) -> Callable[[], duckdb.DuckDBPyRelation]:
    """Return a function that makes a relation and runs it: its rows are computed once, and errors in the data are
    raised immediately.
    """

    def made() -> duckdb.DuckDBPyRelation:
        try:
            return make().materialize()
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error

    return made
