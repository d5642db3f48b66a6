"""The rows of a query in Python: DuckDB's relation, shown as etq shows tables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any, Final

import duckdb

from etq.catalog import foremost_in
from etq.errors import EtqError, QueryError, message_of
from etq.render.table import table
from etq.render.terminal import style_of
from etq.warehouse.nearest import nearest_words

ROWS: Final = 60
# The package of which a method makes an object, and how to install it.
_NEEDS: Final = {**dict.fromkeys(("df", "fetchdf", "to_df"), ("pandas", "'etq[pandas]'")), "pl": ("polars", "polars")}
_HINT: Final = '.select("op", "total") has those that you name'


class Result:
    """The rows of a query, which runs each time they are read.

    `show` prints them. All else is that of DuckDB's relation, `relation`: `fetchall()`, `df()` with pandas,
    `to_arrow_table()`, `columns`, `select("op", "total")`, `filter("total > 5")`, `limit(3)`.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation, query: str = "") -> None:
        """Hold a relation; `query` names the views that it is of, for `show`."""
        self.relation = relation
        self._query = query

    def show(self, rows: int = ROWS) -> None:
        """Print the first rows as a table: on a terminal, with the columns that fit, those that matter most.

        Raises `QueryError` for errors in the data.
        """
        sys.stdout.write(self._text(rows))

    def _text(self, rows: int) -> str:
        try:
            found = self.relation.limit(rows + 1).fetchall()
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error
        text = table(self.relation.columns, found[:rows], style_of(sys.stdout), _HINT, foremost_in(self._query))
        return text + (f"The first {rows} rows; show({10 * rows}) has more\n" if len(found) > rows else "")

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows. Raises `duckdb.Error` for errors in the data."""
        rows: list[tuple[Any, ...]] = self.relation.fetchall()
        return rows

    def __repr__(self) -> str:
        try:
            return self._text(ROWS).rstrip("\n")
        except QueryError as error:
            return f"Error: {error}"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.relation)})

    def __len__(self) -> int:
        return len(self.relation)

    def __getitem__(self, column: str) -> Result:
        return Result(self.relation[column])

    def __contains__(self, column: str) -> bool:
        return column in self.relation

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.relation.__arrow_c_stream__(schema)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            found = getattr(self.relation, name)
        except AttributeError:
            known = [] if name.startswith("_") else dir(self)
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}{nearest_words(name, known)}"
            ) from None
        return _answering(name, found) if callable(found) else found


def _answering(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a relation that takes and returns results."""

    @wraps(method)
    def called(*args: Any, **options: Any) -> Any:
        given = [arg.relation if isinstance(arg, Result) else arg for arg in args]
        try:
            answer = method(*given, **options)
        except (duckdb.InvalidInputException, ModuleNotFoundError) as error:
            package, install = _NEEDS.get(name, (None, None))
            if package is None or find_spec(package) is not None:
                raise
            raise EtqError(f".{name}() needs {package}: pip install {install}") from error
        return Result(answer) if isinstance(answer, duckdb.DuckDBPyRelation) else answer

    return called
