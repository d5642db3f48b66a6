"""Runs untrusted SQL: each query in a process of its own, which can only read the warehouse."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from etq.database.connection import expanded
from etq.database.locking import seconds_to_wait
from etq.errors import QueryError, WarehouseError

SECONDS: Final = 10.0
MEGABYTES: Final = 512
# A process stops itself at its time limit. One that doesn't start or doesn't stop is killed so many seconds later.
STARTING: Final = 10.0
# Environment variables without which a process doesn't start or doesn't find the user's cache; a query gets no others.
_ENVIRONMENT: Final = (
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "SYSTEMROOT"),
    *("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"),
)
# Types that results may contain: the result of the other process isn't trusted either.
_TYPES: Final = {
    ("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")
} | {("decimal", "Decimal"), ("uuid", "UUID")}  # fmt: skip


class _Unpickler(pickle.Unpickler):
    """Reads plain values, and no other objects."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _TYPES:
            raise QueryError(f"the query's result has a {module}.{name}; cast it to a text")
        return super().find_class(module, name)


def ask(
    path: str, query: str, parameters: Mapping[str, Any] | None, seconds: float = SECONDS, megabytes: int = MEGABYTES
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names of a query's columns, and all its rows.

    Raises `QueryError` for a query that is wrong, isn't one SELECT, or takes more than `seconds` or `megabytes`.
    """
    if not 0 < seconds <= 86400 or not 16 <= megabytes <= 2**20:
        raise QueryError(
            f"limits of {seconds:g} s and {megabytes} MB: out of range; use up to 86400 s, and at least 16 MB"
        )
    wait = seconds_to_wait()
    request = pickle.dumps((expanded(path), query, parameters, seconds, megabytes, wait))
    try:
        done = _done(request, wait + seconds + STARTING)
    except subprocess.TimeoutExpired:
        raise QueryError(f"the query took longer than {seconds:g} s") from None
    if done.returncode == -signal.SIGALRM:
        raise QueryError(f"the query took longer than {seconds:g} s")
    if done.returncode != 0:
        # Where memory can't be had, code of the system's and of other libraries may end a process as it likes.
        if done.returncode < 0 or any(each in done.stderr for each in (b"MemoryError", b"bad_alloc", b"new thread")):
            raise QueryError(f"the query ended its process, or took more than {megabytes} MB of memory")
        raise QueryError(f"the query crashed its process (status {done.returncode})")
    kind, result = _Unpickler(io.BytesIO(done.stdout)).load()
    if kind == "rows":
        columns, parts = result
        return columns, [row for part in parts for row in _Unpickler(io.BytesIO(part)).load()]
    raise (WarehouseError if kind == "WarehouseError" else QueryError)(result)


def _done(request: bytes, seconds: float) -> subprocess.CompletedProcess[bytes]:
    """The process that answers a request, when it has ended. Raises `TimeoutExpired`."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "etq.sandbox.worker"],
        input=request,
        capture_output=True,
        check=False,
        timeout=seconds,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        # Each arena of the allocator takes a large part of the address space.
        | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each), "MALLOC_ARENA_MAX": "2"},
    )
