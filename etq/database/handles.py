"""Handles of stored captures, records and programs, by key, name and hash."""

from __future__ import annotations

import html
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, Self

import duckdb

from etq.errors import printable


class Answers(Protocol):
    """The methods of a warehouse that handles and other helpers call."""

    @property
    def is_open(self) -> bool: ...

    @property
    def path(self) -> str | None: ...

    @property
    def connection(self) -> duckdb.DuckDBPyConnection: ...

    def rows(self, query: str, /, **parameters: Any) -> tuple[list[str], list[tuple[Any, ...]]]: ...

    def rows_in_parts(
        self, query: str, /, **parameters: Any
    ) -> AbstractContextManager[tuple[list[str], Iterator[list[tuple[Any, ...]]]]]: ...

    def relation(self, query: str, /, **parameters: Any) -> duckdb.DuckDBPyRelation: ...

    def connection_for(self, query: str) -> duckdb.DuckDBPyConnection: ...

    def capture(self, selector: str) -> Capture: ...

    def expanded(self, selector: str) -> str: ...

    def complete(self) -> None: ...

    def complete_steps(self, keys: Sequence[int]) -> None: ...

    def locked(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]: ...


class Handle:
    """A row of a table with a name and a hash. `str` of it is its name."""

    name: str
    sha256: str

    def __str__(self) -> str:
        return self.name

    def described(self) -> dict[str, str | None]:
        """Return its properties by name."""
        return {type(self).__name__.lower(): self.name, "sha256": self.sha256}

    def _repr_html_(self) -> str:
        """Return its properties as a notebook shows them."""
        left = 'style="text-align: left"'
        rows = (
            f"<tr><th {left}>{name}</th><td {left}>{html.escape(printable(value or ''))}</td></tr>\n"
            for name, value in self.described().items()
        )
        return f'<table class="dataframe">\n{"".join(rows)}</table>'


@dataclass(frozen=True)
class Record(Handle):
    """An ETRecord in a warehouse. `is_complete` is False for a record that can't map events to ops."""

    record_id: int
    name: str
    sha256: str
    is_complete: bool
    is_new: bool = False


@dataclass(frozen=True)
class Capture(Handle):
    """A capture in a warehouse. `is_new` is False if the warehouse had the same content before."""

    capture_id: int
    name: str
    sha256: str
    format: str
    is_new: bool = False

    # The warehouse that returned the handle, as long as that exists; it knows the labels.
    _warehouse: ClassVar[weakref.ref[Any] | None] = None

    def within(self, warehouse: Answers) -> Self:
        """Set the warehouse that the handle comes from, and return the handle."""
        object.__setattr__(self, "_warehouse", weakref.ref(warehouse))
        return self

    def __getstate__(self) -> dict[str, Any]:
        return asdict(self)

    def described(self) -> dict[str, str | None]:
        """Return its properties by name, with current name, labels and size if the warehouse is still open."""
        parts = super().described() | {"format": self.format}
        warehouse: Answers | None = self._warehouse() if self._warehouse is not None else None
        if warehouse is None or not warehouse.is_open:
            return parts
        query = """
            SELECT s.name, s.labels, c.size_bytes FROM captures AS c
            JOIN capture_summary AS s ON s.name = c.name WHERE c.sha256 = $sha256
        """
        for name, labels, size in warehouse.rows(query, sha256=self.sha256)[1]:
            parts |= {"capture": name, "labels": labels, "size": f"{size:,} bytes"}
        return parts


@dataclass(frozen=True)
class Program(Handle):
    """A program in a warehouse. `is_new` is False if the warehouse had the same content before."""

    program_id: int
    name: str
    sha256: str
    is_new: bool = False
