"""Storing ETRecords and programs in a warehouse."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from etq.ingest.etrecord.reader import read_etrecord
from etq.storage.capture import store_once
from etq.storage.given import check_given
from etq.storage.sources import Source


@dataclass(frozen=True)
class ReadRecord:
    """An ETRecord that was read: its source, and its rows by table."""

    source: Source
    rows: list[tuple[str, pa.RecordBatch]]


def read_record(source: Source) -> ReadRecord:
    """Read an ETRecord before the database for it exists. Raises `FormatError` as `read_etrecord` does."""
    check_given(source, "an ETRecord")
    source.start_hashing()
    return ReadRecord(source, [*read_etrecord(source.content, source.uri)])


def store_read(connection: duckdb.DuckDBPyConnection, record: ReadRecord) -> tuple[int, bool]:
    """Store an ETRecord that was read; see `store_once`."""
    return store_once(connection, "records", record.source, None, iter(record.rows))


def store_record(connection: duckdb.DuckDBPyConnection, source: Source, name: str | None) -> tuple[int, bool]:
    """Read and store an ETRecord; see `store_once`."""
    check_given(source, "an ETRecord")
    return store_once(connection, "records", source, name, read_etrecord(source.content, source.uri))


def store_program(connection: duckdb.DuckDBPyConnection, source: Source, name: str | None) -> tuple[int, bool]:
    """Read and store a program; see `store_once`."""
    from etq.ingest.program.reader import read_program

    check_given(source, "a program")
    return store_once(connection, "programs", source, name, read_program(source.content, source.uri))
