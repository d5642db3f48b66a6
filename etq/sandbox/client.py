"""Runs untrusted SQL: each query in a process of its own, which can only read the warehouse."""

from __future__ import annotations

import io
import os
import pickle
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from etq import processes
from etq.database.connection import expanded
from etq.database.locking import seconds_to_wait
from etq.database.template import cache_folder
from etq.errors import QueryError, WarehouseError
from etq.sandbox.results import decoded

SECONDS: Final = 10.0
MEGABYTES: Final = 512
# A process stops itself at its time limit. One that doesn't start or doesn't stop is killed so many seconds later.
STARTING: Final = 10.0
# What a process may send in addition to rows within its limit of memory: names of columns, messages.
_MESSAGES: Final = 2**20
_AT_ONCE: Final = 2**16
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
    too_much = f"the query's result took more than {megabytes} MB of memory"
    try:
        done = _done(request, wait + seconds + STARTING, megabytes * 2**20 + len(request) + _MESSAGES)
    except subprocess.TimeoutExpired:
        raise QueryError(f"the query took longer than {seconds:g} s") from None
    except _TooMuchError:
        raise QueryError(too_much) from None
    if done.returncode == -signal.SIGALRM:
        raise QueryError(f"the query took longer than {seconds:g} s")
    if done.returncode != 0:
        # Where memory can't be had, code of the system's and of other libraries may end a process as it likes.
        if done.returncode < 0 or any(each in done.stderr for each in (b"MemoryError", b"bad_alloc", b"new thread")):
            raise QueryError(f"the query ended its process, or took more than {megabytes} MB of memory")
        raise QueryError(f"the query crashed its process (status {done.returncode})")
    try:
        lines = io.BytesIO(done.stdout)
        kind, result = msgspec.json.decode(lines.readline(), type=tuple[str, list[str]])
        rows = [row for line in lines for row in decoded(line)]
        if set(map(len, rows)) - {len(result)}:
            raise ValueError("rows of another length than the names of columns")
    except Exception as error:  # the bytes are another process's: any error may come of them
        raise QueryError("the query's process sent no result that can be read") from error
    if kind == "rows":
        return result, rows
    raise (WarehouseError if kind == "WarehouseError" else QueryError)("".join(result))


class _TooMuchError(Exception):
    """A process sends more than it may."""


def _done(request: bytes, seconds: float, most: int) -> subprocess.CompletedProcess[bytes]:
    """The process that answers a request, when it has ended.

    Ends it, and raises `TimeoutExpired` or `_TooMuchError`, when it takes longer or sends more bytes than it may.
    """
    deadline = time.monotonic() + seconds
    command = processes.command("etq.sandbox.worker")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=_environment()) as process:
        try:
            output, errors = _exchange(process, request, deadline, most)
            process.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, bytes(output), bytes(errors))


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    with suppress(RuntimeError):  # without a home there is no cache
        cache = str(cache_folder().parent)
        kept |= {"XDG_CACHE_HOME": cache, "LOCALAPPDATA": cache}
    return kept | {
        "PYTHONPATH": processes.search_path(),
        # DuckDB shows where it would look for the user's secrets and extensions.
        "HOME": os.sep,
        # Each arena of the allocator takes a large part of the address space.
        "MALLOC_ARENA_MAX": "2",
    }


def _exchange(
    process: subprocess.Popen[bytes], request: bytes, deadline: float, most: int
) -> tuple[bytearray, bytearray]:
    """Write a request to a process, and read what it writes until it closes both its outputs."""
    assert process.stdin and process.stdout and process.stderr
    output, errors = bytearray(), bytearray()
    unsent = memoryview(request)
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ, output)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while any(key.data is not None for key in selector.get_map().values()):
            if (left := deadline - time.monotonic()) <= 0:
                raise subprocess.TimeoutExpired(process.args, 0)
            for key, _ in selector.select(left):
                if key.data is not None:
                    part = os.read(key.fd, _AT_ONCE)
                    key.data.extend(part)
                    if len(output) + len(errors) > most:
                        raise _TooMuchError
                    is_over = not part
                else:
                    unsent = unsent[_written(key.fd, unsent) :]
                    is_over = not unsent
                if is_over:
                    selector.unregister(key.fileobj)
                    if key.data is None:
                        process.stdin.close()
    return output, errors


def _written(pipe: int, data: memoryview) -> int:
    """How many bytes a pipe took; all, if nobody reads them any more."""
    try:
        return os.write(pipe, data[:_AT_ONCE])
    except BrokenPipeError:
        return len(data)
