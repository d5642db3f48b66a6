"""Captures that are pushed to a server: by the client, by curl, and by who means harm."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.processes import environment
from etq.remote.client import Client
from etq.remote.protocol import Push, Sent, State
from etq.remote.pushing import LocalFile, Pusher, prepared
from etq.serve import storing
from etq.team.folder import TeamFolder
from etq.team.queue import PushQueue
from etq.team.tokens import add_token
from etq.team.users import Role, add_user
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.serve.server import Server, serving
from tests.serve.server_process import small_capture, write_captures

MLP = CAPTURES / "mlp"


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    with serving(path, edits=True, folder=TeamFolder(path.with_name("team"))) as server:
        yield server


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with etq.open(path, read_only=True) as lab:
        return lab.rows(query)[1]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sent(server: Server, method: str, place: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, Any]:
    """The status, headers and JSON of the answer to a request of a program."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, f"/api/v1/{place}", body, named)
        reply = connection.getresponse()
        content = reply.read()
        is_json = reply.headers.get("content-type") == "application/json"
        return reply.status, reply.headers, json.loads(content) if is_json else None
    finally:
        connection.close()


def put(server: Server, content: bytes) -> str:
    """Send a file; return its hash."""
    status, _, _ = sent(server, "PUT", f"files/{sha256(content)}", content)
    assert status == 201
    return sha256(content)


def push_of(number: int, content: bytes, **fields: Any) -> dict[str, Any]:
    return {"id": f"push-{number:08}", "file": {"sha256": sha256(content), "name": f"run{number}.etdp"}, **fields}


def pushed(server: Server, *pushes: dict[str, Any]) -> tuple[int, Any]:
    status, _, answer = sent(server, "POST", "pushes", json.dumps({"pushes": pushes}).encode())
    return status, answer


def ended(server: Server, id: str) -> Any:
    """What became of a push."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        _, _, answer = sent(server, "GET", f"pushes/{id}?wait=10")
        if answer["state"] != "waiting":
            return answer
    raise AssertionError(f"{id} waits")


def test_a_capture_with_all_that_goes_with_it(server: Server, path: Path, tmp_path: Path) -> None:
    """It is as `etq ingest` stores it: labels of the sidecar, the path and the command; record, program and values."""
    folder = tmp_path / "net" / "pixel8"
    folder.mkdir(parents=True)
    shutil.copy(MLP / "mlp_debug.etdp", folder / "run.etdp")
    (folder / "run.etdp.json").write_text(
        json.dumps({"labels": {"build": "7", "device": "x"}, "metrics": {"tokens": 3}})
    )
    options = [
        *("--etrecord", str(MLP / "mlp.etrecord"), "--pte", str(MLP / "mlp.pte"), "--label", "build=8"),
        *("--debug-buffer", str(MLP / "mlp_debug.bin"), "--label-from", "{model}/{device}/run.etdp"),
        *("--captured-at", "2026-05-01T12:00:00", "--time-scale", "us", "--name", "first"),
    ]
    file = str(folder / "run.etdp")
    result = run_etq("push", server.url, file, *options)
    assert (result.exit_code, result.stderr.splitlines()[0]) == (0, "first: stored"), result.stderr
    other = tmp_path / "other.duckdb"
    assert run_etq("ingest", file, "--db", str(other), *options).exit_code == 0
    for query in (
        "SELECT name, sha256, format, time_scale, captured_at, record_id, program_id FROM captures",
        "FROM labels ORDER BY key",
        "SELECT name, value FROM metrics ORDER BY name",
        "SELECT count(*), count(mean) FROM debug_values",
        "SELECT name, sha256 FROM records UNION ALL SELECT name, sha256 FROM programs",
        "SELECT rule, detail FROM findings ORDER BY ALL",
    ):
        assert rows(path, query) == rows(other, query), query
    assert rows(path, "SELECT key, value FROM labels ORDER BY key") == [
        ("build", "8"),
        ("device", "x"),
        ("model", "net"),
    ]
    team = path.with_name("team")
    assert [*(team / "files").iterdir()] == [*(team / "partial").iterdir()] == []


def test_what_is_there_is_not_sent_again(server: Server, path: Path) -> None:
    """Only the options are applied, as with `etq ingest`."""
    first = ["push", server.url, str(MLP / "mlp.etdp"), "--etrecord", str(MLP / "mlp.etrecord")]
    assert run_etq(*first, "--label", "build=1").exit_code == 0
    before = TeamFolder(path.with_name("team"))
    with before.reading() as connection:
        [(bytes_before,)] = connection.execute("SELECT bytes FROM sent").fetchall()
    assert bytes_before == (MLP / "mlp.etdp").stat().st_size + (MLP / "mlp.etrecord").stat().st_size
    result = run_etq(*first, "--label", "build=2", "--name", "again")
    assert result.stderr.splitlines() == ["again: known already, options applied"]
    with before.reading() as connection:
        assert connection.execute("SELECT bytes FROM sent").fetchall() == [(bytes_before,)]
    assert rows(path, "SELECT name, value FROM captures JOIN labels USING (capture_id)") == [("again", "2")]


def test_ingest_to_a_server_and_files_that_cannot_be_stored(server: Server, tmp_path: Path) -> None:
    (tmp_path / "bad.etdp").write_bytes(b"no dump")
    good = write_captures(tmp_path / "good", 1)
    result = run_etq("ingest", str(tmp_path / "bad.etdp"), good[0], str(tmp_path / "gone.etdp"), "--to", server.url)
    assert result.exit_code == 1
    lines = sorted(result.stderr.splitlines())
    assert lines[0] == "2 of 3 files could not be stored"
    assert any("bad.etdp: not an ETDump" in line for line in lines), lines
    assert any("gone.etdp: no such file" in line for line in lines)
    assert "run0000: stored" in lines


def test_600_captures_in_one_connection(server: Server, path: Path, tmp_path: Path) -> None:
    files = write_captures(tmp_path / "many", 600)
    with Client(server.url) as client:
        states = Pusher(client).push(prepared(each, {}) for each in files)
        assert Counter((each.state, each.is_new) for each in states) == {("stored", True): 600}
        assert client.connections == 1
        # A request for each file; for 50 at once what is missing, the pushes and a look; and then what is waited for.
        assert client.requests <= 600 + 12 * 3 + 30
        before = client.requests
        again = Pusher(client).push(prepared(each, {}) for each in files)
        assert Counter((each.state, each.is_new) for each in again) == {("stored", False): 600}
        assert client.requests - before <= 12 * 3 + 30
    assert [each.capture for each in states] == [Path(each).stem for each in files]
    assert rows(path, "SELECT count(*) FROM captures") == [(600,)]
    in_order = rows(path, "SELECT name FROM captures ORDER BY ingested_at")
    assert [name for (name,) in in_order] == [Path(each).stem for each in files]


def test_an_interrupted_upload_goes_on(server: Server, path: Path, tmp_path: Path) -> None:
    content = small_capture(1) + bytes(3_000_000)  # what follows a dump is ignored, with a finding
    place = f"files/{sha256(content)}"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"PUT /api/v1/{place} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content[:2_500_000])
        time.sleep(0.5)
    count = 0
    for _ in range(100):
        status, headers, _ = sent(server, "HEAD", place)
        count = int(headers["upload-offset"])
        if count == 2_500_000:
            break
        time.sleep(0.05)
    assert (status, count, headers["upload-complete"]) == (204, 2_500_000, "?0")
    assert sent(server, "PUT", place, content[7:], Upload_Offset="7")[0] == 409
    file = tmp_path / "large.etdp"
    file.write_bytes(content)
    progress: list[int] = []
    with Client(server.url) as client:
        client.send(f"/{place}", LocalFile(str(file)), progress.append)
    # The first that it tells is after what was there and one part.
    assert progress[0] == 2_500_000 + 2**18
    assert progress[-1] == len(content)
    assert sent(server, "HEAD", place)[1]["upload-complete"] == "?1"
    assert pushed(server, push_of(1, content))[0] == 202
    assert ended(server, "push-00000001")["capture"] == "run1"


def test_another_user_cannot_spoil_a_file(server: Server, path: Path) -> None:
    """What is half there is of a user: the file of a name has the bytes of that name, whoever sent them."""
    queue = PushQueue(TeamFolder(path.with_name("team")))
    assert queue.partial("a", "x") != queue.partial("b", "x")


def test_a_file_without_its_row_is_not_there(server: Server, path: Path) -> None:
    """The disk was full when its row was to be written: a client that was told that it is there would never send it."""
    content = small_capture(1)
    put(server, content)
    with TeamFolder(path.with_name("team")).writing() as connection:
        connection.execute("DELETE FROM files")
    headers = sent(server, "HEAD", f"files/{sha256(content)}")[1]
    assert (headers["upload-offset"], headers["upload-complete"]) == ("0", "?0")
    put(server, content)
    assert pushed(server, push_of(1, content))[0] == 202
    assert ended(server, "push-00000001")["state"] == "stored"


def test_files_that_no_capture_needs_are_removed_while_the_server_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They count as waiting ones: else whoever sends files, and never captures, would keep out all others in time."""
    monkeypatch.setattr(storing, "TIDY", 0.1)
    team = path.with_name("team")
    with serving(path, edits=True, folder=TeamFolder(team)) as server:
        put(server, b"needed by none")
        recent = put(server, b"sent just now")
        with TeamFolder(team).writing() as connection:
            connection.execute("UPDATE files SET received_at = received_at - 90000 WHERE sha256 <> ?", [recent])
        end = time.monotonic() + 30
        while len([*(team / "files").iterdir()]) > 1 and time.monotonic() < end:
            time.sleep(0.05)
        assert [each.name for each in (team / "files").iterdir()] == [recent]


def test_a_push_that_is_sent_again_is_the_same(server: Server, path: Path) -> None:
    content = small_capture(1)
    put(server, content)
    push = push_of(1, content, labels={"a": "1"})
    assert [pushed(server, push)[0] for _ in range(3)] == [202, 202, 202]
    first = ended(server, push["id"])
    assert (first["state"], first["is_new"]) == ("stored", True)
    # Its file is gone by now, and isn't asked for.
    status, answer = pushed(server, push)
    assert (status, answer["pushes"]) == (202, [first])
    status, answer = pushed(server, {**push, "labels": {"a": "2"}})
    assert (status, answer["error"]) == (422, f"{push['id']}: the identifier of another push; make a new one")
    assert rows(path, "SELECT count(*) FROM captures") == [(1,)]


def test_lost_answers(server: Server, path: Path, tmp_path: Path) -> None:
    """A proxy that loses every second answer: each capture is stored once."""
    files = write_captures(tmp_path / "some", 12)
    lost = 0

    class Losing(Client):
        def _read(self, connection: http.client.HTTPConnection) -> Any:
            nonlocal lost
            reply = super()._read(connection)
            if self.requests % 2:
                lost += 1
                raise ConnectionResetError
            return reply

    with Losing(server.url) as client:
        states = Pusher(client).push(prepared(each, {}) for each in files)
    assert lost > 10
    assert Counter((each.state, each.is_new) for each in states) == {("stored", True): 12}
    assert rows(path, "SELECT count(*) FROM captures") == [(12,)]
    with TeamFolder(path.with_name("team")).reading() as connection:
        assert connection.execute("SELECT count(*) FROM pushes").fetchall() == [(12,)]


def test_a_wrong_hash(server: Server, path: Path) -> None:
    wrong = "0" * 64
    status, _, answer = sent(server, "PUT", f"files/{wrong}", b"abc")
    assert (status, answer["error"]) == (422, f"what was sent has another SHA-256 than {wrong}; send the file again")
    assert [*path.with_name("team").glob("*/*0000*")] == []
    for other in ("../../etc/passwd", "a" * 63, "A" * 64, "%2e%2e%2fserver.sqlite"):
        assert sent(server, "PUT", f"files/{other}", b"abc")[0] in (400, 404)


def test_missing_files_are_named(server: Server) -> None:
    contents = [small_capture(number) for number in range(3)]
    hashes = [put(server, contents[0]), *map(sha256, contents[1:])]
    status, _, answer = sent(server, "POST", "files/missing", json.dumps({"sha256": hashes}).encode())
    assert (status, answer["missing"]) == (200, hashes[1:])
    status, answer = pushed(server, *(push_of(number, each) for number, each in enumerate(contents)))
    assert (status, answer["missing"]) == (409, hashes[1:])
    # None of them was taken.
    assert sent(server, "GET", "pushes/push-00000000")[0] == 404


@pytest.mark.parametrize(
    ("settings", "status", "text"),
    [
        ({"file_megabytes": 1}, 413, "larger than 1 MB; raise the limit of the server: etq serve --max-file-megabytes"),
        ({"day_gigabytes": 0.002}, 429, "anyone may send 0.002 GB on a day of UTC; go on tomorrow, or raise --max-day"),
        ({"waiting_gigabytes": 0.002}, 507, "files of 0.002 GB wait to be stored; try again later, or raise --max-w"),
    ],
)
def test_limits(path: Path, settings: dict[str, Any], status: int, text: str) -> None:
    """Refused before the body is read: the request says how long it is."""
    with serving(path, edits=True, folder=TeamFolder(path.with_name("team")), **settings) as server:
        put(server, bytes(500_000))
        for request in (f"PUT /api/v1/files/{'0' * 64}", "POST /api/v1/captures"):
            length = 2_000_000 if request.startswith("PUT") else 9_000_000
            answer = before_its_body(server, request, length)
            assert answer.startswith(f"HTTP/1.1 {status} "), answer
            assert text in answer
            assert ("retry-after: " in answer) == (status != 413)
        assert list(path.with_name("team").glob("partial/*")) == []
        assert sent(server, "PUT", f"files/{'0' * 64}", iter([b"abc"]), Transfer_Encoding="chunked")[0] == 411  # type: ignore[arg-type]


def before_its_body(server: Server, request: str, length: int) -> str:
    """The answer to a request of which only the head is sent."""
    head = f"{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode())
        while part := connection.recv(20_000):  # until the server closes it
            answer += part
    return answer.decode()


def test_a_file_of_a_form_that_is_too_large(path: Path) -> None:
    """The form as a whole is within the limit of its files together."""
    with serving(path, edits=True, folder=TeamFolder(path.with_name("team")), file_megabytes=1) as server:
        form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + bytes(1_000_001)
        status, _, answer = sent(
            server, "POST", "captures", form + b"\r\n--x--\r\n", Content_Type="multipart/form-data; boundary=x"
        )
        assert (status, answer["error"][:21]) == (413, "file: larger than 1 M")
        assert list(path.with_name("team").glob("partial/*")) == []


def test_the_client_does_not_send_what_is_too_large(path: Path, tmp_path: Path) -> None:
    (tmp_path / "large.etdp").write_bytes(bytes(1_500_000))
    with serving(path, edits=True, folder=TeamFolder(path.with_name("team")), file_megabytes=1) as server:
        result = run_etq("push", server.url, str(tmp_path / "large.etdp"), *write_captures(tmp_path, 1))
    assert result.exit_code == 1
    assert "large.etdp: 2 MB; the server takes files of up to 1 MB" in result.stderr
    assert "run0000: stored" in result.stderr


def test_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(path, edits=True, folder=TeamFolder(path.with_name("team"))) as server:
        monkeypatch.setattr("etq.serve.receiving.free_bytes", lambda folder: 100_001_000)
        put(server, bytes(900))
        status, headers, answer = sent(server, "PUT", f"files/{sha256(b'x' * 1100)}", b"x" * 1100)
        assert (status, headers["retry-after"]) == (507, "60")
        assert answer["error"] == "the disk of the server is full; free some space there, then try again"


def test_what_is_not_a_push(server: Server) -> None:
    content = small_capture(1)
    put(server, content)
    good = push_of(1, content)
    for wrong, text in (
        ({"id": "x"}, "'x' is not an identifier"),
        ({"id": "../../etc"}, "is not an identifier"),
        ({"file": {"sha256": "xyz", "name": "a"}}, "'xyz' is not a SHA-256"),
        ({"labels": {"a=b": "c"}}, "invalid key"),
        ({"labels": {"captured_at": "noon"}}, "is not a time"),
        ({"labels": {"a": "b" * 3000}}, "too many or too long labels"),
        ({"labels": {f"k{at}": "v" for at in range(500)}}, "too many or too long labels"),
        ({"captured_at": "yesterday"}, "is not a time"),
        ({"time_scale": "years"}, "not what this takes"),
        ({"clock_bits": 31}, "not what this takes"),
        ({"debug_buffer": "/etc/passwd"}, "not what this takes"),
        ({"label_git": "/root"}, "not what this takes"),
        ({"values": True}, "values goes with debug_buffer"),
    ):
        status, answer = pushed(server, {**good, **wrong})
        assert status == 400, wrong
        assert text in answer["error"], answer
    for body in (b"", b"[]", b"{", b'{"pushes": [1]}', b"\xff", b'{"pushes": []}'):
        assert sent(server, "POST", "pushes", body)[0] == 400
    assert sent(server, "POST", "pushes", b" " * 5_000_000)[0] == 413
    assert sent(server, "GET", "pushes/unknown00")[0] == 404
    for wait in ("long", "nan"):
        assert sent(server, "GET", f"pushes/unknown00?wait={wait}")[0] == 400


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("../../../etc/passwd.etdp", "etc/passwd.etdp"),
        ("/root/.ssh/run.etdp", "root/.ssh/run.etdp"),
        ("C:\\lab\\run.etdp", "lab/run.etdp"),
        ("a/b/c/d/e/run.etdp", "c/d/e/run.etdp"),
        ("..", "capture"),
        ("", "capture"),
        ("ru\x1b[2Jn\n.etdp", "ru_[2Jn_.etdp"),
        ("x" * 500 + ".etdp", "x" * 115 + ".etdp"),
        ("run.etdp\x00.png", "run.etdp_.png"),
    ],
)
def test_names_are_only_names(server: Server, path: Path, name: str, stored: str) -> None:
    content = small_capture(1)
    put(server, content)
    push = push_of(1, content)
    assert pushed(server, {**push, "file": {"sha256": sha256(content), "name": name}})[0] == 202
    assert ended(server, push["id"])["state"] == "stored"
    assert rows(path, "SELECT uri FROM captures") == [(stored,)]
    # The warehouse has its log and a list of those who wait beside it, at times.
    assert [each.name for each in path.parent.iterdir() if not each.name.startswith("lab.duckdb")] == ["team"]


def curl(server: Server, *arguments: str, place: str = "captures?wait=60") -> tuple[int, Any]:
    """The status of a request by curl, and the JSON that it prints."""
    words = ["curl", "-sS", "-w", "\n%{http_code}", *arguments, f"{server.url}/api/v1/{place}"]
    done = subprocess.run(words, capture_output=True, check=True)
    body, status = done.stdout.rsplit(b"\n", 1)
    return int(status), json.loads(body)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl(server: Server, path: Path, tmp_path: Path) -> None:
    status, answer = curl(
        server,
        *("-F", f"file=@{MLP / 'mlp.etdp'}", "-F", f"etrecord=@{MLP / 'mlp.etrecord'}"),
        *("-F", "label=device=pixel8", "-F", "label=build=a=b", "-F", "name=nightly", "-F", "time_scale=us"),
    )
    assert (status, answer["pushes"][0]["capture"], answer["pushes"][0]["is_new"]) == (202, "nightly", True)
    query = "SELECT c.name, time_scale, r.name FROM captures AS c JOIN records AS r USING (record_id)"
    assert rows(path, query) == [("nightly", "us", "mlp")]
    assert rows(path, "SELECT key, value FROM labels ORDER BY key") == [("build", "a=b"), ("device", "pixel8")]
    (tmp_path / "bad.etdp").write_bytes(b"no dump")
    status, answer = curl(server, "-F", f"file=@{tmp_path / 'bad.etdp'}")
    assert status == 422
    assert answer["error"].startswith("bad.etdp: not an ETDump")
    large = tmp_path / "large.etdp"
    large.write_bytes(small_capture(3) + bytes(5_000_000))
    status, answer = curl(server, "-F", f"file=@{large}", "-F", "clock-bits=64", place="captures")
    assert (status, answer["pushes"][0]["state"]) == (202, "waiting")
    assert ended(server, answer["pushes"][0]["id"])["capture"] == "large"
    for wrong, text in (
        (["-F", "label=device=a"], "the form has no file"),
        (["-F", f"file=@{large}", "-F", "label=device"], "is not of the form KEY=VALUE"),
        (["-F", f"file=@{large}", "-F", "time_scale=years"], "not a capture"),
        (["-F", f"file=@{large}", "-F", "path=/etc/passwd"], "no field 'path'"),
        (["-F", f"file=@{large}", "-F", f"file=@{large}"], "file is there twice"),
        (["-F", f"file=@{large}", "-F", f"name={'x' * 5000}"], "longer than 4096 bytes"),
    ):
        status, answer = curl(server, *wrong)
        assert status in (400, 413)
        assert text in answer["error"], answer
    assert [*path.with_name("team").glob("partial/*")] == []


def test_a_form_that_is_cut_off(server: Server, path: Path) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc'
    status, _, answer = sent(server, "POST", "captures", form, Content_Type="multipart/form-data; boundary=x")
    assert (status, answer["error"]) == (400, "the form is cut off; send it again")
    status, _, _ = sent(server, "POST", "captures", b"rubbish", Content_Type="multipart/form-data; boundary=x")
    assert status == 400
    assert sent(server, "POST", "captures", b"{}", Content_Type="application/json")[0] == 415
    assert [*path.with_name("team").glob("*/*")] == []


def test_who_may_only_read_sends_nothing(path: Path) -> None:
    with serving(path, folder=TeamFolder(path.with_name("team"))) as server:
        for place in ("files/missing", "pushes", "captures"):
            assert sent(server, "POST", place, b"{}")[0] in (403, 404, 405)
        assert sent(server, "PUT", f"files/{sha256(b'')}", b"")[0] in (403, 404, 405)
        result = run_etq("push", server.url, str(MLP / "mlp.etdp"))
        assert result.exit_code == 1
    assert not path.with_name("team").exists()


def test_a_relative_path(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with serving("lab.duckdb", edits=True, folder=TeamFolder(Path("team"))) as server:
        assert run_etq("push", server.url, str(MLP / "mlp.etdp")).stderr == "mlp: stored\n"
    assert rows(path, "SELECT uri FROM captures") == [("mlp/mlp.etdp",)]


WHEN_FULL = "out of space: free some and repeat; nothing was stored"


def test_names_that_are_like_failures_of_the_disk(server: Server, path: Path) -> None:
    """They fail, and aren't tried again: others' captures would wait for them."""
    bad = b"no dump"
    name = f"run: {WHEN_FULL}"
    for content in (bad, small_capture(1), small_capture(2)):
        put(server, content)
    pushes = [push_of(number, small_capture(number), name=name) for number in (1, 2)]
    pushes.append({**push_of(3, bad), "file": {"sha256": sha256(bad), "name": WHEN_FULL}})
    assert pushed(server, *pushes)[0] == 202
    assert [ended(server, each["id"])["state"] for each in pushes] == ["stored", "failed", "failed"]


def test_a_warehouse_that_others_hold(server: Server, path: Path) -> None:
    """What was sent waits until they close it."""
    content = small_capture(1)
    put(server, content)
    with etq.open(path):
        assert pushed(server, push_of(1, content))[0] == 202
        time.sleep(1)
        _, _, answer = sent(server, "GET", "pushes/push-00000001")
        assert answer["state"] == "waiting"
    assert ended(server, "push-00000001")["state"] == "stored"


CRASHING = """
import os
from etq.storage import bulk
from etq.team import writer

read = bulk.read_capture
store = writer.Writer._opened

def opened(self, warehouse, push):
    if push.file.name.startswith("bad"):
        os.kill(os.getpid(), 11)
    return store(self, warehouse, push)

writer.Writer._opened = opened
writer.main()
"""


def test_a_file_that_ends_the_writer(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up after two attempts, and what came with it is stored."""
    script = tmp_path / "crashing.py"
    script.write_text(CRASHING)
    monkeypatch.setattr("etq.serve.storing.command", lambda module, *words: [sys.executable, str(script), *words])
    with serving(path, edits=True, folder=TeamFolder(path.with_name("team"))) as server:
        contents = [small_capture(number) for number in range(5)]
        for each in contents:
            put(server, each)
        pushes = [push_of(number, each) for number, each in enumerate(contents)]
        pushes[2]["file"]["name"] = "bad.etdp"
        assert pushed(server, *pushes)[0] == 202
        answers = [ended(server, each["id"]) for each in pushes]
    assert [each["state"] for each in answers] == ["stored", "stored", "failed", "stored", "stored"]
    assert answers[2]["error"] == (
        "storing it ended the server's process twice (SIGSEGV); the file may be damaged: try etq ingest on it, and "
        "report it"
    )
    assert rows(path, "SELECT count(*) FROM captures") == [(4,)]
    assert [*path.with_name("team").glob("files/*")] == []


def test_a_damaged_record_fails_its_captures_alone(server: Server, path: Path) -> None:
    contents = [small_capture(number) for number in range(3)]
    for each in (*contents, b"no record"):
        put(server, each)
    pushes = [push_of(number, each) for number, each in enumerate(contents)]
    pushes[1]["etrecord"] = {"sha256": sha256(b"no record"), "name": "net.etrecord"}
    assert pushed(server, *pushes)[0] == 202
    assert [ended(server, each["id"])["state"] for each in pushes] == ["stored", "failed", "stored"]
    assert "net.etrecord: " in ended(server, pushes[1]["id"])["error"]


def test_a_capture_that_is_removed_while_it_waits(path: Path) -> None:
    """Its file was not sent, as the warehouse had it."""
    folder = TeamFolder(path.with_name("team"))
    folder.make()
    queue = PushQueue(folder)
    queue.make()
    content = small_capture(1)
    push = Push("push-00000001", Sent(sha256(content), "run.etdp"))
    assert queue.add("a", [push], set()) == [sha256(content)]
    assert queue.add("a", [push], {sha256(content)}) == []
    with serving(path, edits=True, folder=folder):
        end = time.monotonic() + 60
        while (state := queue.states([push.id])[0]).state == "waiting" and time.monotonic() < end:
            time.sleep(0.05)
    assert state == State(
        push.id, "failed", "run.etdp", error="run.etdp: was removed from the warehouse while this waited; push it again"
    )


def test_a_lake_with_two_servers(tmp_path: Path) -> None:
    """Each has a folder of its own; what both are sent is there once, with the name that the lake gives."""
    pytest.importorskip("deltalake", reason="lakes need deltalake")
    lake = tmp_path / "fleet"
    files = write_captures(tmp_path / "some", 20)
    assert run_etq("lake", "add", str(lake), files[0]).exit_code == 0
    record = ["--etrecord", str(MLP / "mlp.etrecord")]
    with (
        serving(lake, edits=True, folder=TeamFolder(tmp_path / "one")) as one,
        serving(lake, edits=True, folder=TeamFolder(tmp_path / "two")) as two,
    ):
        words = [sys.executable, "-m", "etq", "push"]
        both = [
            subprocess.Popen([*words, server.url, *them, *record], stderr=subprocess.PIPE, text=True)
            for server, them in ((one, files[:15]), (two, files[5:]))
        ]
        errors = [each.communicate(timeout=200)[1] for each in both]
        assert [each.returncode for each in both] == [0, 0], errors
        assert "run0000: known already" in errors[0]
        again = run_etq("push", one.url, str(MLP / "mlp.etdp"), *record)
        assert again.stderr.splitlines()[0] == "mlp: stored"
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "run0001.etdp").write_bytes(small_capture(100))
        same_name = run_etq("push", two.url, str(tmp_path / "other" / "run0001.etdp"))
        assert same_name.stderr.splitlines() == ["other/run0001: stored"]
    with etq.open(lake, read_only=True) as warehouse:
        assert warehouse.rows("SELECT count(*), count(DISTINCT sha256) FROM captures")[1] == [(22, 22)]
        names = [name for (name,) in warehouse.rows("SELECT name FROM captures ORDER BY name")[1]]
    assert names == sorted([*(f"run{number:04}" for number in range(20)), "other/run0001", "mlp"])
    assert run_etq("lake", "check", str(lake)).exit_code == 0


def test_only_the_latest_of_two_uploads_of_a_file_writes(server: Server) -> None:
    """The first one may be of a connection that is lost, which the server doesn't know yet."""
    content = small_capture(1) + bytes(2_000_000)
    head = f"PUT /api/v1/files/{sha256(content)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as first:
        first.sendall(head.encode() + b"x" * 1_500_000)
        time.sleep(0.3)
        put(server, content)
        first.sendall(b"x" * (len(content) - 1_500_000))
        refused = first.recv(1000)
        assert refused.startswith(b"HTTP/1.1 409 ")
        assert b"upload-offset: " in refused  # by which the client tries again
    assert pushed(server, push_of(1, content))[0] == 202
    assert ended(server, "push-00000001")["state"] == "stored"


def test_an_interrupted_push_goes_on(
    server: Server, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was acknowledged is not sent again by the same command."""
    files = write_captures(tmp_path / "many", 200)
    words = [sys.executable, "-m", "etq", "push", server.url, *files]
    team = TeamFolder(path.with_name("team"))
    team.make()
    begun, interrupted = threading.Event(), threading.Event()
    add = PushQueue.add

    def added(queue: PushQueue, *arguments: Any) -> list[str]:
        """Hold the answers after 50 pushes until their process is interrupted."""
        missing = add(queue, *arguments)
        with team.reading() as connection:
            [(count,)] = connection.execute("SELECT count(*) FROM pushes").fetchall()
        if count >= 50:
            begun.set()
            interrupted.wait(60)
        return missing

    monkeypatch.setattr(PushQueue, "add", added)
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environment()) as process:
        assert begun.wait(60)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        interrupted.set()
    result = run_etq("push", server.url, *files)
    assert result.exit_code == 0, result.stderr
    with team.reading() as connection:
        [(sent_bytes,)] = connection.execute("SELECT bytes FROM sent").fetchall()
    whole = sum(Path(each).stat().st_size for each in files)
    # Only the file that was being sent may have been sent twice.
    assert whole <= sent_bytes <= whole + max(Path(each).stat().st_size for each in files)
    assert rows(path, "SELECT count(*) FROM captures") == [(200,)]


def test_users_and_their_tokens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may push does, and sees what it has pushed alone; the audit log has who it was."""
    monkeypatch.chdir(path.parent)
    folder = TeamFolder(path.with_name("team"))
    folder.make()
    with folder.writing() as connection:
        for name, role in (("ci", Role.PUSH), ("desk", Role.PUSH), ("guest", Role.READ)):
            add_user(connection, name, role)
        ci, desk, guest = (add_token(connection, name) for name in ("ci", "desk", "guest"))
    with serving(path, folder=folder) as server:
        file = str(MLP / "mlp.etdp")
        refused = run_etq("push", server.url, file)
        assert (refused.exit_code, f"give a token: etq login {server.url}" in refused.stderr) == (1, True)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(path.parent / "config"))
        kept = run_etq("login", server.url, input=f"{guest}\n")
        assert "the token is that of guest, of the role read; it is kept in " in kept.stderr.replace("\n  ", " ")
        wrong = run_etq("login", server.url, input="etq_x\n")
        assert (wrong.exit_code, "the token is wrong, revoked or expired" in wrong.stderr) == (1, True)
        assert run_etq("captures", "--db", server.url).exit_code == 0, "the first one is still kept"
        refused = run_etq("push", server.url, file, "--token", guest)
        assert (refused.exit_code, "this takes the role push" in refused.stderr) == (1, True)
        assert path.with_name("team").joinpath("files").exists()
        assert list(path.with_name("team").glob("files/*")) == []
        monkeypatch.setenv("ETQ_TOKEN", ci)
        assert run_etq("push", server.url, file).stderr == "mlp: stored\n"
        with folder.reading() as connection:
            [(push_id, user)] = connection.execute("SELECT push_id, user FROM pushes").fetchall()
            query = "SELECT user, address, details FROM audit WHERE action = 'pushed'"
            [(who, address, details)] = connection.execute(query).fetchall()
        assert (user, who, address) == ("ci", "ci", "127.0.0.1")
        assert json.loads(details) == {"captures": ["mlp/mlp.etdp"], "ids": [push_id]}
        statuses = {
            name: sent(server, "GET", f"pushes/{push_id}", Authorization=f"Bearer {token}")[0]
            for name, token in (("ci", ci), ("desk", desk), ("guest", guest), ("none", "etq_x"))
        }
        assert statuses == {"ci": 200, "desk": 404, "guest": 403, "none": 401}
