"""Making a DuckDB file an etq warehouse: its tables, its views and macros, and bringing older ones forward."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

import duckdb

from etq import catalog
from etq.database.rollups import RUN_FINDERS, describe_runs, fill_rollups
from etq.errors import WarehouseError
from etq.version import SCHEMA_VERSION, VERSION

# For each schema version after the first, the statements that make it of the one before.
MIGRATIONS: Final[dict[int, str]] = {
    2: """
    ALTER TABLE runs ADD COLUMN phase VARCHAR;
    CREATE TABLE metrics (
        capture_id INTEGER NOT NULL,
        run_index INTEGER,
        name VARCHAR NOT NULL,
        value DOUBLE NOT NULL,
        unit VARCHAR,
        better VARCHAR,
        sample INTEGER NOT NULL,
        source VARCHAR
    );
    CREATE TABLE op_times (
        capture_id INTEGER NOT NULL,
        op_index INTEGER NOT NULL,
        phase VARCHAR,
        item VARCHAR NOT NULL,
        scope VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        label VARCHAR NOT NULL,
        family VARCHAR NOT NULL,
        chain_index BIGINT NOT NULL,
        instruction_id INTEGER,
        op_type VARCHAR,
        module_path VARCHAR,
        value_unit VARCHAR NOT NULL,
        is_added BOOLEAN NOT NULL,
        runs INTEGER NOT NULL,
        calls BIGINT NOT NULL,
        total_ticks BIGINT,
        p25 DOUBLE NOT NULL,
        p50 DOUBLE NOT NULL,
        p90 DOUBLE NOT NULL,
        resolution BIGINT NOT NULL
    );

    CREATE TABLE module_times (
        capture_id INTEGER NOT NULL,
        phase VARCHAR,
        scope VARCHAR NOT NULL,
        module_path VARCHAR NOT NULL,
        runs INTEGER NOT NULL,
        total_ticks BIGINT,
        p25 DOUBLE NOT NULL,
        p50 DOUBLE NOT NULL,
        p90 DOUBLE NOT NULL
    );
    """,
    # Ops get their places, also those whose events were pruned: all of that is in the rollups. So far, the rows of ids
    # were in the order of their file, and those of values in that of their keys. Arguments come when a record is
    # ingested again.
    3: """
    ALTER TABLE op_times RENAME TO old_op_times;
    CREATE TABLE op_times (
        capture_id INTEGER NOT NULL,
        op_index INTEGER NOT NULL,
        phase VARCHAR,
        item VARCHAR NOT NULL,
        scope VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        label VARCHAR NOT NULL,
        family VARCHAR NOT NULL,
        chain_index BIGINT NOT NULL,
        instruction_id INTEGER,
        op_type VARCHAR,
        module_path VARCHAR,
        place_in_module INTEGER NOT NULL,
        place_in_kind INTEGER NOT NULL,
        value_unit VARCHAR NOT NULL,
        is_added BOOLEAN NOT NULL,
        runs INTEGER NOT NULL,
        calls BIGINT NOT NULL,
        total_ticks BIGINT,
        p25 DOUBLE NOT NULL,
        p50 DOUBLE NOT NULL,
        p90 DOUBLE NOT NULL,
        resolution BIGINT NOT NULL
    );
    INSERT INTO op_times BY NAME
    SELECT
        o.*,
        dense_rank() OVER (
            PARTITION BY o.capture_id, o.scope, o.module_path, coalesce(o.op_type, o.family)
            ORDER BY o.op_index
        ) AS place_in_module,
        dense_rank() OVER (PARTITION BY o.capture_id, o.scope, o.kind, o.family ORDER BY o.op_index) AS place_in_kind
    FROM old_op_times AS o
    ORDER BY o.capture_id, o.op_index, o.phase NULLS FIRST;
    DROP TABLE old_op_times;
    ALTER TABLE delegate_debug_handles RENAME TO old_handles;
    CREATE TABLE delegate_debug_handles (
        record_id INTEGER NOT NULL,
        method VARCHAR NOT NULL,
        instruction_id INTEGER NOT NULL,
        delegate_debug_id VARCHAR NOT NULL,
        id_index INTEGER NOT NULL,
        position INTEGER NOT NULL,
        debug_handle INTEGER NOT NULL
    );
    INSERT INTO delegate_debug_handles BY NAME
    SELECT
        h.* EXCLUDE (place),
        dense_rank() OVER (PARTITION BY h.record_id, h.method, h.instruction_id ORDER BY h.place) - 1 AS id_index
    FROM (
        SELECT
            o.*,
            min(o.rowid) OVER (
                PARTITION BY o.record_id, o.method, o.instruction_id, o.delegate_debug_id
            ) AS place
        FROM old_handles AS o
    ) AS h
    ORDER BY h.record_id, h.method, h.instruction_id, id_index, h.position;
    DROP TABLE old_handles;
    CREATE TABLE capture_ops (
        capture_id INTEGER NOT NULL,
        scope VARCHAR,
        is_method BOOLEAN NOT NULL,
        ops_hash VARCHAR NOT NULL
    );
    CREATE TABLE node_arguments (
        record_id INTEGER NOT NULL,
        graph_id INTEGER NOT NULL,
        node_index INTEGER NOT NULL,
        position INTEGER NOT NULL,
        argument VARCHAR NOT NULL,
        value_index INTEGER,
        literal VARCHAR
    );
    ALTER TABLE node_values RENAME TO _keyless_values;
    CREATE TABLE node_values (
        record_id INTEGER NOT NULL,
        graph_id INTEGER NOT NULL,
        node_index INTEGER,
        output_index INTEGER NOT NULL,
        value_name VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        dtype VARCHAR,
        sizes BIGINT[],
        strides BIGINT[],
        value_index INTEGER NOT NULL
    );
    INSERT INTO node_values
    SELECT v.*, row_number() OVER (PARTITION BY v.record_id, v.graph_id ORDER BY v.rowid) - 1
    FROM _keyless_values AS v
    ORDER BY v.rowid;
    DROP TABLE _keyless_values;
    """,
    # Events of captures of then are detached once their file is read again.
    4: """
    ALTER TABLE runs ADD COLUMN scope VARCHAR;
    ALTER TABLE runs ADD COLUMN is_typical BOOLEAN DEFAULT true;
    ALTER TABLE event_ticks ADD COLUMN is_detached BOOLEAN DEFAULT false;
    ALTER TABLE event_ticks ALTER COLUMN is_detached SET NOT NULL;
    ALTER TABLE event_ticks ALTER COLUMN is_detached DROP DEFAULT;
    """,
}

LAST_KEY: Final = 2**31 - 1

# At each macro that is made, DuckDB binds its body, with those of all macros that it calls, up to the first value whose
# type isn't known yet. Most begin by finding a capture. Where what finds it stands, while they are made, for something
# that tells no type, a warehouse is made in half the time.
_MADE_LAST: Final = "_meant_captures"
_STAND_IN: Final = "CREATE OR REPLACE {} _meant_captures(capture) AS TABLE FROM range(capture)"

Result = TypeVar("Result")


def create(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables, views and macros in an empty database, with their documentation."""
    _execute_all(connection, (table.statement for table in catalog.tables()))
    _document_tables(connection)
    define(connection)
    note_version(connection)


def note_version(connection: duckdb.DuckDBPyConnection) -> None:
    """Write down what made the database."""
    connection.execute(
        "INSERT INTO warehouse VALUES (?, ?, ?, now()::TIMESTAMP)",
        [SCHEMA_VERSION, catalog.definitions_hash(), VERSION],
    )


def create_only(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> list[str]:
    """Make just these objects and what they need, for a database that is asked and thrown away.

    Returns the names of the tables that there are then.
    """
    needed = catalog.needed_for(["captures", "findings", *names])
    if any(each.name == "runs" for each in needed):
        needed = catalog.needed_for(["captures", "findings", *names, *RUN_FINDERS])
    _execute_all(connection, _statements(needed, temporary=False))
    return [each.name for each in needed if each.kind == "table"]


def define(connection: duckdb.DuckDBPyConnection, *, temporary: bool = False, without: Container[str] = ()) -> None:
    """Make all views and macros, in place of older ones; temporary ones where the file can't be written.

    But for those `without` which are there in another form.
    """
    made = [each for each in catalog.objects().values() if each.kind != "table" and each.name not in without]
    _execute_all(connection, _statements(made, temporary=temporary))
    if not temporary:
        _execute_all(connection, (comment for each in made for comment in each.comments()))


def update(connection: duckdb.DuckDBPyConnection, path: str, *, read_only: bool) -> None:
    """Check an existing warehouse's version and give it this etq's tables and definitions.

    Raises `WarehouseError` for a database that is no warehouse, one that a newer etq wrote, and an older one that
    needs to be migrated but can't be written.
    """
    try:
        [(version, definitions, writer)] = connection.execute(
            "SELECT schema_version, sql_sha256, etq_version FROM warehouse"
        ).fetchall()
    except (duckdb.CatalogException, duckdb.BinderException, ValueError):
        raise WarehouseError(f"{path}: a DuckDB database, but not a warehouse of etq; name another file") from None
    if version > SCHEMA_VERSION:
        raise WarehouseError(
            f"{path}: written by etq {writer} with schema {version}; etq {VERSION} knows schemas up to "
            f"{SCHEMA_VERSION}: upgrade etq"
        )
    if version < SCHEMA_VERSION and read_only:
        raise WarehouseError(
            f"{path}: of schema {version}, needs to be migrated to {SCHEMA_VERSION}; open it once for writing "
            f"(etq ingest --db {path})"
        )
    if version == SCHEMA_VERSION and definitions == catalog.definitions_hash():
        return
    if read_only:
        define(connection, temporary=True)
        return

    def migrate() -> None:
        for step in range(version + 1, SCHEMA_VERSION + 1):
            connection.execute(MIGRATIONS[step])
        if version < SCHEMA_VERSION:
            _document_tables(connection)
        define(connection)
        if version < 4:
            describe_runs(connection, 1, LAST_KEY)
        if version < 2:
            fill_rollups(connection, 1, LAST_KEY)
        elif version < 3:
            connection.execute("INSERT INTO capture_ops FROM _find_capture_ops(1, ?)", [LAST_KEY])
        connection.execute(
            "UPDATE warehouse SET schema_version = ?, sql_sha256 = ?, etq_version = ?",
            [SCHEMA_VERSION, catalog.definitions_hash(), VERSION],
        )

    in_transaction(connection, migrate)


def is_empty(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a database holds neither tables nor views."""
    query = "SELECT 1 FROM duckdb_tables() UNION ALL SELECT 1 FROM duckdb_views() WHERE NOT internal LIMIT 1"
    return not connection.execute(query).fetchall()


def in_transaction(connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """The result of `work`, committed; or its exception, with nothing changed."""
    connection.execute("BEGIN")
    try:
        result = work()
        connection.execute("COMMIT")
        return result
    except BaseException:
        # A commit that failed for want of space has ended the transaction already, or the connection.
        with suppress(duckdb.Error):
            connection.execute("ROLLBACK")
        raise


def _statements(made: Iterable[catalog.SqlObject], *, temporary: bool) -> Iterator[str]:
    """The statements that make these objects."""
    last: catalog.SqlObject | None = None
    for each in made:
        if each.kind == "table":
            yield each.statement
        elif each.name == _MADE_LAST:
            last = each
            yield _STAND_IN.format("TEMP MACRO" if temporary else "MACRO")
        else:
            yield each.replacing(temporary=temporary)
    if last is not None:
        yield last.replacing(temporary=temporary)


def _document_tables(connection: duckdb.DuckDBPyConnection) -> None:
    _execute_all(connection, (comment for table in catalog.tables() for comment in table.comments()))


def _execute_all(connection: duckdb.DuckDBPyConnection, statements: Iterable[str]) -> None:
    connection.execute(";\n".join(statements))
