"""Connecting to a warehouse's file, and explaining why DuckDB can't connect."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import duckdb

from etq.catalog import quoted
from etq.database.contents import has_own
from etq.database.file_locks import check_locks
from etq.database.library import attach, new_database, use_own
from etq.database.limits import limiting_settings
from etq.database.locking import identity, retry_while_locked
from etq.database.neighbours import FOLDER, LOGS, check_neighbours, log_of, remove_temporary
from etq.errors import MissingWarehouseError, WarehouseError, displayed, message_of

# No extensions are loaded, and names in a query refer to the database, not to Python variables of the caller.
CLOSED: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
}
# The time of this optimizer grows with the square of a query's parts: with DuckDB 2.0.1 it is a sixth of `advice`
# (0.94 and 0.80 s), and a seventh of `roofline` (0.20 and 0.175). Views are as fast without it.
_SLOW_OPTIMIZER: Final = "projection_pullup"
# Memory for writing the log of a killed process into the file; what exceeds it goes to a temporary folder meanwhile.
_REPLAYING: Final = "512MiB"
# Files next to a warehouse, such as its write-ahead log, have a longer name; file systems allow 255 bytes.
LONGEST_NAME: Final = 220

_NO_DATABASE: Final = "not a valid DuckDB database file"
NONE_THERE: Final = "no such file; make a warehouse with: etq ingest FILE... --db {}"
_IN_OTHER_MODE: Final = "same database file with a different configuration"
_FORBIDDEN: Final = ("Permission denied", "Read-only file system")
_FULL: Final = ("No space left on device", "File too large", "Disk quota exceeded")
_INVALIDATED: Final = "has been invalidated"
FULL: Final = "out of space: free some and repeat"
_WHEN_FULL: Final = f"{FULL}; nothing was stored"
# A text for commands that free space: to change a file, DuckDB needs space for its log.
NOTHING_FREED: Final = (
    "out of space for the command itself; the warehouse is unchanged: free some and repeat, or copy it to another disk "
    "(etq db backup), do it there, and move it back"
)
Result = TypeVar("Result")


def in_memory() -> duckdb.DuckDBPyConnection:
    """Return a connection to a new database in memory, with the library. Other databases share its instance."""
    settings = _settings()
    return new_database(settings, lambda: _opened(":memory:", settings))


def alone_in_memory(config: Mapping[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    """Return a connection to a new instance of DuckDB in memory, with the library and more settings."""
    connection = _opened(":memory:", {**_settings(), **(config or {})})
    attach(connection)
    return connection


def _settings() -> dict[str, str]:
    """Return the settings of a connection, with the limits of queries."""
    return {**CLOSED, **limiting_settings()}


def _opened(file: str, config: Mapping[str, str], *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Return a connection that plans without the slow optimizer, if this version of DuckDB has it."""
    try:
        return duckdb.connect(file, read_only=read_only, config={**config, "disabled_optimizers": _SLOW_OPTIMIZER})
    except duckdb.ParserException:
        return duckdb.connect(file, read_only=read_only, config={**config})


def connect(
    path: str,
    read_only: bool,
    wait: float | None = None,
    *,
    external_access: bool = False,
    reads: Iterable[str] = (),
    is_shared: bool = True,
    is_own: bool = False,
) -> duckdb.DuckDBPyConnection:
    """Connect to an existing file, with the library, unless the file `is_own`: made by this version, or noted as such.

    Unless it `is_shared`, no other process can open the file, and the file may be in a folder where locks don't work.
    Queries can access no files but the databases `reads`, and load no extensions, unless `external_access` is set.

    Waits while other processes hold the file, see `retry_while_locked`. Raises `WarehouseError` if the file can't be
    opened.
    """
    check_path(path)
    if os.path.isdir(path):
        raise WarehouseError(f"{path}: a folder; name the file of a warehouse: lakes are not taken here")
    if os.path.exists(path) and not Path(path).is_file():
        raise WarehouseError(f"{path}: a pipe or device; a warehouse is a file")  # opening a pipe may block forever
    if _is_other_file(path):  # other files, such as JSON, which DuckDB would open as a view in memory
        raise WarehouseError(f"{path}: not a DuckDB database; name another file")
    try:
        if not read_only and is_shared:
            check_locks(path)
        connection = retry_while_locked(path, lambda: _attempt(path, read_only), wait)
        if is_own or has_own(path):
            use_own(connection)
        else:
            attach(connection)
        if not external_access:
            allow_only(connection, reads)
        return connection
    except duckdb.Error as error:
        raise WarehouseError(f"{path}: {explained(path, error)}") from error


def _is_other_file(path: str) -> bool:
    """Whether a file has other content than a database; False if it is empty or missing, or can't be read."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(12)
    except OSError:
        return False
    return bool(start) and start[8:] != b"DUCK"


def expanded(path: str | os.PathLike[str]) -> str:
    """Return a path with the user's home in place of `~`; environment variables and Python code may contain `~`."""
    text = os.fspath(path)
    return str(Path(text).expanduser()) if text.startswith(("~/", f"~{os.sep}")) else text


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a warehouse: DuckDB would take the beginning of some relative paths for a
    protocol.
    """
    return str(Path(expanded(path)).absolute())


def check_path(path: str) -> None:
    """Raise `WarehouseError` for a path that DuckDB can't use, or would misinterpret."""
    if displayed(path) != path:
        raise WarehouseError(f"{displayed(path)}: the path of a warehouse must be UTF-8")
    wrong = next((each for each in ("?", "\\", "\0") if each in path), None)
    if wrong is not None and (wrong != "\\" or os.sep != wrong):
        raise WarehouseError(f"{path}: the path of a warehouse can't have {wrong!r}; rename the file or folder")


def check_name(path: str) -> None:
    """Raise `WarehouseError` for a name that is too long."""
    if len(os.fsencode(Path(path).name)) > LONGEST_NAME:
        raise WarehouseError(f"{path}: the name of a warehouse can't be longer than {LONGEST_NAME} bytes")


def withdraw_access(connection: duckdb.DuckDBPyConnection) -> None:
    """Revoke a connection's access to other files, permanently."""
    connection.execute("SET enable_external_access = false")


def allow_only(connection: duckdb.DuckDBPyConnection, paths: Iterable[str]) -> None:
    """Revoke a connection's access to files other than its own and these databases, permanently.

    Without this, a new database would follow a link that somebody has put in the place of its log.
    """
    names = [os.path.realpath(absolute(path)) + ending for path in paths for ending in ("", *LOGS)]
    with suppress(duckdb.InvalidInputException):  # another connection of the process has revoked access
        connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, names))}]")
    withdraw_access(connection)


@contextmanager
def with_access(
    connection: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Provide a connection that can write files, with the rows of a relation, in order, as `rows`,
    which can be read once.
    """
    # Without this setting, integers of 128 bits, UUIDs and some other types would change.
    connection.execute("SET arrow_lossless_conversion = true")
    try:
        with closing(relation.to_arrow_reader()) as rows, duckdb.connect(":memory:", config={**CLOSED}) as other:
            other.register("rows", rows)
            yield other
    finally:
        connection.execute("RESET arrow_lossless_conversion")


def _attempt(path: str, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Return a connection, without waiting. Raises `duckdb.Error`, and `WarehouseError` if the file doesn't exist."""
    while True:
        file = identity(path)
        if file is None:
            raise MissingWarehouseError(f"{path}: {NONE_THERE.format(path)}")
        if log_of(path).exists():
            with suppress(duckdb.Error):  # another process holds the file, or it is write-protected
                _write_log(path)
        connection = open_unchanged(
            path, lambda: _opened(absolute(path), _settings(), read_only=read_only), lambda opened: opened.close()
        )
        # Compacting replaces the file: a writer that opened the old file just before would write to a deleted file.
        if file == identity(path):
            if not read_only:
                remove_temporary(path)
            return connection
        is_gone = not os.path.exists(path)
        connection.close()
        if is_gone:
            raise WarehouseError(f"{path}: the file was removed while this process has it open; close it everywhere")


def _write_log(path: str) -> None:
    """Write the log that a killed process left into the file. Otherwise each reader would replay it, and replaying a
    large log takes more memory than a query may use. Raises `duckdb.Error`.
    """
    config = {"memory_limit": _REPLAYING, **_settings(), "temp_directory": f"{os.path.realpath(path)}{FOLDER}"}
    open_unchanged(path, lambda: _opened(absolute(path), config), lambda opened: opened.close()).close()


def open_unchanged(path: str, open_database: Callable[[], Result], close: Callable[[Result], object]) -> Result:
    """Return the result of a function that opens a database; the function is called again if the file changed
    meanwhile.

    DuckDB 2.0 reads a file's headers before it locks the file. If another process commits between the two, DuckDB
    continues from the state before that commit, and its own next commit overwrites it. Errors are those of
    `open_database`.
    """
    while True:
        check_neighbours(path)
        before = _state(path)
        result = open_database()
        if before in (None, _state(path)):
            return result
        close(result)


def _state(path: str) -> tuple[int, int, int] | None:
    """Return the inode, size and modification time of a file, which change with each commit;
    None if it doesn't exist.
    """
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def is_without_access(error: BaseException | None) -> bool:
    """Whether a query failed because it needs a file, or the network, which the connection has no access to."""
    return isinstance(error, duckdb.PermissionException)


def is_lake_path(path: str) -> bool:
    """Whether a path or address isn't a file's, so that it may be a lake's."""
    return "://" in path or os.path.isdir(path)


def explained(path: str, error: duckdb.Error, when_full: str = _WHEN_FULL) -> str:
    """Return DuckDB's message about a warehouse's file in etq's words, with a remedy."""
    text, message = str(error), message_of(error)
    known = {
        _FULL: f"{message}; {when_full}",
        (_INVALIDATED,): "unusable after an error of the file; close it and open it again",
        (_NO_DATABASE,): "not a DuckDB database; name another file",
        ("external extensions is disabled", "requires the extension"): "not a DuckDB database; name another file",
        ("Could not read enough bytes",): "a database that breaks off: copy it again",
        ("Corrupt database file",): f"{message}; use a copy of it, or ingest its files again",
        (_IN_OTHER_MODE,): "already open in this process, for reading or with other settings; close it there first",
        ("WAL does not match",): f"{path}.wal belongs to another database; move it away",
        _FORBIDDEN: f"{message}; get permission to write there, or open it read-only",
    }
    return next((text_of for words, text_of in known.items() if any(word in text for word in words)), message)


def is_invalidated(error: BaseException | None) -> bool:
    """Whether an error has made the database unusable until its file is opened again."""
    return isinstance(error, duckdb.Error) and _INVALIDATED in str(error)


def is_of_file(error: BaseException | None) -> bool:
    """Whether a database can't be written at all now: its disk is full, its folder is write-protected, or it has to be
    opened again.
    """
    return isinstance(error, duckdb.Error) and any(each in str(error) for each in (*_FULL, *_FORBIDDEN, _INVALIDATED))
