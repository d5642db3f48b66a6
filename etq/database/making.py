"""Makes the library and an empty warehouse from the SQL, when the package is built, or in the user's cache."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import duckdb

from etq import catalog
from etq.catalog import quoted
from etq.database.cursors import CHOSEN, TYPED
from etq.database.functions import FUNCTIONS
from etq.database.temporary import temporary_folder
from etq.version import SCHEMA_VERSION, VERSION, Files

# DuckDB 1.5 and later can read and write these files. Blocks of a quarter of the default size save space in files with
# few captures (0.5 of 1.6 MB) and with many (1.4 of 10.1 bytes per event), and are read just as fast.
STORAGE: Final = {"storage_compatibility_version": "v1.5.0", "default_block_size": "65536"}
# Only etq reads the library, which is for the oldest DuckDB that etq works with. A library for DuckDB 1.5 takes 47 ms
# of CPU to attach, this one 40 ms.
_STORAGE_OF_LIBRARY: Final = {"storage_compatibility_version": "v2.0.0"}
# The name of the macro with the query of a view of the library.
_QUERY_OF: Final = "_query_of_"
# Files in the cache that no process has used for this many seconds belong to other versions.
_UNUSED_SECONDS: Final = 30 * 24 * 3600


def make(folder: Path) -> Path:
    """Make the files in a folder of the cache, all or none, and remove unused ones. If the cache can't be written, make
    them in a temporary folder. Returns their folder.
    """
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-", ignore_cleanup_errors=True) as making:
            made = Path(making) / folder.name
            made.mkdir()
            build(made)
            try:
                made.rename(folder)
            except OSError:
                if not folder.exists():  # otherwise another process was faster
                    raise
    except (OSError, duckdb.Error):
        until_exit = ExitStack()
        folder = Path(until_exit.enter_context(temporary_folder()))
        atexit.register(until_exit.close)
        build(folder)
        return folder
    for other in folder.parent.iterdir():
        with suppress(OSError):
            if other.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                shutil.rmtree(other) if other.is_dir() else other.unlink()
    return folder


def build(folder: Path) -> None:
    """Make the files in a folder: the library from a copy of the warehouse."""
    known, files = [*catalog.objects().values()], Files.within(folder)
    tables = [each for each in known if each.kind == "table"]
    with duckdb.connect(str(files.tables), config=dict(STORAGE)) as connection:
        _run(connection, [table.statement for table in tables])
        connection.execute("CHECKPOINT")
    with duckdb.connect(str(files.warehouse), config=dict(STORAGE)) as connection:
        # DuckDB plans each macro that it creates.
        _run(connection, [f"CREATE {function.macro(is_known=False)}" for function in FUNCTIONS])
        _run(connection, [each.statement for each in sorted(known, key=lambda each: each.kind != "table")])
        _run(connection, [comment for each in known for comment in each.comments()])
        connection.execute("INSERT INTO warehouse VALUES (?, ?, now()::TIMESTAMP)", [SCHEMA_VERSION, VERSION])
        connection.execute("CHECKPOINT")  # closing a connection would ignore the error of a full disk
    with duckdb.connect(str(files.library), config=dict(_STORAGE_OF_LIBRARY)) as connection:
        connection.execute(f"ATTACH {quoted(str(files.warehouse))} AS whole (READ_ONLY)")
        connection.execute("COPY FROM DATABASE whole TO library")
        _run(
            connection,
            [f"CREATE TEMP MACRO {function.registered}({function.parameters}) AS NULL" for function in FUNCTIONS],
        )
        _run(connection, [f"CREATE OR REPLACE {function.macro(is_known=True)}" for function in FUNCTIONS])
        _run(connection, [statement for each in known if each.kind == "view" for statement in _for_any_database(each)])
        _run(connection, [f"CREATE OR REPLACE {macro}" for macro in (TYPED, *CHOSEN)])
        _run(connection, [f"DROP TABLE {table.name}" for table in tables])
        connection.execute("CHECKPOINT")


def _for_any_database(view: catalog.SqlObject) -> Sequence[str]:
    """Return the statements that replace a view by one for the tables of any database. A view is bound to the databases
    of its tables; a macro isn't, so the view's query is put into a macro.
    """
    query = view.statement.split(" AS\n", 1)[1]
    name = f"{_QUERY_OF}{view.name}"
    return [f"CREATE MACRO {name}() AS TABLE\n{query}", f"CREATE OR REPLACE VIEW {view.name} AS FROM {name}()"]


def _run(connection: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> None:
    connection.execute(";\n".join(statements))
