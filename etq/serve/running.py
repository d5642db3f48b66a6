"""Runs the server until it is interrupted."""

from __future__ import annotations

import ssl
import webbrowser
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from etq.database.connection import check_path, expanded, is_lake_path
from etq.errors import EtqError
from etq.listening import bound
from etq.serve.access import Access
from etq.serve.freed_memory import give_back
from etq.serve.pool import QuestionPool
from etq.serve.settings import Settings
from etq.version import VERSION
from etq.warehouse.warehouse import open as open_warehouse

if TYPE_CHECKING:
    from uvicorn import Config

    from etq.serve.site import Site

_MISSING = "pages in a browser need starlette, uvicorn and python-multipart: pip install 'etq[serve]'"


def run(path: str, host: str, port: int, settings: Settings, *, opens: bool, report: Callable[[str], None]) -> None:
    """Serve the pages of a warehouse or lake until the process is interrupted.

    opens   whether to open the first page in a browser
    report  called with the text that users need to open a page

    Raises `EtqError` if the server's packages aren't installed or the port isn't free, `WarehouseError` if there is no
    warehouse that can be read.
    """
    try:
        import python_multipart  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise EtqError(_MISSING) from None
    from etq.serve.logs import Log, to_stderr
    from etq.serve.site import Site
    from etq.serve.stopping import StoppableServer

    path = expanded(path)
    if path.startswith(("http://", "https://")):
        raise EtqError(f"{path}: a server, which has pages: open it in a browser")
    pool = QuestionPool(path, folder=settings.folder)
    pool.start()  # its processes import what they need while this one checks the warehouse
    has_team = settings.folder is not None and settings.folder.exists
    is_logged = settings.logs or settings.logs_json or has_team
    log = to_stderr(as_json=settings.logs_json) if is_logged else Log()
    with closing(log), closing(pool):
        _check(path)
        if settings.user_header is not None and settings.folder is not None:
            settings.folder.make()
        with bound(host, port) as listener:
            access = Access(host, listener.getsockname()[1], settings)
            site = Site(path, pool, settings, log=log)
            config = config_of(site, access)
            report(f"{path}: pages at {access.url}")
            if access.token is not None:
                may = "read the warehouse and change its overviews" if settings.edits else "read the warehouse"
                report(f"The link has a token; anyone who has it can {may}. It is valid until the server ends.")
            elif access.folder() is not None and settings.folder is not None:
                report(f"It answers the users of {settings.folder.path}, whom etq users lists.")
            if opens:
                webbrowser.open(access.url)
            if is_logged:
                log.take_errors()
            log.note("start", version=VERSION, warehouse=path, port=access.port)
            StoppableServer(config, report).run(sockets=[listener])
            log.note("stop")


def config_of(site: Site, access: Access) -> Config:
    """Return the configuration of the server of a site, for those who have access.

    Raises `EtqError` for a certificate that can't be used.
    """
    import uvicorn
    from uvicorn.config import LOGGING_CONFIG

    from etq.serve.app import application
    from etq.serve.connections import Connection
    from etq.serve.stopping import GRACE

    certificate, key = site.settings.certificate, site.settings.key
    # Headers of proxies are the guard's business, which knows whose are to be believed.
    config = uvicorn.Config(
        application(site, access), log_config=None if site.log.is_on else LOGGING_CONFIG, log_level="warning",
        access_log=False, server_header=False, date_header=False, timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE, lifespan="on", ws="none", proxy_headers=False,
        http=Connection, ssl_certfile=certificate, ssl_keyfile=key,
    )  # fmt: skip
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        files = " and ".join(each for each in (certificate, key) if each is not None)
        what = (error.strerror or str(error)).lower()
        raise EtqError(f"{files}: {what}; give a certificate and its key in PEM") from error
    return config


def _check(path: str) -> None:
    """Raise `WarehouseError` for what isn't a warehouse or lake."""
    if not is_lake_path(path):
        check_path(path)
    with open_warehouse(path, read_only=True):
        pass
    give_back()  # the server itself opens no warehouse again
