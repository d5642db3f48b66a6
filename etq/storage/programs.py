"""Storing programs in a warehouse."""

from __future__ import annotations

import duckdb

from etq.ingest.program.reader import read_program
from etq.storage.capture import store_once
from etq.storage.sources import Source


def store_program(connection: duckdb.DuckDBPyConnection, source: Source, name: str | None) -> tuple[int, bool]:
    """Store a program; see `store_once`."""
    return store_once(connection, "programs", source, name, read_program(source.content, source.uri))
