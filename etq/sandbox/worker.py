"""The process that answers one untrusted query: it first gives up all other access.

The database is opened for reading, without any other file, extension or setting, and that can't be changed any more.
The system's limits hold where the database's don't: for single large values, for what can't be interrupted, for files.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import duckdb

from etq.database.connection import is_lake_path
from etq.database.functions import register_for
from etq.database.results import QueryResult
from etq.errors import EtqError, WarehouseError, message_of
from etq.processes import requests
from etq.sandbox.results import encoded

# Memory of the process itself, without the query, in megabytes.
HEADROOM: Final = 256
# How long after the query was interrupted the process ends, in seconds.
GRACE: Final = 1.0
ROWS_AT_ONCE: Final = 2_000
_SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "2",
}
# Where these are set, nothing else can be.
_LOCK: Final = {"enable_external_access": "false", "lock_configuration": "true"}


def main() -> None:
    """Answer one request in lines of JSON: the columns' names and then rows, some in each line; or an error's kind and
    text.
    """
    request, reply = next(requests())
    path, query, parameters, seconds, megabytes, wait = pickle.loads(request)
    parts: list[bytes] = []
    try:
        # To open a file takes memory and time, too: more of both than what is left for the query then.
        _limit(wait + seconds, megabytes + HEADROOM)
        connection = _lake(path, megabytes) if is_lake_path(path) else _file(path, megabytes, wait)
        register_for(connection, query)
        # The thread is started before: there must be room for its stack.
        clock = threading.Timer(seconds, connection.interrupt)
        clock.daemon = True
        clock.start()
        _limit(seconds, megabytes)
        columns, parts = _answer(connection, query, parameters, megabytes)
        kind, texts = "rows", columns
    except duckdb.InterruptException:
        kind, texts = "QueryError", [f"the query took longer than {seconds:g} s"]
    except (duckdb.OutOfMemoryException, MemoryError):
        kind, texts = "QueryError", [f"the query took more than {megabytes} MB of memory"]
    except duckdb.Error as error:
        # Where a module is missing, the database quotes Python.
        kind, texts = "QueryError", [message_of(error).split(" Traceback ")[0]]
    except EtqError as error:
        # The names that the one that asks knows.
        kind, texts = "WarehouseError" if isinstance(error, WarehouseError) else "QueryError", [str(error)]
    first = json.dumps([kind, texts]).encode()
    reply(first, *(b"\n" + part for part in parts if kind == "rows"))
    os._exit(0)


def _file(path: str, megabytes: int, wait: float) -> duckdb.DuckDBPyConnection:
    from etq.database.connection import connect
    from etq.database.schema import update_definitions

    connection = connect(path, True, wait, {**_SETTINGS, "memory_limit": f"{megabytes}MiB", **_LOCK})
    update_definitions(connection, path, read_only=True)
    return connection


def _lake(path: str, megabytes: int) -> duckdb.DuckDBPyConnection:
    """A lake, with access only to the files that its log names."""
    from etq.catalog import quoted
    from etq.lake.reading.connection import allow_only_files, connect
    from etq.lake.reading.state import read
    from etq.lake.reading.tables import Lake

    lake = Lake.at(path)
    if lake.is_remote:
        raise EtqError(f"{path}: in an object store; a safe query reads local files only")
    if not lake.exists():
        raise EtqError(f"{path}: a folder; a warehouse is a file, or a lake that etq lake makes")
    state = read(lake)
    connection = connect(lake, state)
    allow_only_files(connection, state)
    for setting, value in {**_SETTINGS, "memory_limit": f"{megabytes}MiB", **_LOCK}.items():
        connection.execute(f"SET {setting} = {quoted(value)}")
    return connection


def _limit(seconds: float, megabytes: int) -> None:
    """Limits that the system enforces: the process writes to no file, and ends when its time is over."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + (megabytes + HEADROOM) * 2**20
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]  # that of opening, which can't be raised
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE)


def _answer(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any] | None, megabytes: int
) -> tuple[list[str], list[bytes]]:
    """The columns of a query that is one SELECT, and its rows, in lines of JSON.

    Raises `EtqError` for any other query, and for more rows than the limit of memory takes.
    """
    statements = duckdb.extract_statements(query)
    kinds = [_kind(each) for each in statements]
    if kinds != ["SELECT"]:
        raise EtqError(f"a safe query is one SELECT, not {', '.join(kinds) or 'nothing'}")
    answer = QueryResult(connection, query, parameters)
    parts: list[bytes] = []
    size = 0
    while rows := answer.next(ROWS_AT_ONCE):
        parts.append(encoded(rows))
        size += len(parts[-1])
        if size > megabytes * 2**20:
            raise EtqError(f"the query's result took more than {megabytes} MB of memory")
    return answer.columns, parts


def _kind(statement: duckdb.Statement) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # Of a kind that the database's Python knows no name of.
        return "another statement"


if __name__ == "__main__":
    main()
