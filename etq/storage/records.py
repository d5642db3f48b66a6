"""Storing ETRecords and programs in a warehouse."""

from __future__ import annotations

import duckdb

from etq.ingest.etrecord.reader import read_etrecord
from etq.storage.capture import store_once
from etq.storage.given import check_given
from etq.storage.nodes import place_nodes_of_record
from etq.storage.sources import Source


def store_record(connection: duckdb.DuckDBPyConnection, source: Source, name: str | None) -> tuple[int, bool]:
    """Read and store an ETRecord; see `store_once`."""
    check_given(source, "an ETRecord")
    key, is_new = store_once(connection, "records", source, name, read_etrecord(source.content, source.uri))
    if is_new:
        place_nodes_of_record(connection, key)
    return key, is_new


def store_program(connection: duckdb.DuckDBPyConnection, source: Source, name: str | None) -> tuple[int, bool]:
    """Read and store a program; see `store_once`."""
    from etq.ingest.program.reader import read_program

    check_given(source, "a program")
    return store_once(connection, "programs", source, name, read_program(source.content, source.uri))
