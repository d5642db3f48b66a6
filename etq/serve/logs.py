"""The server's log: a line for each request and for what it does by itself, to standard error."""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from etq.errors import printable

# Lines that wait until standard error takes them. If it takes none, others are dropped: a server mustn't wait for the
# reader of its log.
MOST_WAITING: Final = 10_000
# How long the end of a server waits for them, in seconds.
END: Final = 2.0
# The logger of uvicorn, which tells of errors of the application.
UVICORN: Final = "uvicorn.error"


class Log:
    """Writes lines of JSON or of plain text on a thread of its own; without `write`, nothing.

    A note is an event (one word, such as `request`) and its fields; None is left out.
    """

    def __init__(self, write: Callable[[str], object] | None = None, *, as_json: bool = False) -> None:
        self.is_on = write is not None
        self.dropped = 0
        self._as_json = as_json
        self._lines: queue.Queue[str | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        if write is not None:
            self._thread = threading.Thread(target=self._write, args=(write,), daemon=True)
            self._thread.start()

    def note(self, event: str, **fields: Any) -> None:
        """Write a line. Texts of clients are escaped; fields never have tokens."""
        if not self.is_on:
            return
        when = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        known = {name: value for name, value in fields.items() if value is not None}
        line = _json(when, event, known) if self._as_json else _plain(when, event, known)
        try:
            self._lines.put_nowait(line + "\n")
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what waits, for `END` seconds at most."""
        if self._thread is not None and self.is_on:
            self.is_on = False
            with suppress(queue.Full):
                self._lines.put_nowait(None)
            self._thread.join(END)

    def take_errors(self) -> None:
        """Write what uvicorn and asyncio tell of errors as lines of this log, too."""
        for name in (UVICORN, "asyncio"):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [_Handler(self)], False

    def _write(self, write: Callable[[str], object]) -> None:
        while (line := self._lines.get()) is not None:
            with suppress(OSError, ValueError):  # nobody reads it
                write(line)


def to_stderr(*, as_json: bool) -> Log:
    """Return a log that is written to standard error."""

    def write(line: str) -> None:
        sys.stderr.write(line)
        sys.stderr.flush()

    return Log(write, as_json=as_json)


def _json(when: str, event: str, fields: dict[str, Any]) -> str:
    return msgspec.json.encode({"time": when, "event": event, **fields}).decode()


def _plain(when: str, event: str, fields: dict[str, Any]) -> str:
    if event == "request":
        words = [fields.get("user", "-"), fields["address"], fields["method"], fields["path"], fields["status"]]
        ends = f"{fields['seconds']:.3f}s {fields['bytes']}B"
        return f"{when} {' '.join(printable(str(word)).replace(' ', '%20') for word in words)} {ends}"
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    return printable(f"{when} {event} {text}".rstrip())


class _Handler(logging.Handler):
    """Hands records of a library on to the log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        trace = None if record.exc_info is None else logging.Formatter().formatException(record.exc_info)
        self._log.note("error", level=record.levelname.lower(), message=record.getMessage(), traceback=trace)


def seconds_since(start: float) -> float:
    """Return the seconds since `time.perf_counter` was `start`, to the microsecond."""
    return round(time.perf_counter() - start, 6)
