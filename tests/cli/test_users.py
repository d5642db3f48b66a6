"""`etq users`: who may ask a team's server."""

from __future__ import annotations

import getpass
import hashlib
import json
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import etq
from etq.cli import main
from tests.command_line import run_etq
from tests.conftest import CAPTURES


def users(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["users", *arguments])


def made(*arguments: str) -> str:
    """The token that a command prints, and nothing else."""
    result = users(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("etq_") and result.stdout.count("\n") == 1
    assert result.stdout.strip() not in result.stderr
    return result.stdout.strip()


def listed(*arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(users(*arguments, "--format", "json").stdout)
    return rows


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "lab.duckdb")


def test_users_and_tokens(db: str) -> None:
    assert "lab.duckdb.team: no such folder; add the first user with etq users add" in users("--db", db).stderr
    first = made("add", "ci", "--role", "push", "--note", "runner", "--expires", "2d", "--db", db)
    second = made("token", "ci", "--db", db)
    assert first != second and min(len(first), len(second)) >= 4 + 43  # 32 bytes in base64
    assert users("add", "ada@lab.example", "--role", "read", "--no-token", "--db", db).stdout == ""
    rows = listed("--db", db)
    found = [(row["name"], row["role"], row["token"], row["note"]) for row in rows]
    assert found == [
        ("ada@lab.example", "read", None, None),
        ("ci", "push", first[:12], "runner"),
        ("ci", "push", second[:12], ""),
    ]
    assert rows[1]["expires"] > time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86400)) and not rows[2]["expires"]
    assert users("revoke", first[:12], "--db", db).stderr == "ci: the token is revoked\n"
    assert users("revoke", second, "--db", db).exit_code == 0
    assert [row["token"] for row in listed("--db", db)] == [None, None]
    assert users("revoke", "ci", "--db", db).stderr == "ci: revoked, with 0 tokens\n"
    assert "ci: no such user; there are ada@lab.example" in users("token", "ci", "--db", db).stderr
    assert users("role", "ada@lab.example", "admin", "--db", db).exit_code == 0
    assert [row["role"] for row in listed("--db", db)] == ["admin", "revoked"]
    made("add", "ci", "--role", "read", "--db", db)
    assert [row["role"] for row in listed("--db", db)] == ["admin", "read"]
    actions = [row["action"] for row in listed("audit", "--db", db)]
    assert actions == ["user added", "role changed", "user revoked", *["token revoked"] * 2, "user added", "token added",
                       "user added"]  # fmt: skip


def test_of_a_token_only_the_hash_is_kept(db: str) -> None:
    token = made("add", "ada", "--role", "read", "--db", db)
    folder = Path(f"{db}.team")
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    assert token[12:].encode() not in content
    with sqlite3.connect(folder / "server.sqlite") as connection:
        [(hashed,)] = connection.execute("SELECT token_sha256 FROM tokens").fetchall()
    connection.close()
    assert hashed == hashlib.sha256(token.encode()).hexdigest()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "server.sqlite").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["add", "a b", "--role", "read"], "'a b': not a name of a user"),
        (["add", "etq_x", "--role", "read"], "'etq_x': not a name of a user"),
        (["add", "a\x1b[2J", "--role", "read"], "not a name of a user"),
        (["add", "Anyone", "--role", "read"], "choose another name"),
        (["add", "ada", "--role", "read"], "ada: a user already; etq users token makes another token"),
        (["add", "bob"], "Missing option '--role'"),
        (["add", "bob", "--role", "root"], "'root' is not one of"),
        (["add", "bob", "--role", "read", "--expires", "0d"], "write it like 12h, 90d or 8w"),
        (["add", "bob", "--role", "read", "--no-token", "--note", "x"], "leave out --note and --expires"),
        (["token", "bob"], "bob: no such user; there are ada"),
        (["revoke", "bob"], "bob: no such user; there are ada"),
        (["revoke", "etq_"], "too short to name a token"),
        (["revoke", "etq_aaaaaaaa"], "etq_aaaaaaaa: no valid tokens begin so"),
        (["role", "bob", "read"], "bob: no such user; there are ada"),
    ],
)
def test_what_is_refused(db: str, arguments: list[str], error: str) -> None:
    made("add", "ada", "--role", "read", "--db", db)
    result = users(*arguments, "--db", db)
    assert result.exit_code != 0 and error in result.stderr
    assert [row["name"] for row in listed("--db", db)] == ["ada"]


def test_a_lake_needs_a_folder(tmp_path: Path) -> None:
    team = str(tmp_path / "team")
    assert "s3://lab/fleet: a lake has no folder beside it" in users("--db", "s3://lab/fleet").stderr
    made("add", "ada", "--role", "read", "--db", "s3://lab/fleet", "--team", team)
    assert [row["name"] for row in listed("--db", "s3://lab/fleet", "--team", team)] == ["ada"]
    # Options may stand before the subcommand.
    made("--team", team, "token", "ada")
    assert len(listed("--team", team)) == 2


def test_what_commands_change_is_in_the_log_of_the_server(db: str) -> None:
    """If there is one; without, or where it can't be written, they do the same."""
    with etq.open(db) as warehouse:
        warehouse.ingest_many(sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))[:4], labels={"build": "1"})
    for folder_exists in (False, True):
        if folder_exists:
            made("add", "ada", "--role", "read", "--db", db)
        for words in (
            ["label", "00", "device=pixel8", "--remove", "build"],
            ["label", "00", "build=1", "--remove", "device"],
            ["overview", "kernels", "--add", "build=1"],
            ["overview", "kernels", "--add-comparison", "00", "01", "--remove", "1"],
            ["comment", "1", "build=1", "--accept", "wanted"],
            ["comment", "--remove", "2" if folder_exists else "1"],
            ["comment", "1", "--note", "well"],
            ["remove", "02" if folder_exists else "03", "-y"],
        ):
            assert run_etq(*words, "--db", db).exit_code == 0, words
    rows = listed("audit", "--db", db)[::-1]
    assert {row["user"] for row in rows} == {f"{getpass.getuser()} of this machine"}
    found = [
        (row["action"], json.loads(row["details"])) for row in rows if not row["action"].startswith(("user", "tok"))
    ]
    assert [action for action, _ in found] == ["labelled"] * 2 + ["overview"] * 6 + ["removed"]
    assert found[0][1]["labels"] == {"device": "pixel8", "build": None} and found[0][1]["capture"] == "00"
    assert found[2][1] == {"overview": "kernels", "selector": "build=1", "what": "total", "item": None, "number": 1}
    assert found[5][1]["text"] == "wanted" and found[-1][1]["capture"] == "02"
    (Path(f"{db}.team") / "server.sqlite").write_bytes(b"damaged")
    assert run_etq("label", "00", "a=b", "--db", db).exit_code == 0
