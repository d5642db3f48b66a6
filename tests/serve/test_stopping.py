"""How a server ends: answers that are being made are made, and a second signal ends it at once."""

from __future__ import annotations

import http.client
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import etq
from tests.serve.processes import started, wait_for, written
from tests.serve.server import Server
from tests.serve.test_command import is_running
from tests.sql.test_trends import capture

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stopping") / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="a")
    return path


def children(pid: int) -> list[int]:
    return [int(each) for file in Path(f"/proc/{pid}/task").glob("*/children") for each in file.read_text().split()]


@contextmanager
def idle(server: Server) -> Iterator[None]:
    """A connection that a browser keeps after an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("GET", "/data/state")
        connection.getresponse().read()
        yield


@pytest.mark.parametrize("end", SIGNALS)
def test_requests_get_their_answer(path: Path, end: signal.Signals) -> None:
    """A question that waits for a writer is answered, after the server was told to stop."""
    with started(path) as process, ThreadPoolExecutor(1) as threads, idle(process.server):
        with written(path) as release:
            answer = threads.submit(process.server.get, "/data/report", {"capture": "a"})
            time.sleep(0.5)
            process.process.send_signal(end)
            wait_for(lambda: any(line.startswith(f"Stopping ({end.name})") for line in process.lines))
            assert "1 request may take up to 30 s more" in process.lines[-1]
            with pytest.raises(OSError):
                process.server.get("/data/state")
            assert process.process.poll() is None and not answer.done()
            release()
        reply = answer.result(60)
        assert reply.status == 200 and reply.data["capture"] == "a"
        assert process.end() == 0
        assert process.lines[-1] == "Stopped.\n"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
@pytest.mark.parametrize("end", SIGNALS)
def test_a_second_signal_ends_it_at_once(path: Path, end: signal.Signals) -> None:
    with started(path) as process, written(path), ThreadPoolExecutor(1) as threads:
        answer = threads.submit(process.server.get, "/data/report", {"capture": "a"})
        time.sleep(0.5)
        workers = children(process.process.pid)
        assert workers
        began = time.monotonic()
        assert process.end(end, end) == 128 + end
        assert time.monotonic() - began < 5  # of the 10 s that the question waits for the writer
        assert process.lines[-1] == "ended at once\n"
        with pytest.raises((OSError, http.client.HTTPException)):
            answer.result(60)
        wait_for(lambda: not any(map(is_running, workers)))


def test_an_idle_server_ends_soon(path: Path) -> None:
    with started(path) as process, idle(process.server):
        began = time.monotonic()
        assert process.end(signal.SIGTERM) == 0
        assert time.monotonic() - began < 10  # far less than requests may take
