"""`etq serve` as a command: its output, errors and end."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import etq
from etq.cli import main
from tests.sql.test_trends import capture


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serve") / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="a", labels={"build": "1"})
    return path


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code == 1
    return result.stderr


def test_what_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{tmp_path / 'no.duckdb'}: no such file; make a warehouse" in refused("--db", str(tmp_path / "no.duckdb"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1:{port}: address already in use; choose another --port" in refused(
            "--db", str(path), "--port", port
        )
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pages in a browser need starlette, uvicorn and python-multipart: pip install 'etq[serve]'" in refused(
        "--db", str(path)
    )


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_it_ends_with_its_processes(path: Path, end: signal.Signals) -> None:
    pytest.importorskip("uvicorn", reason="pages in a browser need uvicorn")
    command = [sys.executable, "-m", "etq", "serve", "--db", str(path), "--port", "0", "--host", "0.0.0.0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        found = re.search(
            rf"^{re.escape(str(path))}: pages at http://{socket.gethostname()}:(\d+)/#token=(etq_\S{{32,}})\n$", first
        )
        assert found is not None, first
        port, token = found.groups()
        assert "The link has a token" in process.stderr.readline()
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        for attempt in range(100):
            try:
                connection.request("GET", "/data/captures")
                assert connection.getresponse().read() and attempt < 100
                break
            except OSError:
                connection.close()
                time.sleep(0.05)
        connection.request("GET", "/data/captures", headers={"authorization": f"Bearer {token}"})
        reply = connection.getresponse()
        assert reply.status == 200 and b'"a"' in reply.read()
        connection.close()
        children = [*map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())]
        assert children
        os.kill(process.pid, end)
        process.wait(20)
        deadline = time.monotonic() + 20
        while any(map(is_running, children)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(is_running, children))
