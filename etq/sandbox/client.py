"""Runs untrusted SQL: each query in a process of its own, which can only read the warehouse."""

from __future__ import annotations

import io
import os
import pickle
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from etq.database.connection import expanded
from etq.database.locking import seconds_to_wait
from etq.database.template import cache_folder
from etq.errors import QueryError, WarehouseError
from etq.processes import EndedError, TooLargeError, Worker, search_path
from etq.sandbox.results import decoded

SECONDS: Final = 10.0
MEGABYTES: Final = 512
# A process stops itself at its time limit. One that doesn't start or doesn't stop is killed so many seconds later.
STARTING: Final = 10.0
# What a process may send in addition to rows within its limit of memory: names of columns, messages.
_MESSAGES: Final = 2**20
# Environment variables without which a process doesn't start; a query gets no others.
_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "SYSTEMROOT")


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
    too_long = f"the query took longer than {seconds:g} s"
    worker = Worker("etq.sandbox.worker", variables=_variables(), is_silent=True)
    try:
        most = megabytes * 2**20 + len(request) + _MESSAGES
        lines = io.BytesIO(worker.ask(request, wait + seconds + STARTING, most))
    except TimeoutError:
        raise QueryError(too_long) from None
    except TooLargeError:
        raise QueryError(f"the query's result took more than {megabytes} MB of memory") from None
    except EndedError as error:
        if error.status == -signal.SIGALRM:
            raise QueryError(too_long) from None
        # Where memory can't be had, code of the system's and of other libraries may end a process as it likes.
        ended = f"the query ended its process (status {error.status})"
        raise QueryError(f"{ended}, or took more than {megabytes} MB of memory") from None
    finally:
        worker.end()
    try:
        kind, result = msgspec.json.decode(lines.readline(), type=tuple[str, list[str]])
        rows = [row for line in lines for row in decoded(line)]
        if set(map(len, rows)) - {len(result)}:
            raise ValueError("rows of another length than the names of columns")
    except Exception as error:  # the bytes are another process's: any error may come of them
        raise QueryError("the query's process sent no result that can be read") from error
    if kind == "rows":
        return result, rows
    raise (WarehouseError if kind == "WarehouseError" else QueryError)("".join(result))


def _variables() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    with suppress(RuntimeError):  # without a home there is no cache
        cache = str(cache_folder().parent)
        kept |= {"XDG_CACHE_HOME": cache, "LOCALAPPDATA": cache}
    return kept | {
        "PYTHONPATH": search_path(),
        # DuckDB shows where it would look for the user's secrets and extensions.
        "HOME": os.sep,
        # Each arena of the allocator takes a large part of the address space.
        "MALLOC_ARENA_MAX": "2",
    }
