"""Servers: access over HTTP, time limits, and arguments refused at the start."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import etq
from etq.errors import EtqError
from etq.mcp.limits import encoded, fitted
from etq.mcp.serving import RequestGuard, is_loopback
from tests.agents.conftest import http_server
from tests.agents.test_tools import SLOW

TOKEN = "correct horse battery staple"


def status(headers: dict[str, str], token: str | None = None, host: str = "127.0.0.1") -> int:
    """The status by which a guard answers a request with these headers; 200 is that of the application."""
    import anyio

    async def app(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    listed = [(key.lower().encode(), value.encode("latin-1")) for key, value in headers.items()]
    anyio.run(RequestGuard(app, host, token), {"type": "http", "headers": listed}, receive, send)
    return int(sent[0]["status"])


def test_only_own_pages_and_holders_of_the_token_pass() -> None:
    own = {"Host": "127.0.0.1:8651"}
    for host in ("127.0.0.1:8651", "localhost:8651", "LOCALHOST", "[::1]:8651", "192.168.1.5:8651", "10.0.0.1"):
        assert status({"Host": host}) == 200, host
    for host in (
        "evil.example",
        "evil.example:8651",
        "127.0.0.1.evil.example:8651",
        "127.0.0.1:evil",
        "127.0.0.1:99999",
        "user@127.0.0.1:8651",
        "127.0.0.1:8651@evil.example",
        "::1",
        "[::1]evil.example",
        "localhost/evil",
        "",
        "localhost:",
    ):
        assert status({"Host": host}) == (200 if host == "localhost:" else 421), host
    assert status({}) == 421
    assert status({"Host": "lab.example:8651"}, host="lab.example") == 200
    assert status({**own, "Origin": "http://127.0.0.1:8651"}) == 200
    for origin in ("http://evil.example", "http://127.0.0.1:8652", "null", "http://localhost:8651"):
        assert status({**own, "Origin": origin}) == 403, origin
    assert status({**own, "Authorization": f"Bearer {TOKEN}"}, TOKEN) == 200
    for sent in (f"Bearer {TOKEN}x", "Bearer ", TOKEN, f"Bearer {TOKEN[:-1]}", "Bearer \xe4"):
        assert status({**own, "Authorization": sent}, TOKEN) == 401, sent
    assert status(own, TOKEN) == 401
    assert [each for each in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "lab") if is_loopback(each)] == [
        "127.0.0.1", "localhost", "::1",
    ]  # fmt: skip


SURROGATE = "\\ud800"
MESSAGES = (
    ('{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"sql":"SELECT \'%s\'"}}}', 2),
    ('{"jsonrpc":"2.0","id":"three","method":"%s"}', "three"),
    ('{"jsonrpc":"2.0","id":"%s","method":"ping"}', None),
    ("%s", None),
)


@pytest.mark.parametrize(("message", "id"), MESSAGES)
def test_what_is_no_message_is_answered(warehouse_path: str, message: str, id: int | str | None) -> None:
    """JSON can have half of a surrogate pair, which no text in UTF-8 has."""
    notification = '{"jsonrpc":"2.0","method":"notifications/%s"}'.replace("%s", SURROGATE)
    lines = [notification, message.replace("%s", SURROGATE), '{"jsonrpc":"2.0","id":9,"method":"ping"}']
    command = [sys.executable, "-m", "etq", "mcp", "--db", warehouse_path]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n".join([*lines, ""]))
        process.stdin.flush()
        refused, answered = (json.loads(process.stdout.readline()) for _ in range(2))
        rest, errors = process.communicate()
    assert (refused["id"], refused["error"]["code"]) == (id, -32700 if message == "%s" else -32600)
    assert "not a JSON-RPC message" in refused["error"]["message"]
    assert answered == {"jsonrpc": "2.0", "id": 9, "result": {}}
    assert (process.returncode, rest, errors) == (0, "", "")


@pytest.mark.long
def test_a_server_with_a_token(warehouse_path: str) -> None:
    with http_server(warehouse_path, token=TOKEN) as address:
        url = urlsplit(address)
        for headers, expected in (
            ({}, 401),
            ({"Authorization": f"Bearer {TOKEN}"}, 200),
            ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}, 421),
            ({"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}, 403),
        ):
            connection = http.client.HTTPConnection(str(url.hostname), int(url.port or 0), timeout=20)
            client = {"name": "test", "version": "1"}
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
            accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            connection.request("POST", url.path, body, {**accepted, **headers})
            answer = connection.getresponse()
            assert answer.status == expected, headers
            assert (b'"name":"etq"' in answer.read()) == (expected == 200)
            connection.close()


def test_a_call_that_takes_too_long_ends(warehouse_path: str) -> None:
    import anyio
    from mcp import Client

    from etq.mcp.server import server_of

    async def answers() -> list[Any]:
        async with Client(server_of(warehouse_path, [], seconds=1)) as client:
            slow = await client.call_tool("ask", {"sql": SLOW})
        async with Client(server_of(warehouse_path, [])) as client:
            closed = await client.call_tool("inspect_file", {"path": "/etc/passwd"})
        return [slow, closed]

    slow, closed = (json.loads(each.content[0].text) for each in anyio.run(answers))
    assert slow == {"error": "took longer than 1 s", "next": [{"tool": "describe", "arguments": {}}]}
    assert "without a folder" in closed["error"]


def test_a_process_that_ended_while_idle_is_replaced(warehouse_path: str) -> None:
    import anyio

    from etq.mcp.pool import CallPool

    request = {
        "tool": "describe",
        "settings": {"db": warehouse_path, "allowed": []},
        "arguments": {"view": "op_totals"},
    }

    async def answers() -> list[Any]:
        pool = CallPool()
        try:
            first = await pool.answer(request)
            [idle] = pool._processes._idle
            idle._process.kill()
            idle._process.wait()
            return [first, await pool.answer(request)]
        finally:
            pool.close()

    first, second = anyio.run(answers)
    assert "result" in first and second == first


def test_what_is_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from etq.mcp import server, serving

    with pytest.raises(EtqError, match="not a folder; --allow takes folders"):
        server.server_of("lab.duckdb", [str(tmp_path / "nix")])
    monkeypatch.setenv("ETQ_MCP_TOKEN", "short")
    with pytest.raises(EtqError, match="shorter than 16 characters"):
        serving.serve_http("lab.duckdb", [], "127.0.0.1", 0)
    for module in ("mcp", "mcp.server.lowlevel"):  # the latter may have been imported before
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(EtqError, match=r"pip install 'etq\[mcp\]'"):
        server.server_of("lab.duckdb", [])


def test_results_fit_into_limits() -> None:
    result = {"a": [{"x": "y" * 90}] * 100, "b": [1, 2], "rows": [float("inf")], "cut": ["before"]}
    cut = fitted(result, 3_000)
    assert len(encoded(cut)) <= 3_000 and cut["b"] == [1, 2] and cut["rows"] == [None]
    assert cut["cut"] == ["before", f"a: the first {len(cut['a'])} of 100 rows, as a result has up to 3000 characters"]
    assert fitted({"a": [1], "cut": []}) == {"a": [1], "cut": []}
    table = {"captures": {"columns": ["x"], "rows": [["x" * 100]] * 50}, "total": 90, "offset": 30, "cut": []}
    rows = fitted(table, 4_000)["captures"]["rows"]
    assert 0 < len(rows) < 50 and len(encoded(fitted(table, 4_000))) <= 4_000


@pytest.mark.long
def test_a_client_that_ends_ends_the_server(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="agents need the package mcp")
    etq.open(tmp_path / "lab.duckdb").close()
    command = [sys.executable, "-m", "etq", "mcp", "--db", str(tmp_path / "lab.duckdb")]
    client = {"name": "test", "version": "1"}
    first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        stdin, stdout, stderr = server.stdin, server.stdout, server.stderr
        assert stdin is not None and stdout is not None and stderr is not None

        def send(**message: Any) -> None:
            assert stdin is not None
            stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            stdin.flush()

        send(id=1, method="initialize", params=first)
        assert json.loads(stdout.readline())["id"] == 1
        stdout.close()
        send(method="notifications/initialized")
        send(id=2, method="tools/list", params={})
        stdin.close()
        assert stderr.read() == b""
        assert server.wait(30) == 0


def started(*options: str) -> subprocess.CompletedProcess[str]:
    """A server whose client ends at once."""
    command = [sys.executable, "-m", "etq", "mcp", *options]
    return subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=False)


def test_a_warehouse_that_cannot_be_read_is_an_error_at_the_start(tmp_path: Path) -> None:
    missing, junk = tmp_path / "lab.duckdb", tmp_path / "junk.duckdb"
    junk.write_text("no database")
    for path, error in ((missing, f"no such file; make a warehouse with: etq ingest FILE... --db {missing}"),
                        (junk, "not a DuckDB database; name another file"),
                        (tmp_path, "a folder; a warehouse is a file, or a lake that etq lake makes")):  # fmt: skip
        done = started("--db", str(path))
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"Error: {path}: {error}\n")


def test_allowed_files_can_be_inspected_without_a_warehouse(tmp_path: Path) -> None:
    missing = tmp_path / "lab.duckdb"
    done = started("--db", str(missing), "--allow", str(tmp_path))
    assert done.returncode == 0
    [line] = done.stderr.splitlines()
    assert line.startswith(f"Note: {missing}: no such file; make a warehouse with: etq ingest")


def test_a_server_starts_while_a_writer_holds_the_warehouse(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path):
        done = started("--db", str(path))
    assert (done.returncode, done.stderr) == (0, "")


def test_an_address_that_cannot_be_bound_is_an_error(tmp_path: Path) -> None:
    """The one line names what to change, and no token is printed for a server that doesn't start."""
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = started("--db", str(path), "--http", "--port", str(port))
    assert done.stderr == f"Error: 127.0.0.1:{port}: address already in use; choose another --port\n"
    done = started("--db", str(path), "--http", "--host", "192.0.2.1", "--port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: 192.0.2.1:0: cannot assign requested address; choose another --host\n"
    name = "a" * 64  # one more than parts of names have
    done = started("--db", str(path), "--http", "--host", name, "--port", "0")
    assert done.stderr == f"Error: {name}:0: not a host's name; choose another --host\n"
