"""Limits of time and memory, which a command sets for all connections that it opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

# The defaults of how long an untrusted query may take, in seconds, and how much memory, in MB.
SAFE_SECONDS: Final = 10.0
SAFE_MEGABYTES: Final = 512


class Limits(NamedTuple):
    """A command's options for the connections that it opens; None: no limit, or the default.

    query_seconds    how long a query may take
    query_megabytes  how much memory it may take, in MB
    wait             how long to wait for a file that other processes hold, in seconds
    notify           receives messages meanwhile, about a long wait
    """

    query_seconds: float | None = None
    query_megabytes: int | None = None
    wait: float | None = None
    notify: Callable[[str], None] | None = None


_limits: Final[ContextVar[Limits]] = ContextVar("limits", default=Limits())  # noqa: B039 - it is immutable


def limits() -> Limits:
    """Return the limits of the command."""
    return _limits.get()


def set_limits(**changed: Any) -> None:
    """Set these fields of `Limits` until the command ends."""
    _limits.set(_limits.get()._replace(**changed))


@contextmanager
def limited(**changed: Any) -> Iterator[None]:
    """Set these fields of `Limits` until the block ends."""
    token = _limits.set(_limits.get()._replace(**changed))
    try:
        yield
    finally:
        _limits.reset(token)


def limiting_settings() -> dict[str, str]:
    """Return the limits as DuckDB's settings."""
    seconds, megabytes = limits().query_seconds, limits().query_megabytes
    return {
        **({} if seconds is None else {"max_execution_time": str(max(int(seconds * 1000), 1))}),
        # Without a folder to spill to, this setting is a limit.
        **({} if megabytes is None else {"memory_limit": f"{megabytes}MiB", "temp_directory": ""}),
    }


def within(byte_size: int) -> dict[str, str | bool | int | float | list[str]]:
    """Return the settings of a connection that reads a received file within a memory limit."""
    return {"memory_limit": f"{byte_size}B", "temp_directory": ""}
