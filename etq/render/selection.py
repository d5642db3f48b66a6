"""What is written of a result: `--limit`, `--sort-by` and `--columns` of all tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from etq.errors import EtqError
from etq.render.table import Rows

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class Selection:
    """Selects the first `limit` rows, sorted by a column: numbers and times from the largest, texts from A to Z,
    NULL last; and of these some `columns`, in their order.
    """

    limit: int | None = None
    sort_by: str | None = None
    columns: tuple[str, ...] | None = None

    def query(self, warehouse: Warehouse, query: str, parameters: dict[str, Any]) -> str:
        """Return a query for the selected rows of another query. Raises `EtqError` for an unknown column."""
        if self == Selection():
            return query
        from etq.database.results import subquery

        if self.sort_by is not None or self.columns is not None:
            relation = warehouse.sql(f"FROM {subquery(query)} LIMIT 0", **parameters)
            self._check(relation.columns)
        if self.sort_by is not None:
            is_text = str(relation.types[relation.columns.index(self.sort_by)]) == "VARCHAR"
            column = self.sort_by.replace('"', '""')
            query = f'FROM {subquery(query)} ORDER BY "{column}" {"ASC" if is_text else "DESC"} NULLS LAST'
        if self.columns is not None:
            names = ", ".join('"' + name.replace('"', '""') + '"' for name in self.columns)
            query = f"SELECT {names} FROM {subquery(query)}"
        return query if self.limit is None else f"FROM {subquery(query)} LIMIT {self.limit:d}"

    def rows(self, columns: Sequence[str], rows: Rows) -> tuple[Sequence[str], Rows]:
        """Return the selected columns and rows. Raises `EtqError` for an unknown column."""
        self._check(columns)
        if self.sort_by is not None:
            at = columns.index(self.sort_by)
            known = [row for row in rows if row[at] is not None]
            is_text = any(isinstance(row[at], str) for row in known)
            known.sort(key=lambda row: str(row[at]) if is_text else row[at], reverse=not is_text)
            rows = [*known, *(row for row in rows if row[at] is None)]
        if self.columns is not None:
            kept = [columns.index(name) for name in self.columns]
            columns, rows = self.columns, [[row[at] for at in kept] for row in rows]
        return columns, rows if self.limit is None else rows[: self.limit]

    def _check(self, columns: Sequence[str]) -> None:
        wanted = [(name, "") for name in self.columns or ()]
        wanted += [(self.sort_by, " to sort by")] if self.sort_by is not None else []
        for name, purpose in wanted:
            if name not in columns:
                from etq.warehouse.nearest import nearest_words

                near = nearest_words(name, columns)
                raise EtqError(f"no column {name!r}{purpose}{near}; known are {', '.join(columns)}")


selection: Final[ContextVar[Selection]] = ContextVar("selection", default=Selection())  # noqa: B039 - it is frozen
