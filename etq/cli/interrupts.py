"""Ctrl-C ends the command at once, with status 130 and without a traceback."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

# The exit status that shells report for a command that an interrupt ended.
STATUS: Final = 130
# How long a command may take to clean up, in seconds; most have almost nothing to clean up.
GRACE: Final = 0.1
_grace = GRACE


_requested = threading.Event()
_cancels: list[Callable[[], None]] = []


def install() -> None:
    """Make an interrupt end the process within `GRACE` seconds, whatever its threads are doing.

    Python raises `KeyboardInterrupt` only when the main thread runs Python code again, which a long call of a library
    may delay by seconds. A warehouse keeps what was committed, as if the process were killed.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # shells ignore it for a script's background jobs
        return
    signal.signal(signal.SIGINT, _interrupt)
    if sys.platform == "win32":  # on Windows, signals are written only to sockets
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(read,), daemon=True).start()


@contextmanager
def cancelling() -> Iterator[None]:
    """Within the block, an interrupt raises `KeyboardInterrupt` instead of ending the process.

    A call of DuckDB, during which Python can't raise it, is ended by the function given to `cancelled_by`.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    threading.Thread(target=_cancel, args=(read,), daemon=True).start()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)


@contextmanager
def cancelled_by(cancel: Callable[[], None]) -> Iterator[None]:
    """Within the block and `cancelling`, an interrupt calls a function on another thread."""
    _cancels.append(cancel)
    try:
        yield
    finally:
        _cancels.remove(cancel)


def _cancel(signals: int) -> None:
    while True:
        if signal.SIGINT in os.read(signals, 1):
            for cancel in [*_cancels]:
                cancel()


def allow(seconds: float) -> None:
    """Allow the command `seconds` to end processes that it started."""
    global _grace  # noqa: PLW0603 - there is one command a process
    _grace = seconds


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is an interrupt, or an error into which a library turned an interrupt."""
    return _requested.is_set() or isinstance(error, KeyboardInterrupt)


def is_cancelled_query(error: BaseException) -> bool:
    """Whether an error is DuckDB's for a query during which the user pressed Ctrl-C. DuckDB may notice that before the
    function given to `cancelled_by` runs; Python's `KeyboardInterrupt` is then lost.
    """
    return type(error) is RuntimeError and str(error) == "Query interrupted"


def _interrupt(_: int, frame: FrameType | None) -> None:
    _requested.set()
    # An interrupt during the import of a library may abort the process; `_watch` ends it cleanly.
    if sys.platform == "win32" or not _is_importing(frame):
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _watch(signals: int) -> None:
    while signal.SIGINT not in os.read(signals, 1):
        pass
    time.sleep(_grace)
    # Half-written files are in temporary folders, which are removed as at a regular exit. Exit functions run on a
    # thread with limited time, because libraries may wait for the main thread: DuckDB closes its connections only after
    # a query has ended.
    sys.unraisablehook = lambda _: None
    weakref.finalize._exitfunc()  # type: ignore[attr-defined]
    others = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    others.start()
    others.join(_grace)
    os._exit(STATUS)
