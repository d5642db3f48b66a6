"""Who may ask a team's server, as an attacker would try it: by real HTTP, on every path that the server has."""

from __future__ import annotations

import base64
import http.client
import json
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import etq
from etq.team import audit
from etq.team.folder import TeamFolder
from etq.team.tokens import IDLE, LONGEST, add_token
from etq.team.users import ROLES, Role, add_user, revoke_user, set_role
from tests.serve.server import Reply, Server, serving
from tests.sql.test_trends import capture

pytest.importorskip("starlette", reason="pages in a browser need starlette")

# What is for everyone: pages without any data, their files, and where one signs in.
FOR_ALL: Final = {
    ("GET", "/"),
    ("GET", "/capture/{name:any}"),
    ("GET", "/trends"),
    ("GET", "/overview"),
    ("GET", "/compare"),
    ("GET", "/sql"),
    ("GET", "/assets/{name}"),
    ("POST", "/login"),
    ("GET", "/healthz"),
}
# Without a role, by a key in the address: `tests/serve/test_feeds.py` tries others.
BY_KEY: Final = {("GET", "/badge/{name:any}"), ("GET", "/feed/{name:any}")}
HEADER: Final = "X-Forwarded-User"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("access") / "secret-lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(capture(1), name="secret-capture", labels={"build": "1"})
    return path


@pytest.fixture
def folder(tmp_path: Path) -> TeamFolder:
    folder = TeamFolder(tmp_path / "team")
    folder.make()
    return folder


def added(folder: TeamFolder, name: str, role: Role, lifetime: float | None = None) -> str:
    with folder.writing() as connection:
        add_user(connection, name, role)
        return add_token(connection, name, "", lifetime)


def changed(folder: TeamFolder, statement: str, *values: Any) -> None:
    with folder.writing() as connection:
        connection.execute(statement, values)


def noted(folder: TeamFolder) -> list[tuple[str, str, dict[str, Any]]]:
    """User, action and details of what the audit log has, the first first."""
    with folder.reading() as connection:
        _, rows = audit.noted(connection)
    return [(user, action, json.loads(details)) for _, user, _, action, details in reversed(rows)]


def as_user(token: str) -> dict[str, Any]:
    return {"authorization": f"Bearer {token}"}


def as_password(text: str) -> dict[str, Any]:
    return {"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def signed_in(server: Server, token: str, **headers: str) -> tuple[Reply, dict[str, Any]]:
    """The answer to a page that signs in, and the headers that it then sends."""
    reply = server.post("/login", json.dumps({"token": token}).encode(), **headers)
    if reply.status != 200:
        return reply, {}
    return reply, {"cookie": reply.headers["set-cookie"].split(";")[0], "x_etq_key": reply.data["key"]}


def routes() -> list[tuple[str, str, Role | None]]:
    """The method, path and role of each route of the application."""
    from starlette.routing import Route

    from etq.serve.access import Access
    from etq.serve.app import application
    from etq.serve.pool import QuestionPool
    from etq.serve.settings import Settings
    from etq.serve.site import Site

    # With all that a server with a folder has.
    settings = Settings(folder=TeamFolder(Path("lab.duckdb.team")), edits=True)
    site = Site("lab.duckdb", QuestionPool("lab.duckdb"), settings)
    app: Any = application(site, Access("127.0.0.1", 1))
    found = []
    for route in app._app._app.routes:
        assert isinstance(route, Route), "what is mounted hides its routes"
        role = getattr(route.endpoint, "role", None)
        found += [(method, route.path, role) for method in sorted(route.methods or ()) if method != "HEAD"]
    return found


def asked(server: Server, method: str, path: str, headers: dict[str, Any]) -> Reply:
    path = re.sub(r"\{[^}]*\}", "x", path)
    if method == "GET":
        return server.get(path, **headers)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        named = {"origin": server.url} | {name.replace("_", "-"): each for name, each in headers.items()}
        connection.request(method, path, b"{}", named)
        reply = connection.getresponse()
        return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
    finally:
        connection.close()


def test_every_route_has_a_role() -> None:
    assert {(method, path) for method, path, role in routes() if role is None} == FOR_ALL | BY_KEY


def test_without_a_role_there_is_nothing(lab: Path, folder: TeamFolder) -> None:
    """No token, a wrong one, one that was revoked, one that expired, and one whose user was revoked."""
    admin = added(folder, "root", Role.ADMIN)
    revoked, gone = added(folder, "ada", Role.ADMIN), added(folder, "bob", Role.ADMIN)
    expired = added(folder, "eve", Role.ADMIN, lifetime=-1)
    with folder.writing() as connection:
        connection.execute("UPDATE tokens SET revoked_at = 1 WHERE user = 'ada'")
        revoke_user(connection, "bob")
    with serving(lab, folder=folder) as server:
        tried: list[dict[str, Any]] = [{}, {"cookie": f"etq_{server.port}={admin}", "x_etq_key": admin}]
        tried += [as_user(each) for each in ("", "etq_wrong", revoked, gone, expired, admin[:-1], f"{admin}x")]
        tried += [
            as_password(f"root:{admin}x"),
            as_password(admin),
            {"authorization": f"Basic {admin}"},
            {HEADER.lower().replace("-", "_"): "root"},
        ]
        for method, path, role in routes():
            for headers in tried:
                reply = asked(server, method, path, headers)
                assert b"secret" not in reply.body, (path, headers)
                if role is not None:
                    assert reply.status in (401, 429), (path, headers)
                    assert path == "/metrics" or reply.data.keys() == {"error"}
            if role is not None and method == "GET":
                address = re.sub(r"\{[^}]*\}", "x", path)
                assert server.get(f"{address}?token={admin}").status == 401
        assert server.get("/unknown").status == 401
        assert server.get("/data/captures", **as_password(f"root:{admin}")).status == 200
        assert server.get("/data/captures", **as_user(admin)).status == 200


@pytest.mark.parametrize("name", [*ROLES])
def test_a_role_is_enough_or_not(lab: Path, folder: TeamFolder, name: str) -> None:
    """Whoever has less than the role that a path needs is refused, before anything else of the request is looked at."""
    token = added(folder, "ada", ROLES[name])
    with serving(lab, folder=folder) as server:
        refused = 0
        for method, path, role in routes():
            if role is None:
                continue
            reply = asked(server, method, path, as_user(token))
            assert (reply.status == 403) == (ROLES[name] < role), (method, path, reply)
            assert reply.status != 401
            refused += reply.status == 403
        assert bool(refused) == (ROLES[name] < Role.ADMIN)
    assert (("ada", "refused", {"why": "POST /data/edit"}) in noted(folder)) == (ROLES[name] < Role.LABEL)


def test_a_change_of_users_holds_at_once(lab: Path, folder: TeamFolder) -> None:
    """Of sessions and of tokens; the first user ends the time in which anyone on this machine could read."""
    with serving(lab, folder=folder) as server:
        assert server.get("/data/captures").status == 200
        token = added(folder, "ada", Role.READ)
        assert server.get("/data/captures").status == 401
        _, session = signed_in(server, token)
        both = (session, as_user(token))
        assert [server.get("/data/me", **each).data["role"] for each in both] == ["read", "read"]
        with folder.writing() as connection:
            set_role(connection, "ada", Role.ADMIN)
        assert [server.get("/data/me", **each).data["role"] for each in both] == ["admin", "admin"]
        with folder.writing() as connection:
            revoke_user(connection, "ada")
        assert [server.get("/data/me", **each).status for each in both] == [401, 401]
        with folder.writing() as connection:
            add_user(connection, "ada", Role.READ)
        assert [server.get("/data/me", **each).status for each in both] == [401, 401]
        shutil.rmtree(folder.path)
        assert server.get("/data/captures").status == 401
        assert server.get("/data/captures", **both[1]).status == 503


@pytest.mark.parametrize("column", ["last_used_at", "created_at"])
def test_sessions_end(lab: Path, folder: TeamFolder, column: str) -> None:
    token = added(folder, "ada", Role.READ)
    with serving(lab, folder=folder) as server:
        _, session = signed_in(server, token)
        longest = IDLE if column == "last_used_at" else LONGEST
        changed(folder, f"UPDATE sessions SET {column} = ?", time.time() - longest + 60)
        assert server.get("/data/me", **session).status == 200
        changed(folder, f"UPDATE sessions SET {column} = ?", time.time() - longest - 1)
        assert server.get("/data/me", **session).status == 401
        _, session = signed_in(server, token)
        changed(folder, "UPDATE tokens SET expires_at = ?", time.time() - 1)
        assert server.get("/data/me", **session).status == 401


def test_both_halves_of_a_session_are_needed(lab: Path, folder: TeamFolder) -> None:
    """And of the same one: not the cookie that somebody planted, nor that of another server of this machine."""
    token, other = added(folder, "ada", Role.READ), added(folder, "eve", Role.ADMIN)
    with serving(lab, folder=folder) as server, serving(lab, has_link=True) as second:
        _, planted = signed_in(server, other)
        reply, session = signed_in(server, token, cookie=planted["cookie"])
        assert session["cookie"] != planted["cookie"]
        assert reply.headers["set-cookie"].endswith("; HttpOnly; Max-Age=2592000; Path=/; SameSite=strict")
        assert server.get("/data/me", **session).data["user"] == "ada"
        assert server.get("/data/me", cookie=session["cookie"]).status == 401
        assert server.get("/data/me", x_etq_key=session["x_etq_key"]).status == 401
        assert server.get("/data/me", cookie=planted["cookie"], x_etq_key=session["x_etq_key"]).status == 401
        # A key is no token, nor is what the database keeps of it.
        assert server.get("/data/me", **as_user(session["x_etq_key"])).status == 401
        with folder.reading() as connection:
            kept = [value for row in connection.execute("SELECT * FROM sessions") for value in row]
            kept += [value for row in connection.execute("SELECT * FROM tokens") for value in row]
        halves = [session["cookie"].split("=")[1], session["x_etq_key"], token]
        assert not {*kept} & {*halves}
        for hashed in (each for each in kept if isinstance(each, str) and len(each) == 64):
            assert server.get("/data/me", cookie=f"etq_{server.port}={hashed}", x_etq_key=hashed).status == 401
        # Browsers send the cookie to all ports of a host, and this one under its own name.
        value = session["cookie"].split("=")[1]
        for name in (server.port, second.port):
            cookie = f"etq_{name}={value}"
            assert second.get("/data/me", cookie=cookie, x_etq_key=session["x_etq_key"]).status == 401
        assert server.post("/logout", b"", cookie=session["cookie"]).status == 401
        assert server.get("/data/me", **session).status == 200
        out = server.post("/logout", b"", **session)
        assert out.status == 200 and "Max-Age=0" in out.headers["set-cookie"]
        assert server.get("/data/me", **session).status == 401
        assert server.get("/data/me", **planted).data["user"] == "eve"
    done = [each[:2] for each in noted(folder) if each[1] != "refused"]
    assert done == [("eve", "signed in"), ("ada", "signed in"), ("ada", "signed out")]


def test_other_sites_cannot_sign_in_or_change(lab: Path, folder: TeamFolder) -> None:
    token = added(folder, "ada", Role.ADMIN)
    body = json.dumps({"overview": "week", "selector": "build=1"}).encode()
    with serving(lab, folder=folder) as server:
        _, session = signed_in(server, token)
        others: list[dict[str, Any]] = [
            {"origin": ""},
            {"origin": "null"},
            {"origin": "http://evil.example"},
            {"origin": f"http://127.0.0.1:{server.port + 1}"},
            {"sec_fetch_site": "same-site"},
        ]
        for headers in others:
            assert signed_in(server, token, **headers)[0].status == 403
            assert server.post("/data/edit", body, **session, **headers).status == 403
            assert server.post("/logout", b"", **session, **headers).status == 403
            # Browsers send a password again that an address had.
            assert server.post("/data/edit", body, **as_password(f":{token}"), **headers).status == 403
        assert server.post("/data/edit", body, **session).status == 200
        assert server.post("/data/edit", body, origin="", **as_user(token)).status == 200
        for sent in (b"", b"[]", b"{}", b'{"token": 7}', b"\xff", b'{"token": "\\ud800"}', b" " * 5000):
            assert server.post("/login", sent).status in (400, 401, 413)


def test_who_tries_tokens_has_to_wait(lab: Path, folder: TeamFolder) -> None:
    """Whoever has a right one doesn't, nor another address. Of failures, the log has one in a minute."""
    token = added(folder, "ada", Role.READ)
    with serving(lab, folder=folder) as server:
        statuses = [signed_in(server, "etq_wrong")[0].status for _ in range(6)]
        statuses += [server.get("/data/me", **as_user("etq_wrong")).status for _ in range(6)]
        assert statuses == [401] * 10 + [429] * 2
        reply = signed_in(server, "etq_wrong")[0]
        assert reply.status == 429 and 1 <= int(reply.headers["retry-after"]) <= 60
        assert server.get("/data/me", **as_user(token)).status == 200
        connection = http.client.HTTPConnection("127.0.0.1", server.port, source_address=("127.0.0.9", 0))
        connection.request("GET", "/data/me", headers=as_user("etq_wrong"))
        assert connection.getresponse().status == 401
        connection.close()
    assert noted(folder) == [("", "refused", {"why": "wrong token"})] * 2


def test_a_user_has_a_number_of_requests(lab: Path, folder: TeamFolder) -> None:
    ada, bob = added(folder, "ada", Role.READ), added(folder, "bob", Role.READ)
    with serving(lab, folder=folder, requests_per_minute=5) as server:
        assert [server.get("/data/me", **as_user(ada)).status for _ in range(7)] == [200] * 5 + [429] * 2
        refused = server.get("/data/me", **as_user(ada))
        assert 1 <= int(refused.headers["retry-after"]) <= 12 and "ada asks more than 5 times" in refused.data["error"]
        assert server.get("/data/me", **as_user(bob)).status == 200


def test_a_token_has_a_number_of_sessions(lab: Path, folder: TeamFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etq.team.tokens.MOST", 3)
    token = added(folder, "ada", Role.READ)
    with serving(lab, folder=folder) as server:
        sessions = [signed_in(server, token)[1] for _ in range(5)]
        assert [server.get("/data/me", **each).status for each in sessions] == [401] * 2 + [200] * 3
    with serving(lab, folder=folder, requests_per_minute=3) as server:
        assert [signed_in(server, token)[0].status for _ in range(4)] == [200] * 3 + [429]


def test_only_a_proxy_names_users(lab: Path, folder: TeamFolder) -> None:
    """From an address of its own, once, and users who are known."""
    added(folder, "ada", Role.LABEL)
    with folder.writing() as connection:
        add_user(connection, "gone", Role.ADMIN)
        revoke_user(connection, "gone")

    def as_named(*names: str, source: str = "127.0.0.1", header: str = HEADER, **more: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60, source_address=(source, 0))
        connection.putrequest("GET", "/data/me")
        for name in names:
            connection.putheader(header, name)
        for name, value in more.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        reply = connection.getresponse()
        found = Reply(reply.status, dict(reply.getheaders()), reply.read())
        connection.close()
        return found

    options: dict[str, Any] = {"folder": folder, "user_header": HEADER, "proxies": ("127.0.0.1",)}
    with serving(lab, **options) as server:
        assert as_named("ada").data["user"] == "ada"
        assert as_named("ada", header=HEADER.lower()).data["role"] == "label"
        assert as_named("ada", source="127.0.0.2").status == 403
        assert as_named("ada", source="127.0.0.2", X_Forwarded_For="127.0.0.1").status == 403
        assert as_named("ada", "root").status == 400
        for name in ("eve", "gone", "ada, gone", "Ada", " ", ""):
            assert as_named(name).status == 403, name
        assert as_named("ada", header="X_Forwarded_User").status == 401
        assert as_named("ada", header="X-Forwarded-Users").status == 401
        # A page of another site makes no change by what the proxy knows, whatever else the proxy adds.
        site: dict[str, Any] = {"x_forwarded_user": "ada", "authorization": "Bearer of-the-proxy"}
        for origin in ("http://evil.example", ""):
            assert server.post("/data/edit", b"{}", origin=origin, **site).status == 403
        assert server.post("/data/edit", b'{"overview": "a", "selector": "build=1"}', **site).status == 200
    with serving(lab, **options, default_role=Role.READ) as server:
        assert as_named("eve@lab.example").data == {
            "source": str(lab), "user": "eve@lab.example", "role": "read", "edits": False, "signs_out": False}  # fmt: skip
        assert [as_named(name).status for name in ("gone", "ada, gone", "\t", "x" * 101, "etq_x")] == [403] * 5
    with serving(lab, folder=folder) as server:
        assert as_named("ada").status == 401
    assert ("gone", "refused", {"why": "unknown user, or revoked"}) in noted(folder)
    assert ("", "refused", {"why": f"{HEADER} from no proxy"}) in noted(folder)


def test_a_proxy_tells_addresses(lab: Path, folder: TeamFolder) -> None:
    token = added(folder, "ada", Role.READ)
    query = {"query": "SELECT 6 * 7"}
    for proxies, expected in (((), "127.0.0.1"), (("127.0.0.0/8",), "192.0.2.7")):
        with serving(lab, folder=folder, proxies=proxies) as server:
            header = "198.51.100.1, 192.0.2.7, 127.0.0.3"
            assert server.get("/data/sql", query, x_forwarded_for=header, **as_user(token)).status == 200
        with folder.reading() as connection:
            row = connection.execute("SELECT user, address, action, details FROM audit ORDER BY 1, audit_id DESC")
            assert row.fetchone() == ("ada", expected, "sql", '{"query": "SELECT 6 * 7"}')


@contextmanager
def command(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process of `etq serve`, and the first line that it prints."""
    started = [sys.executable, "-m", "etq", "serve", *arguments, "--port", "0"]
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr.readline()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def certificate_in(folder: Path) -> tuple[Path, Path]:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl here to make a certificate")
    certificate, key = folder / "lab.pem", folder / "lab.key"
    subprocess.run(
        [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def test_https_and_nothing_of_a_token_in_logs(lab: Path, folder: TeamFolder, tmp_path: Path) -> None:
    certificate, key = certificate_in(tmp_path)
    token = added(folder, "ada", Role.READ)
    options = ["--db", str(lab), "--team", str(folder.path), "--cert", str(certificate), "--key", str(key)]
    with command(*options) as (process, first):
        found = re.search(r"pages at https://127\.0\.0\.1:(\d+)/\n$", first)
        assert found is not None, first
        port = int(found[1])
        trusting = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("localhost", port, timeout=60, context=trusting)
        origin = f"https://localhost:{port}"
        for header, status in ((origin.replace("https", "http"), 403), (origin, 200)):
            connection.request("POST", "/login", json.dumps({"token": token}), {"origin": header})
            reply = connection.getresponse()
            body = reply.read()
            assert reply.status == status
        cookie = reply.headers["set-cookie"]
        assert cookie.startswith(f"__Host-etq_{port}=") and cookie.endswith(
            "; HttpOnly; Max-Age=2592000; Path=/; SameSite=strict; Secure"
        )
        value = cookie.split(";")[0].partition("=")[2]
        for name, expected in ((f"__Host-etq_{port}", 200), (f"etq_{port}", 401)):
            sent = {"cookie": f"{name}={value}", "x-etq-key": json.loads(body)["key"]}
            connection.request("GET", "/data/captures", headers=sent)
            reply = connection.getresponse()
            assert (reply.status, b"secret-capture" in reply.read()) == (expected, expected == 200)
        connection.request("GET", "/data/captures", headers={"authorization": f"Bearer {token}x"})
        assert connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert token[4:20] not in process.stderr.read() + first


@pytest.mark.parametrize(("content", "error"), [(None, "no such file or directory"), ("nothing in PEM", "[ssl]")])
def test_a_certificate_that_is_none(lab: Path, tmp_path: Path, content: str | None, error: str) -> None:
    wrong = tmp_path / "lab.pem"
    if content is not None:
        wrong.write_text(content)
    with command("--db", str(lab), "--cert", str(wrong)) as (process, first):
        assert process.wait(30) == 1
        assert first.startswith(f"Error: {wrong}: {error}") and "give a certificate and its key in PEM" in first
