"""`/healthz`: whether the server can do its work, told to anyone, and no more than that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.serve import health
from etq.serve.payloads import Payload, of_data
from etq.serve.pool import QuestionPool
from etq.serve.site import Site
from etq.team.folder import TeamFolder
from tests.serve.processes import written
from tests.serve.server import Server, serving
from tests.sql.test_trends import capture


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "secret-name.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="a")
    return path


def checks(server: Server) -> Mapping[str, str]:
    found: Mapping[str, str] = server.get("/healthz", {"verbose": ""}).data["checks"]
    return found


def test_anyone_learns_that_it_works_and_nothing_else(path: Path) -> None:
    with serving(path, has_link=True) as server:
        for _ in range(2):
            reply = server.get("/healthz")
            assert (reply.status, reply.body) == (200, b'{"status":"ok"}')
        assert server.get("/healthz", method="HEAD").status == 200
        for address in ("/healthz?verbose", "/healthz?verbose=", "/healthz?x", "/healthz/", "/healthz%3F"):
            assert server.get(address).status == 401
        assert server.post("/healthz", b"{}").status == 401
        told = server.get("/healthz", {"verbose": ""}, authorization=f"Bearer {server.token}").data
        assert told == {"status": "ok", "checks": {"warehouse": "ok", "disk": "ok"}, "captures": 1}


@pytest.mark.parametrize("damage", ["removed", "garbage"])
def test_a_warehouse_that_cannot_be_read(path: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LASTS", 0.0)
    with serving(path) as server:
        assert server.get("/healthz").status == 200
        content = path.read_bytes()
        path.unlink()
        if damage == "garbage":
            path.write_bytes(b"no database " * 1000)
        reply = server.get("/healthz")
        assert (reply.status, reply.data) == (503, {"status": "failing", "failing": ["warehouse"]})
        assert reply.headers["retry-after"] == "10"
        what = "no such file" if damage == "removed" else "not a DuckDB database"
        assert what in checks(server)["warehouse"]
        path.write_bytes(content)
        assert server.get("/healthz").status == 200


def test_a_writer_is_no_failure_unless_it_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LASTS", 0.0)
    with serving(path) as server, written(path) as release:
        assert server.get("/healthz").status == 200
        assert "busy: " in checks(server)["warehouse"] and "held by another process" in checks(server)["warehouse"]
        monkeypatch.setattr(health, "PATIENCE", 0.0)
        assert server.get("/healthz").data["failing"] == ["warehouse"]
        release()
        assert server.get("/healthz").status == 200


def test_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(path) as server:
        monkeypatch.setattr(health, "LEAST_FREE", 2**62)
        reply = server.get("/healthz")
        assert (reply.status, reply.data["failing"]) == (503, ["disk"])
        assert f"MB free in {path.parent}" in checks(server)["disk"]


def test_a_queue_that_does_not_move(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TeamFolder(Path(f"{path}.team"))
    folder.make()
    now = time.time()

    def push(state: str, received: float, ended: float | None) -> None:
        insert = """
            INSERT INTO pushes (push_id, place, user, received_at, request, state, ended_at)
            SELECT 'push' || count(*), count(*), 'anna', ?, '{}', ?, ? FROM pushes
        """
        with folder.writing() as connection:
            connection.execute(insert, [received, state, ended])

    site = Site(str(path), QuestionPool(str(path)), settings(folder))
    known = health.Health(site)
    known._began = now - 10_000
    assert known._writer().text == "ok"
    push("waiting", now - 600, None)
    assert not known._writer().is_bad
    push("waiting", now - 1000, None)
    check = known._writer()
    assert check.is_bad and check.text == "2 wait; nothing was stored for 1000 s"
    push("stored", now - 2000, now - 800)  # that was the last one
    assert not known._writer().is_bad
    known._began = now - 5
    assert not known._writer().is_bad
    (folder.path / "server.sqlite").write_bytes(b"no database " * 100)
    assert known._writer().is_bad


def settings(folder: TeamFolder) -> Any:
    from etq.serve.settings import Settings

    return Settings(folder=folder)


def test_many_checks_ask_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask = QuestionPool.ask

    async def counted(self: QuestionPool, question: str, *given: Any) -> Payload:
        asked.append(question)
        return await ask(self, question, *given)

    monkeypatch.setattr(QuestionPool, "ask", counted)
    with serving(path) as server, ThreadPoolExecutor(16) as threads:
        replies = [*threads.map(lambda _: server.get("/healthz").status, range(100))]
    assert replies == [200] * 100 and asked.count("health") == 1


def test_a_pool_that_does_not_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "WAIT", 0.05)

    async def never(*_: object) -> Payload:
        await asyncio.sleep(60)
        return of_data({})

    pool = QuestionPool(str(path))
    monkeypatch.setattr(pool, "ask", never)

    async def check() -> tuple[bool, bool]:
        known = health.Health(Site(str(path), pool))
        first = (await known.warehouse()).is_bad
        known._good -= health.PATIENCE
        later = (await known.warehouse()).is_bad
        known.close()
        return first, later

    assert asyncio.run(check()) == (False, True)
