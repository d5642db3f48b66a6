"""`etq trend`, `etq regressions` and `etq comment`: charts, text, and changes that are accepted."""

from __future__ import annotations

import hashlib
import shlex
from datetime import datetime
from pathlib import Path

import pytest

import etq
from etq.render.terminal import BARS, WIDTH, TerminalStyle, sparkline
from tests.batches import Labelled, ingest_all
from tests.cli.asked import rows
from tests.command_line import run_etq
from tests.sql.test_trends import capture
from tests.warehouses import copy_of


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Thirty builds; one op is slower from the 18th on, and the last build has a hostile name."""
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    captures = []
    for build in range(1, 31):
        content = capture(build, {"addmm": 1.2} if build >= 18 else None)
        name = f"b{build}" if build < 30 else "b\x1b[31mred"
        captures.append(Labelled(name, content, {"build": str(build), "model": "net"}))
    with etq.open(path) as warehouse:
        ingest_all(warehouse, captures)
    return str(path)


@pytest.mark.long
def test_a_trend_is_drawn(lab: str) -> None:
    result = run_etq("trend", "--op", "addmm", "--db", lab)
    assert result.exit_code == 0, result.output
    head, drawn, change, shown = result.stdout.splitlines()
    assert head.startswith("model=net: 30 captures in the order of build, 1 to 30; ")
    assert len(drawn) == 30
    assert set(drawn[:17]) <= set(BARS[:3]) and set(drawn[17:]) <= set(BARS[-3:])
    assert change.startswith("+") and " % at 18 (b18), last good 17; p " in change
    assert shown == "5 more builds would show a change of 3 %"
    found = rows("trend", "--op", "addmm@0", "--unit", "ns", "--db", lab)
    assert [row["label"] for row in found] == [str(build) for build in range(1, 31)]
    assert [row["label"] for row in found if row["change_percent"] is not None] == ["18"]
    assert result.stderr == ""
    unchanged = run_etq("trend", "--op", "relu", "--min-effect", "5%", "--db", lab)
    assert unchanged.stderr == "Note: no change in 30 captures\n"


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """Sixty captures, two of a commit, in the order of their time; an op is slower from the 15th commit on. The
    hashes are in another order than the commits.
    """
    path = tmp_path_factory.mktemp("commits") / "lab.duckdb"
    hashes = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(30)]
    captures = []
    for number, commit in enumerate(hashes):
        for turn in range(2):
            content = capture(2 * number + turn, {"addmm": 1.3} if number >= 15 else None)
            captures.append(Labelled(f"c{number}.{turn}", content, {"commit": commit, "model": "net"}))
    with etq.open(path) as warehouse:
        ingest_all(warehouse, captures)
        for at, labelled in enumerate(captures):
            warehouse.label(labelled.name, captured_at=f"2026-01-01T00:{at:02}:00Z")
    return str(path), hashes


@pytest.mark.long
def test_changes_since_a_commit(commits: tuple[str, list[str]]) -> None:
    lab, hashes = commits
    drawn = run_etq("trend", "--op", "addmm", "--over", "commit", "--db", lab).stdout
    assert f" at {hashes[15][:12]} (c15.0), last good {hashes[14][:12]}; p <1e-15" in drawn
    for since, expected in ((15, ["addmm"]), (16, [])):
        found = rows("regressions", "--over", "commit", "--since", hashes[since][:10], "--db", lab)
        assert [row["op"] for row in found if row["what"] == "op"] == expected
    missing = run_etq("regressions", "--over", "commit", "--since", "g1", "--db", lab)
    assert missing.exit_code == 1 and f"g1; they are {hashes[0]} to {hashes[-1]}\n" in missing.stderr


@pytest.mark.long
@pytest.mark.parametrize(("builds", "times", "over", "missing"), [
    (5, 8, "build", "8 of 8 captures not judged: 3 no order (etq label adds the label build: a number, version or date), 5 in series of fewer than 8 builds"),
    (1, 3, "captured_at", "8 of 8 captures not judged: 5 no order (etq label adds the label build: a number, version or date), 3 in series of fewer than 8 builds"),
])  # fmt: skip
def test_captures_that_are_not_judged_are_counted(
    tmp_path: Path, builds: int, times: int, over: str, missing: str
) -> None:
    path = str(tmp_path / "lab.duckdb")
    with etq.open(path) as warehouse:
        labels = [{"build": str(at)} if at < builds else {} for at in range(8)]
        ingest_all(warehouse, [Labelled(f"c{at}", capture(at), each) for at, each in enumerate(labels)])
        for at in range(8 - times, 8):
            warehouse.label(f"c{at}", captured_at=f"2026-01-01T00:{at:02}:00Z")
    drawn = run_etq("trend", "--db", path)
    assert drawn.stdout.startswith(f"{5 if over == 'build' else 3} captures in the order of {over}, ")
    assert drawn.stderr == f"Note: {missing}\n"
    assert run_etq("regressions", "--db", path).stderr == (
        f"Note: {missing}; for the values: etq trend; captures are in the order of {over}\n"
    )


@pytest.mark.long
def test_each_series_has_its_own_order(tmp_path: Path) -> None:
    """Of three models, one has builds, one times, and one neither."""
    path = str(tmp_path / "lab.duckdb")
    made = []
    for at in range(24):
        slower = {"addmm": 1.4} if at >= 12 else None
        made.append(Labelled(f"a{at}", capture(at, slower), {"model": "a", "build": str(at)}))
        made.append(Labelled(f"b{at}", capture(100 + at, slower), {"model": "b"}, datetime(2026, 1, 1 + at)))
    made += [Labelled(f"c{at}", capture(200 + at, {"addmm": 1 + at / 4}), {"model": "c"}) for at in range(9)]
    with etq.open(path) as warehouse:
        ingest_all(warehouse, made)
    found = [row for row in rows("regressions", "--db", path) if row["what"] == "op"]
    assert {(row["series"], row["first_bad"]) for row in found} == {
        ("model=a", "12"),
        ("model=b", "2026-01-13 00:00:00"),
    }
    note = run_etq("regressions", "--db", path).stderr.splitlines()[0]
    assert note.startswith(
        "Note: 4 slower; 9 of 57 captures not judged: no order (etq label adds the label build: a number, version or "
        "date); captures are in the order of build or "
    )
    with etq.open(path) as warehouse:
        for at in range(9):
            warehouse.label(f"c{at}", build=str(at))
    assert "not judged" not in run_etq("regressions", "--db", path).stderr
    # Neither are captures without a time, or without the op that is asked for.
    with etq.open(path) as warehouse:
        condition = "capture_id IN (SELECT capture_id FROM captures WHERE name IN ('c7', 'c8'))"
        warehouse.connection.execute(f"DELETE FROM op_times WHERE {condition}")
        condition = "op_index = 1 AND capture_id IN (SELECT capture_id FROM captures WHERE name >= 'c4')"
        [(op,)] = warehouse.rows("SELECT DISTINCT family || '@' || instruction_id FROM op_times WHERE op_index = 1")[1]
        warehouse.connection.execute(f"DELETE FROM op_times WHERE {condition}")
    note = run_etq("regressions", "--db", path).stderr
    assert "4 slower; 9 of 57 captures not judged: 2 no times, 7 in series of fewer than 8 builds; " in note
    assert run_etq("trend", "model=c", "--db", path).stderr == (
        "Note: 9 of 9 captures not judged: 2 no times, 7 in series of fewer than 8 builds\n"
    )
    for more in ([], ["--format", "csv"]):
        assert run_etq("trend", "model=c", "--op", op, "--db", path, *more).stderr == (
            f"Note: 9 of 9 captures not judged: 5 no value of {op} above 0, 4 in series of fewer than 8 builds\n"
        )
    note = run_etq("regressions", "--phase", "decode", "--db", path).stderr
    assert note.startswith("Note: 57 of 57 captures not judged: no times of phase decode; ")


@pytest.mark.long
def test_a_metric_in_two_units_is_two_series_and_no_condition_of_itself(tmp_path: Path) -> None:
    """Its direction is unknown; from build 12 on, it is in KB; at build 24, it doubles."""
    db = str(tmp_path / "lab.duckdb")
    with etq.open(db) as warehouse:
        ingest_all(
            warehouse, [Labelled(f"b{build}", capture(build, runs=1), {"build": str(build)}) for build in range(36)]
        )
        for build in range(36):
            value, unit = (1e6 + build, "B") if build < 12 else ((2000 if build >= 24 else 1000) + build, "KB")
            warehouse.metric(f"b{build}", "rss", value, unit)
    done = run_etq("trend", "--metric", "rss", "--db", db)
    heads = [line for line in done.stdout.splitlines() if " captures in the order of build" in line]
    assert heads == [
        "12 captures in the order of build, 0 to 11; 1000000 to 1000011 B",
        "24 captures in the order of build, 12 to 35; 1012 to 2035 KB",
    ]
    [change] = [line for line in done.stdout.splitlines() if "; p " in line]
    assert change.startswith("+9") and " % at 24 (b24), last good 23; p " in change


@pytest.mark.long
def test_regressions_and_what_to_compare_next(lab: str) -> None:
    db = ("--db", lab)
    found = [(row["op"], row["first_bad"]) for row in rows("regressions", *db) if row["what"] == "op"]
    assert found == [("addmm", "18")]
    assert rows("regressions", "--since", "19", *db) == []
    nothing = run_etq("regressions", "--min-effect", "40%", "--format", "csv", *db)
    assert len(nothing.stdout.splitlines()) == 1 and nothing.stderr == (
        "Note: no change of a total or an op in 30 captures; for the values: etq trend; captures are in the order of build\n"
    )
    done = run_etq("regressions", *db)
    assert "item" in done.stdout and "addmm@" in done.stdout
    [command] = [line.removeprefix("Next: etq ") for line in done.stderr.splitlines() if line.startswith("Next: ")]
    assert command.startswith("compare 'model=net,build<18' 'model=net,build>=18' --db "), command
    assert "slower" in run_etq(*shlex.split(command)).stdout


@pytest.mark.long
def test_a_total_is_not_without_a_changed_op_if_that_is_accepted_or_a_step_of_growth(tmp_path: Path) -> None:
    """In series a, all ops and, even more, one of them are slower; in b, an op has three steps, and the total grows."""
    db, captures = str(tmp_path / "lab.duckdb"), []
    for build in range(36):
        changed = {"addmm": 1.4 if build >= 18 else 1.0}
        contents = {
            "a": capture(build, changed, 1.1 if build >= 18 else 1.0, runs=3),
            "b": capture(1000 + build, {"add": 1.06 ** (build // 9)}, runs=3),
        }
        captures += [Labelled(f"{n}{build}", each, {"model": n, "build": str(build)}) for n, each in contents.items()]
    with etq.open(db) as warehouse:
        ingest_all(warehouse, captures)
    notes = run_etq("regressions", "--db", db).stderr
    assert "no op changed" not in notes
    run_etq("comment", "18", "model=a", "--op", "addmm", "--accept", "wanted", "--db", db)
    done = run_etq("regressions", "model=a", "--db", db)
    assert "total" in done.stdout and "addmm" not in done.stdout and "no op changed" not in done.stderr
    run_etq("comment", "18", "model=a", "--accept", "wanted", "--db", db)
    assert run_etq("regressions", "model=a", "--db", db).stderr.startswith(
        "Note: no change of a total or an op that isn't accepted in 36 captures; "
    )


def test_bars() -> None:
    assert sparkline([]) == ""
    assert sparkline([3.0, 3.0]) == BARS[0] * 2
    assert sparkline([1.0, 8.0]) == BARS[0] + BARS[-1]
    assert len(sparkline([float(at) for at in range(1000)])) == WIDTH
    assert len(sparkline([float(at) for at in range(1000)], TerminalStyle(width=40))) == 40
    assert sparkline([1.0, 8.0], TerminalStyle(has_blocks=False)) == "_#"


# Comments


@pytest.fixture
def copied(lab: str, tmp_path: Path) -> str:
    return str(copy_of(lab, tmp_path))


@pytest.mark.long
def test_a_change_is_accepted_noted_and_removed(copied: str) -> None:
    db = ("--db", copied)

    def ops(*options: str) -> list[object]:
        return [row["op"] for row in rows("regressions", *options, *db) if row["what"] == "op"]

    given = ("model=net", "--op", "addmm@0", "--accept", "new tokenizer", "--author", "ann")
    done = run_etq("comment", "18", *given, *db)
    assert (done.exit_code, done.stderr) == (0, "accepted, number 1\n")
    assert ops() == []
    [row] = [row for row in rows("regressions", "--accepted", *db) if row["what"] == "op"]
    assert [row[name] for name in ("op", "is_accepted", "comment", "author")] == ["addmm", True, "new tokenizer", "ann"]
    assert "; accepted: new tokenizer" in run_etq("trend", "--op", "addmm", *db).stdout
    [comment] = rows("comment", *db)
    names = ("number", "verdict", "series", "what", "item", "over", "first_bad", "text", "author")
    assert [comment[name] for name in names] == [
        1, "accepted", "model=net", "op", "addmm@0", "build", "18", "new tokenizer", "ann"
    ]  # fmt: skip
    assert run_etq("comment", "--remove", "1", *db).stderr == "comment 1 removed\n"
    assert run_etq("comment", "18", "--all", "--note", "a bug, see 12", *db).stderr == "noted, number 1\n"
    assert ops() == ["addmm"] and {row["comment"] for row in rows("regressions", *db)} == {"a bug, see 12"}
    # The level begins anew where a change is accepted: builds 25 to 30 are too few to be judged by.
    run_etq("comment", "25", *given, *db)
    drawn = run_etq("trend", "--op", "addmm", *db)
    assert "more builds would show" not in drawn.stdout
    assert drawn.stderr == (
        "Note: 6 of 30 captures not judged: in fewer than 8 builds before or after an accepted change\n"
    )


def test_wrong_comments(lab: str) -> None:
    for command, error in (
        ("18", "a change needs --accept TEXT or --note TEXT"),
        ("18 --accept x --note y", "a change needs --accept TEXT or --note TEXT"),
        ("18 --accept x --all --op addmm", "give one of --op, --module, --metric, --total and --all"),
        ("31 --accept x", "no capture has build 31"),
        ("--remove 7", "no comment has the number 7; etq comment lists them"),
    ):
        done = run_etq("comment", *command.split(), "--db", lab)
        assert done.exit_code != 0 and error in done.stderr
