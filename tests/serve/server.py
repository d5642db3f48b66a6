"""A server in this process, on a port of the loopback, and what it answers."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from etq.listening import bound


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    port: int
    path: Path | str
    token: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, parameters: Mapping[str, str] | None = None, method: str = "GET", **headers: str) -> Reply:
        """What the server answers; underscores in names of headers are dashes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            address = path + (f"?{urlencode(parameters)}" if parameters else "")
            connection.request(
                method, address, headers={name.replace("_", "-"): each for name, each in headers.items()}
            )
            reply = connection.getresponse()
            found = {name.lower(): value for name, value in reply.getheaders()}
            body = reply.read()
            if found.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            return Reply(reply.status, found, body)
        finally:
            connection.close()

    def post(self, path: str, body: bytes, **headers: str) -> Reply:
        """What the server answers to what a page of it sends, unless `headers` say otherwise."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {"origin": self.url} | {name.replace("_", "-"): each for name, each in headers.items()}
            connection.request("POST", path, body, {name: each for name, each in named.items() if each})
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def data(self, question: str, **parameters: str) -> Any:
        reply = self.get(f"/data/{question}", parameters, accept_encoding="gzip")
        assert reply.status == 200, reply.body[:500]
        return reply.data


@contextmanager
def serving(path: Path | str, *, has_link: bool = False, **settings: Any) -> Iterator[Server]:
    """A server of a warehouse, or of the address of a lake, with `Settings`, until the block ends.

    has_link   whether only those may ask who have the link's token, as on another host than the loopback
    """
    pytest.importorskip("starlette", reason="pages in a browser need starlette")
    uvicorn = pytest.importorskip("uvicorn", reason="pages in a browser need uvicorn")
    from etq.serve.access import Access
    from etq.serve.pool import QuestionPool
    from etq.serve.running import config_of
    from etq.serve.settings import Settings
    from etq.serve.site import Site

    with bound("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        site = Site(str(path), QuestionPool(str(path)), Settings(**settings))
        access = Access("127.0.0.1", port, site.settings)
        if has_link:
            access.add_link()
        server = uvicorn.Server(config_of(site, access))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        end = time.monotonic() + 30
        while not server.started and time.monotonic() < end:
            time.sleep(0.01)
        assert server.started
        try:
            yield Server(port, path, access.token)
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive(), "it ends what it started"
