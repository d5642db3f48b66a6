"""`etq compare`: arguments, output, and the exit status of a gate."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result

import etq
from tests.asserts import csv_rows
from tests.builders import dump, execute, kernel, run
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.sampling import thinned
from tests.sql.planting import make_lab, plant

FLEET = CAPTURES / "fleet/mlp"
RECORD = str(CAPTURES / "mlp/mlp.etrecord")
SIDES = ("side=base", "side=new")
OP = "permute_copy in block1.down.linear @3"
PARTS = ("captures", "calls", "modules", "ops", "metrics", "startup", "findings", "sides", "parts")


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Eight captures in turns: unchanged; with an op that takes twice as long in new; with all ops 1.3 times as long.

    And ten captures, two of which (in new) take 1.5 times as long.
    """
    folder = tmp_path_factory.mktemp("labs")
    made = {"same": make_lab(folder / "same.duckdb", "mlp", 8)}
    for name, factor, instruction in (("op", 2.0, 3), ("total", 1.3, None)):
        made[name] = Path(shutil.copy(made["same"], folder / f"{name}.duckdb"))
        with etq.open(made[name]) as warehouse:
            plant(warehouse, "side=new", factor, instruction)
    made["some"] = make_lab(folder / "some.duckdb", "mlp", 10)
    with etq.open(made["some"]) as warehouse:
        plant(warehouse, "mlp01", 1.5)
        plant(warehouse, "mlp05", 1.5)
    with etq.open(made["op"]) as warehouse:
        for key in range(1, 9):
            for metric, better, value in (("speed", "higher", 50 - 20 * (key % 4 in (2, 3))), ("peak", "lower", 100)):
                warehouse.connection.execute(
                    "INSERT INTO metrics VALUES (?, NULL, ?, ?, 'x', ?, 0, NULL)",
                    [key, metric, value + key / 100, better],
                )
    return {name: str(path) for name, path in made.items()}


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Three captures a side in folders, and no warehouse."""
    for place in range(6):
        folder = tmp_path / ("base", "build=new")[place % 2]
        folder.mkdir(exist_ok=True)
        shutil.copy(FLEET / f"{place:02}.etdp", folder)
    return tmp_path


def compare(db: str, *arguments: str, sides: tuple[str, str] = SIDES) -> Result:
    return run_etq("compare", *sides, "--db", db, *arguments)


def rows_of(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return list(json.loads(result.stdout))


@pytest.mark.long
def test_the_whole_as_tables(labs: dict[str, str]) -> None:
    result = compare(labs["op"])
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert re.match(r"\d+ ops? (is|are) slower: permute_copy", lines[0])
    assert re.fullmatch(r"total: slower, \+[\d.]+ % \(.*\), p25 [\d.]+ to [\d.]+ us", lines[1])
    titles = [line for line in lines if line.endswith(":")]
    assert titles == [
        "In all:",
        "Modules, those that explain most of the difference first:",
        "Ops, those that explain most of the difference first:",
        "Metrics:",
    ]
    ops = lines[lines.index(titles[2]) + 3 :]
    assert ops[0].split()[:4] == ["permute_copy", "block1.down.linear", "3", "slower"]
    assert len(ops[: ops.index("") - 1]) == 10
    assert ops[ops.index("") - 1].startswith("own change: without the common shift of all ops (")
    assert len(compare(labs["op"], "--limit", "2").stdout.splitlines()) == len(lines) - 16


@pytest.mark.long
def test_equal_sides_have_no_note(labs: dict[str, str]) -> None:
    result = compare(labs["same"], "--min-effect", "5%")
    assert result.stdout.startswith("total: about the same, ") and "!" not in result.stdout


@pytest.mark.long
def test_the_whole_in_markdown(labs: dict[str, str], tmp_path: Path) -> None:
    result = compare(labs["total"], "--format", "markdown")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("**total: slower, +") and lines[0].endswith("**")
    assert any(line.startswith("- **common shift**: the whole program is slower by ") for line in lines)
    assert [line for line in lines if line.startswith("### ")][0] == "### In all"
    for table in result.stdout.split("### ")[1:]:
        widths = {line.count(" | ") for line in table.splitlines() if line.startswith("| ")}
        assert len(widths) == 1
    report = tmp_path / "report.md"
    assert compare(labs["total"], "-o", str(report)).stdout == ""
    assert report.read_text() == result.stdout
    again = compare(labs["total"], "-o", str(report))
    assert again.exit_code == 1 and "report.md" in again.stderr


@pytest.mark.long
def test_regressions_are_in_the_comment(labs: dict[str, str], tmp_path: Path) -> None:
    comment = tmp_path / "comment.md"
    result = compare(labs["op"], "--fail-on", "slower", "-o", str(comment))
    printed = [line.removeprefix("Regression: ") for line in result.stderr.splitlines() if "Regression: " in line]
    assert result.exit_code == 3 and any("permute_copy" in what for what in printed), printed
    section = comment.read_text().split("### Regressions\n\n")[1].split("\n\n")[0]
    assert [line.removeprefix("- ").strip("`") for line in section.splitlines()] == printed
    assert "### Regressions" not in compare(labs["same"], "--format", "markdown", "--fail-on", "slower").stdout


@pytest.mark.long
def test_the_whole_as_json(labs: dict[str, str]) -> None:
    answer = json.loads(compare(labs["op"], "--format", "json").stdout)
    assert tuple(answer) == ("captures", "calls", "modules", "ops", "metrics", "startup", "findings", "sides", "parts")
    slower = [row for row in answer["ops"] if row["verdict"] == "slower"]
    assert [(row["op"], row["instruction_id"]) for row in slower] == [("permute_copy", 3)]
    assert "block1.down" in {row["module_path"] for row in answer["modules"] if row["verdict"] == "slower"}
    assert len(answer["sides"]) == 8 and answer["findings"] == []


@pytest.mark.long
@pytest.mark.parametrize("part", thinned(PARTS, ["ops", "sides"]))
def test_each_part_is_its_view(labs: dict[str, str], part: str) -> None:
    view = "compared_captures" if part == "sides" else f"compare_{part}"
    with etq.open(labs["op"], read_only=True) as warehouse:
        columns, rows = warehouse.rows(f"FROM {view}('side=base', 'side=new')")
    found = rows_of(compare(labs["op"], "--what", part, "--format", "json"))
    assert len(found) == len(rows)
    assert [tuple(row) for row in found] == [tuple(columns)] * len(rows)
    assert [row[columns[0]] for row in found] == [row[0] for row in rows]


def test_tables_for_machines(labs: dict[str, str], tmp_path: Path) -> None:
    result = compare(labs["op"], "--format", "csv")
    rows = csv_rows(result.stdout)
    assert (len(rows), rows[0]["op"], rows[0]["verdict"]) == (24, "permute_copy", "slower")
    path = tmp_path / "modules.parquet"
    assert compare(labs["op"], "--what", "modules", "-o", str(path)).exit_code == 0
    module_paths = (
        duckdb.connect().execute(f"SELECT module_path FROM '{path}' WHERE verdict = 'slower' ORDER BY ALL").fetchall()
    )
    assert module_paths == [("",), ("block1",), ("block1.down",), ("block1.down.linear",)]


@pytest.mark.long
def test_options_reach_the_views(labs: dict[str, str]) -> None:
    given = ("--what", "ops", "--format", "json")
    [slower] = [row for row in rows_of(compare(labs["op"], *given, "--unit", "ns")) if row["verdict"] == "slower"]
    assert slower["unit"] == "ns" and slower["change_percent"] == pytest.approx(100, abs=8)
    asked = {
        ("--min-effect", "50%"): 1,
        ("--min-effect", "0.5"): 1,
        ("--min-effect", "150%"): 0,
        ("--alpha", "1e-15"): 0,
        ("--quantile", "0.5"): 1,
        ("--quantile", "0.9", "--min-effect", "0.5"): 1,
    }
    for options, count in asked.items():
        rows = rows_of(compare(labs["op"], *given, *options))
        assert len([row for row in rows if row["verdict"] == "slower"]) == count, options


@pytest.mark.parametrize("effect", ["3", "much", "-1%", "nan", "1e9%", "", "%", "1000%"])
def test_invalid_effects(labs: dict[str, str], effect: str) -> None:
    result = compare(labs["op"], "--min-effect", effect)
    assert result.exit_code == 2 and "--min-effect" in result.stderr


def test_an_effect_without_its_sign(labs: dict[str, str]) -> None:
    """3 would be three times as long: a gate that never closes."""
    assert "3 would be 300% of a time; did you mean 3%?" in compare(labs["op"], "--min-effect", "3").stderr


@pytest.mark.parametrize(
    ("lab", "options", "status", "expected_lines"),
    [
        ("same", ("--fail-on", "slower"), 0, ["Unclear: total of forward: not decided"]),
        pytest.param(
            "same",
            ("--fail-on", "slower", "--fail-on", "unclear"),
            3,
            ["Unclear: total of forward: not decided"],
            marks=pytest.mark.long,
        ),
        # The interval lies within 5 %.
        ("same", ("--fail-on", "unclear", "--min-effect", "5%"), 0, []),
        ("op", (), 0, []),
        ("op", ("--fail-on", "slower"), 3, ["Regression: total of forward", f"Regression: {OP}"]),
        ("op", ("--fail-on", "total"), 3, ["Regression: total of forward"]),
        pytest.param("op", ("--fail-on", "total", "--min-effect", "30%"), 0, [], marks=pytest.mark.long),
        ("op", ("--fail-on", "slower", "--min-effect", "30%"), 3, [f"Regression: {OP}"]),
        ("op", ("--fail-on", "unclear"), 0, ["Regression: total of forward"]),
        ("total", ("--fail-on", "slower"), 3, ["Regression: total of forward"]),
        ("some", ("--fail-on", "slower"), 3, ["Unclear: total of forward: unstable"]),
        pytest.param(
            "some", ("--fail-on", "total"), 3, ["Unclear: total of forward: unstable"], marks=pytest.mark.long
        ),
        pytest.param(
            "some", ("--fail-on", "unclear"), 3, ["Unclear: total of forward: unstable"], marks=pytest.mark.long
        ),
        pytest.param("op", ("--fail-on", "slower", "--metric", "peak"), 0, [], marks=pytest.mark.long),
        ("op", ("--fail-on", "slower", "--metric", "speed"), 3, ["Regression: speed"]),
        ("op", ("--fail-on", "slower", "--metric", "speed", "--metric", "peak"), 3, ["Regression: speed"]),
    ],
)
def test_gates(
    labs: dict[str, str], lab: str, options: tuple[str, ...], status: int, expected_lines: list[str]
) -> None:
    result = compare(labs[lab], "--what", "captures", *options)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("Note: ")]
    assert (result.exit_code, lines) == (status, expected_lines)
    assert result.stdout.startswith("what")


@pytest.mark.long
def test_gates_without_a_verdict(labs: dict[str, str]) -> None:
    few = compare(labs["op"], "--fail-on", "slower", sides=("mlp00", "mlp01"))
    assert few.exit_code == 0 and few.stderr == "Unclear: total of forward: too few captures to tell\n"
    assert compare(labs["op"], "--fail-on", "unclear", sides=("mlp00", "mlp01")).exit_code == 3
    metric = run_etq("gate", "mlp00", "mlp01", "--metric", "speed", "--db", labs["op"])
    # By hand: 50.01 and 30.02.
    needed = "take at least 3 captures per side, better 5"
    assert metric.stdout == f"speed: too few captures to tell, -40.0 %, 50.01 to 30.02 x; {needed}\n"


@pytest.mark.long
def test_unstable_captures_close_a_gate(labs: dict[str, str]) -> None:
    result = run_etq("gate", *SIDES, "--db", labs["some"])
    assert result.exit_code == 3
    assert "2 of 5 captures of new took " in result.stdout
    assert run_etq("gate", *SIDES, "--db", labs["some"], "--bisect").exit_code == 125


def test_invalid_metrics(labs: dict[str, str]) -> None:
    result = compare(labs["op"], "--fail-on", "slower", "--metric", "sped")
    assert result.exit_code == 1
    assert result.stderr.endswith("Error: no metric sped on either side; there are peak, speed\n")
    alone = compare(labs["op"], "--metric", "speed")
    assert alone.exit_code == 2 and "--metric goes with --fail-on" in alone.stderr


@pytest.mark.parametrize(
    ("base", "new"),
    [
        ("base", "build=new"),
        pytest.param("base/*.etdp", "build=new/*.etdp", marks=pytest.mark.long),
        pytest.param("base/0[024].etdp", "build=new/0?.etdp", marks=pytest.mark.long),
        ("./base/00.etdp", "build=new/01.etdp"),
        ("**/0[024].etdp", "**/0[135].etdp"),
    ],
)
def test_files(folders: Path, monkeypatch: pytest.MonkeyPatch, base: str, new: str) -> None:
    monkeypatch.chdir(folders)
    base, new = (f"./{side}" if "=" in side and "*" not in side and "?" not in side else side for side in (base, new))
    sides = rows_of(run_etq("compare", base, new, "--what", "sides", "--format", "json"))
    count = 1 if "00" in base else 3
    assert [len([row for row in sides if row["side"] == side]) for side in ("base", "new")] == [count, count]
    assert sorted(row["capture"] for row in sides if row["side"] == "base") == ["00", "02", "04"][:count]
    assert sorted(path.name for path in folders.iterdir()) == ["base", "build=new"]


@pytest.mark.long
def test_files_with_their_record(folders: Path) -> None:
    result = run_etq(
        "compare", str(folders / "base"), str(folders / "build=new"), "--etrecord", RECORD, "--format", "json"
    )
    answer = json.loads(result.stdout)
    assert {row["method"] for row in answer["captures"] if row["what"] == "total"} == {"forward"}
    assert "block1.down" in {row["module_path"] for row in answer["modules"]}
    without = run_etq("compare", str(folders / "base"), str(folders / "build=new"), "--format", "json")
    assert json.loads(without.stdout)["modules"] == []


@pytest.mark.parametrize(
    ("base", "new", "message"),
    [
        ("base/00.etdp", "base/none.etdp", "base/none.etdp: no such file"),
        ("base/00.etdp", "none.etdp", "none.etdp: no such file"),
        ("none/*.etdp", "base", "none/*.etdp: no such files"),
        ("base/00.etdp", "base/00.etdp", "base/00.etdp: has the same content as base/00.etdp: not compared twice"),
        ("base", "base/*.etdp", "base/00.etdp: has the same content as "),
        ("base/00.etdp", "run", "run is not a file, but the other side is; ingest both, or name files on both sides"),
        ("none.etdp", "other.etdp", "none.etdp: no such file"),
        ("run", "other", "no such file; make a warehouse"),
        (RECORD, "base/00.etdp", "mlp.etrecord: "),
    ],
)
def test_invalid_files(folders: Path, monkeypatch: pytest.MonkeyPatch, base: str, new: str, message: str) -> None:
    monkeypatch.chdir(folders)
    (folders / "none").mkdir()
    base, new = (f"./{side}" if side == "base" else side for side in (base, new))
    result = run_etq("compare", base, new)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.startswith("Error: ") and message in result.stderr and result.stderr.count("\n") == 1


def test_a_mistyped_file_beside_a_warehouse(labs: dict[str, str]) -> None:
    result = run_etq("compare", "mlp_xx.etdp", str(CAPTURES / "mlp/mlp.etdp"), "--db", labs["same"])
    assert (result.exit_code, result.stderr) == (1, "Error: mlp_xx.etdp: no such file\n")


@pytest.mark.long
def test_invalid_selectors(labs: dict[str, str]) -> None:
    for sides, message in (
        (("side=base", "side=old"), "no capture matches side=old: none has side=old; values are base, new"),
        (("side=base", "model=mlp"), "is on both sides, side=base and model=mlp"),
        (("[", "side=new"), "no capture matches [; there are "),
    ):
        result = compare(labs["same"], sides=sides)
        assert result.exit_code == 1 and message in result.stderr and result.stderr.count("\n") == 1
    assert "--etrecord is of files" in compare(labs["same"], "--etrecord", RECORD).stderr
    assert compare(labs["same"], "--phase", "decoding").exit_code == 2
    assert "has an execute of phase decode to compare" in compare(labs["same"], "--phase", "decode").stderr


@pytest.mark.long
def test_names_of_any_letters(tmp_path: Path) -> None:
    """Texts from files and labels neither move the cursor of a terminal nor break a table."""
    db = str(tmp_path / "lab.duckdb")
    evil = "\x1b[2Jop|`x`\n<b>"
    with etq.open(db) as warehouse:
        for place in range(6):
            events = [kernel(evil, 0, 1001 + 500 * (place % 2) + place), execute(0, 2001 + 500 * (place % 2) + place)]
            name = f"{evil}{place}"
            capture = warehouse.ingest(dump(run("Execute", *events)), name=name)
            # etq refuses such a label; other programs may write one.
            row = [capture.capture_id, f"{evil}{place % 2}"]
            warehouse.connection.execute("INSERT INTO labels VALUES (?, 'b', ?)", row)
    for form in ("table", "markdown"):
        result = compare(db, "--format", form, "--fail-on", "slower", sides=(f"b={evil}0", f"b={evil}1"))
        assert result.exit_code == 3
        for stream in (result.stdout, result.stderr):
            assert "\x1b" not in stream and "<b>\n0" not in stream
        assert "slower" in result.stdout and "Regression: " in result.stderr
        if form == "markdown":
            [line] = [
                line
                for line in result.stdout.splitlines()
                if line.startswith("| ") and "op" in line and "slower" in line
            ]
            heads = [line for line in result.stdout.splitlines() if line.startswith("| op |")]
            assert line.replace("\\|", "").count("|") == heads[0].count("|")
    error = compare(db, sides=(f"b={evil}9", f"b={evil}1"))
    assert error.exit_code == 1 and "\x1b" not in error.stderr and error.stderr.count("\n") == 1


@pytest.mark.long
def test_a_record_of_another_program_is_reported(folders: Path) -> None:
    files = (str(folders / "base"), str(folders / "build=new"))
    wrong = str(CAPTURES / "convnet/convnet.etrecord")
    lines = compare("none.duckdb", "--etrecord", wrong, sides=files).stderr.splitlines()
    assert len(lines) == 6 and all(line.startswith("Warning: 0") and "foreign record" in line for line in lines)
    assert "foreign" not in compare("none.duckdb", "--etrecord", RECORD, sides=files).stderr
