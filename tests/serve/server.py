"""A server in this process, on a port of the loopback, and one in a process of its own, which can be killed."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from etq.listening import bound
from etq.tokens import TokenFile
from tests.builders import dump, execute, kernel, run

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.data["error"])


@dataclass(frozen=True)
class Server:
    """Where a server listens, and the secret that requests send by default."""

    port: int
    path: Path | str
    token: str | None = None
    routes: tuple[Any, ...] = ()
    instance: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        """What the server answers; underscores in names of headers are dashes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
            named |= {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, {name: value for name, value in named.items() if value})
            reply = connection.getresponse()
            found = {name.lower(): value for name, value in reply.getheaders()}
            content = reply.read()
            if found.get("content-encoding") == "gzip":
                content = gzip.decompress(content)
            return Reply(reply.status, found, content)
        finally:
            connection.close()

    def get(self, path: str, parameters: Mapping[str, str] | None = None, **headers: Any) -> Reply:
        return self.ask("GET", path + (f"?{urlencode(parameters)}" if parameters else ""), **headers)

    def data(self, question: str, **parameters: str) -> Any:
        reply = self.get(f"/data/{question}", parameters, accept_encoding="gzip")
        assert reply.status == 200, reply.body[:500]
        return reply.data

    def query(self, sql: str, **more: Any) -> Reply:
        return self.ask("POST", "/api/query", json.dumps({"sql": sql, **more}).encode())

    def push(self, content: bytes, file: str = "run.etdp", **fields: str) -> Reply:
        """What the server answers to a form with a file."""
        boundary = b"------b"
        parts = [
            f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()
        ]
        parts.append(f'Content-Disposition: form-data; name="file"; filename="{file}"\r\n\r\n'.encode() + content)
        body = b"".join(b"--%s\r\n%s\r\n" % (boundary, part) for part in parts) + b"--%s--\r\n" % boundary
        return self.ask("POST", "/api/push", body, content_type=f"multipart/form-data; boundary={boundary.decode()}")


@contextmanager
def serving(
    path: Path | str, tokens: Path | None = None, token: str | None = None, *, seconds: float = 30, most: int = 2**30
) -> Iterator[Server]:
    """A server of a warehouse or lake, until the block ends; a query takes at most `seconds`, a push `most` bytes."""
    pytest.importorskip("starlette", reason="pages in a browser need starlette")
    uvicorn = pytest.importorskip("uvicorn", reason="pages in a browser need uvicorn")
    from etq.serve.app import application
    from etq.serve.instance import Instance

    with bound("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        instance = Instance(str(path), is_writable=tokens is not None)
        found = None if tokens is None else TokenFile(str(tokens))
        app: Any = application(instance, found, "127.0.0.1", seconds, most)
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        end = time.monotonic() + 60
        while not server.started and time.monotonic() < end:
            time.sleep(0.01)
        assert server.started
        try:
            yield Server(port, path, token, tuple(app._app._app.routes), instance)
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive(), "it ends what it started"


def small_capture(number: int) -> bytes:
    """An ETDump of some hundred bytes, another one for each number."""
    return dump(run("Execute", execute(0, 1000 + number), kernel("add.out", 10, 500 + number)))


class ServerProcess:
    """`etq serve` at one port, which can be killed and started again. As a context, it leaves none."""

    def __init__(self, path: Path, tokens: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        self._words = ["serve", str(path), "--tokens", str(tokens), "--port", str(self.port), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def start(self, addresses: int | None = None) -> None:
        """Start it, with at most so many bytes of addresses, and wait until it answers."""
        words = [sys.executable, "-m", "etq", *self._words]
        if addresses is not None:
            words = ["prlimit", f"--as={addresses}", *words]
        self._process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with suppress(OSError):
                if Server(self.port, "").get("/healthz").status == 200:
                    return
            time.sleep(0.05)
        raise TimeoutError("the server does not answer")

    def kill(self) -> None:
        """Kill it, as by SIGKILL, and wait until its second process, which notices that, has left the port."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                return
            time.sleep(0.05)
        raise TimeoutError("the server still listens")

    def second(self) -> int:
        """The id of the process that answers."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        [found] = [int(each) for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]
        return found

    def interrupt(self) -> int:
        """End it, as by Ctrl-C, and return its status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(60)
