"""Sockets of servers."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack

from etq.errors import EtqError


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address. Raises `EtqError` if that isn't possible."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)  # a browser that is faster than the server's start waits
            stack.pop_all()
        return listener
    except UnicodeError as error:  # such as a name with a part of more than 63 characters
        raise EtqError(f"{host}:{port}: not a host's name; choose another --host") from error
    except OSError as error:
        is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        what = (error.strerror or str(error)).lower()
        raise EtqError(f"{host}:{port}: {what}; choose another {'--host' if is_host else '--port'}") from error
