"""Limits of queries on files that aren't trusted, which a command sets for all connections that it opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

# How long a query that isn't trusted may take, in seconds, and how much memory, in MB, unless somebody says otherwise.
SAFE_SECONDS: Final = 10.0
SAFE_MEGABYTES: Final = 512
# Each is None without a limit.
query_seconds: Final[ContextVar[float | None]] = ContextVar("query_seconds", default=None)
query_megabytes: Final[ContextVar[int | None]] = ContextVar("query_megabytes", default=None)


@contextmanager
def limited_to(megabytes: int) -> Iterator[None]:
    """Limit the memory of connections that are opened within the block."""
    before = query_megabytes.set(megabytes)
    try:
        yield
    finally:
        query_megabytes.reset(before)


def limiting_settings() -> dict[str, str]:
    """Return the limits as DuckDB's settings."""
    seconds, megabytes = query_seconds.get(), query_megabytes.get()
    return {
        **({} if seconds is None else {"max_execution_time": str(max(int(seconds * 1000), 1))}),
        # Without a folder for what exceeds the memory, the limit is one.
        **({} if megabytes is None else {"memory_limit": f"{megabytes}MiB", "temp_directory": ""}),
    }


def within(byte_size: int) -> dict[str, str | bool | int | float | list[str]]:
    """Return the settings of a connection that reads a received file within a limit of memory."""
    return {"memory_limit": f"{byte_size}B", "temp_directory": ""}
