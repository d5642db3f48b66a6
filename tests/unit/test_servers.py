"""Servers and their tokens: kept for their user alone, and sent to no other server."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from etq.errors import EtqError
from etq.remote.client import AT_ONCE, Client, ServerError
from etq.remote.protocol import Hashes, Missing
from etq.remote.pushing import LocalFile
from etq.remote.servers import keep, origin_of, place, token_of
from tests.command_line import run_etq


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("ETQ_TOKEN", raising=False)


class Standing:
    """A server that answers as it is told, and notes what it is asked: path, body and token."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.asked: list[tuple[str, str | None]] = []
        self.url = ""


@contextmanager
def standing(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[Standing]:
    known = Standing()
    known.answers = [*answers]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.do_POST()

        def do_HEAD(self) -> None:
            self.do_POST()

        def do_PUT(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            known.asked.append((self.path, self.headers.get("authorization")))
            status, headers, body = known.answers.pop(0) if len(known.answers) > 1 else known.answers[0]
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        known.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield known
        finally:
            server.shutdown()
            thread.join()


NONE_MISSING: tuple[int, dict[str, str], bytes] = (200, {}, b'{"missing": []}')


OWNER: tuple[int, dict[str, str], bytes] = (200, {}, b'{"user": "ci", "role": "push"}')


def ask(url: str, **options: Any) -> Missing:
    with Client(url, **options) as client:
        return client.post("/files/missing", Hashes([]), Missing)


def test_login_keeps_a_token_for_its_user_alone() -> None:
    with standing(OWNER, NONE_MISSING) as server, standing(OWNER, NONE_MISSING) as other:
        result = run_etq("login", f"{server.url}/", input="etq_secret\n")
        assert result.exit_code == 0, result.stderr
        assert f"the token is that of ci, of the role push; it is kept in {place()}" in result.stderr
        assert "etq_secret" not in result.output
        assert place().stat().st_mode & 0o777 == 0o600
        assert run_etq("login", other.url, input="etq_other\n").exit_code == 0
        ask(server.url)
        ask(other.url)
        assert [token for _, token in server.asked] == ["Bearer etq_secret"] * 2
        assert [token for _, token in other.asked] == ["Bearer etq_other"] * 2
        assert run_etq("login", server.url, "--forget").exit_code == 0
        ask(server.url)
        assert server.asked[-1] == ("/api/v1/files/missing", None)
        ask(other.url)
        assert other.asked[-1][1] == "Bearer etq_other"


def test_a_token_that_is_refused_is_not_kept() -> None:
    refusal = (401, {"content-type": "application/json"}, b'{"error": "no such token"}')
    with standing(refusal) as server:
        result = run_etq("login", server.url, input="etq_wrong\n")
        assert result.exit_code == 1
        assert f"{server.url}: the token is wrong, revoked or expired; ask for another one" in result.stderr
    assert not place().exists()


def test_a_redirection_is_not_followed() -> None:
    with standing(NONE_MISSING) as other, standing((307, {"location": f"{other.url}/api/v1/x"}, b"")) as server:
        with pytest.raises(ServerError, match="leads to http://127.0.0.1:.* give that address, if it is the server's"):
            ask(server.url, token="etq_secret")
        assert other.asked == []
        assert len(server.asked) == 1


def test_a_file_is_not_sent_to_an_address_that_leads_to_another(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(AT_ONCE + 1))
    with standing((301, {"location": "https://lab.example/"}, b"")) as server, Client(server.url) as client:
        with pytest.raises(ServerError, match="leads to https://lab.example/; give that address"):
            client.send("/files/0", LocalFile(str(path)), lambda _: None)
        assert len(server.asked) == 1


def test_a_busy_server_is_asked_again() -> None:
    busy = (503, {"retry-after": "0"}, b'{"error": "busy"}')
    with standing(busy, (429, {}, b""), busy, NONE_MISSING) as server:
        assert ask(server.url) == Missing([])
        assert len(server.asked) == 4
    with standing((429, {"retry-after": "40000"}, b'{"error": "the day is over"}')) as server:
        with pytest.raises(ServerError, match="the day is over"):
            ask(server.url)
        assert len(server.asked) == 1


@pytest.mark.parametrize("answer", [(404, {}, b"Not Found"), (405, {}, b"pages are only read")])
def test_servers_that_take_nothing(answer: tuple[int, dict[str, str], bytes]) -> None:
    with standing(answer) as server, pytest.raises(ServerError, match="isn't a team's server; start it as one"):
        ask(server.url)
    with standing((200, {}, b"<html>")) as server, pytest.raises(ServerError, match="not a server of etq"):
        ask(server.url)


def test_files_of_tokens() -> None:
    keep("https://lab.example.org/etq", 'a"b\\c')
    assert token_of("https://LAB.example.org:443/other") == 'a"b\\c'
    assert token_of("http://lab.example.org") is None
    assert token_of("https://lab.example.org:8443") is None
    assert token_of("https://lab.example.org", "given") == "given"
    with pytest.raises(EtqError, match="the token has characters that no token has"):
        token_of("https://lab.example.org", "a\r\nX-Other: 1")
    place().chmod(0o644)
    with pytest.raises(EtqError, match="others can read its tokens; chmod 600 it, and make new tokens"):
        token_of("https://lab.example.org")
    place().chmod(0o600)
    place().write_text("no toml")
    with pytest.raises(EtqError, match="can't be read; remove it, and use etq login again"):
        token_of("https://lab.example.org")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://Lab:8650/", "http://lab:8650"),
        ("https://lab", "https://lab:443"),
        ("http://[::1]:8650/x", "http://[::1]:8650"),
    ],
)
def test_origins(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("lab:8650", "not the address of a server"),
        ("ftp://lab", "not the address of a server"),
        ("http://lab:99999", "not the address of a server"),
        ("http:///x", "not the address of a server"),
        ("http://user:word@lab", "an address with a user or password"),
    ],
)
def test_addresses_that_are_refused(url: str, text: str) -> None:
    with pytest.raises(EtqError, match=text):
        origin_of(url)


def test_a_server_that_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ServerError, match="can't be reached: connection refused; see whether it runs"):
        ask(f"http://127.0.0.1:{port}", patience=0.2)


def test_the_environment_has_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETQ_TOKEN", "etq_env")
    with standing(NONE_MISSING) as server:
        ask(server.url)
        ask(server.url, token="etq_given")
        assert [token for _, token in server.asked] == ["Bearer etq_env", "Bearer etq_given"]
    assert json.dumps(server.asked).count("etq_env") == 1
