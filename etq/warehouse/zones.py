"""Times with a time zone as values of Python: DuckDB makes them with the package pytz, which may be missing."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import duckdb

_ZONED: Final = "TIMESTAMP WITH TIME ZONE"


def subquery(query: str) -> str:
    """A statement as one that another can select from: without the semicolon and the comments that end it."""
    ends = [(start, kind == duckdb.token_type.comment or query[start] == ";") for start, kind in duckdb.tokenize(query)]
    while ends and ends[-1][1]:
        query = query[: ends.pop()[0]]
    return f"(\n{query}\n)"


class Answer:
    """The result of a query, with times as `datetime` with an offset; in lists and structs, as texts."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str, parameters: Any = None) -> None:
        """Run a query. Raises `duckdb.Error`."""
        # An empty query has no result at all.
        self._result = connection.execute(query, parameters)
        description = (self._result.description or ()) if self._result else ()
        self.columns = [column[0] for column in description]
        types = [str(column[1]) for column in description]
        self._zoned = [at for at, each in enumerate(types) if each == _ZONED]
        if any(_ZONED in each for each in types):
            cells = [f"#{at}::VARCHAR" if _ZONED in each else f"#{at}" for at, each in enumerate(types, 1)]
            self._result = connection.execute(f"SELECT {', '.join(cells)} FROM {subquery(query)}", parameters)

    def all(self) -> list[tuple[Any, ...]]:
        """All rows. Raises `duckdb.Error`."""
        return self._converted(self._result.fetchall()) if self.columns else []

    def next(self, rows: int) -> list[tuple[Any, ...]]:
        """The next rows, at most so many. Raises `duckdb.Error`."""
        return self._converted(self._result.fetchmany(rows)) if self.columns else []

    def _converted(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        if not self._zoned:
            return rows
        return [tuple(_moment(value) if at in self._zoned else value for at, value in enumerate(row)) for row in rows]


def _moment(text: str | None) -> datetime | str | None:
    """A time; the text of one that Python has no value of, as infinity."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return text
