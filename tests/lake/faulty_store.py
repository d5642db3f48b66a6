"""A proxy in front of an object store that loses, refuses, cuts and delays what a test chooses."""

from __future__ import annotations

import multiprocessing
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal
from urllib.parse import urlsplit

# What happens to a request:
#   lost     the store takes it, and the connection ends without an answer
#   dropped  the connection ends before the store sees it
#   500      the store takes it, and the answer is an error of the server
#   503      the store doesn't see it, and the answer is that the server is busy
#   cut      the store takes it, and half of the answer arrives
#   late     the connection ends, and the store sees the request after it has taken the client's second one
Fault = Literal["lost", "dropped", "500", "503", "cut", "late"]
OPTIONS: Final = {"max_retries": "3"}


@dataclass
class Plan:
    """Which request fails, and how: the first that a pattern matches, the number-th of them.

    is_gone_after  whether no later request reaches the store
    """

    fault: Fault = "lost"
    number: int = 1
    pattern: str = "."
    is_gone_after: bool = False


class Faults:
    """The plan of a proxy, in another process: the library that is tested holds Python's lock while it waits."""

    def __init__(self, control: Any) -> None:
        self._control = control

    def plan(self, plan: Plan | None) -> list[str]:
        """Follow a plan, or let everything pass. Returns what failed by the plan before, as "PUT /bucket/key"."""
        self._control.send(plan)
        failed: list[str] = self._control.recv()
        return failed


@dataclass
class _Following:
    plan: Plan | None = None
    seen: int = 0
    failed: list[str] = field(default_factory=list)
    late: tuple[str, str, bytes, dict[str, str]] | None = None  # a request that the store is to see later
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, request: str) -> Fault | None:
        """What happens to a request."""
        with self.lock:
            if self.plan is None:
                return None
            if self.failed:
                return "dropped" if self.plan.is_gone_after else None
            self.seen += bool(re.search(self.plan.pattern, request))
            if self.seen < self.plan.number:
                return None
            self.failed.append(request)
            return self.plan.fault


@contextmanager
def proxied(endpoint: str) -> Iterator[tuple[str, Faults]]:
    """Serve what the store at `endpoint` serves, with faults; yields the address."""
    context = multiprocessing.get_context("spawn")
    control, other = context.Pipe()
    process = context.Process(target=_serve, args=(str(urlsplit(endpoint).netloc), other), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{control.recv()}", Faults(control)
    finally:
        process.kill()
        process.join()


def _serve(store: str, control: Any) -> None:
    following = _Following()

    def ask(command: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[HTTPResponse, bytes]:
        connection = HTTPConnection(store, timeout=300)
        connection.request(command, path, body, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response, content

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # of a client that doesn't wait for the answer
                super().handle()

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = following.of(f"{self.command} {self.path}")
            asked = self.command, self.path, body, dict(self.headers)
            if fault == "late":
                following.late = asked
            if fault in ("late", "dropped"):
                self.close_connection = True
                return
            if fault == "503":
                self.answer(503, [], b"busy")
                return
            response, content = ask(*asked)
            if following.late is not None and following.late[:2] == asked[:2]:
                ask(*following.late)
                following.late = None
            if fault == "lost":
                self.close_connection = True
                return
            if fault == "500":
                self.answer(500, [], b"failed")
            else:
                self.answer(response.status, response.getheaders(), content, is_cut=fault == "cut")

        def answer(self, status: int, headers: list[tuple[str, str]], content: bytes, *, is_cut: bool = False) -> None:
            left_out = ("content-length", "transfer-encoding", "connection")
            length = next((value for name, value in headers if name.lower() == "content-length"), None)
            lines = [f"HTTP/1.1 {status} x", *(f"{n}: {v}" for n, v in headers if n.lower() not in left_out)]
            # The answer to HEAD has the length of what it doesn't send.
            lines.append(f"Content-Length: {length if self.command == 'HEAD' and length else len(content)}")
            head = "\r\n".join([*lines, "", ""]).encode()
            if is_cut:
                self.close_connection = True
                head, content = (head, content[: len(content) // 2]) if content else (head[: len(head) // 2], b"")
            self.wfile.write(head + content)

    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.forward)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    control.send(server.server_address[1])
    while True:
        plan = control.recv()
        with following.lock:
            control.send(following.failed)
            following.plan, following.seen, following.failed, following.late = plan, 0, [], None
