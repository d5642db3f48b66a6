"""The audit log: what it has, and how much."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.remote.protocol import Push, Sent, State
from etq.serve import trimming
from etq.team import audit
from etq.team.folder import TeamFolder
from etq.team.queue import ConflictError, Ended, PushQueue
from etq.team.users import Role
from tests.command_line import run_etq
from tests.serve.processes import wait_for
from tests.serve.server import serving
from tests.serve.test_load import with_users
from tests.sql.test_trends import capture


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="a", labels={"build": "1"})
        lab.ingest(capture(2), name="b", labels={"build": "2"})
    return path


@pytest.fixture
def team(path: Path) -> TeamFolder:
    return TeamFolder(path.with_name("team"))


def notes(team: TeamFolder, action: str) -> list[dict[str, Any]]:
    """The details of what was noted of an action, the oldest first."""
    with team.reading() as connection:
        rows = connection.execute("SELECT details FROM audit WHERE action = ? ORDER BY audit_id", [action])
        return [json.loads(details) for (details,) in rows]


def test_a_command_is_one_note(path: Path, team: TeamFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what commands ask, the log has the command; of SQL, what the user wrote."""
    monkeypatch.setenv("ETQ_TOKEN", with_users(team, ada=Role.READ)["ada"])
    with serving(path, folder=team) as server:
        result = run_etq("compare", "build=1", "build=2", "--db", server.url)
        assert result.exit_code == 0, result.output
        [found] = notes(team, "sql")
        assert found["command"] == f"etq compare build=1 build=2 --db {server.url}"
        assert run_etq("sql", "SELECT 41 + 1 AS n", "--db", server.url).exit_code == 0
        with etq.open(server.url) as warehouse:
            assert warehouse.rows("SELECT 43 AS n")[1] == [(43,)]
        assert [each.get("query") for each in notes(team, "sql")[1:]] == ["SELECT 41 + 1 AS n", "SELECT 43 AS n"]


def test_a_token_is_not_noted(path: Path, team: TeamFolder) -> None:
    from etq.cli import _question

    assert _question("push", ["http://lab", "a.etdp", "--token", "etq_secret"]) == "etq push"
    assert _question("show", ["captures", "--where", "it's"]) == "etq show captures --where 'it'\"'\"'s'"


def test_old_notes_are_removed(path: Path, team: TeamFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    team.make()
    for number in range(300):
        audit.note(team, "ada", "", "sql", {"query": f"{number:04}" + "x" * 3996})
    with team.writing() as connection:
        connection.execute("UPDATE audit SET at = ? WHERE audit_id <= 20", [time.time() - 91 * 86_400])
    assert audit.trim(team, 90, 1000) == 20
    # 300 of 4.2 kB are more than 1 MB; the latest stay.
    monkeypatch.setattr(trimming, "SECONDS", 0.1)
    with serving(path, folder=team, audit_megabytes=1):
        wait_for(lambda: len(notes(team, "sql")) < 280)
    kept = [int(each["query"][:4]) for each in notes(team, "sql")]
    assert kept == [*range(300 - len(kept), 300)] and 0.9e6 / 4400 < len(kept) <= 0.9e6 / 4000


def test_a_note_has_a_limited_size(team: TeamFolder) -> None:
    team.make()
    audit.note(team, "ada", "", "sql", {str(number): "x" * 3000 for number in range(100)})
    audit.note(team, "ada", "", "pushed", {"captures": ["x" * 100] * 1000})
    with team.reading() as connection:
        assert connection.execute("SELECT max(length(details)) FROM audit").fetchone()[0] < 10_000


def test_of_a_stored_push_only_the_hash_is_kept(team: TeamFolder) -> None:
    """The same request is still the same one, and another one a conflict."""
    team.make()
    queue = PushQueue(team)
    queue.make()
    pushes = [
        Push(f"push-{number:08}", Sent(hashlib.sha256(b"x").hexdigest(), f"{number}"), labels={"a": "x" * 2000})
        for number in range(50)
    ]
    known = {pushes[0].file.sha256}
    assert queue.add("ada", pushes, known) == []
    queue.end(Ended(State(each.id, "stored", each.file.name, "a", True)) for each in pushes)
    with team.reading() as connection:
        assert connection.execute("SELECT max(length(request)) FROM pushes").fetchone()[0] < 100
    assert queue.add("ada", pushes, known) == []
    for user, push in (("ben", pushes[0]), ("ada", Push(pushes[0].id, pushes[1].file))):
        with pytest.raises(ConflictError):
            queue.add(user, [push], known)
    [note] = notes(team, "pushed")
    assert len(note["captures"]) == 20 and note["count"] == 50


def test_a_limited_number_of_pushes_is_remembered(team: TeamFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etq.team.queue.MOST_REMEMBERED", 3)
    team.make()
    queue = PushQueue(team)
    queue.make()
    for number in range(10):
        push = Push(f"push-{number:08}", Sent(hashlib.sha256(b"x").hexdigest(), f"{number}"))
        queue.add("ada" if number < 8 else "ben", [push], {push.file.sha256})
        if number != 9:
            queue.end([Ended(State(push.id, "stored", push.file.name))])
    queue.tidy()
    assert [each.id[-1] for each in queue.states([f"push-{number:08}" for number in range(10)])] == [*"56789"]
