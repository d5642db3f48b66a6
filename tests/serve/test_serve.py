"""`etq serve`: who may ask, what is answered, and what is stored."""

from __future__ import annotations

import http.client
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import islice
from pathlib import Path
from threading import Event, Semaphore, Thread
from typing import Any, ClassVar

import duckdb
import pytest

import etq
from etq.database import limited
from etq.errors import EtqError
from etq.push import Pusher
from etq.report.columns import ask as columns_of
from etq.serve import pushes
from etq.serve.answers import Answer
from etq.serve.instance import Instance
from etq.tokens import TokenFile, add
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.processes import ROOT, held, process
from tests.sampling import IS_WHOLE
from tests.serve.functions import queries
from tests.serve.server import Server, ServerProcess, serving, small_capture

MLP = CAPTURES / "mlp" / "mlp.etdp"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(MLP, name="run", labels={"build": "1"})
    return path


@pytest.fixture
def team(lab: Path, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """A server as one sees it who may push, and as one who may read."""
    tokens = tmp_path / "tokens.toml"
    secrets = [add(str(tokens), name, roles) for name, roles in (("ci", ("push", "sql")), ("anna", ("sql",)))]
    with serving(lab, tokens, secrets[0]) as server:
        yield server, Server(server.port, lab, secrets[1])


def names(server: Server) -> list[str]:
    """The captures' names, by a request without a limit of time."""
    return sorted(server.data("captures")["rows"]["columns"][0]["texts"])


SLOW = "SELECT count(*) FROM range(100000000000) AS a, range(1000) AS b"


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[duckdb.DuckDBPyConnection]:
    """The connections of the queries that began."""
    found: list[duckdb.DuckDBPyConnection] = []
    ask = limited.ask

    def noted(connection: Any, query: str, answer: Any, *more: Any) -> Any:
        def answering(cursor: duckdb.DuckDBPyConnection) -> Any:
            found.append(cursor)
            return answer(cursor)

        return ask(connection, query, answering, *more)

    monkeypatch.setattr(limited, "ask", noted)
    return found


def end(running: list[duckdb.DuckDBPyConnection], threads: list[Thread]) -> None:
    """Interrupt queries until the threads that asked them have ended."""
    while any(thread.is_alive() for thread in threads):
        for connection in running:
            with suppress(duckdb.Error):  # of one that has ended
                connection.interrupt()
        time.sleep(0.01)


@pytest.mark.long
def test_this_machine_reads_and_nobody_writes(lab: Path) -> None:
    with serving(lab) as server:
        assert server.get("/").status == 200 and server.data("captures")["rows"]["names"][0] == "name"
        health = server.get("/healthz").data
        assert names(server) == ["run"] and (health["captures"], health["left"]) == (1, 0)
        assert server.push(small_capture(1)).status == 403
        # A page of another site, by a name that resolves to this machine, or by a form or script.
        assert server.get("/data/captures", host="attacker.example").status == 421
        for name, value in (
            ("sec_fetch_site", "cross-site"),
            ("sec_fetch_site", "same-site"),
            ("origin", "http://x.example"),
        ):
            assert server.ask("GET", "/data/captures", None, **{name: value}).status == 403
        opened = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
        assert server.ask("GET", "/", None, **opened).status == 200
        assert server.ask("GET", "/data/sql?query=SELECT+1", None, **opened).status == 403
        assert server.ask("GET", "/", None, **{**opened, "sec_fetch_dest": "iframe"}).status == 403
        for header in ("content-security-policy", "x-content-type-options", "referrer-policy"):
            assert header in server.get("/healthz").headers


def test_an_address_without_a_page_is_one_that_links_home_and_an_error_to_programs(lab: Path) -> None:
    with serving(lab) as server:
        page = server.get("/nope", accept="text/html,*/*")
        assert page.status == 404 and page.headers["content-type"].startswith("text/html")
        assert b'<a href="/">Home</a>' in page.body and b"/assets/" in page.body
        for path, accept in (("/nope", "*/*"), ("/api/nope", "text/html"), ("/data/nope", "text/html")):
            reply = server.get(path, accept=accept)
            assert reply.status == 404 and "no such address" in reply.error, path
        reply = server.get("/api/query")
        assert reply.status == 405 and reply.headers["allow"] == "POST" and "doesn't accept GET" in reply.error


@pytest.mark.long
def test_an_error_in_a_file_of_somebody_else_has_its_place(lab: Path, tmp_path: Path) -> None:
    with serving(Path(shutil.copy(lab, tmp_path / "copy.duckdb"))) as server:
        found = server.get("/data/sql", {"query": "SELECT nothing FROM captures"}).data
    assert found["place"] == "LINE 1: SELECT nothing FROM captures\n               ^^^^^^^"


def test_other_processes_write_while_nobody_asks(lab: Path) -> None:
    with serving(lab) as server:
        before = server.data("state")
        assert server.data("counts")["rows"]["names"] == ["name", "runs", "findings"]
        words = ["--wait", "30", "label", "run", "build=2", "--db", str(lab)]
        subprocess.run([sys.executable, "-m", "etq", *words], check=True)
        assert server.data("state") != before and server.data("captures")["labels"]["build"]["texts"] == ["2"]


@pytest.mark.long
def test_each_request_needs_a_token(team: tuple[Server, Server], tmp_path: Path) -> None:
    server, reader = team
    stranger = Server(server.port, server.path)
    for method, path in (("GET", "/data/captures"), ("GET", "/"), ("POST", "/api/query"), ("POST", "/api/push")):
        assert stranger.ask(method, path, b"{}").status == 401
    assert Server(server.port, "", "etq_wrong").get("/data/captures").status == 401
    assert stranger.get("/healthz").status == 200 and stranger.get("/data/captures", host="lab.example").status == 401
    assert reader.data("me")["user"] == "anna" and names(reader) == ["run"]
    assert reader.push(small_capture(1)).status == 403 and names(server) == ["run"]
    # A token ends when its line is removed.
    tokens = tmp_path / "tokens.toml"
    tokens.write_text("".join(line for line in tokens.read_text().splitlines(True) if "anna" not in line))
    assert reader.get("/data/captures").status == 401 and server.get("/data/captures").status == 200
    tokens.write_text("no TOML")
    assert server.get("/data/captures").status == 503


# What each route answers to who may read pages, ask SQL, or push, and to all others; paths with what is sent to them.
READS, ASKS, PUSHES, ANY = {"read", "sql", "both"}, {"sql"}, {"push", "both"}, {"read", "sql", "push", "both"}
ROUTES: dict[tuple[str, str], set[str]] = {
    **{
        ("GET", f"/{page}"): READS
        for page in ("", "captures", "capture/run", "compare", "trends", "fleet", "jobs", "sql")
    },
    **{
        ("GET", f"/data/{name}"): READS
        for name in ("state", "overview", "captures", "counts", "matches", "series", "schema")
    },
    **{
        ("GET", f"/data/{name}"): READS
        for name in ("report", "difference", "trends", "home", "findings", "fleet", "jobs")
    },
    ("GET", "/data/me"): ANY,
    ("GET", "/data/sql?query=SELECT+1"): ASKS,
    ("POST", "/api/query"): ASKS,
    ("POST", "/api/push"): PUSHES,
    ("GET", "/nothing"): READS,
}
OPEN = (("GET", "/healthz"), ("GET", "/sign-in"))


@pytest.mark.long
def test_each_role_has_its_routes(lab: Path, tmp_path: Path) -> None:
    """The answers to all roles, and to those without a token, with a wrong one and one that is over, of each route."""
    tokens = tmp_path / "tokens.toml"
    today = datetime.now(UTC).date()
    roles = {"read": ["read"], "sql": ["sql"], "push": ["push"], "both": ["read", "push"]}
    secrets = {name: add(str(tokens), name, roles[name], today) for name in roles}
    secrets["over"] = add(str(tokens), "over", ["read", "sql", "push"], today)
    day = f"ends = {today}"
    lines = [line.replace(day, f"ends = {today - timedelta(1)}") if line.startswith('"over"') else line
             for line in tokens.read_text().splitlines(True)]  # fmt: skip
    tokens.write_text("".join(lines))
    with serving(lab, tokens) as server:
        declared = {route.path for route in server.routes if not route.path.startswith(("/assets", "/capture"))}
        asked = {path.partition("?")[0] for _, path in (*ROUTES, *OPEN)}
        assert declared <= asked, "each route has its line"
        for (method, path), allowed in ROUTES.items():
            for name in (*roles, "over", "wrong", None):
                sent = None if name is None else secrets.get(name, "etq_wrong")
                body = b'{"sql": "SELECT 1"}' if method == "POST" else None
                status = Server(server.port, "", sent).ask(method, path, body).status
                if name not in roles:
                    assert status == 401, (path, name, status)
                else:
                    assert (status == 403) == (name not in allowed) and status != 401, (path, name, status)
        for method, path in OPEN:
            assert server.ask(method, path).status == 200


@pytest.mark.long
def test_queries_of_a_token_are_limited(team: tuple[Server, Server], running: list[duckdb.DuckDBPyConnection]) -> None:
    """Those of others go on."""
    ci, anna = team
    busy = [Thread(target=anna.query, args=(SLOW,)) for _ in range(limited.MOST_OF_ONE)]
    for thread in busy:
        thread.start()
    while len(running) < limited.MOST_OF_ONE:
        time.sleep(0.01)
    refused = anna.query("SELECT 1")
    assert (refused.status, refused.headers["retry-after"]) == (429, "2") and "anna" in refused.error
    assert ci.query("SELECT 1").status == anna.get("/data/counts").status == 200
    end(running, busy)
    assert anna.query("SELECT 1").status == 200


def test_a_browser_signs_in_by_the_form(team: tuple[Server, Server]) -> None:
    server, reader = team
    stranger = Server(server.port, server.path)
    sent = stranger.get("/compare?base=a&new=b", accept="text/html")
    assert (sent.status, sent.headers["location"]) == (303, "/sign-in?next=/compare%3Fbase%3Da%26new%3Db")
    form = {"content_type": "application/x-www-form-urlencoded", "origin": server.url, "sec_fetch_site": "same-origin"}
    assert stranger.ask("POST", "/sign-in", b"token=wrong", **form).status == 401
    assert stranger.ask("POST", "/sign-in", b"token=wrong", **{**form, "origin": "http://x.example"}).status == 403
    signed = stranger.ask("POST", "/sign-in?next=//x.example", f"token={reader.token}".encode(), **form)
    cookie = signed.headers["set-cookie"]
    assert (signed.status, signed.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
    secure = stranger.ask("POST", "/sign-in", f"token={reader.token}".encode(), x_forwarded_proto="https", **form)
    assert "Secure" in secure.headers["set-cookie"]
    by_cookie = {"cookie": cookie.partition(";")[0]}
    assert stranger.ask("GET", "/data/me", None, **by_cookie).data["user"] == "anna"
    assert stranger.ask("GET", "/data/me", None, **by_cookie, sec_fetch_site="same-site").status == 403
    assert "etq_token=;" in stranger.ask("POST", "/sign-in", b"token=", **form).headers["set-cookie"].replace('""', "")


@pytest.mark.long
def test_captures_are_pushed_once(team: tuple[Server, Server]) -> None:
    server, _ = team
    first = server.push(MLP.read_bytes(), "again.etdp", label="device=pixel8")
    assert (first.status, first.data["name"], first.data["is_new"]) == (200, "run", False)  # known by its content
    new = server.push(small_capture(1), "new.etdp", label="build=2", name="nightly")
    assert (new.status, new.data["name"]) == (201, "nightly")
    assert server.push(small_capture(1), "other.etdp").data["is_new"] is False
    rows = server.query(
        "SELECT c.name, c.uri, l.key, l.value FROM captures AS c JOIN labels AS l USING (capture_id) ORDER BY ALL"
    )
    assert rows.data["rows"] == [
        ["nightly", "new.etdp", "build", "2"], ["run", "tests/captures/mlp/mlp.etdp", "build", "1"], ["run", "tests/captures/mlp/mlp.etdp", "device", "pixel8"],
    ]  # fmt: skip


WRONG: tuple[tuple[bytes, str, dict[str, str], int, str], ...] = (
    (b"no dump", "run.etdp", {}, 422, "run.etdp: not a profiling file"),
    (small_capture(2), "run.etdp", {"label": "build"}, 400, "needs key=value"),
    (small_capture(2), "run.etdp", {"debug": "x"}, 400, "not a field"),
    (small_capture(2), "run.etdp", {"name": "run"}, 400, "run"),
    (small_capture(2), "run.etdp", {"name": "../../x"}, 400, "no part '..'"),
    (small_capture(2), "run.etdp", {"name": "x\0y"}, 400, "no control characters"),
    (small_capture(2), "a\x01b", {}, 400, "not a file's name"),
    (b"x" * 2_000_000, "run.etdp", {}, 413, "more than 1 MB"),
)


@pytest.mark.long
def test_what_is_wrong_is_refused_in_a_line(lab: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    secret = add(str(tokens), "ci", ("push", "sql"))
    with serving(lab, tokens, secret, most=2**20) as server:
        for content, file, fields, status, text in WRONG:
            reply = server.push(content, file, **fields)
            assert reply.status == status and text in reply.error and "\n" not in reply.error
        multipart = "multipart/form-data"
        for body, kind in ((b"nothing", f"{multipart}; boundary=b"), (b"", multipart), (b"{}", "text/plain")):
            assert server.ask("POST", "/api/push", body, content_type=kind).status == 400
        assert names(server) == ["run"]


@pytest.mark.long
def test_a_query_is_one_select(team: tuple[Server, Server]) -> None:
    _, reader = team
    answer = reader.query("SELECT name, $n AS n, 2::DECIMAL(4, 2) AS d FROM captures", parameters={"n": 1}).data
    assert answer == {
        "columns": ["name", "n", "d"],
        "types": ["VARCHAR", "INTEGER", "DECIMAL(4,2)"],
        "rows": [["run", 1, 2.0]],
    }
    for sql in ("DELETE FROM captures", "SELECT 1; SELECT 2", "FROM read_text('/etc/hostname')", "SELEC 1"):
        assert reader.query(sql).status == 400
    wrong = reader.query("SELECT nam FROM captures")
    assert "nam" in wrong.error and "nam" in wrong.data["place"]
    assert reader.ask("POST", "/api/query", b"[]").status == 400
    assert reader.ask("POST", "/api/query", b" " * 2**21).status == 413
    import pyarrow.ipc

    rows = pyarrow.ipc.open_stream(io.BytesIO(reader.query("FROM op_totals('run')", format="arrow").body)).read_all()
    told = reader.query("FROM op_totals('run')").data
    assert rows.column_names == told["columns"] and rows.num_rows == len(told["rows"]) > 5
    assert [row["op"] for row in rows.to_pylist()] == [row[told["columns"].index("op")] for row in told["rows"]]
    page = reader.data("sql", query="SELECT 2::BIGINT ** 60 AS big, 'x' AS text")
    assert (page["count"], page["kinds"]) == (1, ["number", "text"])
    saved = reader.get("/data/sql", {"query": "SELECT '=1' AS a", "format": "csv"})
    assert saved.body == b"a\n'=1\n" and "attachment" in saved.headers["content-disposition"]
    lists = reader.query("SELECT [repeat('a', 1000000)] AS a FROM range(70)")
    assert lists.status == 400 and "lists take more than 64 MB" in lists.error


@pytest.mark.long
def test_readers_go_on_while_a_query_runs_and_a_capture_is_stored(
    team: tuple[Server, Server], running: list[duckdb.DuckDBPyConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, reader = team
    waited: list[bool] = []
    is_asked, store = Event(), pushes._store

    def slowly(warehouse: etq.Warehouse, given: dict[str, Any]) -> Answer:
        with warehouse._database.writing():
            waited.append(is_asked.wait(60))
            return store(warehouse, given)

    monkeypatch.setattr(pushes, "_store", slowly)
    asking = Thread(target=server.query, args=(SLOW,))
    pushing = Thread(target=server.push, args=(small_capture(7), "seven.etdp"))
    for thread in (asking, pushing):
        thread.start()
    while not running:
        time.sleep(0.01)
    for _ in range(2):
        assert reader.query("SELECT name FROM captures").data["rows"] == [["run"]] and pushing.is_alive()
    is_asked.set()
    while pushing.is_alive():
        assert names(reader)[-1:] in (["run"], ["seven"])
    assert waited == [True] and names(reader) == ["run", "seven"]
    end(running, [asking])


@pytest.mark.long
def test_each_type_has_an_answer_in_each_format(lab: Path) -> None:
    """Or an error, where the format or Python lacks it."""
    with serving(lab) as server:
        names = [name for name, *_ in server.query("DESCRIBE FROM test_all_types()").data["rows"]]
        for format in ("json", "csv", "arrow", "parquet"):
            lacking = {"interval", "empty_struct", "union"} if format == "parquet" else set()
            columns = ", ".join(f'"{name}"' for name in names if name not in lacking)
            assert server.query(f"SELECT {columns} FROM test_all_types()", format=format).status == 200
            for name in lacking:
                reply = server.query(f'SELECT "{name}" FROM test_all_types()', format=format)
                assert reply.status == 400 and "cast it to VARCHAR" in reply.error
        for value in ("to_days(1000000000)", "[to_days(1000000000)]"):
            assert "cast it to VARCHAR" in server.query(f"SELECT {value}").error


@pytest.mark.long
def test_parts_of_an_answer_agree(team: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture is stored between the two queries of an answer; errors have their nearest names all the same."""
    server, reader = team
    pushed = iter(range(1, 10))

    def then_push(*given: Any) -> Any:
        rows = columns_of(*given)
        number = next(pushed)
        assert server.push(small_capture(number), f"{number}.etdp", label=f"build=b{number}").status == 201
        return rows

    monkeypatch.setattr("etq.serve.questions.columns_of", then_push)
    for count in (1, 2):
        answer = reader.data("captures")
        assert answer["rows"]["length"] == len(answer["labels"]["build"]["at"]) == count
        assert "b2" not in answer["labels"]["build"]["texts"]
    monkeypatch.undo()
    assert reader.data("captures")["rows"]["length"] == 3
    for question, given, text in (
        ("matches", {"selector": "build=b7"}, "none has build=b7; values are 1, b1, b2"),
        ("report", {"capture": "rum"}, "the nearest is run"),
        ("report", {"capture": "run", "unit": "hours"}, "hours"),
        ("report", {"capture": "run", "method": "nope"}, "nope"),
    ):
        reply = reader.get(f"/data/{question}", given)
        assert reply.status == 400 and text in reply.error, reply.error


@pytest.mark.long
def test_answers_beside_pushes_and_removals_do_not_fail(tmp_path: Path) -> None:
    """Each capture but the first is stored with its label, so all but one of an answer have it."""
    path, tokens = tmp_path / "lab.duckdb", tmp_path / "tokens.toml"
    secret = add(str(tokens), "ci", ("push", "sql"))
    etq.open(path).close()
    with serving(path, tokens, secret) as server:
        instance = server.instance
        assert server.push(small_capture(0), "first.etdp", label="even=0").status == 201

        def change() -> None:
            for number in range(1, 12):
                assert server.push(small_capture(number), f"{number}.etdp", label=f"odd={number}").status == 201
                if number % 3 == 0:
                    instance.write(lambda warehouse, name=str(number - 1): warehouse.remove(name)).result()

        changer = Thread(target=change)
        changer.start()
        seen = set()
        while changer.is_alive():
            answer = server.get("/data/captures", accept_encoding="gzip")
            assert answer.status == 200, answer.body
            count, odd = answer.data["rows"]["length"], answer.data["labels"].get("odd", {"at": [-1]})["at"]
            assert len(odd) == count and odd.count(-1) == 1
            seen.add(count)
        assert len(seen) > 2
        changer.join()


@pytest.mark.long
def test_a_query_ends_at_its_limit_and_harms_nobody_else(lab: Path) -> None:
    """Also one that can't be interrupted."""
    with serving(lab, seconds=0.5) as server:
        for query in (
            "SELECT count(*) FROM range(100000000000) AS a, range(1000) AS b",
            "SELECT length(repeat(repeat('a', 1000000), 1000)) + i FROM range(3) AS t(i)",
        ):
            reply = server.query(query)
            assert reply.status == 400 and "took longer than 0.5 s" in reply.error
        for pause in (0, 2.5, 2.5):  # the file is closed when nobody asks for two seconds
            time.sleep(pause)
            assert names(server) == ["run"] and server.get("/healthz").status == 200
    while limited.has_left():  # until then, no warehouse of this process is closed
        time.sleep(0.1)


@pytest.mark.long
def test_requests_wait_for_a_writer_together(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etq.serve.instance.WAIT", 1.0)
    with serving(lab) as server:
        with held(lab), ThreadPoolExecutor(8) as threads:
            replies = [*threads.map(server.query, ["SELECT 1"] * 8)]
        assert [reply.status for reply in replies] == [503] * 8
        assert server.query("SELECT 1").status == 200


@pytest.mark.long
def test_a_lake_is_shown_and_not_pushed_to(lab: Path, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    lake, tokens = tmp_path / "lake", tmp_path / "tokens.toml"
    etq.lake.export(str(lake), str(lab))
    secret = add(str(tokens), "ci", ("push", "sql"))
    with serving(lake, tokens, secret) as server:
        assert names(server) == ["run"] and server.data("counts")["rows"]["columns"][0]["texts"] == ["run"]
        assert "etq lake add" in server.push(small_capture(1)).error


def test_tokens_are_lines_of_a_file(tmp_path: Path, lab: Path) -> None:
    file = tmp_path / "tokens.toml"
    result = run_etq("token", "ci", "--role", "push", "--file", str(file))
    secret = result.output.strip()
    assert result.exit_code == 0 and secret.startswith("etq_") and secret not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    found = TokenFile(str(file))
    token = found.find(secret)
    assert (
        token is not None
        and token.roles == {"push"}
        and token.ends is None
        and found.find("") is None
        and found.find(secret[:-1]) is None
    )
    for name, text in (("ci", "already"), ('a" = 1', "letters")):
        with pytest.raises(EtqError, match=text):
            add(str(file), name, ["read"])
    with pytest.raises(EtqError, match="over already"):
        add(str(file), "bo", ["read"], date(2020, 1, 31))
    ends = run_etq("token", "bo", "--role", "read", "--role", "sql", "--ends", "9999-01-31", "--file", str(file))
    token = found.find(ends.output.strip())
    assert token is not None and token.roles == {"read", "sql"} and token.ends == date(9999, 1, 31)
    digest = "a" * 64
    for text in (
        "a = 1", '"a" = { roles = ["admin"], sha256 = "" }', '"a" = { roles = ["read"], sha256 = "x" }', "\udcff",
        f'"a" = {{ roles = [], sha256 = "{digest}" }}', f'"a" = {{ role = "read", sha256 = "{digest}" }}',
        f'"a" = {{ roles = ["read"], sha256 = "{digest}", ends = "2027-01-31" }}',
        f'"a" = {{ roles = ["read"], sha256 = "{digest}", ends = 2027-01-31T00:00:00 }}',
    ):  # fmt: skip
        file.write_text(text, errors="surrogateescape")
        with pytest.raises(EtqError):
            TokenFile(str(file))
    # Another address than this machine's needs some.
    result = run_etq("serve", str(lab), "--host", "0.0.0.0", "--port", "0")
    assert result.exit_code == 1 and "needs tokens" in result.output


@pytest.mark.long
def test_push_sends_files_with_labels_and_record(
    team: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server, reader = team
    folder = CAPTURES / "transformer"
    metrics = tmp_path / "m.json"
    metrics.write_text(json.dumps({"speed": 3}))
    monkeypatch.setenv("ETQ_TOKEN", str(server.token))
    words = ["push", server.url, str(folder / "transformer_100runs.etdp"), "--label", "build=41", "--etrecord",
             str(folder / "transformer.etrecord"), "--metrics", str(metrics)]  # fmt: skip
    result = run_etq(*words)
    assert result.exit_code == 0 and "transformer_100runs: stored" in result.output, result.output
    assert "known already" in run_etq(*words).output
    found = server.query("SELECT module_path FROM module_totals('build=41') WHERE module_path = 'layers.0'").data[
        "rows"
    ]
    assert found == [["layers.0"]]
    assert server.query("SELECT value FROM metrics WHERE name = 'speed'").data["rows"] == [[3]]
    for token, text in ((reader.token, "role push"), ("", "set $ETQ_TOKEN"), ("etq_wrong", "token is wrong")):
        monkeypatch.setenv("ETQ_TOKEN", str(token))
        refused = run_etq(*words[:3])
        assert refused.exit_code == 1 and text in refused.output
    monkeypatch.setenv("ETQ_TOKEN", str(server.token))
    bad = run_etq("push", server.url, str(metrics), str(MLP))
    assert bad.exit_code == 1 and "1 of 2 files" in bad.output and "run: known already" in bad.output


_CUT = b"what a server that is killed doesn't send"


class _Odd(BaseHTTPRequestHandler):
    """A server that answers with what it was told, without `_CUT`, and counts what it was sent."""

    replies: ClassVar[list[tuple[int, bytes]]] = []
    sent = 0

    def do_POST(self) -> None:
        status, body = self.replies.pop(0)
        if status != 307:
            type(self).sent += len(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(status)
        self.send_header("location", "http://127.0.0.1:9/")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.removesuffix(_CUT))

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.long
def test_a_client_tries_again_and_follows_no_redirection(tmp_path: Path) -> None:
    file = tmp_path / "run.etdp"
    file.write_bytes(small_capture(1))
    with HTTPServer(("127.0.0.1", 0), _Odd) as odd:
        Thread(target=odd.serve_forever, daemon=True).start()
        notes: list[str] = []
        pusher = Pusher(f"http://127.0.0.1:{odd.server_address[1]}", patience=30, notify=notes.append)
        _Odd.replies = [(503, b"{}"), (201, b'{"name":' + _CUT), (201, b'{"name": "run", "is_new": true}')]
        assert pusher.push([("file", str(file))], []).name == "run"
        assert notes == ["status 503, which is no answer of etq serve; trying again for 30 s"]
        for reply, text in (
            ((307, b""), "another address"),
            ((413, _CUT), "status 413"),
            ((200, b"<html>"), "address right"),
            ((400, b'{"error": "a\\u001bb"}'), r"a\\x1bb"),
        ):
            _Odd.replies = [reply]
            with pytest.raises(EtqError, match=text):
                pusher.push([("file", str(file))], [])
        with pytest.raises(EtqError, match="no HTTPS there; write http://"):
            Pusher(f"https://127.0.0.1:{odd.server_address[1]}", patience=30).push([("file", str(file))], [])
        odd.shutdown()
    with pytest.raises(EtqError, match="can't be reached"):
        Pusher(f"http://127.0.0.1:{odd.server_address[1]}", patience=0.1).push([("file", str(file))], [])


@pytest.mark.long
def test_curl_pushes_and_requests_are_logged(lab: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    secret = add(str(tokens), "ci", ("push",))
    (tmp_path / "c.etdp").write_bytes(small_capture(9))
    command = [sys.executable, "-m", "etq", "serve", lab, "--tokens", tokens, "--port", "0"]
    with process(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stderr is not None
        url = server.stderr.readline().rpartition(" at ")[2].strip()
        server.stderr.readline()
        words = ["curl", "-sS", "-H", f"Authorization: Bearer {secret}", "-F", f"file=@{tmp_path}/c.etdp"]
        words += ["-F", "label=build=9", f"{url}api/push"]
        sent = subprocess.run(words, capture_output=True, text=True, check=True)
        assert json.loads(sent.stdout)["name"] == "c"
        line = server.stderr.readline()
        assert " ci 127.0.0.1 POST /api/push 201 " in line and secret not in line
        server.terminate()
    with etq.open(lab, read_only=True) as warehouse:
        assert warehouse.rows("SELECT value FROM labels WHERE value = '9'")[1] == [("9",)]


@pytest.mark.long
def test_what_was_acknowledged_is_there_once_after_kills(tmp_path: Path) -> None:
    """Four pushers, and SIGKILLs of the server."""
    count, most = (100, 20) if IS_WHOLE else (15, 4)
    path, tokens = tmp_path / "lab.duckdb", tmp_path / "tokens.toml"
    secret = add(str(tokens), "ci", ("push",))
    etq.open(path).close()
    acknowledged: list[str] = []
    failures: list[str] = []

    def pushed(first: int) -> None:
        pusher = Pusher(f"http://127.0.0.1:{server.port}", patience=3600)  # where a server starts in seconds, most fail
        pusher._token = secret
        for number in range(first, first + count):
            file = tmp_path / f"run{number:04}.etdp"
            file.write_bytes(small_capture(number))
            try:
                acknowledged.append(pusher.push([("file", str(file))], [("label", f"number={number}")]).name)
            except EtqError as error:
                failures.append(str(error))

    pushers = [Thread(target=pushed, args=(count * number,), daemon=True) for number in range(4)]
    chance = random.Random(5)
    kills = 0
    with ServerProcess(path, tokens) as server:
        server.start()
        for thread in pushers:
            thread.start()
        while kills < most and any(thread.is_alive() for thread in pushers):
            time.sleep(chance.uniform(0.1, 0.6))
            server.kill()
            kills += 1
            server.start()
        for thread in pushers:
            thread.join()
    assert failures == [] and kills and len({*acknowledged}) == 4 * count
    with etq.open(path, read_only=True) as warehouse:
        found = warehouse.rows(
            "SELECT c.name, count(*) FROM captures AS c JOIN labels AS l USING (capture_id) GROUP BY ALL"
        )[1]
    assert dict(found) == dict.fromkeys(acknowledged, 1)
    assert run_etq("db", "check", str(path), "--files", str(tmp_path)).exit_code == 0


@pytest.mark.long
def test_a_process_ends_though_its_writer_does_not(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that can't be interrupted may hold what the writer waits for; what comes later is refused."""
    instance, ended, released = Instance(str(lab), is_writable=True), Event(), Event()
    monkeypatch.setattr("etq.serve.instance._STORING", 0.1)
    monkeypatch.setattr("etq.serve.instance.os._exit", lambda _: ended.set())
    stuck = instance.write(lambda _: released.wait(60))
    instance.end("a query can't be interrupted")
    assert ended.wait(60) and not stuck.done()
    with pytest.raises(EtqError, match="try again"):
        instance.write(lambda _: None)
    released.set()
    assert stuck.result() is True
    instance.close()


# By what they do to DuckDB 2.0: the process crashes; the database is unusable, where 34 GB can't be had; the query has no
# end.
DEADLY = (
    "SELECT json_contains(repeat('[', 200000) || repeat(']', 200000), '1')",
    "SELECT reservoir_quantile(i::HUGEINT, 0.5, 2147483647) FROM range(10) AS t(i)",
    "SELECT parse_path(repeat('/', 10000000))",
)


@pytest.mark.long
def test_a_query_that_ends_the_process_harms_nobody_else(tmp_path: Path) -> None:
    """Nor do those of all of DuckDB's functions: a pusher's captures are all stored once, and readers are answered."""
    path, tokens = tmp_path / "lab.duckdb", tmp_path / "tokens.toml"
    secret = add(str(tokens), "ci", ("push", "sql"))
    etq.open(path).close()
    server = ServerProcess(path, tokens, "--seconds", "1")
    asked = Server(server.port, path, secret)
    pushed: list[str] = []

    def push() -> None:
        pusher = Pusher(asked.url, patience=3600)
        pusher._token = secret
        for number in range(10):
            allowed.acquire()
            file = tmp_path / f"run{number:04}.etdp"
            file.write_bytes(small_capture(number))
            pushed.append(pusher.push([("file", str(file))], []).name)

    def answers() -> bool:
        with suppress(OSError, http.client.HTTPException):
            reply = asked.get("/healthz")
            if reply.status == 200 and reply.data["left"] == 0:
                since.add(reply.data["since"])
                return asked.query("SELECT 1").status == 200
        return False

    pusher, allowed = Thread(target=push, daemon=True), Semaphore(0)
    since = set[str]()
    with server:
        server.start()
        pusher.start()
        for query in (*DEADLY, *islice(queries(5), None if IS_WHOLE else 2)):
            allowed.release(2)
            with suppress(OSError, http.client.HTTPException):
                asked.query(query)
            deadline = time.monotonic() + 300
            while not answers():
                assert time.monotonic() < deadline, query
                time.sleep(0.1)
        pusher.join()
        assert len(pushed) == len({*pushed}) == 10 and len(since) >= 2
        assert server.interrupt() == 0
    with etq.open(path, read_only=True) as warehouse:
        assert warehouse.rows("SELECT count(*), count(DISTINCT sha256) FROM captures")[1] == [(10, 10)]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("prlimit") is None, reason="limits and measures a process of Linux")
def test_memory_stays_within_its_limit(tmp_path: Path) -> None:
    """Also that of texts that functions make, which DuckDB's limit doesn't count: eight at once would take over 8 GB."""
    path, tokens = tmp_path / "lab.duckdb", tmp_path / "tokens.toml"
    secrets = [add(str(tokens), f"ci{number}", ("sql",)) for number in range(4)]
    etq.open(path).close()
    with ServerProcess(path, tokens, "--seconds", "300") as server:
        server.start(addresses=6 * 2**30)
        second = Path(f"/proc/{server.second()}")
        with ThreadPoolExecutor(8) as threads:
            asking = [
                threads.submit(Server(server.port, path, secret).query, f"SELECT length(repeat('{at}x', 500000000))")
                for secret in secrets
                for at in range(2)
            ]
            while not all(each.done() for each in asking):
                assert Server(server.port, path).get("/healthz").status == 200
                time.sleep(0.2)
        replies = [each.result() for each in asking]
        assert any(reply.status == 400 and "Out of Memory" in reply.error for reply in replies)
        limit = int(re.search(r"Max data size +([0-9]+)", (second / "limits").read_text())[1])  # type: ignore[index]
        most = int(re.search(r"VmHWM:\s+([0-9]+) kB", (second / "status").read_text())[1]) * 1024  # type: ignore[index]
        assert 2**30 < most < limit < 4.5 * 2**30
        assert server.interrupt() == 0


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the process in /proc")
def test_another_process_takes_over_from_one_that_dies_while_it_is_asked_for_a_sign_of_life(tmp_path: Path) -> None:
    """uvicorn would wait for the sign, for a minute."""
    path, tokens = tmp_path / "lab.duckdb", tmp_path / "tokens.toml"
    add(str(tokens), "ci", ("push",))
    etq.open(path).close()
    with ServerProcess(path, tokens) as server:
        server.start()
        first = server.second()
        os.kill(first, signal.SIGSTOP)
        time.sleep(1.5)  # it is asked twice a second
        os.kill(first, signal.SIGKILL)
        deadline, answered = time.monotonic() + 50, False
        while not answered and time.monotonic() < deadline:
            with suppress(OSError, http.client.HTTPException):
                answered = Server(server.port, path).get("/healthz").status == 200
            time.sleep(0.1)
        assert answered and server.second() != first
        assert server.interrupt() == 0
