"""Servers as processes of their own, by the command line."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.serve.server import Server
from tests.sharing.test_many_at_once import started as in_process

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Started:
    """A server in a process, and the lines that it wrote to standard error."""

    server: Server
    process: subprocess.Popen[str]
    lines: list[str]
    reader: threading.Thread

    def end(self, *signals: signal.Signals) -> int:
        """Send signals, one after the other; return the exit status, when all lines are there."""
        for each in signals:
            self.process.send_signal(each)
            time.sleep(0.3)
        status = self.process.wait(60)
        self.reader.join(10)
        return status


@contextmanager
def started(
    path: Path | str,
    *options: str,
    command: Sequence[str | Path] = (),
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    waits: bool = True,
) -> Iterator[Started]:
    """A server on any port of the loopback until the block ends, if it hasn't ended by then.

    waits  whether until it answers
    """
    words = [*map(str, command or (sys.executable, "-m", "etq", "serve")), "--db", str(path), "--port", "0", *options]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)} if environment is None else environment
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env=variables, cwd=folder, start_new_session=True
    ) as process:
        assert process.stderr is not None
        stderr, lines = process.stderr, list[str]()
        port = None
        while port is None and (line := stderr.readline()):
            lines.append(line)
            if found := re.search(r"pages at https?://[^/]*:(\d+)/", line):
                port = int(found[1])
        assert port is not None, lines
        reader = threading.Thread(target=lambda: lines.extend(stderr), daemon=True)
        reader.start()
        server = Server(port, path)
        try:
            if waits:
                wait_for(lambda: answers(server))
            yield Started(server, process, lines, reader)
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def answers(server: Server) -> bool:
    """Whether a server says that it is well."""
    try:
        return server.get("/healthz").status == 200
    except (OSError, http.client.HTTPException):
        return False


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until a function returns true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@contextmanager
def written(path: Path | str) -> Iterator[Callable[[], object]]:
    """A process that has the warehouse open for writing, and the function that ends it."""
    code = "import etq, sys; held = etq.open(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    with in_process(code, path) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "held\n"
        yield lambda: writer.communicate("")
