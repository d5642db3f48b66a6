"""Putting one program into a warehouse: within a transaction, whole or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import PurePath

import duckdb
import numpy as np
import pyarrow as pa

import etq
from etq import catalog
from etq.errors import WarehouseError
from etq.ingest.arrow import batch, integers, texts
from etq.ingest.program import read_program
from etq.storing import Source


def program_tables() -> list[str]:
    """The base tables that programs are stored in."""
    return [table.name for table in catalog.tables() if table.columns[0].name == "program_id"]


def store_program(connection: duckdb.DuckDBPyConnection, source: Source, name: str | None) -> tuple[int, bool]:
    """Put a program into the warehouse, or give what is there of the same content the name, if one is given.

    Returns the program_id, and whether it is new. The caller holds a transaction.
    """
    known = connection.execute("SELECT program_id FROM programs WHERE sha256 = ?", [source.sha256]).fetchall()
    if known:
        [(program_id,)] = known
        if name is not None:
            _check_name_is_free(connection, name, program_id)
            connection.execute("UPDATE programs SET name = ? WHERE program_id = ?", [name, program_id])
        return program_id, False
    program_id = connection.execute("SELECT coalesce(max(program_id), 0) + 1 FROM programs").fetchall()[0][0]
    name = _free_name(connection, source) if name is None else name
    _check_name_is_free(connection, name, program_id)
    for table, rows in _tables(name, source):
        connection.register("_rows", rows)
        # The number stands in the statement: as a parameter it would be a column to fill.
        connection.execute(f"INSERT INTO {table} BY NAME SELECT {program_id:d} AS program_id, * FROM _rows")
        connection.unregister("_rows")
    return program_id, True


def _tables(name: str, source: Source) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of all tables; in that of `programs`, what the file doesn't say."""
    for table, rows in read_program(source.content, source.path):
        if table != "programs":
            yield table, rows
            continue
        given = {
            "sha256": texts([source.sha256]),
            "name": texts([name]),
            "uri": texts([source.path]),
            "byte_size": integers([len(source.content)], np.int64),
            "ingested_at": integers([time.time_ns() // 1000], np.int64).view(pa.timestamp("us")),
            "etq_version": texts([etq.__version__]),
        }
        yield table, batch({**given, **dict(zip(rows.schema.names, rows.columns, strict=True))})


def _check_name_is_free(connection: duckdb.DuckDBPyConnection, name: str, program_id: int) -> None:
    taken = connection.execute(
        "SELECT sha256 FROM programs WHERE name = ? AND program_id <> ?", [name, program_id]
    ).fetchall()
    if taken:
        raise WarehouseError(f"the name {name!r} is taken by another program ({taken[0][0][:12]}); give another one")


def _free_name(connection: duckdb.DuckDBPyConnection, source: Source) -> str:
    """The file's stem; where another program has that name, with folders before it, at last with its hash behind it."""
    path = PurePath(source.path)
    parts = [*path.parts[:-1], path.stem]
    names = ["/".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
    for name in [*names, f"{path.stem}-{source.sha256[:12]}"]:
        if not connection.execute("SELECT 1 FROM programs WHERE name = ?", [name]).fetchall():
            return name
    return f"{path.stem}-{source.sha256}"
