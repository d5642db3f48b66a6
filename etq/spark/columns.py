"""Converts the columns of DuckDB's results to Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

_TYPES: Final = {
    "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "integer": "INT", "bigint": "BIGINT",
    "hugeint": "DECIMAL(38,0)", "float": "FLOAT", "double": "DOUBLE", "varchar": "STRING", "blob": "BINARY",
    "date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamp with time zone": "TIMESTAMP",
}  # fmt: skip
# Spark has no unsigned numbers.
_UNSIGNED: Final = {"utinyint": "SMALLINT", "usmallint": "INTEGER", "uinteger": "BIGINT", "ubigint": "HUGEINT"}


def schema(names: Sequence[str], types: Sequence[DuckDBPyType]) -> str:
    """The columns of a result for Spark, as the text of a schema."""
    return ", ".join(f"{_name(name)} {_type(kind) or _cast(kind)[1]}" for name, kind in zip(names, types, strict=True))


def cells(types: Sequence[DuckDBPyType]) -> str | None:
    """Return the expressions to SELECT from a result so that values of types that Spark lacks become numbers and texts.
    None if the result can be used unchanged.
    """
    if all(map(_type, types)):
        return None
    return ", ".join(f"#{at}" if _type(kind) else f"#{at}::{_cast(kind)[0]}" for at, kind in enumerate(types, 1))


def _cast(kind: DuckDBPyType) -> tuple[str, str]:
    """Return the type to which values are cast if Spark lacks their type: its name in DuckDB and in Spark."""
    to = _UNSIGNED.get(kind.id, "VARCHAR")
    return to, _TYPES[to.lower()]


def _type(kind: DuckDBPyType) -> str | None:
    """The name of a type for Spark; None if it has none."""
    if kind.id == "decimal":
        return str(kind)
    if kind.id not in ("list", "map", "struct"):
        return _TYPES.get(kind.id)
    parts = {name: _type(cast("DuckDBPyType", part)) for name, part in kind.children}
    if not all(parts.values()):
        return None
    if kind.id == "struct":
        return f"STRUCT<{', '.join(f'{_name(name)}: {part}' for name, part in parts.items())}>"
    return f"{'ARRAY' if kind.id == 'list' else 'MAP'}<{', '.join(map(str, parts.values()))}>"


def _name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
