"""The process that answers untrusted queries, one after the other: each of its connections first gives up all other
access.

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
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import duckdb

from etq.database.connection import is_lake_path
from etq.database.functions import register_for
from etq.database.results import QueryResult
from etq.errors import EtqError, WarehouseError, message_of, place_in
from etq.processes import requests
from etq.sandbox.formats import ROWS_AT_ONCE, written
from etq.sandbox.results import encoded
from etq.sandbox.statements import check_is_select

# Memory of the process itself, without the query, in megabytes. A process that grows by more than half of that after
# its first answer ends.
HEADROOM: Final = 256
# How long after the query was interrupted the process ends, in seconds.
GRACE: Final = 1.0
# For how long a connection waits for the next query, and is used at most, in seconds.
NEXT: Final = 0.05
LONGEST_HELD: Final = 1.0
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
    """Answer requests, each in lines: the columns' names, or an error's kind, text and place, as JSON; then the rows,
    some in each line of JSON, or, if a format is asked for, in that.

    The process ends by itself when a query has taken much memory, or was stopped at a limit.
    """
    first = 0
    held = _Held()
    for request, reply in requests(held.close, NEXT):
        head, parts, goes_on = _answered(held, *pickle.loads(request))
        reply(json.dumps(head).encode() + b"\n", *parts)
        first = first or _pages()
        if not goes_on or (_pages() - first) * resource.getpagesize() > HEADROOM * 2**19:
            break
    os._exit(0)


class _Held:
    """The connection of the last query, for the next one that comes at once: programs ask many, one after the other.

    While it is open, nobody can write to the file.
    """

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._of: tuple[Any, ...] = ()
        self._until = 0.0

    def opened(self, path: str, megabytes: int, wait: float, *, is_exact: bool) -> duckdb.DuckDBPyConnection:
        of = path, megabytes, is_exact
        if self._connection is None or self._of != of or time.monotonic() > self._until or is_lake_path(path):
            self.close()
            self._connection = _opened(path, megabytes, wait, is_exact=is_exact)
            self._of, self._until = of, time.monotonic() + LONGEST_HELD
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _answered(
    held: _Held, path: str, query: str, parameters: Any, seconds: float, megabytes: int, wait: float, format: str | None
) -> tuple[list[Any], list[bytes], bool]:
    """The first line of an answer, its other parts, and whether the process can answer another request."""
    with ExitStack() as stack:
        try:
            if format not in (None, "json", "csv"):
                import pyarrow.parquet  # noqa: F401 - before its memory is limited
            # To open a file takes memory and time, too: more of both than what is left for the query then.
            _limit(wait + seconds, megabytes + HEADROOM)
            connection = held.opened(path, megabytes, wait, is_exact=format == "exact")
            register_for(connection, query)
            # The thread is started before: there must be room for its stack.
            clock = threading.Timer(seconds, connection.interrupt)
            clock.daemon = True
            clock.start()
            stack.callback(clock.cancel)
            _limit(seconds, megabytes)
            columns, parts = _answer(connection, query, parameters, megabytes, format)
            return ["rows", columns], parts, True
        except duckdb.InterruptException:
            return ["QueryError", [f"the query took longer than {seconds:g} s"]], [], False
        except (duckdb.OutOfMemoryException, MemoryError):
            return ["QueryError", [f"the query took more than {megabytes} MB of memory"]], [], False
        except duckdb.Error as error:
            # Where a module is missing, the database quotes Python.
            return ["QueryError", [message_of(error).split(" Traceback ")[0], place_in(query, error)]], [], True
        except EtqError as error:
            # The names that the one that asks knows.
            kind = "WarehouseError" if isinstance(error, WarehouseError) else "QueryError"
            return [kind, [str(error), getattr(error, "place", "")]], [], True


def _opened(path: str, megabytes: int, wait: float, *, is_exact: bool) -> duckdb.DuckDBPyConnection:
    settings = {**_SETTINGS, "memory_limit": f"{megabytes}MiB"}
    connection = _lake(path, settings) if is_lake_path(path) else _file(path, settings, wait)
    if is_exact:
        connection.execute("SET arrow_lossless_conversion = true")
    for setting, value in _LOCK.items():
        connection.execute(f"SET {setting} = {value}")
    return connection


def _file(path: str, settings: Mapping[str, str], wait: float) -> duckdb.DuckDBPyConnection:
    from etq.database.connection import connect
    from etq.database.schema import update_definitions

    connection = connect(path, True, wait, settings)
    update_definitions(connection, path, read_only=True)
    return connection


def _lake(path: str, settings: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
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
    for setting, value in settings.items():
        connection.execute(f"SET {setting} = {quoted(value)}")
    return connection


def _limit(seconds: float, megabytes: int) -> None:
    """Limits that the system enforces: the process writes to no file, and ends when its time is over."""
    if sys.platform == "linux":
        most = _pages() * resource.getpagesize() + (megabytes + HEADROOM) * 2**20
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard == resource.RLIM_INFINITY:  # of this and all later queries
            hard = most + 2 * HEADROOM * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (min(most, hard), hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE)


def _pages() -> int:
    """Pages of the process's address space; 0 where they aren't told."""
    return int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0


def _answer(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Any, megabytes: int, format: str | None
) -> tuple[list[str], list[bytes]]:
    """The columns of a query that is one SELECT, and its rows, in lines of JSON or in a format without the columns.

    Raises `EtqError` for any other query, and for more rows than the limit of memory takes.
    """
    check_is_select(query)
    if format is not None:
        return [], written(connection, query, parameters, format, megabytes * 2**20)
    answer = QueryResult(connection, query, parameters)
    parts: list[bytes] = []
    size = 0
    while rows := answer.next(ROWS_AT_ONCE):
        parts.append(encoded(rows) + b"\n")
        size += len(parts[-1])
        if size > megabytes * 2**20:
            raise EtqError(f"the query's result took more than {megabytes} MB of memory")
    return answer.columns, parts


if __name__ == "__main__":
    main()
