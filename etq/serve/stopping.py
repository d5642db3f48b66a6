"""How a server ends: requests that are being answered get their answer, and the next signal ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import uvicorn

# How long requests and parts that are running may take, in seconds.
GRACE: Final = 30
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StoppableServer(uvicorn.Server):  # type: ignore[misc]
    """A server that the signals of a terminal and of service managers end in order: `run` returns then.

    report  called with what it does
    """

    def __init__(self, config: uvicorn.Config, report: Callable[[str], None]) -> None:
        super().__init__(config)
        self._report = report
        self._signal: int | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; at once, if it is stopping already: processes that it started end with it."""
        if self._signal is not None:
            with suppress(OSError):
                os.write(2, b"ended at once\n")
            os._exit(128 + sig)
        self._signal = sig
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals here, rather than have an interrupt end the command in the midst of answers."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {each: signal.signal(each, self.handle_exit) for each in SIGNALS}
        wakeup = signal.set_wakeup_fd(-1)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for each, handler in handlers.items():
                signal.signal(each, handler)

    async def shutdown(self, sockets: object = None) -> None:
        """Take no more requests, and wait for those that are there."""
        running = len(self.server_state.tasks)
        what = "" if not running else f": {running} request{'' if running == 1 else 's'} may take up to {GRACE} s more"
        name = "" if self._signal is None else f" ({signal.Signals(self._signal).name})"
        self._report(f"Stopping{name}{what}; a second signal ends at once.")
        await super().shutdown(sockets)
        self._report("Stopped.")
