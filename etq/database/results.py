"""Returns times with a time zone as Python values without the package pytz, which DuckDB would need."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final

import duckdb

from etq.errors import QueryError

_ZONED: Final = "TIMESTAMP WITH TIME ZONE"
_NESTED: Final = re.compile(r"\]$|^(STRUCT|MAP|UNION|VARIANT)\b")
# Bytes of text of all lists, structs and maps in a result that is limited.
_MOST_NESTED: Final = 64 * 2**20
_TOO_LARGE: Final = f"the query''s lists take more than {_MOST_NESTED >> 20} MB; ask for less"


def subquery(query: str) -> str:
    """Return a statement as a subquery: without the semicolon and the comments at its end."""
    text = query.encode()  # tokens begin at bytes
    ends = [
        (start, kind == duckdb.token_type.comment or text[start : start + 1] == b";")
        for start, kind in duckdb.tokenize(query)
    ]
    while ends and ends[-1][1]:
        text = text[: ends.pop()[0]]
    return f"(\n{text.decode()}\n)"


class QueryResult:
    """The result of a query. Times with a zone are `datetime`s with an offset;
    within lists and structs they are texts.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, query: str, parameters: Any = None, *, is_limited: bool = False
    ) -> None:
        """Run a query. Raises `duckdb.Error`, also for lists, structs and maps of more than 64 MB if it `is_limited`:
        as Python objects, they take twenty times as much memory, and no other thread runs while they are made.
        """
        # An empty query has no result, not even an empty one.
        self._result = connection.execute(query, parameters)
        description = (self._result.description or ()) if self._result else ()
        self.columns = [column[0] for column in description]
        self.types = [str(column[1]) for column in description]
        self._zoned = [at for at, each in enumerate(self.types) if each == _ZONED]
        nested = [at for at, each in enumerate(self.types, 1) if is_limited and _NESTED.search(each)]
        if nested or any(_ZONED in each for each in self.types):
            cells = [f"#{at}::VARCHAR" if _ZONED in each else f"#{at}" for at, each in enumerate(self.types, 1)]
            if nested:
                size = " + ".join(f"coalesce(strlen(#{at}::VARCHAR), 0)" for at in nested)
                is_large = f"sum({size}) OVER (ROWS UNBOUNDED PRECEDING) > {_MOST_NESTED}"
                first = nested[0] - 1
                cells[first] = f"CASE WHEN {is_large} THEN error('{_TOO_LARGE}') ELSE {cells[first]} END"
            self._result = connection.execute(f"SELECT {', '.join(cells)} FROM {subquery(query)}", parameters)

    def all(self) -> list[tuple[Any, ...]]:
        """Return all rows. Raises `duckdb.Error`, and `QueryError` for values that Python can't represent."""
        return self._converted(self._result.fetchall) if self.columns else []

    def next(self, rows: int) -> list[tuple[Any, ...]]:
        """Return the next rows, at most `rows` of them. Raises as `all` does."""
        return self._converted(partial(self._result.fetchmany, rows)) if self.columns else []

    def _converted(self, fetch: Callable[[], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        try:
            rows = fetch()
        except (OverflowError, ValueError) as error:  # such as an interval of 10^9 days
            raise QueryError(f"Python can't represent a value: {error}; cast it to VARCHAR") from error
        if not self._zoned:
            return rows
        return [tuple(_moment(value) if at in self._zoned else value for at, value in enumerate(row)) for row in rows]


def _moment(text: str | None) -> datetime | str | None:
    """Return a time as Python's type; times that Python can't represent, such as infinity, stay texts."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return text
