"""A server under load, and with clients that mean harm: what they take of its memory, its threads and its disk."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import pytest

import etq
from etq.errors import EtqError
from etq.serve import health, spool
from etq.serve.receiving import Part
from etq.serve.site import Site
from etq.team import audit
from etq.team.folder import TeamFolder
from etq.team.queue import PushQueue
from etq.team.tokens import add_token, user_of_token
from etq.team.users import Role, User, add_user
from tests.command_line import run_etq
from tests.serve.processes import wait_for
from tests.serve.server import serving
from tests.serve.server_process import ServerProcess, served
from tests.serve.test_push import sent
from tests.sql.test_trends import capture

# Rows of 1,000 characters.
LARGE = "SELECT repeat('x', 1000) AS text FROM range({})"
# The most rows that a page shows.
ROWS = 10_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="a", labels={"build": "1"})
    return path


@pytest.fixture
def process(path: Path) -> Iterator[ServerProcess]:
    with served(path) as server:
        yield server


def with_users(team: TeamFolder, **roles: Role) -> dict[str, str]:
    """Add users to a folder; return their tokens."""
    team.make()
    with team.writing() as connection:
        for name, role in roles.items():
            add_user(connection, name, role)
        return {name: add_token(connection, name) for name in roles}


def peak(server: ServerProcess) -> float:
    """The most memory that the server itself has had, in MB."""
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith("VmHWM:")).split()[1]) / 1024


def slow_reader(port: int, rows: int, number: int = 0, path: str = "") -> tuple[socket.socket, bytes]:
    """A connection that has taken the beginning of an answer of so many kB, and doesn't take the rest; what it took."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", port))
    query = f"{LARGE.format(rows)} AS r{number}"
    if path:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    else:
        body = json.dumps({"query": query, "format": "csv"}).encode()
        head = (
            "POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body
    connection.sendall(head)
    return connection, connection.recv(12)


def test_answers_that_are_not_taken_take_no_memory(process: ServerProcess) -> None:
    with ExitStack() as opened:
        before = peak(process)
        for number in range(40):
            connection, begun = slow_reader(process.port, 30_000, number)
            opened.enter_context(connection)
            assert begun == b"HTTP/1.1 200"
        assert peak(process) < before + 60


def test_what_pages_fetch_takes_no_memory_either(process: ServerProcess) -> None:
    """Also without gzip, from clients that don't take it: of 60 MB, the server keeps 60 kB."""
    query = urlencode({"query": f"SELECT repeat('x', 6000) AS text FROM range({ROWS})"})
    with ExitStack() as opened:
        before = peak(process)
        for path in (f"/data/sql?{query}", f"/data/sql?{query}&format=parquet", f"/data/sql?{query}&format=csv"):
            for _ in range(3):
                connection, begun = slow_reader(process.port, 0, path=path)
                opened.enter_context(connection)
                assert begun == b"HTTP/1.1 200"
        assert peak(process) < before + 60


def test_there_is_room_for_a_limited_number_of_large_answers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it, clients are told to ask again; there is room again when an answer was taken, or nobody takes it."""
    monkeypatch.setattr(spool, "MOST_OF_ONE", 25_000_000)
    query = json.dumps({"query": LARGE.format(9_000), "format": "csv"}).encode()
    with serving(path) as server:
        whole = server.post("/api/v1/sql", query, content_type="application/json")
        assert (whole.status, len(whole.body)) == (200, 9_000 * 1001 + len("text\n"))
        readers = [slow_reader(server.port, 9_000, number)[0] for number in range(2)]
        refused = server.post("/api/v1/sql", query, content_type="application/json")
        assert refused.status == 503 and int(refused.headers["retry-after"]) > 0
        assert "ask again" in refused.data["error"]
        # Short ones are answered.
        short = json.dumps({"query": "SELECT 1"}).encode()
        assert server.post("/api/v1/sql", short, content_type="application/json").status == 200
        for each in readers:
            each.close()
        wait_for(lambda: server.post("/api/v1/sql", query, content_type="application/json").status == 200)


def test_files_that_are_read_again_keep_nobody_waiting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To go on with a file, the server reads what is there of it, which takes seconds for a large one."""
    team, free = TeamFolder(path.with_name("team")), threading.Event()
    tokens = with_users(team, ada=Role.PUSH, ben=Role.PUSH)
    original = Part.__init__

    def slow(part: Part, place: Path, *, goes_on: bool = False) -> None:
        if goes_on:
            free.wait(60)
        original(part, place, goes_on=goes_on)

    monkeypatch.setattr(Part, "__init__", slow)
    with serving(path, folder=team) as server, ExitStack() as opened:
        queue = PushQueue(team)
        for number in range(40):
            content = b"%d" % number + b"x" * 1000
            name = hashlib.sha256(content).hexdigest()
            queue.partial("ada", name).write_bytes(content[:500])
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            connection.sendall(
                f"PUT /api/v1/files/{name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tokens['ada']}\r\n"
                f"Upload-Offset: 500\r\nContent-Length: {len(content) - 500}\r\n\r\n".encode()
                + content[500:]
            )
        try:
            mine = {"authorization": f"Bearer {tokens['ben']}"}
            assert server.get("/data/captures", None, **mine).status == 200
            content = b"another"
            url = f"/api/v1/files/{hashlib.sha256(content).hexdigest()}"
            assert sent(server, "PUT", url.removeprefix("/api/v1/"), content, **mine)[0] == 201
        finally:
            free.set()


@pytest.mark.parametrize("action", ["page", "program", "command", "overview", "sign out"])
def test_what_cannot_be_noted_is_not_done(path: Path, action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    team = TeamFolder(path.with_name("team"))
    mine = {"authorization": f"Bearer {with_users(team, ada=Role.LABEL)['ada']}"}
    asked = json.dumps({"query": "SELECT 1"}).encode()
    with serving(path, folder=team) as server:
        if action == "sign out":
            token = json.dumps({"token": mine["authorization"].partition(" ")[2]}).encode()
            signed_in = server.post("/login", token)
            mine = {
                "cookie": signed_in.headers["set-cookie"].partition(";")[0],
                "x_etq_key": signed_in.data["key"],
            }

        def failing(*_: object) -> None:
            raise EtqError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(audit, "add_note", failing)
            if action == "page":
                reply = server.get("/data/sql", {"query": "SELECT 1"}, **mine)
            elif action == "program":
                reply = server.post("/api/v1/sql", asked, content_type="application/json", **mine)
            elif action == "command":
                for _ in range(2):  # the second attempt is refused as well
                    reply = server.post(
                        "/api/v1/sql", asked, content_type="application/json", x_etq_command="1 etq%20ops", **mine
                    )
            elif action == "overview":
                change = {"overview": "kernels", "selector": "build=1", "over": "build"}
                reply = server.post("/data/edit", json.dumps(change).encode(), **mine)
            else:
                reply = server.post("/logout", b"", **mine)
        assert reply.status == 503 and int(reply.headers["retry-after"]) > 0 and b"full" not in reply.body
        assert "ask again" in reply.data["error"]
        assert server.get("/data/me", None, **mine).status == 200
        with etq.open(path, read_only=True) as lab:
            assert lab.rows("SELECT count(*) FROM overview_items")[1] == [(0,)]


def test_a_restored_backup_and_its_tokens(path: Path, tmp_path: Path) -> None:
    """It has the tokens as they were; one command ends all of them, and the users stay."""
    team = TeamFolder(path.with_name("lab.duckdb.team"))
    token = with_users(team, ada=Role.READ)["ada"]
    copy = tmp_path / "copy.duckdb"
    assert run_etq("backup", str(path), "-o", str(copy)).exit_code == 0
    assert run_etq("users", "revoke", "ada", "--db", str(path)).exit_code == 0
    restored = TeamFolder(tmp_path / "copy.duckdb.team")
    assert user_of_token(restored, token) == User("ada", Role.READ)
    result = run_etq("users", "revoke", "--all", "--db", str(copy))
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        0, "1 token revoked; make new ones with etq users token NAME"
    )  # fmt: skip
    with serving(copy, folder=restored) as server:
        assert server.get("/data/captures", None, authorization=f"Bearer {token}").status == 401
        made = run_etq("users", "token", "ada", "--db", str(copy)).stdout.strip()
        assert server.get("/data/captures", None, authorization=f"Bearer {made}").status == 200
    for words in ([], ["ada", "--all"]):
        assert run_etq("users", "revoke", *words, "--db", str(copy)).exit_code == 2


def test_healthz_looks_once_for_all_who_ask(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no token: who asks often must not have the server count all pushes each time."""
    looked = []
    queue_of = health.queue_of

    def counted(site: Site) -> object:
        looked.append(site)
        return queue_of(site)

    monkeypatch.setattr(health, "queue_of", counted)
    team = TeamFolder(path.with_name("team"))
    with_users(team, ada=Role.READ)
    with serving(path, folder=team) as server, ThreadPoolExecutor(8) as threads:
        begun = time.monotonic()
        assert {each.status for each in threads.map(lambda _: server.get("/healthz"), range(100))} == {200}
        assert 0 < len(looked) <= 1 + (time.monotonic() - begun) / health.LOOKED_LASTS
