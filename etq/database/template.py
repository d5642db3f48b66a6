"""An empty warehouse in the user's cache, from which new warehouses are copied.

DuckDB binds each macro that is created, which takes 15 times as long as copying all of them from another database. The
file is made together with the first warehouse of each version of the SQL and of DuckDB.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import duckdb

from etq import catalog
from etq.database.connection import STORAGE, allow_only

# Templates that no process has used for this many seconds belong to other versions; they are removed when one is made.
_UNUSED_SECONDS: Final = 30 * 24 * 3600
_NAME: Final = "_etq_template"
# Files that are removed then: templates, notes about templates and warehouses, and files of killed processes.
_REMOVED: Final = ("empty-*.duckdb", "making-*", "contents-*.txt", "passed-*.txt")


@contextmanager
def attached(
    connection: duckdb.DuckDBPyConnection,
    create: Callable[[duckdb.DuckDBPyConnection], None],
    reads: Sequence[str] | None = None,
    *,
    makes: bool = True,
) -> Iterator[str | None]:
    """Attach the template to a connection for reading; provide its name there, None if it can't be used. From then on
    the connection has access only to the databases `reads`, unless they are None.

    `create` fills the template if it doesn't exist and this `makes` it. It can't be used if the cache can't be written
    or read.
    """
    try:
        path = _template(create) if makes else _path()
        if not makes and not path.exists():
            raise FileNotFoundError(path)
    except (OSError, RuntimeError, duckdb.Error):
        if reads is not None:
            allow_only(connection, reads)
        yield None
        return
    if reads is not None:
        allow_only(connection, [str(path), *reads])
    try:
        connection.execute(f"ATTACH {catalog.quoted(str(path))} AS {_NAME} (READ_ONLY)")
    except (duckdb.PermissionException, duckdb.BinderException):
        yield None  # no external access, or a warehouse with the template's name
        return
    except duckdb.Error:
        with suppress(OSError):
            path.unlink()  # damaged: the next warehouse creates it again
        yield None
        return
    try:
        yield _NAME
    finally:
        with suppress(duckdb.Error):  # an earlier error may have closed the connection
            connection.execute(f"DETACH {_NAME}")


@contextmanager
def filled(create: Callable[[duckdb.DuckDBPyConnection], None]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Provide a connection, for reading, to the template, or to another file that `create` filled."""
    with ExitStack() as stack:
        try:
            connection = duckdb.connect(str(_template(create)), read_only=True)
        except (OSError, RuntimeError, duckdb.Error):
            # DuckDB changes the text of a macro when it reads it from a file.
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "empty.duckdb"
            with duckdb.connect(str(path), config=dict(STORAGE)) as new:
                create(new)
            connection = duckdb.connect(str(path), read_only=True)
        yield stack.enter_context(connection)


def write_note(path: Path, text: str) -> None:
    """Write a small file of the cache, completely or not at all. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-", ignore_cleanup_errors=True) as making:
        new = Path(making) / path.name
        new.write_text(text, encoding="utf-8")
        new.replace(path)


def _template(create: Callable[[duckdb.DuckDBPyConnection], None]) -> Path:
    """Create the template's file and return its path. Raises `OSError` or `duckdb.Error` if that fails."""
    path = _path()
    folder = path.parent
    if path.exists():
        with suppress(OSError):
            os.utime(path)
        return path
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The file is created under another name: other processes may create it at the same time, or this one may be killed.
    with tempfile.TemporaryDirectory(dir=folder, prefix="making-", ignore_cleanup_errors=True) as making:
        new = Path(making) / "empty.duckdb"
        with duckdb.connect(str(new), config=dict(STORAGE)) as connection:
            create(connection)
            connection.execute("CHECKPOINT")  # closing a connection would ignore the error of a full disk
        new.replace(path)
    _remove_unused(folder)
    return path


def _path() -> Path:
    return cache_folder() / f"empty-{catalog.definitions_hash()[:16]}-duckdb-{duckdb.__version__}.duckdb"


def cache_folder() -> Path:
    """Return etq's folder in the user's cache. Raises `RuntimeError` if the user has no home."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        default = Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = os.environ.get("XDG_CACHE_HOME")
        default = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        default = Path.home() / ".cache"
    return (Path(base) if base else default) / "etq"


def _remove_unused(folder: Path) -> None:
    """Remove unused templates of other versions, and files of killed processes.

    Processes that have a removed file open can still use it.
    """
    for path in (path for pattern in _REMOVED for path in folder.glob(pattern)):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
