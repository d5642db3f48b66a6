"""Backups of a server that runs: whole, with its folder, and served again they answer the same."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import random
import shutil
import socket
import sqlite3
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from operator import methodcaller
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import etq
from etq.cli import main
from etq.errors import EtqError
from etq.remote import backups
from etq.remote.backups import fetch_backup
from etq.remote.protocol import Push, Sent, State
from etq.team import copying
from etq.team.folder import TeamFolder
from etq.team.queue import Ended, PushQueue
from etq.team.users import Role
from tests.serve.processes import wait_for, written
from tests.serve.server import Reply, Server, serving
from tests.serve.test_access import added
from tests.sharing import captures
from tests.sharing.test_backup import rows_of
from tests.sharing.test_many_at_once import WRITER
from tests.sharing.test_many_at_once import started as in_process
from tests.sql.test_trends import capture

FIRST = hashlib.sha256(b"first").hexdigest()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A warehouse with a server's folder, in which a file waits, and an administrator, who asks."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as lab:
        for seed in range(3):
            lab.ingest(capture(seed), name=f"c{seed}", labels={"build": str(seed)})
    folder = folder_of(path)
    folder.make()
    receive(folder, b"first")
    monkeypatch.setenv("ETQ_TOKEN", added(folder, "anna", Role.ADMIN))
    return path


def get(server: Server, path: str, parameters: Mapping[str, str] | None = None) -> Reply:
    """What the server answers to the user whose token is in the environment."""
    return server.get(path, parameters, authorization=f"Bearer {os.environ['ETQ_TOKEN']}")


def folder_of(path: Path) -> TeamFolder:
    return TeamFolder(Path(f"{path}.team"))


def receive(folder: TeamFolder, content: bytes) -> str:
    """Take a file, as the server does: it is there before it is named."""
    name = hashlib.sha256(content).hexdigest()
    (folder.path / "files").mkdir(exist_ok=True)
    part = folder.path / f"{name}.part"
    part.write_bytes(content)
    part.rename(folder.path / "files" / name)
    with folder.writing() as connection:
        connection.execute("INSERT INTO files VALUES (?, ?, 'anna', ?)", [name, len(content), time.time()])
    return name


def done_with(folder: TeamFolder, name: str) -> None:
    """Remove a file, as the server does: it isn't named any more before it is gone."""
    with folder.writing() as connection:
        connection.execute("DELETE FROM files WHERE sha256 = ?", [name])
    (folder.path / "files" / name).unlink()


def content_of(folder: Path) -> dict[str, object]:
    """The rows of a folder's tables, and the content of its files."""
    found: dict[str, object] = {}
    with sqlite3.connect(folder / "server.sqlite") as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in tables:
            found[name] = connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()
    connection.close()
    return found | {file.name: file.read_bytes() for file in (folder / "files").iterdir()}


def check_whole(copy: Path, path: Path) -> None:
    assert rows_of(copy) == rows_of(path)
    assert content_of(folder_of(copy).path) == content_of(folder_of(path).path)
    assert run("check", copy).exit_code == 0
    assert folder_of(copy).path.stat().st_mode & 0o777 == 0o700
    assert (folder_of(copy).path / "server.sqlite").stat().st_mode & 0o777 == 0o600


ASKED: tuple[tuple[str, dict[str, str]], ...] = (
    ("captures", {}), ("counts", {}), ("series", {}), ("report", {"capture": "c1"}),
    ("difference", {"base": "c0", "new": "c2"}), ("trends", {"over": "build"}), ("sql", {"query": "FROM labels ORDER BY ALL"}),
)  # fmt: skip


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_restored_copy_answers_the_same(path: Path, tmp_path: Path, is_remote: bool) -> None:
    copy = tmp_path / "elsewhere" / "copy.duckdb"
    copy.parent.mkdir()
    with serving(path, folder=folder_of(path)) as server:
        done = run("backup", server.url if is_remote else path, "-o", copy)
        assert done.exit_code == 0, done.stderr
        assert [line.partition(": ")[0] for line in done.stderr.splitlines()] == [str(copy), f"{copy}.team"]
        assert {each.name for each in copy.parent.iterdir()} == {"copy.duckdb", "copy.duckdb.team"}
        check_whole(copy, path)
        with serving(copy, folder=folder_of(copy)) as restored:
            for question, parameters in ASKED:
                replies = [get(each, f"/data/{question}", parameters) for each in (server, restored)]
                assert [each.status for each in replies] == [200, 200] and replies[0].data == replies[1].data
        assert [each for each in tmp_path.iterdir() if each.name.startswith(".etq-")] == []


def test_what_is_copied_and_overwritten(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.duckdb"
    assert run("backup", path, "-o", copy, "--without-team").exit_code == 0
    assert not folder_of(copy).exists
    copy.unlink()
    other = TeamFolder(tmp_path / "other")
    other.make()
    assert run("backup", path, "-o", copy, "--team", other.path).exit_code == 0
    assert content_of(folder_of(copy).path) == content_of(folder_of(copy).path)
    assert "exists; overwrite it with --force" in run("backup", path, "-o", copy).stderr
    assert run("backup", path, "-o", copy, "--force").exit_code == 0
    check_whole(copy, path)
    assert "not the folder of a server" in run("backup", path, "-o", copy, "--team", tmp_path, "--force").stderr
    # Nothing of what is somebody else's is replaced.
    precious = tmp_path / "new.duckdb.team"
    precious.mkdir()
    (precious / "thesis.tex").write_text("…")
    done = run("backup", path, "-o", tmp_path / "new.duckdb", "--force")
    assert done.exit_code == 1 and "not the folder of a server" in done.stderr
    assert not (tmp_path / "new.duckdb").exists() and (precious / "thesis.tex").exists()


def test_the_archive_is_for_administrators(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(path, folder=folder_of(path)) as server:
        assert server.get("/api/v1/backup").status == 401
        for role in (Role.READ, Role.PUSH, Role.LABEL):
            monkeypatch.setenv("ETQ_TOKEN", added(folder_of(path), role.label, role))
            reply = get(server, "/api/v1/backup")
            assert reply.status == 403 and "takes the role admin" in reply.data["error"]
            done = run("backup", server.url, "-o", path.with_name("copy.duckdb"))
            assert done.exit_code == 1 and f"has the role {role.label}" in done.stderr
        monkeypatch.setenv("ETQ_TOKEN", added(folder_of(path), "berta", Role.ADMIN))
        assert (
            server.get("/api/v1/backup", method="HEAD", authorization=f"Bearer {os.environ['ETQ_TOKEN']}").status == 405
        )
        assert get(server, "/api/v1/backup").status == 200
    with folder_of(path).reading() as connection:
        query = "SELECT user FROM audit WHERE action = 'backup'"
        assert connection.execute(query).fetchall() == [("berta",)]
    assert {each.name for each in path.parent.iterdir()} == {"lab.duckdb", "lab.duckdb.team"}


def test_one_at_a_time(path: Path) -> None:
    with serving(path, folder=folder_of(path)) as server, ThreadPoolExecutor(1) as threads:
        with written(path) as release:
            first = threads.submit(get, server, "/api/v1/backup")
            wait_for(lambda: any(each.name.startswith(".etq-") for each in path.parent.iterdir()))
            second = get(server, "/api/v1/backup")
            assert second.status == 503 and second.headers["retry-after"] == "60"
            release()
        reply = first.result(60)
        assert reply.status == 200 and reply.headers["content-type"] == "application/x-tar"
        with tarfile.open(fileobj=io.BytesIO(reply.body)) as archive:
            assert archive.getnames() == [
                "lab.duckdb",
                f"lab.duckdb.team/files/{FIRST}",
                "lab.duckdb.team/server.sqlite",
            ]
        assert get(server, "/api/v1/backup").status == 200


def test_copies_while_captures_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copy has all that was stored before it was asked for, and nothing in part."""
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    folder_of(path).make()
    monkeypatch.setenv("ETQ_TOKEN", added(folder_of(path), "anna", Role.ADMIN))
    captures.write(tmp_path, range(60))
    stored = set[str]()
    with serving(path, folder=folder_of(path)) as server, in_process(WRITER, path, tmp_path, *range(60)) as writer:
        assert writer.stdout is not None
        lines = writer.stdout

        def read() -> None:
            for line in lines:
                stored.add(f"c{line.split()[0]}")

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        copies: list[tuple[Path, set[str]]] = []
        try:
            while writer.poll() is None or not copies:
                before = {*stored}
                copy = tmp_path / f"copy{len(copies)}.duckdb"
                fetch_backup(server.url, str(copy))
                copies.append((copy, before))
            reader.join(60)
            assert writer.returncode == 0
        finally:
            writer.kill()
            reader.join(60)
    assert len(stored) == 60
    for copy, before in copies:
        with etq.open(copy, read_only=True) as lab:
            assert captures.torn(lab) == []
            assert before <= {name for (name,) in lab.rows("SELECT name FROM captures")[1]}
    assert run("check", copies[-1][0]).exit_code == 0


def test_a_folder_in_which_files_come_and_go(path: Path, tmp_path: Path) -> None:
    """All files that a copy names are there, and no others; each push that waits in it has its file."""
    folder, ended, counts = folder_of(path), threading.Event(), [0, 0]
    queue = PushQueue(folder)
    queue.make()

    def pushed(number: int, content: bytes) -> Push:
        part, name = tmp_path / f"part{number}", hashlib.sha256(content).hexdigest()
        part.write_bytes(content)
        queue.receive("anna", name, part, len(content))
        push = Push(name, Sent(name, "a.etdp"))
        assert queue.add("anna", [push], set()) == []
        return push

    def work(number: int) -> None:
        draw, mine = random.Random(number), list[Push]()
        while not ended.is_set():
            mine.append(pushed(number, draw.randbytes(2000)))
            counts[number] += 1
            if len(mine) > draw.randrange(10):
                push = mine.pop(draw.randrange(len(mine)))
                queue.end([Ended(State(push.id, "stored", push.file.name), (push.file,))])

    with ThreadPoolExecutor(2) as threads:
        working = [threads.submit(work, number) for number in range(2)]
        try:
            for number in itertools.count():
                # On a busy machine, fewer files come during a copy.
                if (number >= 15 and min(counts) > 20) or any(each.done() for each in working):
                    break
                with copying.copied(folder, target := tmp_path / f"copy{number}"):
                    assert not target.exists()
                there = {file.name: file.read_bytes() for file in (target / "files").iterdir()}
                assert all(hashlib.sha256(content).hexdigest() == name for name, content in there.items())
                with closing(sqlite3.connect(target / "server.sqlite")) as connection:
                    named = {name for (name,) in connection.execute("SELECT sha256 FROM files")}
                    # Here the identifier of a push is the name of its file.
                    waiting = connection.execute("SELECT push_id FROM pushes WHERE state = 'waiting'").fetchall()
                assert named == there.keys() >= {name for (name,) in waiting}
        finally:
            ended.set()
        for each in working:
            each.result()


def test_a_copy_ends_however_fast_files_come(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that comes whenever one is copied doesn't keep the copy from ending."""
    folder, copies, copyfile = folder_of(path), itertools.count(), shutil.copyfile
    monkeypatch.setattr("etq.team.folder.WAIT", 0)

    def and_another(source: Path, target: Path) -> None:
        copyfile(source, target)
        number = next(copies)
        assert number < 100
        with suppress(EtqError):  # the folder is locked: it comes later
            receive(folder, b"%d" % number)

    monkeypatch.setattr(shutil, "copyfile", and_another)
    with copying.copied(folder, tmp_path / "copy"):
        pass
    named = [row[0] for row in content_of(tmp_path / "copy")["files"]]  # type: ignore[attr-defined]
    assert sorted(named) == sorted(os.listdir(tmp_path / "copy" / "files")) and FIRST in named


def test_a_folder_is_copied_before_its_warehouse(path: Path, tmp_path: Path) -> None:
    """What is stored while the warehouse is copied waits in the copy; nothing is in neither."""
    with copying.copied(folder_of(path), tmp_path / "copy"):
        done_with(folder_of(path), FIRST)
    assert content_of(tmp_path / "copy")[FIRST] == b"first"


# Servers that aren't, or whose connection ends.


@contextmanager
def answering(answer: Callable[[socket.socket], None], heard: list[bytes] | None = None) -> Iterator[str]:
    """What answers each connection by a function; requests are added to a list."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        request = connection.recv(65536)
                        if heard is not None:
                            heard.append(request)
                        answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def head(length: int) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: application/x-tar\r\ncontent-length: {length}\r\n\r\n".encode()


def archive_of(server: Server) -> bytes:
    reply = get(server, "/api/v1/backup")
    assert reply.status == 200
    return reply.body


def test_an_answer_that_is_cut_off_leaves_nothing(path: Path, tmp_path: Path) -> None:
    with serving(path, folder=folder_of(path)) as server:
        body = archive_of(server)
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        starts = [each.offset for each in archive.getmembers()]
    draw = random.Random(1)
    # Also between two files, where a reader of archives sees a whole one.
    places = [0, 1, *starts, *(start + 512 for start in starts), len(body) - 1025, len(body) - 1]
    target = tmp_path / "into"
    target.mkdir()
    for place in [*places, *(draw.randrange(len(body)) for _ in range(10))]:
        sent = head(len(body)) + body[:place]
        with answering(methodcaller("sendall", sent)) as url, pytest.raises(EtqError, match="cut off"):
            fetch_backup(url, str(target / "copy.duckdb"))
        assert [*target.iterdir()] == []
    with answering(lambda connection: connection.sendall(head(len(body)) + body)) as url:
        fetch_backup(url, str(target / "copy.duckdb"))
    check_whole(target / "copy.duckdb", path)


def entry(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, "/etc/passwd"
    made.size = len(content) if kind == tarfile.REGTYPE else 0
    return made, content


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../lab.duckdb")], [entry("/tmp/lab.duckdb")], [entry("lab.duckdb.team/../../x")],
        [entry("lab.duckdb.team/files/../../../x")], [entry("lab.duckdb", tarfile.SYMTYPE)],
        [entry("lab.duckdb", tarfile.LNKTYPE)], [entry("lab.duckdb.team/files", tarfile.DIRTYPE)],
        [entry("lab.duckdb.team/run.sh")], [entry("lab.duckdb"), entry("other.duckdb")],
        [entry("lab.duckdb.team/server.sqlite"), entry("lab.duckdb.team/server.sqlite")], [],
    ],
)  # fmt: skip
def test_an_archive_of_somebody_else(entries: list[tuple[tarfile.TarInfo, bytes]], tmp_path: Path) -> None:
    """Nothing is written but a warehouse and a folder, in their places."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for made, content in entries:
            archive.addfile(made, io.BytesIO(content))
    target = tmp_path / "deep" / "er"
    target.mkdir(parents=True)
    body = buffer.getvalue()
    with answering(lambda connection: connection.sendall(head(len(body)) + body)) as url, pytest.raises(EtqError):
        fetch_backup(url, str(target / "copy.duckdb"))
    assert [*tmp_path.rglob("*")] == [tmp_path / "deep", target]


def tape(kind: bytes, size: int, hole: int = 0) -> bytes:
    """The head of an entry of an archive."""
    made = tarfile.TarInfo("lab.duckdb")
    made.type, made.size = kind, size
    block = bytearray(made.tobuf(tarfile.GNU_FORMAT)[-512:])
    block[148:156] = b" " * 8
    if hole:
        block[386:410] = b"%011o\0%011o\0" % (hole, 0)
        block[483:495] = b"%011o\0" % hole
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nNot Found", "isn't a team's server"),
        (
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            "leads to http://127.0.0.1:1/; give that address",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "cut off or can't be written"),
        (b"", "cut off or can't be written"),
        (head(8) + b"no tape!", "cut off or can't be written"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/x-tar\r\n\r\n" + bytes(1024), "doesn't say how large it is"),
        (head(10**15), "a backup of 1,000,000,000 MB, and"),
        # What is read into memory: a gigabyte before a file, by both forms of long names.
        (head(10**9) + tape(tarfile.XHDTYPE, 10**9 - 2000), "an entry of 999,998,000 bytes before a file"),
        (head(10**9) + tape(tarfile.GNUTYPE_LONGNAME, 10**9 - 2000), "an entry of 999,998,000 bytes before a file"),
        # A file that is all hole: 8 GB of zeros as 512 bytes.
        (head(1536) + tape(tarfile.GNUTYPE_SPARSE, 0, 2**33 - 1) + bytes(1024), "no part of a backup"),
    ],
)
def test_what_is_no_server(answer: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETQ_TOKEN", "t0ken")
    with answering(lambda connection: connection.sendall(answer)) as url, pytest.raises(EtqError, match=why) as raised:
        fetch_backup(url, str(tmp_path / "copy.duckdb"))
    assert "t0ken" not in str(raised.value) and [*tmp_path.iterdir()] == []


def test_an_archive_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "MOST_FILES", 10)
    monkeypatch.setattr(backups, "LEFT_FREE", 0)
    body = b"".join(
        tarfile.TarInfo(f"lab.duckdb.team/files/{number:064x}").tobuf(tarfile.PAX_FORMAT) for number in range(20)
    )
    answer = head(len(body)) + body
    with answering(lambda connection: connection.sendall(answer)) as url, pytest.raises(EtqError, match="more than 10"):
        fetch_backup(url, str(tmp_path / "copy.duckdb"))
    assert [*tmp_path.iterdir()] == []


def test_the_token_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bytes] = []
    refusal = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 20\r\n\r\n" + b'{"error": "sign in"}'
    monkeypatch.setenv("ETQ_TOKEN", "t0ken")
    needs = pytest.raises(EtqError, match="needs a valid token; give a token: etq login")
    with answering(lambda connection: connection.sendall(refusal), heard) as url, needs:
        fetch_backup(url, str(tmp_path / "copy.duckdb"))
    [request] = heard
    assert request.startswith(b"GET /api/v1/backup HTTP/1.1\r\n")
    assert b"\r\nauthorization: bearer t0ken\r\n" in request.lower()
    with pytest.raises(EtqError, match="not the address of a server"):
        fetch_backup("http:///x", str(tmp_path / "copy.duckdb"))
