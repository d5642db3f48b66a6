"""What a warehouse gives for what is put into it: captures, records and programs, by key, name and hash."""

from __future__ import annotations

import weakref
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from etq.said import Said
    from etq.warehouse import Warehouse


class _Handle:
    """Shows itself as its name, and in a notebook as a table of what it is."""

    name: str
    sha256: str

    def __str__(self) -> str:
        return self.name

    def _repr_html_(self) -> str:
        from etq.notebook import described

        return described(self._parts())

    def _parts(self) -> dict[str, str | None]:
        return {type(self).__name__.lower(): self.name, "sha256": self.sha256}


@dataclass(frozen=True)
class Record(_Handle):
    """An ETRecord in a warehouse. `is_complete` is False for one that can't tell events their ops."""

    record_id: int
    name: str
    sha256: str
    is_complete: bool
    is_new: bool = False


@dataclass(frozen=True)
class Capture(_Handle):
    """A capture in a warehouse. `is_new` is False where ingest found that its content was there already."""

    capture_id: int
    name: str
    sha256: str
    format: str
    is_new: bool = False

    # The warehouse that gave it, as long as there is one, which knows its labels.
    _warehouse: ClassVar[weakref.ref[Any] | None] = None

    def within(self, warehouse: Said) -> Self:
        """Itself, with the warehouse that gave it."""
        object.__setattr__(self, "_warehouse", weakref.ref(warehouse))
        return self

    def __getstate__(self) -> dict[str, Any]:
        return asdict(self)

    def _parts(self) -> dict[str, str | None]:
        """With labels and size, if the warehouse is open still; both and the name as they are now."""
        parts = super()._parts() | {"format": self.format}
        warehouse: Warehouse | None = self._warehouse() if self._warehouse is not None else None
        if warehouse is None or not warehouse.is_open:
            return parts
        query = """
            SELECT s.name, s.labels, c.byte_size FROM captures AS c
            JOIN capture_summary AS s ON s.name = c.name WHERE c.sha256 = $sha256
        """
        for name, labels, size in warehouse.rows(query, sha256=self.sha256)[1]:
            parts |= {"capture": name, "labels": labels, "size": f"{size:,} bytes"}
        return parts


@dataclass(frozen=True)
class Program(_Handle):
    """A program in a warehouse. `is_new` is False where ingest found that its content was there already."""

    program_id: int
    name: str
    sha256: str
    is_new: bool = False
