"""A server as users run it: a process of its own, which can be killed and started again at the same port."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etq.processes import environment
from tests.builders import dump, execute, kernel, run


def small_capture(number: int) -> bytes:
    """An ETDump of some hundred bytes, another one for each number."""
    return dump(run("Execute", execute(0, 1000 + number), kernel("add.out", 10, 500 + number)))


def write_captures(folder: Path, count: int, first: int = 0) -> list[str]:
    """Write captures to a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"run{number:04}.etdp" for number in range(first, first + count)]
    for number, path in enumerate(paths, first):
        path.write_bytes(small_capture(number))
    return [*map(str, paths)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass
class ServerProcess:
    """The process of a server of a warehouse."""

    path: Path | str
    port: int
    options: tuple[str, ...] = ("--edit",)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ["serve", "--db", str(self.path), "--port", str(self.port), *self.options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "etq", *words], env=environment(), stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            assert self.process.poll() is None, "the server ended"
            with suppress(OSError):
                self.get("/data/state")
                return
            time.sleep(0.02)
        raise AssertionError("the server doesn't answer")

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def get(self, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            return reply.status, {name.lower(): each for name, each in reply.getheaders()}, reply.read()
        finally:
            connection.close()

    def memory(self) -> dict[str, float]:
        """The memory of its processes in MB, shared parts divided among them, by what each of them runs."""
        assert self.process is not None
        found: dict[str, float] = {}
        for pid in (self.process.pid, *_descendants(self.process.pid)):
            with suppress(OSError, StopIteration, IndexError):  # it has ended meanwhile
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                size = int(next(each for each in lines if each.startswith("Pss:")).split()[1]) / 1000
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                found[f"{words[3 if '-P' in words else 2]}.{pid}"] = size
        return found


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _descendants(int(child))


@contextmanager
def served(path: Path | str, *options: str) -> Iterator[ServerProcess]:
    """A server of a warehouse, until the block ends."""
    server = ServerProcess(path, free_port(), ("--edit", *options))
    server.start()
    try:
        yield server
    finally:
        assert server.process is not None
        server.process.terminate()
        try:
            server.process.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


@dataclass
class Reader:
    """A thread that reads pages' data again and again, and counts the statuses of the answers."""

    server: ServerProcess
    statuses: Counter[str] = field(default_factory=Counter)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        paths = ("/data/captures", "/data/counts", "/data/series", "/", "/data/state")
        number = 0
        while not self.ended.is_set():
            number += 1
            try:
                status, headers, _ = self.server.get(paths[number % len(paths)])
                has_time = " with Retry-After" if "retry-after" in headers else ""
                self.statuses[f"{status}{has_time}"] += 1
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # it was killed, and isn't there yet
            time.sleep(0.01)


def in_json(body: bytes) -> Any:
    return json.loads(body)


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        os.kill(pid, 0)
        return True
    return False
