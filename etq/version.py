"""The versions of etq, of its tables, and of the libraries that results depend on."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

VERSION: Final = "0.1.0"
# The version of the tables of warehouses and lakes.
SCHEMA_VERSION: Final = 16
# Optional libraries come last.
LIBRARIES: Final = (*("duckdb", "pyarrow", "numpy", "msgspec", "click"), *("pandas", "pyspark", "torch", "executorch"))


class Files(NamedTuple):
    """The library, a file of tables only, and a warehouse without captures: see `etq.database.library`."""

    library: Path
    tables: Path
    warehouse: Path

    @classmethod
    def within(cls, folder: Path) -> Files:
        """Return the files of a folder, which may not exist."""
        return cls(*(folder / f"{name}.duckdb" for name in cls._fields))


def versions() -> dict[str, str]:
    """Return versions by name, from the metadata of installed packages, without loading them;
    missing ones are left out.
    """
    # Imported here, as every command loads this module at its start.
    import platform
    from importlib import metadata

    def installed(library: str) -> str | None:
        try:
            return metadata.version(library)
        except metadata.PackageNotFoundError:
            return None

    return {
        "etq": VERSION,
        "schema": str(SCHEMA_VERSION),
        "Python": platform.python_version(),
        **{name: version for name in LIBRARIES if (version := installed(name)) is not None},
        "platform": platform.platform(),
    }
