"""Selects the rows and columns of a result to write, by `--limit`, `--sort-by` and `--columns`, which all tables
have.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etq.catalog import identifier
from etq.errors import EtqError, nearest_words
from etq.render.table import Rows, title

if TYPE_CHECKING:
    from etq.catalog import SqlObject
    from etq.database.handles import Answers


class Selection(NamedTuple):
    """Selects the first `limit` rows, sorted by a column, and `columns` in the given order. Numbers and times are
    sorted from the largest, texts from A to Z; NULL is last.
    """

    limit: int | None = None
    sort_by: str | None = None
    columns: tuple[str, ...] | None = None

    def columns_of(self, view: SqlObject, is_for_people: bool) -> str:
        """Return the columns of a view to SELECT. For programs, these are all columns. For people, they are the columns
        that people see, and the one to sort by. If `columns` has names that only people see, both sets are returned.
        """
        if not view.shown or (self.columns is None and not is_for_people):
            return "*"
        known = [column.name for column in view.columns]
        if self.columns is not None and {*self.columns} <= {*known, *map(title, known)}:
            return "*"
        seen = {column.name for column in view.shown}
        if self.sort_by is not None:
            column_named(self.sort_by, [*known, *seen.difference(known)], " to sort by")
        more = [name for name in known if name not in seen and (self.columns is not None or name == self.sort_by)]
        return ", ".join([view.to_read, *map(identifier, more)])

    def with_unit(self, view: SqlObject) -> Selection:
        """Return the selection; if selected columns of a view are times, add the column unit."""
        has_unit = self.columns is None or "unit" in self.columns or not {*self.columns} & {*view.times}
        return self if has_unit else self._replace(columns=(*(self.columns or ()), "unit"))

    def query(self, warehouse: Answers, query: str, parameters: dict[str, Any]) -> str:
        """Return a query for the selected rows of another query. Raises `EtqError` for an unknown column."""
        if self == Selection():
            return query
        from etq.database.results import subquery

        if self.sort_by is not None or self.columns is not None:
            relation = warehouse.relation(f"FROM {subquery(query)} LIMIT 0", **parameters)
            sort_by, columns = self._named(relation.columns)
            if sort_by is not None:
                is_text = str(relation.types[relation.columns.index(sort_by)]) == "VARCHAR"
                down = "ASC" if is_text else "DESC"
                query = f"FROM {subquery(query)} ORDER BY {identifier(sort_by)} {down} NULLS LAST"
            if columns is not None:
                query = f"SELECT {', '.join(map(identifier, columns))} FROM {subquery(query)}"
        return query if self.limit is None else f"FROM {subquery(query)} LIMIT {self.limit:d}"

    def rows(self, columns: Sequence[str], rows: Rows) -> tuple[Sequence[str], Rows]:
        """Return the selected columns and rows. Raises `EtqError` for an unknown column."""
        sort_by, chosen = self._named(columns)
        if sort_by is not None:
            at = columns.index(sort_by)
            known = [row for row in rows if row[at] is not None]
            is_text = any(isinstance(row[at], str) for row in known)
            known.sort(key=lambda row: str(row[at]) if is_text else row[at], reverse=not is_text)
            rows = [*known, *(row for row in rows if row[at] is None)]
        if chosen is not None:
            kept = [columns.index(name) for name in chosen]
            columns, rows = chosen, [[row[at] for at in kept] for row in rows]
        return columns, rows if self.limit is None else rows[: self.limit]

    def _named(self, columns: Sequence[str]) -> tuple[str | None, list[str] | None]:
        """Return the names of the column to sort by and of the selected columns. Raises `EtqError` for an
        unknown one.
        """
        sort_by = None if self.sort_by is None else column_named(self.sort_by, columns, " to sort by")
        chosen = None if self.columns is None else [column_named(name, columns) for name in self.columns]
        return sort_by, chosen


def column_named(name: str, columns: Sequence[str], purpose: str = "") -> str:
    """Return the column with a name or a table's heading. Raises `EtqError` for an unknown one."""
    found = name if name in columns else next((column for column in columns if title(column) == name), None)
    if found is None:
        near = nearest_words(name, columns)
        raise EtqError(f"no column {name!r}{purpose}{near}; known are {', '.join(columns)}")
    return found


selection: Final[ContextVar[Selection]] = ContextVar("selection", default=Selection())  # noqa: B039 - it is immutable
