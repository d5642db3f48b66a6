"""Ctrl-C: it ends the command at once, with status 130 and without a traceback."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from typing import Final

# What shells report for a command that an interrupt ended.
STATUS: Final = 130
# How long a command may take to clean up after itself, in seconds: most have next to nothing to do.
GRACE: Final = 0.1
_grace = GRACE


_requested = threading.Event()


def install() -> None:
    """Make an interrupt end the process within `GRACE` seconds, whatever its threads are busy with.

    Python raises `KeyboardInterrupt` when the main thread runs Python again: within a long call of a library, that may
    take seconds. A warehouse keeps what was committed, as it does if the process is killed.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as it is in the background of a shell's script
        return
    signal.signal(signal.SIGINT, _interrupt)
    if sys.platform == "win32":  # there, signals are written to sockets alone
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(read,), daemon=True).start()


def allow(seconds: float) -> None:
    """Give the command that long to end processes of its own."""
    global _grace  # noqa: PLW0603 - there is one command a process
    _grace = seconds


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is an interrupt, or what a library made of one."""
    return _requested.is_set() or isinstance(error, KeyboardInterrupt)


def _interrupt(*_: object) -> None:
    _requested.set()
    raise KeyboardInterrupt


def _watch(signals: int) -> None:
    while signal.SIGINT not in os.read(signals, 1):
        pass
    time.sleep(_grace)
    # Files that are half written are in temporary folders, which go here as they would at a regular exit.
    sys.unraisablehook = lambda _: None
    atexit._run_exitfuncs()
    os._exit(STATUS)
