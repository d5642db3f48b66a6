"""Runs the server until it is interrupted. A query may end the server's process. Then uvicorn's supervisor starts
another process, which answers half a second later. The socket stays open meanwhile.
"""

from __future__ import annotations

import signal
import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from etq.database import limited
from etq.database.connection import check_path, expanded, is_lake_path
from etq.errors import EtqError
from etq.listening import bound
from etq.processes import end_with_parent
from etq.tokens import TokenFile
from etq.warehouse.warehouse import open as open_warehouse

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn.supervisors import Multiprocess

_MISSING: Final = "pages in a browser need starlette, uvicorn and python-multipart: pip install 'etq[serve]'"
# Addresses that stand for all interfaces.
_ANY: Final = ("0.0.0.0", "::", "")
_GRACE: Final = 10
# Seconds without a sign of life after which a process is replaced.
_HANGS: Final = 60
# The most requests at one time; others are answered with 503.
_MOST_REQUESTS: Final = 200


def run(
    path: str,
    host: str,
    port: int,
    tokens: str | None,
    *,
    seconds: float,
    megabytes: int,
    opens: bool,
    report: Callable[[str], None],
) -> None:
    """Serve the pages of a warehouse or lake until the process is interrupted.

    tokens     the file of tokens; without one, only this machine may send requests
    seconds    limit of a query's time
    megabytes  limit of the size of a push
    opens      whether to open the first page in a browser
    report     called with the text that users need to open a page

    Raises `EtqError` if the server's packages aren't installed, if the port isn't free, or if the host isn't this
    machine and there are no tokens. Raises `WarehouseError` if there is no warehouse that can be read.
    """
    try:
        import python_multipart  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise EtqError(_MISSING) from None

    from etq.serve.access import LOOPBACK

    if tokens is None and host not in LOOPBACK:
        raise EtqError(f"--host {host}: others can reach it, so it needs tokens: etq token NAME --file tokens.toml")
    path = expanded(path)
    found = None if tokens is None else TokenFile(tokens)
    if not is_lake_path(path):
        check_path(path)
    is_new = found is not None and not is_lake_path(path) and not Path(path).exists()
    with open_warehouse(path, read_only=not is_new):  # creates a warehouse for captures that will be sent
        pass
    with bound(host, port) as listener:
        number = listener.getsockname()[1]
        shown = socket.gethostname() if host in _ANY else host
        address = f"http://{f'[{shown}]' if ':' in shown else shown}:{number}/"
        served = _Served(path, tokens, host, seconds, megabytes)
        report(f"{path}: pages at {address}")
        if found is not None:
            report(f"It answers requests with a token of {found.path}.")
        if opens:
            webbrowser.open(address)
        config = uvicorn.Config(
            served, factory=True, log_level="warning", access_log=False, server_header=False, date_header=False,
            proxy_headers=False, timeout_graceful_shutdown=_GRACE, lifespan="on", ws="none",
            limit_concurrency=_MOST_REQUESTS, workers=1, timeout_worker_healthcheck=_HANGS,
        )  # fmt: skip
        _allow_connections()
        signal.set_wakeup_fd(-1)  # the supervisor ends this process later, after all answers
        _supervisor()(config, [listener]).run()


def _allow_connections() -> None:
    """Raise the limit of open files to the system's limit. With the usual 1,024, idle connections could block all
    others.
    """
    with suppress(ImportError, OSError, ValueError):  # on Windows, or if the number is above the system's limit
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _supervisor() -> type[Multiprocess]:
    from uvicorn.supervisors import Multiprocess

    class Supervisor(Multiprocess):  # type: ignore[misc]
        """Notices the end of the server's process immediately. uvicorn holds both ends of the pipe for signs of life,
        so otherwise it would wait for a dead process until the time limit.
        """

        def keep_subprocess_alive(self) -> None:
            for process in self.processes:
                process.child_conn.close()
            super().keep_subprocess_alive()

    return Supervisor


@dataclass(frozen=True)
class _Served:
    """The data from which a server process makes its application; fields are arguments of `run`."""

    path: str
    tokens: str | None
    host: str
    seconds: float
    megabytes: int

    def __call__(self) -> ASGIApp:
        from etq.serve.app import application
        from etq.serve.instance import Instance

        end_with_parent()
        found = None if self.tokens is None else TokenFile(self.tokens)
        instance = Instance(self.path, is_writable=found is not None and not is_lake_path(self.path))
        instance.confine()
        limited.when_stuck = partial(instance.end, "a query can't be interrupted")
        return application(instance, found, self.host, self.seconds, self.megabytes * 2**20)
