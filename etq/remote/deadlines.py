"""A limit of the whole time that another machine may take, however slowly it sends: sockets limit each part alone."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress


@contextmanager
def ended_after(opened: socket.socket, seconds: float) -> Iterator[None]:
    """End a connection after so many seconds, also one that is wrapped by TLS meanwhile. Raises `TimeoutError` then."""
    is_over = threading.Event()
    # Whoever wraps or closes the socket meanwhile has another object of the same connection.
    with closing(socket.socket(opened.family, opened.type, fileno=os.dup(opened.fileno()))) as same:

        def end() -> None:
            is_over.set()
            with suppress(OSError):
                same.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, http.client.HTTPException):
            if not is_over.is_set():
                raise
        finally:
            timer.cancel()
            timer.join()
    if is_over.is_set():
        raise TimeoutError(f"no whole answer within {seconds:g} s")
