"""Runs untrusted SQL in processes that can only read the warehouse."""

from __future__ import annotations

import io
import os
import pickle
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from etq.database.connection import expanded
from etq.database.locking import seconds_to_wait
from etq.database.template import cache_folder
from etq.errors import QueryError, WarehouseError
from etq.processes import EndedError, TooLargeError, Worker, search_path
from etq.sandbox.results import decoded

MODULE: Final = "etq.sandbox.worker"
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
    asked = Asked.of(path, query, parameters, seconds, megabytes)
    worker = Worker(MODULE, variables=variables(), is_silent=True)
    try:
        with asked.explained():
            answer = worker.ask(asked.request, asked.longest, asked.most)
    finally:
        worker.end()
    columns, lines = asked.answer(answer)
    with _readable():
        rows = [row for line in lines for row in decoded(line)]
        if set(map(len, rows)) - {len(columns)}:
            raise ValueError("rows of another length than the names of columns")
    return columns, rows


@dataclass(frozen=True)
class Asked:
    """What a process of the sandbox is asked.

    longest  seconds after which it is killed: it stops itself before
    most     bytes of its answer
    """

    request: bytes
    seconds: float
    megabytes: int
    longest: float
    most: int

    @classmethod
    def of(
        cls, path: str, query: str, parameters: Any, seconds: float, megabytes: int, format: str | None = None
    ) -> Asked:
        """Return a request for a query's rows, as a file of a format if one is given.

        Raises `QueryError` for limits out of range.
        """
        if not 0 < seconds <= 86400 or not 16 <= megabytes <= 2**20:
            raise QueryError(
                f"limits of {seconds:g} s and {megabytes} MB: out of range; use up to 86400 s, and at least 16 MB"
            )
        wait = seconds_to_wait()
        request = pickle.dumps((expanded(path), query, parameters, seconds, megabytes, wait, format))
        most = megabytes * 2**20 + len(request) + _MESSAGES
        return cls(request, seconds, megabytes, wait + seconds + STARTING, most)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise `QueryError` in place of the errors of `Worker.ask`."""
        too_long = f"the query took longer than {self.seconds:g} s"
        try:
            yield
        except TimeoutError:
            raise QueryError(too_long) from None
        except TooLargeError:
            raise QueryError(f"the query's result took more than {self.megabytes} MB of memory") from None
        except EndedError as error:
            if error.status == -signal.SIGALRM:
                raise QueryError(too_long) from None
            # Where memory can't be had, code of the system's and of other libraries may end a process as it likes.
            ended = f"the query ended its process (status {error.status})"
            raise QueryError(f"{ended}, or took more than {self.megabytes} MB of memory") from None

    def answer(self, answer: bytearray) -> tuple[list[str], io.BytesIO]:
        """Return the names of columns, and the rest of the answer. Raises the error that it tells."""
        rest = io.BytesIO(answer)
        return columns_of(rest.readline()), rest


def columns_of(line: bytes) -> list[str]:
    """Return the names of columns, which the first line of an answer has. Raises the error that it tells."""
    with _readable():
        kind, texts = msgspec.json.decode(line, type=tuple[str, list[str]])
    if kind == "WarehouseError":
        raise WarehouseError("".join(texts[:1]))
    if kind != "rows":
        raise QueryError("".join(texts[:1]), "".join(texts[1:]))
    return texts


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the bytes are another process's: any error may come of them
        raise QueryError("the query's process sent no result that can be read") from error


def variables() -> dict[str, str]:
    """Return the environment of a process of the sandbox."""
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
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
