"""The content of a lake at one moment: the files of its loads in all tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etq.errors import WarehouseError
from etq.lake.reading.tables import KINDS, WHOLE, DataFile, Lake, all_tables, files_of, kind_of, loads_of
from etq.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from deltalake import DeltaTable

# The description of the table `captures`, which shows that a lake has this schema.
DESCRIPTION = f"etq schema {SCHEMA_VERSION}"


@dataclass(frozen=True)
class LakeState:
    """The content of a lake at one moment: the files of each table that has rows."""

    lake: Lake
    files: Mapping[str, Sequence[DataFile]]

    def of(self, table: str) -> Sequence[DataFile]:
        """The files of a table."""
        return self.files.get(table, [])

    def paths(self, table: str) -> list[str]:
        """The addresses of a table's files."""
        return [self.lake.uri(table, file.path) for file in self.of(table)]

    def loads(self, kind: str) -> set[str]:
        """The loads of a kind."""
        return {file.load for file in self.of(f"{kind}s")}

    def rows(self, *tables: str) -> dict[str, int]:
        """The number of rows that each load has in tables."""
        rows: dict[str, int] = {}
        for file in (file for table in tables for file in self.of(table)):
            rows[file.load] = rows.get(file.load, 0) + file.rows
        return rows

    def only(self, kind: str, loads: Collection[str]) -> LakeState:
        """This state with only these loads of a kind."""
        files = {
            table: [file for file in of_table if kind_of(table) != kind or file.load in loads]
            for table, of_table in self.files.items()
        }
        return LakeState(self.lake, {table: of_table for table, of_table in files.items() if of_table})


def read(lake: Lake) -> LakeState:
    """Return the present content of a lake.

    Rows of loads that are missing from their root table are left out, because their writers are at work or were killed.

    Raises `WarehouseError` for what isn't a lake, for one of another schema, and for a damaged one.
    """
    while True:
        # Captures are read before the content to which they refer, and root tables before the rows of their loads. This
        # is the reverse of the order in which they are written.
        captures = lake.open("captures")
        check_is_lake(lake, captures)
        others = [f"{kind}s" for kind in KINDS if kind != "capture"]
        roots = {"captures": captures, **dict(zip(others, lake.each(lake.open, others), strict=True))}
        found = {table: files_of(opened) for table, opened in roots.items()}
        names = [table for table in all_tables() if table not in roots]
        found |= dict(zip(names, lake.each(lambda table: files_of(lake.open(table)), names), strict=True))
        loads = {kind: {file.load for file in found[f"{kind}s"]} for kind in KINDS}
        # If loads were merged into others meanwhile, their rows may have been removed before they were read.
        if all(loads[kind] <= loads_of(lake.open(f"{kind}s")) for kind in KINDS if loads[kind]):
            break
    files = {
        table: [file for file in of_table if table in WHOLE or file.load in loads[str(kind_of(table))]]
        for table, of_table in found.items()
    }
    return LakeState(lake, {table: of_table for table, of_table in files.items() if of_table})


def check_is_lake(lake: Lake, captures: DeltaTable | None) -> None:
    """Raise `WarehouseError` if there is no table of captures, or if it is of another schema."""
    if captures is None:
        raise WarehouseError(f"{lake}: not a lake; make one with: etq lake add {lake} FILE...")
    if captures.metadata().description != DESCRIPTION:
        raise WarehouseError(f"{lake}: made by another version of etq; add the files again to a new lake")
