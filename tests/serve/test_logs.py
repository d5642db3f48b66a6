"""The server's log: a line for each request, without what is secret, and never in the way of requests."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from datetime import datetime
from pathlib import Path
from urllib.request import urlopen

import pytest

import etq
from etq.serve import logs
from etq.serve.logs import Log
from tests.serve.processes import started, wait_for
from tests.sql.test_trends import capture

SECRET = "s3cr3t-0123456789"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="a")
    return path


def test_lines_of_json(path: Path) -> None:
    with started(path, "--log-json") as process:
        server = process.server
        replies = {
            "/capture/a%0Ab?token=&x=": server.get(f"/capture/a%0Ab?token={SECRET}&x={SECRET}"),
            "/data/report?capture=": server.get("/data/report", {"capture": SECRET}),
            "/nowhere": server.get(f"/nowhere?{SECRET}"),
            "/data/state": server.get("/data/state", authorization=f"Bearer {SECRET}", cookie=SECRET, referer=SECRET),
        }
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"GARBAGE \x00\xff / HTTP/9\r\n\r\n")
            connection.recv(1000)
        assert process.end(signal.SIGTERM) == 0
    assert SECRET not in "".join(process.lines)
    lines = [json.loads(line) for line in process.lines if line.startswith("{")]
    assert [line["event"] for line in (lines[0], lines[-1])] == ["start", "stop"]
    assert lines[0]["version"] == etq.__version__ and lines[0]["port"] == server.port
    requests = {line["path"]: line for line in lines if line["event"] == "request"}
    for address, reply in replies.items():
        line = requests[address]
        assert (line["method"], line["status"], line["bytes"]) == ("GET", reply.status, len(reply.body))
        # Pages have nothing secret: who asks for one is not looked for.
        user = None if address.startswith("/capture/") else "anyone"
        assert (line["address"], line.get("user")) == ("127.0.0.1", user)
        assert 0 <= line["seconds"] < 60
        at = datetime.fromisoformat(line["time"])
        assert at.utcoffset() is not None and abs(at.timestamp() - time.time()) < 120
    assert {line["event"] for line in lines} <= {"start", "stop", "request", "error"}


def test_plain_lines(path: Path) -> None:
    with started(path, "--log") as process:
        reply = process.server.get(f"/data/state?token={SECRET}")
        process.server.get("/x%0Afake%20line")
        assert process.end(signal.SIGTERM) == 0
    text = "".join(process.lines)
    assert SECRET not in text and "\nfake" not in text
    [line] = [each.split() for each in process.lines if " /data/state?token= " in each]
    assert line[1:6] == ["anyone", "127.0.0.1", "GET", "/data/state?token=", "200"]
    assert line[6].endswith("s") and line[7] == f"{len(reply.body)}B"
    assert " /x%0Afake%20line 404 " in text


def test_one_persons_server_logs_nothing(path: Path) -> None:
    with started(path) as process:
        process.server.get("/data/state")
        assert process.end(signal.SIGTERM) == 0
    pages, stopping, stopped = process.lines
    assert ": pages at " in pages and stopping.startswith("Stopping (SIGTERM)") and stopped == "Stopped.\n"


def test_a_reader_that_reads_nothing_stops_nobody(path: Path) -> None:
    """The pipe is full after 64 KB: 1,000 requests have 100 KB of log."""
    with started(path, "--log-json", waits=False) as process:
        process.reader.join(0)
    ready, blocked = threading.Event(), threading.Event()
    written = []

    def write(line: str) -> None:
        written.append(line)
        ready.set()
        blocked.wait(30)

    log = Log(write)
    log.note("first")
    assert ready.wait(10)
    for number in range(logs.MOST_WAITING + 500):
        log.note("request", number=number, method="GET", path="/", status=200, seconds=0.0, bytes=0, address="-")
    assert log.dropped == 500
    blocked.set()
    log.close()
    assert len(written) == 1 + logs.MOST_WAITING


def test_texts_of_clients_stay_within_their_line() -> None:
    written: list[str] = []
    for as_json in (False, True):
        log = Log(written.append, as_json=as_json)
        fields = {"method": "GET", "path": "/", "status": 200, "seconds": 0.5, "bytes": 7, "address": "::1"}
        log.note("request", user="anna 200 0s\n2026 root\x1b[31m", **fields)
        log.note("prune", result="x\ny\u2028z\x00")
        log.close()
    assert len(written) == 4 and all(each.count("\n") == 1 and each.endswith("\n") for each in written)
    assert all("\x1b" not in each and "\x00" not in each for each in written)
    assert written[0].split()[2:] == ["::1", "GET", "/", "200", "0.500s", "7B"]
    assert json.loads(written[2])["user"] == "anna 200 0s\n2026 root\x1b[31m"


def test_errors_of_the_application_are_lines_too(path: Path) -> None:
    code = (
        "import etq.serve.health as h\n"
        "async def broken(self): raise RuntimeError('planted')\n"
        "h.Health.checks = broken\n"
        "from etq.__main__ import main; main()\n"
    )
    import sys

    with started(path, "--log-json", command=[sys.executable, "-c", code, "serve"], waits=False) as process:
        with pytest.raises(OSError):
            urlopen(f"{process.server.url}/healthz", timeout=30)
        wait_for(lambda: any("planted" in line for line in process.lines))
        assert process.end(signal.SIGTERM) == 0
    errors = [json.loads(line) for line in process.lines if '"event":"error"' in line]
    assert [each["level"] for each in errors] == ["error"] and "RuntimeError: planted" in errors[0]["traceback"]
