"""Several servers before one lake in an object store, each with a folder of its own."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from etq.lake import add, check, export
from etq.serve import state
from etq.team.folder import TeamFolder
from etq.team.tokens import add_token
from etq.team.users import Role, add_user
from tests.batches import Labelled, ingest_all
from tests.command_line import run_etq
from tests.lake import moto_server
from tests.lake.test_lake import FLEET
from tests.serve.server import Server, serving
from tests.serve.server_process import served, write_captures
from tests.serve.test_overviews import rows, sent
from tests.serve.test_webhook import Hooks, receiving, until
from tests.sql.test_trends import capture

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def store() -> Iterator[None]:
    """A store with the bucket lab, whose options are in the environment."""
    with moto_server.serving() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in moto_server.made(endpoint, "lab").items():
            patch.setenv(name, value)
        patch.setattr(state, "REMOTE_SECONDS", 0.5)
        yield


def builds(url: str, path: Path, first: int, last: int, scale: float) -> None:
    """Add builds to a lake, in which an op takes so many times as long."""
    made = [
        Labelled(f"b{build}", capture(build, {"addmm": scale}), {"build": str(build), "model": "net"})
        for build in range(first, last + 1)
    ]
    with etq.open(path) as lab:
        ingest_all(lab, made)
        export(url, lab)


@pytest.fixture
def lake(store: None, tmp_path: Path) -> str:
    """A lake in which a regression stands from build 16 on."""
    url = f"s3://lab/{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]}"
    builds(url, tmp_path / "first.duckdb", 1, 15, 1.0)
    builds(url, tmp_path / "second.duckdb", 16, 30, 1.3)
    return url


def folder_of(path: Path) -> TeamFolder:
    made = TeamFolder(path)
    made.make()
    return made


def slower(server: Server) -> str:
    return server.get("/badge/team.svg").body.decode().partition("<title>")[2].partition("</title>")[0]


def test_what_a_team_watches(lake: str, tmp_path: Path) -> None:
    """What is written at one server, or by a command, is shown and told by the other, as it is of a file."""
    hooks = Hooks()
    with (
        receiving(hooks) as url,
        serving(lake, edits=True, folder=folder_of(tmp_path / "one")) as one,
        serving(lake, folder=folder_of(tmp_path / "two"), webhook=url) as two,
    ):
        assert one.data("me")["edits"] and not two.data("me")["edits"]
        assert sent(one, overview="team", what="op", item="addmm@0", selector="model=net") == (200, {"number": 1})
        assert rows(one.data("overviews")["items"], "overview", "item") == [("team", "addmm@0")], "at once"
        until(lambda: two.data("overviews")["items"]["length"] == 1)
        until(lambda: slower(two) == "etq, team: 1 slower")
        time.sleep(3)
        assert hooks.taken == [], "what was there when it began to be watched is not told"
        run_etq("overview", "team", "--add-comparison", "build<16", "build>=16", "--db", lake)
        until(lambda: one.data("overviews")["comparisons"]["length"] == 1)
        assert "slower" in one.data("compared", overview="team", number="1")["verdict"]
        builds(lake, tmp_path / "third.duckdb", 31, 45, 1.7)
        until(lambda: len(hooks.taken) == 1)
        assert hooks.taken[0]["event"] == "regression began" and hooks.taken[0]["change"]["first_bad"] == "31"
        accepted = sent(one, first_bad="31", selector="model=net", what="all", verdict="accepted", text="new tokenizer")
        assert accepted == (200, {"number": 1})
        until(lambda: len(hooks.taken) == 2)
        assert hooks.taken[1]["event"] == "regression ended" and "(model=net): new tokenizer " in hooks.texts()[1]
        assert "accepted: addmm@0 slower" in two.get("/feed/team.atom").body.decode()
        assert sent(one, remove_comment="1") == (200, {"number": None})
        assert sent(two, overview="x")[0] == 403
    assert [fault for fault in check(lake) if not fault.is_left_over] == []


def test_roles(lake: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "team")
    tokens = {}
    with folder.writing() as connection:
        for role in Role:
            add_user(connection, role.label, role)
            tokens[role] = add_token(connection, role.label)
    with serving(lake, folder=folder) as server:
        for role, token in tokens.items():
            body = json.dumps({"first_bad": "16", "text": f"by {role.label}", "what": "all"}).encode()
            reply = server.post("/data/edit", body, authorization=f"Bearer {token}", origin="")
            assert reply.status == (200 if role >= Role.LABEL else 403), role
            found = server.get("/data/me", authorization=f"Bearer {token}").data
            assert found["edits"] == (role >= Role.LABEL)
    with etq.open(lake) as opened:
        written = opened.rows("SELECT text, author FROM change_comments ORDER BY comment_id")[1]
    assert written == [("by label", "label"), ("by admin", "admin")]


def pushing(url: str, files: list[str]) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "etq", "push", url, *files]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


def test_pushes_to_two_servers_of_which_one_is_killed(store: None, tmp_path: Path) -> None:
    """Every capture of which either said that it is stored is in the lake once, also those that both were sent."""
    url = "s3://lab/pushed"
    add(url, lambda lab: lab.ingest(FLEET[0], labels={"build": "0"}))
    files = write_captures(tmp_path / "some", 60)
    with (
        served(url, "--team", str(tmp_path / "one")) as one,
        served(url, "--team", str(tmp_path / "two")) as two,
    ):
        pushers = [pushing(one.url, files[:40]), pushing(two.url, files[20:])]
        for turn in range(3):
            time.sleep(1.5)
            assert turn or pushers[0].poll() is None, "there is something left to do"
            one.kill()
            one.start()
        errors = [pusher.communicate(timeout=300)[1] for pusher in pushers]
        assert [pusher.returncode for pusher in pushers] == [0, 0], errors
        again = pushing(one.url, files[:40])
        said = again.communicate(timeout=200)[1]
        assert again.returncode == 0 and said.splitlines()[-1] == "40 files: 40 known already", said
    expected = {hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files}
    with etq.open(url) as lake:
        there = [sha256 for (sha256,) in lake.rows("SELECT sha256 FROM captures WHERE name <> '00'")[1]]
        query = "SELECT count(*) FROM runs AS r JOIN captures AS c USING (capture_id) WHERE c.name <> '00'"
        runs = lake.rows(query)[1]
    assert len(there) == 60 and {*there} == expected
    assert runs == [(60,)], "and so are its rows"
    assert [fault for fault in check(url) if not fault.is_left_over] == []
