"""Keeping a warehouse in order: taking captures out, keeping the last ones, giving freed space back."""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import duckdb

from etq.catalog import quoted
from etq.connecting import STORAGE, connect, identity
from etq.errors import WarehouseError, message_of
from etq.handles import Capture
from etq.ingesting import Ingesting

# The tables that grow with the events of captures: all that pruning takes where it keeps rollups.
EVENT_TABLES: Final = (
    "event_ticks", "allocations", "debug_values", "trace_events", "op_arguments", "device_events", "trace_memory",
)  # fmt: skip


# The ending of the file that is written anew, before it takes the old one's place.
_FRESH: Final = ".compact"


class Keeping(Ingesting):
    """The part of `Warehouse` that keeps it in order."""

    _connection: duckdb.DuckDBPyConnection | None

    def remove(self, *captures: str | Capture) -> None:
        """Take captures out, with all that was said of them: all of these, or, at an error, none.

        Records and programs stay. The file doesn't get smaller before `compact`.

        Raises `QueryError` where there is no such capture or a selector means several, and `WarehouseError` for a
        warehouse that can't be written.
        """
        keys = [self._key(each) for each in captures]
        self._write(lambda: remove_captures(self.connection, keys))

    def prune(
        self,
        keep_last: int,
        by: Sequence[str] = (),
        *,
        selectors: Sequence[str] | None = None,
        keep_rollups: bool = False,
        dry_run: bool = False,
    ) -> list[Capture]:
        """Take out all captures but the last ones, and return them.

        keep_last     number of captures of each group that stay: the last by when they were captured, then ingested
        by            keys of labels: captures of a group have the same values of these; by default all are one group
        selectors     only what matches any of these counts
        keep_rollups  whether captures stay with what comparisons need, with their labels and metrics: only their
                      events go, and what asks for these then is an error that says so; ingesting the file again
                      brings them back
        dry_run       whether nothing is done: captures are only told

        Raises `WarehouseError` for a number below 0, a key that no label has, and for a warehouse that can't be
        written.
        """
        if isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 0:
            raise WarehouseError(f"keep_last is a number of captures, not {keep_last!r}")
        with self._alone:
            _check_keys(self.connection, by)
        query = """
            SELECT c.capture_id, c.name, c.sha256, c.format
            FROM _outdated_captures($keep_last, "by" := $keys::VARCHAR[], selectors := $selectors::VARCHAR[]) AS o
            JOIN captures AS c ON c.capture_id = o.capture_id
            WHERE NOT (o.is_pruned AND $keep_rollups)
            ORDER BY o.group_values, o.age DESC
        """
        given = {"keep_last": keep_last, "keys": list(by), "keep_rollups": keep_rollups}
        chosen = None if selectors is None else list(selectors)
        found = [Capture(*row) for row in self._fetched(query, {**given, "selectors": chosen})]
        keys = [each.capture_id for each in found]
        if keys and not dry_run:
            work = prune_events if keep_rollups else remove_captures
            self._write(lambda: work(self.connection, keys))
        return found

    def compact(self) -> tuple[int, int]:
        """Write the file anew, so that the space of what was removed is given back. Returns its bytes before and after.

        The old file stays until the new one is whole, and in place of it. Relations that were asked for before end.

        Raises `WarehouseError` for a warehouse in memory or opened read-only, and where the new file can't be written
        or another process has taken the old one; then the old file is as it was.
        """
        if self.path is None or self.read_only:
            raise WarehouseError(
                f"{self.path or 'a warehouse in memory'} can't be compacted: it is no file to write to"
            )
        with self._alone:
            return self._compacted(self.connection, Path(self.path).resolve())

    def _compacted(self, connection: duckdb.DuckDBPyConnection, path: Path) -> tuple[int, int]:
        for left in path.parent.glob(f"{glob.escape(path.name)}.*{_FRESH}*"):
            left.unlink()  # Of a process that was killed.
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_FRESH}")
        try:
            before = _write_anew(connection, path, fresh)
            self._connection = None
            _put_in_place(fresh, path, before)
        except duckdb.Error as error:
            raise WarehouseError(f"{self.path}: {message_of(error)}") from error
        except OSError as error:
            what = (error.strerror or str(error)).lower()
            raise WarehouseError(f"{self.path}: can't be compacted: {what}") from error
        finally:
            fresh.unlink(missing_ok=True)
            if self._connection is None:
                self._connection = connect(str(self.path), False)
                self._file = identity(str(self.path))
        return before.st_size, path.stat().st_size


def remove_captures(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int]) -> None:
    """Delete all rows of these captures. The caller holds a transaction."""
    from etq import catalog

    for table in catalog.tables():
        if any(column.name == "capture_id" for column in table.columns):
            _delete(connection, table.name, capture_ids)


def prune_events(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int]) -> None:
    """Delete the events of these captures, and tell so in their findings. The caller holds a transaction."""
    from etq.rollups import PRUNED

    for table in EVENT_TABLES:
        _delete(connection, table, capture_ids)
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    detail = f"pruned at {when} UTC; rollups, labels and metrics are kept, and ingesting the file again brings all back"
    connection.execute(
        "INSERT INTO findings SELECT unnest($keys::INTEGER[]), $rule, $detail",
        {"keys": list(capture_ids), "rule": PRUNED, "detail": detail},
    )


def _delete(connection: duckdb.DuckDBPyConnection, table: str, capture_ids: Sequence[int]) -> None:
    query = f"DELETE FROM {table} WHERE capture_id IN (SELECT unnest($keys::INTEGER[]))"
    connection.execute(query, {"keys": list(capture_ids)})


def _check_keys(connection: duckdb.DuckDBPyConnection, keys: Sequence[str]) -> None:
    if isinstance(keys, str):
        raise WarehouseError(f"by is a list of keys of labels, not {keys!r}")
    known = [key for (key,) in connection.execute("SELECT DISTINCT l.key FROM labels AS l ORDER BY 1").fetchall()]
    if missing := [key for key in keys if key not in known]:
        raise WarehouseError(f"no capture has a label {missing[0]!r}; labels are {', '.join(known) or 'none'}")


def _write_anew(connection: duckdb.DuckDBPyConnection, path: Path, fresh: Path) -> os.stat_result:
    """Copy the whole database to a new file, and close it. Returns what the old file was then."""
    [(name,)] = connection.execute("SELECT current_database()").fetchall()
    storage = (
        f"BLOCK_SIZE {STORAGE['default_block_size']}, STORAGE_VERSION '{STORAGE['storage_compatibility_version']}'"
    )
    connection.execute("CHECKPOINT")
    before = path.stat()
    connection.execute(f"ATTACH {quoted(str(fresh))} AS _fresh ({storage})")
    try:
        connection.execute(f'COPY FROM DATABASE "{name.replace(chr(34), chr(34) * 2)}" TO _fresh')
    finally:
        # What is written is in the file once it is detached.
        connection.execute("DETACH _fresh")
    connection.close()
    return before


def _put_in_place(fresh: Path, path: Path, before: os.stat_result) -> None:
    """Replace the old file by the new one, if no other process has the old one or wrote to it in between.

    Raises `WarehouseError` where one has, and `OSError`; the old file stays then.
    """
    import fcntl

    with path.open("r+b") as old, fresh.open("rb") as new:
        try:
            fcntl.lockf(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise WarehouseError(f"{path}: another process opened it; it stays as it was") from None
        now = path.stat()
        is_same = (now.st_ino, now.st_size, now.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
        if not is_same or os.path.exists(f"{path}.wal"):
            raise WarehouseError(f"{path}: another process wrote to it; it stays as it is")
        os.fsync(new.fileno())
        fresh.chmod(before.st_mode & 0o777)
        fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
