"""What the parts of a server share, and what a part is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

from starlette.routing import BaseRoute

from etq.serve.logs import Log
from etq.serve.meters import Meters
from etq.serve.pool import QuestionPool
from etq.serve.settings import Settings


@dataclass(frozen=True)
class Site:
    """The warehouse or lake that is served, the processes that answer questions about it, its server's settings, what
    it counts, and its log.
    """

    path: str
    pool: QuestionPool
    settings: Settings = field(default_factory=Settings)
    meters: Meters = field(default_factory=Meters)
    log: Log = field(default_factory=Log)


@dataclass(frozen=True)
class Part:
    """A part of a server: its routes, and what runs beside them while the server does.

    shown   paths that anyone may read who names the right host, as they have nothing secret; those that end with / are
            the beginnings of paths, and those that end with ? are shown only without a query
    """

    routes: Sequence[BaseRoute] = ()
    running: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    shown: Sequence[str] = ()
