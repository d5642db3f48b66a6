"""Labels and removal of captures by the API: by whom, through the one writer, and noted."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import etq
from etq.errors import QueryError, WarehouseError
from etq.serve import changing
from etq.team import audit
from etq.team.changes import Change, Changes
from etq.team.folder import TeamFolder
from etq.team.tokens import add_token
from etq.team.users import Role, add_user
from tests.command_line import run_etq
from tests.serve.server import Server, serving
from tests.serve.server_process import served, small_capture

pytestmark = pytest.mark.long
NAMES = ("run", "other/run", "a b", "x?y#z", "%2e%2e", "../../etc", "ünï", "captures")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        for number, name in enumerate(NAMES):
            warehouse.ingest(small_capture(number), name=name, labels={"build": str(number)})
    return path


@pytest.fixture
def folder(tmp_path: Path) -> TeamFolder:
    made = TeamFolder(tmp_path / "team")
    made.make()
    return made


@pytest.fixture
def tokens(folder: TeamFolder) -> dict[Role, str]:
    with folder.writing() as connection:
        for role in Role:
            add_user(connection, f"the-{role.label}", role)
        return {role: add_token(connection, f"the-{role.label}") for role in Role}


@pytest.fixture
def server(lab: Path, folder: TeamFolder, tokens: Mapping[Role, str]) -> Iterator[Server]:
    with serving(lab, folder=folder) as started:
        yield started


def sent(
    server: Any, method: str, capture: str, content: object = None, token: str | None = None
) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        body = content if isinstance(content, bytes) or content is None else json.dumps(content).encode()
        connection.request(method, f"/api/v1/captures/{quote(capture, safe='')}", body, headers)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read()), {name.lower(): value for name, value in reply.getheaders()}
    finally:
        connection.close()


def labels(path: Path, name: str) -> dict[str, str]:
    with etq.open(path, read_only=True) as warehouse:
        query = "SELECT l.key, l.value FROM labels AS l JOIN captures AS c USING (capture_id) WHERE c.name = $name"
        return dict(warehouse.rows(query, name=name)[1])


def names(path: Path) -> set[str]:
    with etq.open(path, read_only=True) as warehouse:
        return {name for (name,) in warehouse.rows("SELECT name FROM captures")[1]}


def noted(folder: TeamFolder, *actions: str) -> list[tuple[str, str, dict[str, Any]]]:
    with folder.reading() as connection:
        rows = audit.noted(connection)[1]
    return [(user, action, json.loads(details)) for _, user, _, action, details in reversed(rows) if action in actions]


def test_labels_and_removal(server: Server, lab: Path, folder: TeamFolder, tokens: Mapping[Role, str]) -> None:
    """By any name, by who may; what was done and by whom is in the audit log."""
    with etq.open(lab, read_only=True) as warehouse:
        hashes = dict(warehouse.rows("SELECT name, sha256 FROM captures")[1])
    expected = []
    for number, name in enumerate(NAMES):
        changed = {"device": "pixel8", "build": None}
        for role, token in tokens.items():
            status, answer, _ = sent(server, "PATCH", name, {"labels": changed}, token)
            assert status == (200 if role >= Role.LABEL else 403), (role, answer)
            if status == 200:
                assert answer == {"capture": name, "sha256": hashes[name], "labels": {"device": "pixel8"}}
                about = {"capture": name, "sha256": hashes[name], "labels": changed}
                expected.append((f"the-{role.label}", "labelled", about))
        assert labels(lab, name) == {"device": "pixel8"}
        chosen = name if number % 2 else hashes[name][:12]
        for role, token in tokens.items():
            status, answer, _ = sent(server, "DELETE", chosen, None, token)
            assert status == (200 if role is Role.ADMIN else 403), (role, answer)
        assert answer == {"capture": name, "sha256": hashes[name]}
        expected.append(("the-admin", "removed", {"capture": name, "sha256": hashes[name]}))
        assert names(lab) == {*NAMES[number + 1 :]}
        assert sent(server, "DELETE", name, None, tokens[Role.ADMIN])[0] == 404
    assert noted(folder, "labelled", "removed") == expected
    assert sent(server, "PATCH", "run", {"labels": {"a": "b"}})[0] == 401


def test_what_is_no_change(server: Server, lab: Path, folder: TeamFolder, tokens: Mapping[Role, str]) -> None:
    before = [(name, labels(lab, name)) for name in NAMES]
    admin = tokens[Role.ADMIN]
    for content, status in (
        (b"", 400), (b"\xff", 400), (b"[" * 10**5, 400), (b"x" * 10**6, 413), ({}, 400), ({"labels": {}}, 400),
        ({"labels": {"a": 1}}, 400), ({"labels": {"a": "b"}, "more": 1}, 400), ({"labels": {"a,b": "c"}}, 400),
        ({"labels": {"": "c"}}, 400), ({"labels": {"a": "\n"}}, 400), ({"labels": {"a": "x" * 2001}}, 400),
        ({"labels": {str(number): "" for number in range(101)}}, 400), ({"labels": {"captured_at": "soon"}}, 400),
    ):  # fmt: skip
        found, answer, _ = sent(server, "PATCH", "run", content, admin)
        assert found == status and answer.keys() == {"error"}, (content, answer)
    for capture, status in (("nothing", 404), ("build>=0", 400), ("", 400), ("a" * 64, 404), ("build=99", 404)):
        for method in ("PATCH", "DELETE"):
            found, answer, _ = sent(server, method, capture, {"labels": {"a": "b"}}, admin)
            assert found == status and answer.keys() == {"error"}, (capture, answer)
    assert [(name, labels(lab, name)) for name in NAMES] == before
    assert noted(folder, "labelled", "removed") == []
    # A page of another site can't, with the cookies that it has.
    reply = server.get(
        "/api/v1/captures/run", method="DELETE", origin="https://evil.example", sec_fetch_site="cross-site"
    )
    assert reply.status in (401, 403)


def test_by_commands(server: Server, lab: Path, tokens: Mapping[Role, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETQ_TOKEN", tokens[Role.LABEL])
    done = run_etq("label", "run", "device=pixel8", "soc-rev=2", "--remove", "build", "--db", server.url)
    assert (done.exit_code, done.stderr) == (0, "run: 2 labels set, 1 removed\n")
    assert labels(lab, "run") == {"device": "pixel8", "soc-rev": "2"}
    assert run_etq("label", "run", "--db", server.url).stdout == run_etq("label", "run", "--db", str(lab)).stdout
    refused = run_etq("remove", "run", "-y", "--db", server.url)
    assert refused.exit_code != 0 and "the-label has the role label; this takes the role admin" in refused.stderr
    monkeypatch.setenv("ETQ_TOKEN", tokens[Role.ADMIN])
    done = run_etq("remove", "run", "other/run", "-y", "--db", server.url)
    assert (done.exit_code, done.stderr) == (0, "2 captures removed; etq compact gives the space back\n")
    done = run_etq("remove", "--all", "build>=6", "-y", "--db", server.url)
    assert done.exit_code == 0 and names(lab) == {*NAMES[2:6]}
    with etq.open(server.url) as remote:
        assert remote.label("a b", captured_at="2026-05-01T12:00") == {
            "build": "2", "captured_at": "2026-05-01T12:00:00.000000Z",
        }  # fmt: skip
        with pytest.raises(QueryError, match="no capture matches"):
            remote.label("run", a="b")
        with pytest.raises(WarehouseError, match="invalid key"):
            remote.label("a b", **{"a,b": "c"})
        with pytest.raises(WarehouseError, match="which is only read"):
            remote.metric("a b", "temperature", 41)
        with pytest.raises(WarehouseError, match="change overviews and comments in its pages"):
            remote.watch("kernels")
        remote.remove("a b")
    assert names(lab) == {*NAMES[3:6]}


def test_while_another_process_writes(
    lab: Path, folder: TeamFolder, tokens: Mapping[Role, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change waits for its turn; one that was refused is never made."""
    admin = tokens[Role.ADMIN]
    with serving(lab, folder=folder) as server:
        answers: list[int] = []
        with etq.open(lab):
            thread = threading.Thread(
                target=lambda: answers.append(sent(server, "PATCH", "run", {"labels": {"a": "1"}}, admin)[0])
            )
            thread.start()
            time.sleep(2)
            assert answers == []
        thread.join(60)
        assert answers == [200] and labels(lab, "run") == {"build": "0", "a": "1"}
        monkeypatch.setattr(changing, "WAIT", 1.0)
        with etq.open(lab):
            status, answer, headers = sent(server, "DELETE", "run", None, admin)
        assert (status, headers["retry-after"]) == (503, "5") and "can't be written now" in answer["error"]
        monkeypatch.undo()
        assert sent(server, "PATCH", "run", {"labels": {"a": "2"}}, admin)[0] == 200
    assert "run" in names(lab)
    assert [action for _, action, _ in noted(folder, "labelled", "removed")] == ["labelled", "labelled"]


def test_beside_pushes_at_a_server_that_is_killed(tmp_path: Path) -> None:
    """Every label that was acknowledged is there; pages show it."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        for number in range(5):
            warehouse.ingest(small_capture(number), name=f"c{number}")
    acknowledged: dict[tuple[str, str], str] = {}
    is_over = threading.Event()
    with served(path) as server:

        def label(name: str) -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                try:
                    if sent(server, "PATCH", name, {"labels": {f"k{number}": str(number)}})[0] == 200:
                        acknowledged[name, f"k{number}"] = str(number)
                except (OSError, http.client.HTTPException, ValueError):
                    time.sleep(0.1)

        def push() -> None:
            number = 100
            while not is_over.is_set():
                number += 1
                body = b'--x\r\ncontent-disposition: form-data; name="file"; filename="n.etdp"\r\n\r\n'
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                    connection.request(
                        "POST", "/api/v1/captures", body + small_capture(number) + b"\r\n--x--\r\n",
                        {"content-type": "multipart/form-data; boundary=x"},
                    )  # fmt: skip
                    connection.getresponse().read()
                    connection.close()
                except (OSError, http.client.HTTPException):
                    time.sleep(0.1)

        threads = [threading.Thread(target=label, args=(f"c{number}",)) for number in range(3)]
        threads.append(threading.Thread(target=push))
        for thread in threads:
            thread.start()
        chance = random.Random(1)
        for _ in range(3):
            time.sleep(3 + chance.random())
            server.kill()
            server.start()
        time.sleep(3)
        is_over.set()
        for thread in threads:
            thread.join(120)
        assert sent(server, "DELETE", "c4")[0] == 403, "who isn't a user has no role for that"
    assert len(acknowledged) > 10
    found = {name: labels(path, name) for name in ("c0", "c1", "c2")}
    missing = [each for each, value in acknowledged.items() if found[each[0]].get(each[1]) != value]
    assert missing == []


def test_a_lake_refuses(tmp_path: Path, lab: Path, folder: TeamFolder, tokens: Mapping[Role, str]) -> None:
    pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
    from etq.lake import export

    export(tmp_path / "lake", lab)
    with serving(tmp_path / "lake", folder=folder) as server:
        for method, content in (("PATCH", {"labels": {"a": "b"}}), ("DELETE", None)):
            status, answer, _ = sent(server, method, "run", content, tokens[Role.ADMIN])
            assert status == 400 and "a lake keeps its captures and their labels" in answer["error"]


def test_a_folder_of_an_earlier_version_gets_what_it_lacks(tmp_path: Path) -> None:
    folder = TeamFolder(tmp_path / "team")
    folder.make()
    with folder.writing() as connection:
        add_user(connection, "ann", Role.LABEL)
        connection.execute("DROP TABLE changes")
    folder.make()
    changes = Changes(folder)
    changes.add("one", "ann", "", Change("run"))
    assert changes.waiting() == [("one", Change("run"))]
    with folder.reading() as connection:
        assert connection.execute("SELECT name FROM users").fetchall() == [("ann",)]
