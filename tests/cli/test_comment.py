"""`etq comment`, and what it changes for other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import etq
from tests.batches import Labelled, ingest_all
from tests.command_line import run_etq
from tests.sql.test_trends import capture


@pytest.fixture
def lab(tmp_path: Path) -> str:
    """Thirty builds; one op is slower from the 18th on."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        ingest_all(
            warehouse,
            [
                Labelled(
                    f"b{build}", capture(build, {"addmm": 1.3} if build >= 18 else None),
                    {"build": str(build), "model": "net"},
                )
                for build in range(1, 31)
            ],
        )  # fmt: skip
    return str(path)


def regressions(lab: str, *options: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(
        run_etq("regressions", "--format", "json", *options, "--db", lab).stdout
    )
    return found


def test_a_change_is_accepted_and_removed(lab: str) -> None:
    assert [row["op"] for row in regressions(lab)] == ["addmm"]
    done = run_etq(
        "comment", "18", "model=net", "--op", "addmm@0", "--accept", "new tokenizer", "--author", "ann", "--db", lab
    )
    assert (done.exit_code, done.stderr) == (0, "accepted, number 1\n")
    assert regressions(lab) == []
    [row] = regressions(lab, "--accepted")
    assert [row[name] for name in ("op", "is_accepted", "comment", "author")] == ["addmm", True, "new tokenizer", "ann"]
    assert "; accepted: new tokenizer" in run_etq("trend", "--op", "addmm", "--db", lab).stdout
    [comment] = json.loads(run_etq("comment", "--format", "json", "--db", lab).stdout)
    names = ("number", "verdict", "series", "what", "item", "over", "first_bad", "text", "author")
    assert [comment[name] for name in names] == [
        1, "accepted", "model=net", "op", "addmm@0", "build", "18", "new tokenizer", "ann"
    ]  # fmt: skip
    assert run_etq("comment", "--remove", "1", "--db", lab).stderr == "comment 1 removed\n"
    assert [row["op"] for row in regressions(lab)] == ["addmm"]


def test_a_note_is_beside_the_change(lab: str) -> None:
    assert run_etq("comment", "18", "--all", "--note", "a bug, see 12", "--db", lab).stderr == "noted, number 1\n"
    assert [row["comment"] for row in regressions(lab)] == ["a bug, see 12"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["18"], "a change goes with --accept TEXT or --note TEXT"),
        (["--accept", "x"], "a change goes with --accept TEXT or --note TEXT"),
        (["18", "--accept", "x", "--note", "y"], "a change goes with --accept TEXT or --note TEXT"),
        (["18", "--accept", "x", "--all", "--op", "addmm"], "give one of --op, --module, --metric, --total and --all"),
        (["31", "--accept", "x"], "no capture has build 31"),
        (["18", "model=gone", "--accept", "x"], "no capture matches model=gone"),
        (["18", "--over", "day", "--accept", "x"], "no capture has a label 'day'"),
        (["--remove", "7"], "no comment has the number 7; etq comment lists them"),
    ],
)
def test_errors(lab: str, arguments: list[str], error: str) -> None:
    done = run_etq("comment", *arguments, "--db", lab)
    assert done.exit_code != 0 and error in done.stderr


def test_comments_are_merged_once(lab: str, tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    with etq.open(other) as warehouse:
        warehouse.ingest(capture(500), name="c", labels={"build": "1"})
        warehouse.comment("1", "theirs")
    with etq.open(lab) as warehouse:
        warehouse.accept("18", "ours", what="all")
    etq.merge([lab, other], tmp_path / "both.duckdb")
    etq.merge([tmp_path / "both.duckdb", other], tmp_path / "again.duckdb")
    with etq.open(tmp_path / "again.duckdb", read_only=True) as both:
        assert both.rows("SELECT comment_id, text FROM change_comments ORDER BY ALL")[1] == [(1, "ours"), (2, "theirs")]
        assert both.rows("FROM regressions()")[1] == []


def test_a_lake_has_no_comments(lab: str, tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="lakes are tables of deltalake")
    from etq.lake import export

    export(tmp_path / "lake", lab)
    done = run_etq("comment", "18", "--accept", "x", "--db", str(tmp_path / "lake"))
    assert done.exit_code == 1 and "this command does not change a lake" in done.stderr
