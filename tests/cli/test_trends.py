"""`etq trend` and `etq regressions`: charts and text."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import etq
from etq.cli import main
from etq.render.terminal import BARS, WIDTH, TerminalStyle, sparkline
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES
from tests.sql.test_trends import capture


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


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_trend_is_drawn(lab: str) -> None:
    result = invoke("trend", "--op", "addmm", "--db", lab)
    assert result.exit_code == 0, result.output
    head, drawn, change = result.stdout.splitlines()
    assert head.startswith("model=net: 30 captures in the order of build, 1 to 30; ")
    assert len(drawn) == 30
    assert set(drawn[:17]) <= set(BARS[:3])
    assert set(drawn[17:]) <= set(BARS[-3:])
    assert " % at 18 (b18), last good 17; p " in change
    assert change.startswith("+")


def test_few_captures_have_a_table_too(lab: str) -> None:
    result = invoke("trend", "build=3", "--db", lab)
    assert result.exit_code == 0, result.output
    [value] = {line.split()[1] for line in result.stdout.splitlines() if line.startswith("3 ")}
    head = f"model=net: 1 capture, 3; {float(value):.4g} us; times: p25 of all runs of a capture"
    assert result.stdout.splitlines()[0] == head
    assert result.stdout.splitlines()[-1].split() == ["3", *result.stdout.splitlines()[-1].split()[1:3], "5", "b3"]


def test_control_characters_in_names_are_escaped(lab: str) -> None:
    result = invoke("trend", "build=30", "--db", lab)
    assert "\x1b" not in result.stdout
    assert "b\\x1b[31mred" in result.stdout


def test_other_formats(lab: str, tmp_path: Path) -> None:
    rows = json.loads(invoke("trend", "--op", "addmm@0", "--format", "json", "--unit", "ns", "--db", lab).stdout)
    assert [row["label"] for row in rows] == [str(build) for build in range(1, 31)]
    assert [row["label"] for row in rows if row["change_percent"] is not None] == ["18"]
    target = tmp_path / "trend.csv"
    assert invoke("trend", "--db", lab, "-o", str(target)).exit_code == 0
    assert len(target.read_text().splitlines()) == 31


def test_a_note_where_nothing_changed(lab: str) -> None:
    result = invoke("regressions", "--min-effect", "40%", "--format", "csv", "--db", lab)
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == (
        "Note: no total and no op has a lasting change; for the values: etq trend; captures are in the order of build\n"
    )
    assert invoke("regressions", "--format", "csv", "--db", lab).stderr == ""


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


def test_the_last_good_commit_is_the_one_before(commits: tuple[str, list[str]]) -> None:
    lab, hashes = commits
    [change] = invoke("trend", "--op", "addmm", "--over", "commit", "--db", lab).stdout.splitlines()[2:]
    assert f" at {hashes[15][:12]} (c15.0), last good {hashes[14][:12]}; p <1e-15" in change


@pytest.mark.parametrize(("since", "found"), [(15, 1), (16, 0)])
def test_changes_since_a_commit(commits: tuple[str, list[str]], since: int, found: int) -> None:
    lab, hashes = commits
    arguments = ("--over", "commit", "--since", hashes[since][:10], "--format", "json", "--db", lab)
    rows = json.loads(invoke("regressions", *arguments).stdout)
    assert len([row for row in rows if row["op"] == "addmm"]) == found


@pytest.mark.parametrize(("over", "since", "known"), [
    ("build", "31", "1 to 30"), ("build", "abc", "1 to 30"),
])  # fmt: skip
def test_an_unknown_label_is_not_an_answer(lab: str, over: str, since: str, known: str) -> None:
    result = invoke("regressions", "--over", over, "--since", since, "--db", lab)
    assert result.exit_code == 1
    assert result.stderr == f"Error: no capture has {over} {since} or a later one; they are {known}\n"


def test_an_unknown_commit_or_time(commits: tuple[str, list[str]]) -> None:
    lab, hashes = commits
    missing = invoke("regressions", "--over", "commit", "--since", "g1", "--db", lab)
    assert missing.stderr == f"Error: no capture has commit g1; they are {hashes[0]} to {hashes[-1]}\n"
    later = invoke("regressions", "--over", "captured_at", "--since", "2026-01-01T01:00:00Z", "--db", lab)
    assert "no capture has captured_at 2026-01-01T01:00:00Z or a later one" in later.stderr


@pytest.mark.parametrize(("builds", "times", "over", "missing"), [
    (4, 8, "captured_at", ""), (5, 8, "build", "3 of 8 captures have no label build"),
    (3, 2, "build", "5 of 8 captures have no label build"), (1, 3, "captured_at", "5 of 8 captures have no captured_at"),
])  # fmt: skip
def test_captures_that_are_left_out_are_counted(
    tmp_path: Path, builds: int, times: int, over: str, missing: str
) -> None:
    """The order is by what more than half of the captures have, or else by what most have."""
    path = str(tmp_path / "lab.duckdb")
    with etq.open(path) as warehouse:
        labels: list[dict[str, str]] = [{"build": str(at)} if at < builds else {} for at in range(8)]
        ingest_all(warehouse, [Labelled(f"c{at}", capture(at), each) for at, each in enumerate(labels)])
        for at in range(8 - times, 8):
            warehouse.label(f"c{at}", captured_at=f"2026-01-01T00:{at:02}:00Z")
    note = f"Note: {missing}: left out; --over KEY chooses another order\n" if missing else ""
    in_series = 8 - int(missing[0]) if missing else 8
    drawn = invoke("trend", "--db", path)
    assert drawn.stdout.startswith(f"{in_series} captures in the order of {over}, ")
    assert drawn.stderr == note
    assert invoke("regressions", "--db", path).stderr == (
        f"Note: too few captures to find a change: the longest series has {in_series}, and 10 are needed; for the "
        f"values: etq trend; captures are in the order of {over}\n{note}"
    )


@pytest.mark.long
def test_regressions(lab: str) -> None:
    rows = json.loads(invoke("regressions", "--format", "json", "--db", lab).stdout)
    assert [(row["what"], row["op"], row["first_bad"]) for row in rows if row["what"] == "op"] == [
        ("op", "addmm", "18")
    ]
    assert json.loads(invoke("regressions", "--since", "19", "--format", "json", "--db", lab).stdout) == []
    assert json.loads(invoke("regressions", "--min-effect", "40%", "--format", "json", "--db", lab).stdout) == []


def test_what_to_compare_next(lab: str) -> None:
    done = invoke("regressions", "--db", lab)
    assert "item" in done.stdout and "addmm@" in done.stdout
    [command] = [line.removeprefix("Next: etq ") for line in done.stderr.splitlines() if line.startswith("Next: ")]
    assert command.startswith("compare 'model=net,build<18' 'model=net,build>=18' --db "), command
    assert "slower" in invoke(*shlex.split(command)).stdout
    assert "Next: " not in invoke("regressions", "--format", "csv", "--db", lab).stderr
    for form in ("csv", "table"):
        chosen = invoke("regressions", "--columns", "first_bad,item", "--format", form, "--db", lab).stdout
        assert "addmm@" in chosen and chosen.splitlines()[0].replace(",", " ").split() == ["first_bad", "item"]


@pytest.mark.long
def test_a_total_of_another_program_is_said_to_be_one(tmp_path: Path) -> None:
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        for first, model in ((1, "convnet"), (11, "convnet_xnn")):
            for at, file in enumerate(sorted((CAPTURES / "fleet" / model).glob("*.etdp"))[:10], first):
                warehouse.ingest(file, name=f"{model}{at}", labels={"build": str(at)})
    shown = invoke("regressions", "--db", str(tmp_path / "lab.duckdb")).stderr
    assert "Note: the total at 11: different programs: " in shown and "alike" not in shown


def test_wrong_usage(lab: str) -> None:
    assert invoke("trend", "--op", "a", "--module", "b", "--db", lab).exit_code == 2
    assert invoke("trend", "--min-effect", "lots", "--db", lab).exit_code == 2
    missing = invoke("trend", "--op", "gelu", "--db", lab)
    assert missing.exit_code == 1
    assert "no op gelu in these captures" in missing.stderr


def test_bars() -> None:
    assert sparkline([]) == ""
    assert sparkline([3.0, 3.0]) == BARS[0] * 2
    assert sparkline([1.0, 8.0]) == BARS[0] + BARS[-1]
    assert len(sparkline([float(at) for at in range(1000)])) == WIDTH
    assert len(sparkline([float(at) for at in range(1000)], TerminalStyle(width=40))) == 40
    assert sparkline([1.0, 8.0], TerminalStyle(has_blocks=False)) == "_#"
