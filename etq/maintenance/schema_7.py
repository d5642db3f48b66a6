"""Schema 7: what views of traces shared is computed when a trace is read."""

from __future__ import annotations

from typing import Final

import duckdb

from etq.maintenance.migration import Migration
from etq.maintenance.stored_slices import traces_of


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Compute what is new of traces."""
    for _capture_id in traces_of(connection):
        pass


MIGRATION: Final = Migration(fill=fill)
