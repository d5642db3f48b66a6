"""Sockets of servers."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from contextlib import ExitStack
from typing import Final

from etq.errors import EtqError

# A host as browsers send it: a name or address, or an IPv6 address in brackets, and a port. No user, path or escape.
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+?)\.?(?::([0-9]{0,5}))?")
_LARGEST_PORT: Final = 65535


def host_of(header: str) -> str | None:
    """Return the host that a request's header `Host` names, without the port; None for a value that no browser sends.

    Names are in lower case, without a final dot; addresses are in their shortest form.
    """
    found = _HOST.fullmatch(header.strip(" \t").lower())
    if found is None or int(found[2] or 0) > _LARGEST_PORT:
        return None
    if not found[1].startswith("["):
        return found[1]
    try:
        return str(ipaddress.IPv6Address(found[1][1:-1]))
    except ValueError:
        return None


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address. Raises `EtqError` if that isn't possible."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)  # a browser that connects before the server has started waits
            stack.pop_all()
        return listener
    except UnicodeError as error:  # such as a name with a part of more than 63 characters
        raise EtqError(f"{host}:{port}: not a host name; choose another --host") from error
    except OSError as error:
        is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        what = (error.strerror or str(error)).lower()
        raise EtqError(f"{host}:{port}: {what}; choose another {'--host' if is_host else '--port'}") from error
