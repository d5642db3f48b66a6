"""The versions of etq, of its tables, and of what answers depend on."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
# Of the tables of a warehouse: `etq.database.schema` brings older ones forward, each step a migration there.
SCHEMA_VERSION: Final = 5
# Of the libraries, those that not everybody has stand last.
LIBRARIES: Final = (
    *("duckdb", "pyarrow", "numpy", "msgspec", "click"),
    *("pandas", "matplotlib", "pyspark", "sqlglot", "torch", "executorch"),
)


def versions() -> dict[str, str]:
    """Versions by name, read from what is installed: none of it is loaded, and what isn't there is left out."""
    # Every command's start loads this module, which takes no time without these two.
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
