"""`etq trend` and `etq regressions`: charts and text."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import etq
from etq.cli import main
from etq.render.terminal import BARS, WIDTH, TerminalStyle, sparkline
from tests.batches import Labelled, ingest_all
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
    assert result.stdout.splitlines()[0] == f"model=net: 1 capture, 3; {value} us"
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
        "Note: no total and no op changed its level for good; for the values: etq trend; "
        "captures are in the order of build\n"
    )
    assert invoke("regressions", "--format", "csv", "--db", lab).stderr == ""


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
