"""Access: hosts by name, tokens, methods; and queries in a limited number of processes."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.serve.access import Access
from etq.serve.guard import AccessGuard
from etq.serve.pool import QuestionPool
from etq.serve.refusals import Refusals
from etq.serve.settings import Settings
from etq.serve.turns import BusyError
from tests.serve.server import Server, serving
from tests.sql.test_trends import capture

LOOPBACK = Access("127.0.0.1", 8650)
OTHER = Access("192.0.2.7", 8650)
ALL = Access("0.0.0.0", 8650)
NAMED = Access("127.0.0.1", 8650, Settings(names=("Etq.lab.example",)))
# Where an application has pages, beside its data.
SHOWN = ("/", "/capture/")


def asked(access: Access, path: str = "/data/state", method: str = "GET", **headers: str) -> tuple[int, dict[str, str]]:
    """The status and headers of a request to an application that answers 200."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Any) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
             "headers": named}  # fmt: skip
    asyncio.run(AccessGuard(app, access, Refusals(), SHOWN)(scope, None, send))  # type: ignore[arg-type]
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@pytest.mark.parametrize(
    ("access", "host", "status"),
    [
        (LOOPBACK, "127.0.0.1:8650", 200),
        (LOOPBACK, "localhost:9000", 200),  # through a tunnel
        (LOOPBACK, "[::1]:8650", 200),
        (LOOPBACK, "LOCALHOST", 200),
        (LOOPBACK, "evil.example:8650", 421),
        (LOOPBACK, "127.0.0.1.evil.example", 421),
        (LOOPBACK, "localhost:1:2", 421),
        # As browsers write hosts: https://url.spec.whatwg.org/#host-parsing
        (LOOPBACK, "localhost.:8650", 200),
        (LOOPBACK, "[0:0:0:0:0:0:0:1]:8650", 200),
        (LOOPBACK, "localhost:", 200),
        (LOOPBACK, "::1", 421),
        (LOOPBACK, "[::1", 421),
        (LOOPBACK, "[::1]evil.example", 421),
        (LOOPBACK, "[::1%25lo]:8650", 421),
        (LOOPBACK, "[localhost]", 421),
        (LOOPBACK, "localhost:99999", 421),
        (LOOPBACK, "localhost:x", 421),
        (LOOPBACK, "localhost..", 421),
        (LOOPBACK, "user@localhost", 421),
        (LOOPBACK, "evil.example@localhost:8650", 421),
        (LOOPBACK, "localhost/", 421),
        (LOOPBACK, "localhost#evil.example", 421),
        (LOOPBACK, "local%68ost", 421),
        (LOOPBACK, "localhost\\evil.example", 421),
        (LOOPBACK, "\uff4cocalhost", 421),
        (OTHER, "192.0.2.7.", 401),
        (LOOPBACK, "192.0.2.7:8650", 421),
        (LOOPBACK, "", 421),
        (OTHER, "192.0.2.7:8650", 401),
        (OTHER, "evil.example", 421),
        (ALL, "198.51.100.1:8650", 401),
        (ALL, "evil.example", 421),
        (NAMED, "etq.lab.example", 200),
        (NAMED, "etq.lab.example.evil.example", 421),
    ],
)
def test_other_names_are_refused(access: Access, host: str, status: int) -> None:
    assert asked(access, host=host)[0] == status


def test_two_hosts_are_none() -> None:
    async def app(*_: Any) -> None:
        raise AssertionError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"",
             "headers": [(b"host", b"evil.example"), (b"host", b"localhost")]}  # fmt: skip
    asyncio.run(AccessGuard(app, LOOPBACK, Refusals())(scope, None, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 421


def test_other_pages_change_nothing() -> None:
    here = {"host": "localhost:8650", "origin": "http://localhost:8650"}
    assert asked(LOOPBACK, method="POST", **here)[0] == 200
    assert asked(LOOPBACK, method="POST", **here, sec_fetch_site="same-origin")[0] == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert asked(LOOPBACK, method=method, host="localhost")[0] == 403
        assert asked(LOOPBACK, method=method, host="localhost", origin="null")[0] == 403
        assert asked(LOOPBACK, method=method, host="localhost:8650", origin="http://localhost:8651")[0] == 403
        assert asked(LOOPBACK, method=method, **here, sec_fetch_site="same-site")[0] == 403
    # Programs name no page, and a browser always does.
    assert asked(LOOPBACK, "/api/v1/pushes", "POST", host="localhost")[0] == 200
    assert asked(LOOPBACK, "/api/v1/pushes", "POST", host="localhost", origin="http://evil.example")[0] == 403
    assert asked(LOOPBACK, "/data/sql?query=SELECT+1", host="localhost", sec_fetch_site="cross-site")[0] == 403
    assert asked(LOOPBACK, "/api/v1/sql?query=SELECT+1", host="localhost", sec_fetch_site="cross-site")[0] == 403
    assert asked(LOOPBACK, "/compare?base=a&new=b", host="localhost", sec_fetch_site="cross-site")[0] == 200
    status, headers = asked(LOOPBACK, host="localhost")
    assert status == 200
    assert (
        headers["x-content-type-options"] == "nosniff"
        and "frame-ancestors 'none'" in headers["content-security-policy"]
    )


def test_a_token_is_needed_on_other_hosts() -> None:
    assert LOOPBACK.token is None and LOOPBACK.url == "http://127.0.0.1:8650/"
    assert OTHER.token is not None and len(OTHER.token) >= 32 and OTHER.token not in repr(OTHER)
    assert OTHER.url == f"http://192.0.2.7:8650/#token={OTHER.token}"
    host = "192.0.2.7:8650"
    status, headers = asked(OTHER, host=host)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert asked(OTHER, host=host, authorization=f"Bearer {OTHER.token}")[0] == 200
    for wrong in ("Bearer", "Bearer ", f"Bearer {OTHER.token[:-1]}", f"Bearer {OTHER.token}x", f"Basic {OTHER.token}"):
        assert asked(OTHER, host=host, authorization=wrong)[0] == 401
    assert asked(OTHER, f"/data/state?token={OTHER.token}", host=host)[0] == 401
    assert asked(OTHER, host=host, cookie=f"etq_8650={OTHER.token}", x_etq_key=OTHER.token)[0] == 401
    # Pages say nothing of the warehouse.
    assert [asked(OTHER, path, host=host)[0] for path in ("/", "/capture/a", "/captures", "/x/../capture/a")] == [
        200, 200, 401, 401]  # fmt: skip
    assert asked(OTHER, "/capture/a", "POST", host=host, origin=f"http://{host}")[0] == 401


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def test_slow_clients_do_not_block_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that send half of a request end; those that send all of it, one part after the other, don't."""
    pytest.importorskip("uvicorn", reason="pages in a browser need uvicorn")
    from etq.serve.connections import Connection

    monkeypatch.setattr(Connection, "receiving", 4)
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    with serving(path) as server, ExitStack() as opened:
        idle = [opened.enter_context(connected(server)) for _ in range(20)]
        for each in idle:
            each.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        assert {each.recv(1) for each in idle} == {b""}
        assert server.get("/data/state").status == 200
        patient = opened.enter_context(connected(server))
        for _ in range(3):
            patient.sendall(b"GET /data/state HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            patient.sendall(b"\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                part = patient.recv(65536)
                assert part, answer
                answer += part
            assert answer.startswith(b"HTTP/1.1 200 ")
            time.sleep(0.2)


def test_queries_are_canceled(tmp_path: Path) -> None:
    """A process without a client, or over its time, ends; if all are busy, other clients get an error with a remedy."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="a", labels={"build": "1"})
    slow = {"query": "SELECT count(*) FROM range(1000000) AS a, range(1000000) AS b WHERE a.range * b.range = 7"}

    async def work() -> None:
        pool = QuestionPool(str(path), workers=1, waiting=0)
        first = asyncio.create_task(pool.ask("sql", slow, None))
        await asyncio.sleep(0.3)
        with pytest.raises(BusyError, match="questions wait already; ask again"):
            await pool.ask("captures", {}, None)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        answer = await pool.ask("captures", {}, None)
        assert answer.status == 200
        pool.close()
        pool = QuestionPool(str(path), workers=1, seconds=0.5)
        late = await pool.ask("sql", slow, None)
        assert late.status in (500, 504), late
        pool.close()

    asyncio.run(work())


@pytest.mark.long
def test_a_lake_is_served(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="lakes are tables of deltalake")
    with etq.open(tmp_path / "lab.duckdb") as lab:
        lab.ingest(capture(1), name="a", labels={"build": "1"})
        lab.ingest(capture(2), name="b", labels={"build": "2"})
    from etq.lake import export

    with etq.open(tmp_path / "lab.duckdb", read_only=True) as lab:
        export(tmp_path / "lake", lab)
    with serving(tmp_path / "lake") as server:
        found = server.get("/data/captures")
        assert found.status == 200 and found.data["rows"]["length"] == 2
        assert server.get("/data/captures", if_none_match=found.headers["etag"]).status == 304
        assert server.get("/data/report", {"capture": "a"}).status == 200
        assert server.get("/data/report", {"capture": "b"}).status == 200
        assert server.get("/data/sql", {"query": "SELECT count(*) FROM captures"}).data["count"] == 1
