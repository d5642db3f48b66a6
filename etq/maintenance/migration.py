"""A step from one schema of a warehouse to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb


@dataclass(frozen=True)
class Migration:
    """What a schema has in addition to the one before it.

    fill     computes what is new, in a warehouse that has the tables, views and macros of today; not the rollups; by
             default nothing
    tables   names of the new tables
    columns  names of the new columns, by table
    """

    fill: Callable[[duckdb.DuckDBPyConnection], None] = lambda _: None
    tables: frozenset[str] = frozenset()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
