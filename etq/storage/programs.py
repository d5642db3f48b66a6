"""Storing programs in a warehouse."""

from __future__ import annotations

import duckdb

from etq import catalog
from etq.ingest.program.reader import read_program
from etq.storage.capture import store_once
from etq.storage.sources import Source


def program_tables() -> list[str]:
    """Return the base tables for programs."""
    return [table.name for table in catalog.tables() if table.columns[0].name == "program_id"]


def store_program(connection: duckdb.DuckDBPyConnection, source: Source, name: str | None) -> tuple[int, bool]:
    """Store a program; see `store_once`."""
    return store_once(connection, "programs", source, name, read_program(source.content, source.uri))
