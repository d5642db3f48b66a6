"""Queries that call DuckDB's functions with extreme arguments, as somebody may send who looks for one that harms."""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb

_TEXTS = ("repeat('[', 200000)", "''", "repeat('a', 10000000)", "repeat('/', 3000000)", "chr(0)", "'%'")
_WHOLE = ("9223372036854775807", "-9223372036854775808", "0", "2147483648")
_REAL = ("1e308", "'nan'::DOUBLE", "-0.0", "'-inf'::DOUBLE")
_MOMENTS = ("'infinity'::TIMESTAMP", "TIMESTAMP '294247-01-10 04:00:54'")
_ANY = ("NULL", "i", "repeat('a', 1000000)", "range(1000000)", "9223372036854775807", "[i]", "{'a': i}", "MAP {i: i}")
# Values by type; others are tried for types without an entry.
VALUES = {
    "VARCHAR": _TEXTS, "BIGINT": _WHOLE, "INTEGER": ("2147483647", "-2147483648", "0"), "BOOLEAN": ("true", "NULL"),
    "DOUBLE": _REAL, "FLOAT": _REAL, "BLOB": ("repeat('a', 5000000)::BLOB", "''::BLOB"), "TIMESTAMP": _MOMENTS,
    "INTERVAL": ("INTERVAL 1000000 years", "INTERVAL '-1' microsecond"), "HUGEINT": ("9223372036854775807::HUGEINT",),
    "DATE": ("DATE '5877642-06-25 (BC)'", "'infinity'::DATE"), "BIT": ("repeat('1', 100000)::BIT",),
    "JSON": ("(repeat('[', 100000) || repeat(']', 100000))::JSON", "'{}'::JSON"),
}  # fmt: skip
_FUNCTIONS = """
    SELECT f.function_name, f.function_type = 'table', f.parameter_types FROM duckdb_functions() AS f
    WHERE f.internal AND f.function_type IN ('scalar', 'aggregate', 'macro', 'table')
    ORDER BY ALL
"""


def queries(seed: int) -> Iterator[str]:
    """A query for each of DuckDB's functions, in a random order."""
    chance = random.Random(seed)
    functions = {name: (is_table, types) for name, is_table, types in duckdb.execute(_FUNCTIONS).fetchall()}
    for name in chance.sample([*functions], len(functions)):
        is_table, types = functions[name]
        values = [chance.choice(VALUES.get(str(kind).removesuffix("[]"), _ANY)) for kind in types or ()]
        call = f'"{name}"({", ".join(values)})'
        yield f"SELECT count(*) FROM {call}" if is_table else f"SELECT {call} FROM range(100) AS t(i)"
