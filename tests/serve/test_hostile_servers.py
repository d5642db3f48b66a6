"""What a server answers is not trusted: whatever it is, a reader gets an error that says so, in bounded time and memory."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import etq
from etq import catalog
from etq.remote import client
from etq.remote.protocol import Push
from etq.remote.pushing import LocalFile, Pusher, ToPush
from etq.remote.warehouse import open_remote
from etq.version import SCHEMA_VERSION, VERSION
from tests.command_line import run_etq

ABOUT = {
    "etq_version": VERSION,
    "sql_sha256": catalog.definitions_hash(),
    "schema_version": SCHEMA_VERSION,
    "warehouse": "lab",
}
ARROW = "application/vnd.apache.arrow.stream"

# Takes a request's first line and its headers, and sends what it likes.
Script = Callable[[socket.socket, str, str], None]


def reply(body: bytes, type: str = "application/json", status: str = "200 OK", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {type}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@contextmanager
def answering(script: Script, about: bytes | None = None) -> Iterator[str]:
    """A server that says what it is, and answers queries by a script."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told = about or reply(json.dumps(ABOUT).encode())

        def serve(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection, connection.makefile("rb") as file:
                while first := file.readline().decode():
                    headers = "".join(iter(lambda: file.readline().decode().lower(), "\r\n"))
                    size = next((line for line in headers.splitlines() if line.startswith("content-length:")), ": 0")
                    file.read(int(size.partition(":")[2]))
                    if first.startswith("GET /api/v1/ "):
                        connection.sendall(told)
                    else:
                        script(connection, first, headers)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def sending(*parts: bytes) -> Script:
    def script(connection: socket.socket, _: str, __: str) -> None:
        for part in parts:
            connection.sendall(part)

    return script


def endless(connection: socket.socket, _: str, __: str) -> None:
    connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-type: {ARROW}\r\n\r\n".encode())
    while True:
        connection.sendall(bytes(2**20))


def slow_body(connection: socket.socket, _: str, __: str) -> None:
    connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-type: {ARROW}\r\ncontent-length: 1000\r\n\r\n".encode())
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def slow_head(connection: socket.socket, _: str, __: str) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def damaged() -> bytes:
    """Arrow of texts whose offsets are far behind their bytes."""
    good = stream(pa.table({"a": ["x" * 30, "x" * 47]}))
    offsets = struct.pack("<iii", 0, 30, 77)
    assert good.count(offsets) == 1
    return good.replace(offsets, struct.pack("<iii", 0, 30, 2**30))


GOOD = stream(pa.table({"a": [1]}))


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (endless, "answers with more than 1 MB"),
        (slow_body, "no whole answer within 1 s"),
        (slow_head, "no whole answer within 1 s"),
        (sending(reply(b"x", ARROW)), "Arrow that can't be read"),
        (sending(reply(b"", ARROW)), "Arrow that can't be read"),
        (sending(reply(GOOD[: len(GOOD) // 2], ARROW)), "Arrow that can't be read"),
        (sending(reply(damaged(), ARROW)), "Arrow that can't be read"),
        (sending(reply(GOOD, "application/python-pickle")), "not with Arrow"),
        (sending(reply(GOOD, "text/html")), "not with Arrow"),
        (sending(b"SSH-2.0-OpenSSH_9.6\r\n"), "can't be reached"),
        (sending(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n"), "can't be reached"),
        (sending(reply(b"", status="302 Found", more="location: http://127.0.0.1:1/\r\n")), "leads to"),
        (sending(reply(b'{"error": "\x1b[2Jgone"}', status="403 Forbidden")), "\\x1b"),
        (sending(reply(b'{"error": "no"}', status="401 Unauthorized")), "token"),
        (sending(reply(b"<html>", status="500 Error")), "html"),
    ],
)
def test_each_answer_is_an_error(script: Script, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SECONDS", 1.0)
    monkeypatch.setattr(client, "MOST", 2**20)
    with answering(script) as url, open_remote(url, wait=0) as warehouse:
        with pytest.raises(etq.EtqError) as error:
            warehouse.rows("SELECT 1")
        assert text in str(error.value)


def compressed() -> bytes:
    """100 MB as 100 kB."""
    table, sink = pa.table({"a": [bytes(100_000_000)]}), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue()


def compressed_dictionary() -> bytes:
    table = pa.table({"a": pa.array(["x" * 10_000_000]).dictionary_encode()})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return sink.getvalue()


def nulls_in_a_list() -> pa.Table:
    offsets = pa.array([0, 2**31 - 2], pa.int32())
    return pa.table({"a": pa.ListArray.from_arrays(offsets, pa.Array.from_buffers(pa.null(), 2**31 - 2, [None]))})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (compressed, "it is compressed"),
        (compressed_dictionary, "it is compressed"),
        (
            lambda: stream(pa.table({"a": pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])})),
            "more values than its bytes can tell",
        ),
        (lambda: stream(nulls_in_a_list()), "more values than its bytes can tell"),
        (lambda: stream(pa.table({"a": pa.array([[None] * 3, None])})), ""),
        (lambda: stream(pa.table({"a": pa.nulls(1000), "b_view": [1] * 1000})), ""),
        (
            lambda: stream(
                pa.table({"a": pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), ["x"])})
            ),
            "which no server of etq sends|more values",
        ),
        (lambda: stream(pa.table({"a": pa.array(["x" * 100], pa.string_view())})), "which no server of etq sends"),
        (
            lambda: stream(
                pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0] * 2_000_000, pa.int8()), ["x" * 1000])})
            ),
            "take more than 1 GB",
        ),
        (lambda: stream(pa.table({"a": pa.array(["x", "y", None]).dictionary_encode()})), ""),
        (lambda: GOOD[:8] + b"\xff" * (len(GOOD) - 8), "can't be read"),
    ],
)
def test_a_few_bytes_of_arrow_do_not_fill_the_memory(content: Callable[[], bytes], text: str) -> None:
    body = content()
    with answering(sending(reply(body, ARROW))) as url, open_remote(url, wait=0) as warehouse:
        if not text:
            assert warehouse.rows("SELECT 1")[1] == pa_rows(body)
            return
        with pytest.raises(etq.WarehouseError, match=text):
            warehouse.rows("SELECT 1")


def pa_rows(body: bytes) -> list[tuple[object, ...]]:
    """The rows of a stream, as pyarrow reads them."""
    table = pa.ipc.open_stream(body).read_all()
    return [*zip(*(column.to_pylist() for column in table.columns), strict=True)]


@pytest.mark.parametrize(
    "about",
    [b"", b"[]", b"{}", b'{"etq_version": 1}', b"\xff", b"[" * 100_000, json.dumps({**ABOUT, "schema_version": "8"}).encode()],
)  # fmt: skip
def test_another_server_is_no_server_of_etq(about: bytes) -> None:
    with answering(endless, reply(about)) as url, pytest.raises(etq.WarehouseError, match="not a server of etq"):
        etq.open(url)


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(etq.WarehouseError, match="can't be reached"):
        etq.open(f"http://127.0.0.1:{port}")
    assert time.monotonic() - began < 20  # a busy server is waited for, and none is not


@pytest.mark.parametrize("command", [["ops", "run"], ["captures"], ["compare", "a", "b"], ["summary", "a"]])
def test_other_columns_are_an_error_of_the_command(command: list[str]) -> None:
    for table in (pa.table({"a": [1]}), pa.table({str(each): ["x"] for each in range(50)}), pa.table({"a": [None]})):
        with answering(sending(reply(stream(table), ARROW))) as url:
            found = run_etq(*command, "--db", url)
        if command != ["captures"]:  # of which any columns are a table
            assert found.exit_code == 1
            assert found.stderr.startswith("Error: ")
        assert found.exception is None or isinstance(found.exception, SystemExit)


def test_a_server_of_another_version() -> None:
    asked: list[str] = []

    def script(connection: socket.socket, first: str, _: str) -> None:
        asked.append(first)
        connection.sendall(reply(GOOD, ARROW))

    about = reply(json.dumps({**ABOUT, "etq_version": "9.9", "sql_sha256": "0" * 64}).encode())
    with answering(script, about) as url, etq.open(url) as warehouse:
        assert warehouse.rows("FROM capture_summary")[1] == [(1,)]
        assert warehouse.rows("FROM op_totals($capture)", capture="run")[1] == [(1,)]
        assert len(asked) == 2
        with pytest.raises(etq.WarehouseError, match=r"runs etq 9\.9, this is .*; install that one"):
            warehouse.rows("SELECT _capture_id('run')")
        assert len(asked) == 2
    about = reply(json.dumps({**ABOUT, "schema_version": SCHEMA_VERSION + 1, "sql_sha256": "0" * 64}).encode())
    with answering(script, about) as url, etq.open(url) as warehouse, pytest.raises(etq.WarehouseError):
        warehouse.rows("FROM capture_summary")


def test_a_busy_server_is_asked_again() -> None:
    answers = [reply(b'{"error": "busy"}', status="503 Busy", more="retry-after: 0\r\n")] * 2 + [reply(GOOD, ARROW)]

    def script(connection: socket.socket, _: str, __: str) -> None:
        connection.sendall(answers.pop(0))

    with answering(script) as url, etq.open(url) as warehouse:
        assert warehouse.rows("SELECT 1") == (["a"], [(1,)])


def test_the_token_is_sent_to_the_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    headers: list[str] = []

    def script(connection: socket.socket, _: str, given: str) -> None:
        headers.append(given)
        connection.sendall(reply(b"", status="307 Temporary", more=f"location: {other}/api/v1/sql\r\n"))

    monkeypatch.setenv("ETQ_TOKEN", "secret")
    reached: list[str] = []

    def elsewhere(connection: socket.socket, first: str, _: str) -> None:
        reached.append(first)
        connection.sendall(reply(GOOD, ARROW))

    leads = pytest.raises(etq.WarehouseError, match="leads to")
    with answering(elsewhere) as other, answering(script) as url, etq.open(url) as warehouse, leads:
        warehouse.rows("SELECT 1")
    assert "authorization: bearer secret\r\n" in headers[0]
    assert reached == []


def nothing_missing(connection: socket.socket, first: str) -> bool:
    """Answer what needn't be scripted: that files are there."""
    if "/files/missing " in first:
        connection.sendall(reply(b'{"missing": []}'))
    return "/files/missing " in first


def with_states(body: bytes, status: str = "202 Accepted") -> Script:
    def script(connection: socket.socket, first: str, _: str) -> None:
        if not nothing_missing(connection, first):
            connection.sendall(reply(body, status=status))

    return script


def forgetting(connection: socket.socket, first: str, _: str) -> None:
    """A server that takes a capture, and knows nothing of it when it is asked."""
    if nothing_missing(connection, first):
        return
    state = '{"id": "push-0001", "state": "waiting"}' if "/pushes " in first else ""
    connection.sendall(reply(f'{{"pushes": [{state}]}}'.encode(), status="202 Accepted"))


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (sending(reply(b'{"missing": ["' + b"a" * 64 + b'"]}')), "answers about other captures"),
        (with_states(b'{"pushes": []}'), "answers about other captures"),
        (with_states(b'{"pushes": [{"id": "push-0002", "state": "stored"}]}'), "answers about other captures"),
        (forgetting, "answers about other captures"),
        (with_states(b'{"missing": [], "error": "again"}', "409 Conflict"), "again"),
        (with_states(b"<html>", "409 Conflict"), "html"),
        (sending(reply(b"[" * 100_000, status="400 Bad Request")), "\\[\\["),
    ],
)
def test_a_push_to_any_server_ends(script: Script, text: str, tmp_path: Path) -> None:
    (tmp_path / "run.etdp").write_bytes(b"abc")
    file = LocalFile(str(tmp_path / "run.etdp"))
    capture = ToPush(Push("push-0001", file.sent), {file.sha256: file})
    ends = pytest.raises(client.ServerError, match=text)
    with answering(script) as url, client.Client(url, patience=0) as asking, ends:
        Pusher(asking).push([capture])


@pytest.mark.parametrize("offset", ["x", "-5", "9" * 30, "\u0663"])
def test_an_offset_that_is_none(offset: str, tmp_path: Path) -> None:
    """The file is sent from its beginning."""
    (tmp_path / "run.etdp").write_bytes(b"abc" * client.AT_ONCE)
    file = LocalFile(str(tmp_path / "run.etdp"))
    sizes: list[str] = []

    def script(connection: socket.socket, first: str, headers: str) -> None:
        if first.startswith("HEAD "):
            connection.sendall(f"HTTP/1.1 204 No Content\r\nupload-offset: {offset}\r\n\r\n".encode())
        else:
            sizes.append(headers.partition("content-length: ")[2].partition("\r")[0])
            connection.sendall(reply(b"{}"))

    with answering(script) as url, client.Client(url, patience=0) as asking:
        asking.send(f"/files/{file.sha256}", file, lambda _: None)
    assert sizes == [str(file.size)]


def test_patience_counts_from_the_last_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks again and again is no reason to give up while more of the file arrives."""
    monkeypatch.setattr(client, "PAUSES", (0.4, 0.4))
    (tmp_path / "run.etdp").write_bytes(b"abc" * client.AT_ONCE * 3)
    file = LocalFile(str(tmp_path / "run.etdp"))
    with breaking() as (url, received), client.Client(url, patience=1.0) as asking:
        began = time.monotonic()
        asking.send(f"/files/{file.sha256}", file, lambda _: None)
        assert received == [client.AT_ONCE * each for each in range(1, 10)]
        assert time.monotonic() - began > 1.0, "it took longer than the patience"


@contextmanager
def breaking() -> Iterator[tuple[str, list[int]]]:
    """A server that ends each upload after 256 kB, and keeps what came; and how much that is after each."""
    received: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection, connection.makefile("rb") as file:
                while first := file.readline().decode():
                    headers = "".join(iter(lambda: file.readline().decode().lower(), "\r\n"))
                    so_far = received[-1] if received else 0
                    if first.startswith("HEAD "):
                        connection.sendall(f"HTTP/1.1 204 No Content\r\nupload-offset: {so_far}\r\n\r\n".encode())
                        continue
                    size = int(headers.partition("content-length: ")[2].partition("\r")[0])
                    received.append(so_far + len(file.read(min(size, client.AT_ONCE))))
                    if size > client.AT_ONCE:
                        return
                    connection.sendall(reply(b"{}"))

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", received


def test_what_is_taken_in_vain_is_no_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes a file again and again, and never has it, isn't sent it for ever."""
    monkeypatch.setattr(client, "PAUSES", (0.1, 0.1))
    (tmp_path / "run.etdp").write_bytes(b"abc" * client.AT_ONCE)
    file = LocalFile(str(tmp_path / "run.etdp"))

    def script(connection: socket.socket, first: str, _: str) -> None:
        head = "204 No Content\r\nupload-offset: 0\r\n\r\n" if first.startswith("HEAD ") else ""
        connection.sendall(f"HTTP/1.1 {head}".encode() if head else reply(b"{}", status="503 Busy"))

    began = time.monotonic()
    with answering(script) as url, client.Client(url, patience=1.0) as asking, pytest.raises(client.ServerError):
        asking.send(f"/files/{file.sha256}", file, lambda _: None)
    assert time.monotonic() - began < 20
