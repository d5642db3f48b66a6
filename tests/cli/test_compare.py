"""`etq compare` and `etq gate`: arguments, output, exit statuses; `git bisect run` over builds that log real captures."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import duckdb
import numpy as np
import pytest
from click.testing import Result

import etq
from etq.report.difference import difference_of
from tests.asserts import csv_rows
from tests.batches import Labelled, ingest_all
from tests.builders import AllocationEvent, dump, execute, framework, kernel, run
from tests.cli.asked import rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.slower import slower
from tests.sql.planting import make_lab, plant
from tests.trace_pairs import Planted, trained
from tests.warehouses import copy_of

FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))
RECORD = str(CAPTURES / "mlp/mlp.etrecord")
SIDES = ("side=base", "side=new")
OP = "permute_copy in block1.down.linear @3"


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Eight captures in turns: unchanged; with an op that takes twice as long in new; with all ops 1.3 times as long.

    And ten captures, two of which (in new) take 1.5 times as long.
    """
    folder = tmp_path_factory.mktemp("labs")
    made = {"same": make_lab(folder / "same.duckdb", "mlp", 8)}
    for name, factor, instruction in (("op", 2.0, 3), ("total", 1.3, None)):
        made[name] = copy_of(made["same"], folder / f"{name}.duckdb")
        with etq.open(made[name]) as warehouse:
            plant(warehouse, "side=new", factor, instruction)
    made["some"] = make_lab(folder / "some.duckdb", "mlp", 10)
    with etq.open(made["some"]) as warehouse:
        plant(warehouse, "mlp01", 1.5)
        plant(warehouse, "mlp05", 1.5)
    metrics = [
        (key, None, metric, value + key / 100, "x", better, 0, None)
        for key in range(1, 9)
        for metric, better, value in (
            ("speed", "higher", 50 - 20 * (key % 4 in (2, 3))),
            ("peak", "lower", 100),
            ("loss", None, 3),
        )
    ]
    with etq.open(made["op"]) as warehouse:
        warehouse.connection.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?, ?)", metrics)
    return {name: str(path) for name, path in made.items()}


def compare(db: str, *arguments: str, sides: tuple[str, str] = SIDES) -> Result:
    return run_etq("compare", *sides, "--db", db, *arguments)


@pytest.mark.long
def test_the_whole_as_tables(labs: dict[str, str]) -> None:
    result = compare(labs["op"])
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert re.match(r"\d+ ops? (is|are) slower: permute_copy", lines[0])
    assert re.fullmatch(r"total: slower, \+[\d.]+ % \(.*\), p25 [\d.]+ to [\d.]+ us", lines[1])
    titles = [line for line in lines if line.endswith(":")]
    most = "those that explain most of the difference first:"
    assert titles == ["In all:", f"Modules, {most}", f"Ops, {most}", "Metrics:"]
    ops = [line.split()[:4] for line in lines if re.match(r"(permute_copy|addmm) ", line)]
    assert ops[0] == ["permute_copy", "block1.down.linear", "3", "slower"] and len(ops) == 10
    assert result.stdout.count("own change: without the common shift of all ops (") == 2
    two = compare(labs["op"], "--limit", "2").stdout
    assert "In all rows: op = permute_copy, kind = kernel, unit = us" in two and "addmm" not in two
    equal = compare(labs["same"], "--min-effect", "5%").stdout
    assert equal.startswith("total: about the same, ") and "!" not in equal


@pytest.mark.long
def test_the_whole_in_markdown_with_its_regressions(labs: dict[str, str], tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    result = compare(labs["total"], "-o", str(report))
    assert (result.exit_code, result.output) == (0, "")
    text = report.read_text()
    lines = text.splitlines()
    assert lines[0].startswith("**total: slower, +") and lines[0].endswith("**")
    assert any(line.startswith("- **common shift**: the whole program took ") for line in lines)
    for table in text.split("### ")[1:]:
        assert len({line.count(" | ") for line in table.splitlines() if line.startswith("| ")}) <= 1
    gated = run_etq("gate", *SIDES, "--db", labs["total"]).stderr
    printed = [line.removeprefix("Regression: ") for line in gated.splitlines() if "Regression: " in line]
    listed = text.split("### Regressions\n\n")[1].split("\n\n")[0].splitlines()
    assert [line.removeprefix("- ").strip("`") for line in listed] == printed != []


@pytest.mark.long
def test_the_whole_as_json(labs: dict[str, str]) -> None:
    answer = json.loads(compare(labs["op"], "--format", "json").stdout)
    assert [*answer] == "captures calls modules ops metrics startup memory findings sides parts".split()
    slower_ops = [(row["op"], row["instruction_id"]) for row in answer["ops"] if row["verdict"] == "slower"]
    assert slower_ops == [("permute_copy", 3)]
    assert "block1.down" in {row["module_path"] for row in answer["modules"] if row["verdict"] == "slower"}
    assert len(answer["sides"]) == 8 and answer["findings"] == []


@pytest.mark.long
def test_tables_for_machines(labs: dict[str, str], tmp_path: Path) -> None:
    found = csv_rows(compare(labs["op"], "--format", "csv").stdout)
    assert (len(found), found[0]["op"], found[0]["verdict"]) == (24, "permute_copy", "slower")
    path = tmp_path / "modules.parquet"
    assert compare(labs["op"], "--what", "modules", "-o", str(path)).exit_code == 0
    slow = duckdb.execute(f"SELECT module_path FROM '{path}' WHERE verdict = 'slower' ORDER BY ALL").fetchall()
    assert slow == [("",), ("block1",), ("block1.down",), ("block1.down.linear",)]


@pytest.mark.long
def test_invalid_effects_metrics_and_selectors(labs: dict[str, str]) -> None:
    for effect in ("much", "-1%", "nan", "1e9%", "", "%", "1000%"):
        result = compare(labs["op"], "--min-effect", effect)
        assert result.exit_code == 2 and "--min-effect" in result.stderr
    # 3 would be three times as long: a gate that never closes.
    assert "3 would be 300% of a time; did you mean 3%?" in compare(labs["op"], "--min-effect", "3").stderr
    for sides, options, message in (
        (SIDES, ("--phase", "decode"), "has an execute of phase decode to compare"),
        (("side=base", "side=old"), (), "no capture matches side=old: none has side=old; values are base, new"),
        (("side=base", "model=mlp"), (), "is on both sides, side=base and model=mlp"),
        (("[", "side=new"), (), "no capture matches [; there are "),
    ):  # fmt: skip
        result = compare(labs["op"], *options, sides=sides)
        assert result.exit_code == 1 and message in result.stderr, result.stderr


PASSES = "Note: an unclear result passes, with status 0"
UNCLEAR, UNSTABLE = ["Unclear: total of forward: not decided", PASSES], ["Unclear: total of forward: unstable"]
TOTAL, SPEED = ["Regression: total of forward"], ["Regression: speed"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("lab", "options", "status", "expected"),
    [
        ("same", "", 0, UNCLEAR),
        ("same", "--min-effect 5%", 0, []),  # the interval lies within 5 %
        ("op", "", 3, [*TOTAL, f"Regression: {OP}"]),
        ("op", "--min-effect 30%", 3, [f"Regression: {OP}"]),
        ("total", "", 3, TOTAL),
        ("some", "", 3, UNSTABLE),
        ("op", "--metric speed --metric peak", 3, SPEED),
        ("op", "--metric sped", 1, ["Error: no metric sped on either side; there are loss, peak, speed"]),
        (
            "op",
            "--metric peak --metric loss",
            1,
            [
                "Error: it is unknown which direction of the metric loss is better, so it can't be judged; etq label CAPTURE "
                "--metric loss=VALUE --better higher (or lower) says so"
            ],
        ),
    ],
)
def test_gates(labs: dict[str, str], lab: str, options: str, status: int, expected: list[str]) -> None:
    result = run_etq("gate", *SIDES, "--db", labs[lab], *options.split())
    assert (result.exit_code, result.stderr.splitlines()) == (status, expected)


@pytest.mark.long
def test_gates_without_a_verdict(labs: dict[str, str]) -> None:
    one = ("mlp00", "mlp01")
    few = run_etq("gate", *one, "--db", labs["op"])
    assert few.exit_code == 0
    sides = "side: base in all of base, new in all of new"
    assert few.stderr == (
        f"Note: labels differ: {sides}; this may be the reason for differences\n"
        f"Unclear: total of forward: too few captures to tell\n{PASSES}\n"
    )
    assert run_etq("gate", *one, "--db", labs["op"], "--bisect").exit_code == 125
    metric = run_etq("gate", *one, "--metric", "speed", "--db", labs["op"])
    # By hand: 50.01 and 30.02.
    needed = "take at least 3 captures per side, better 5"
    assert metric.stdout == f"speed: too few captures to tell, -40.0 %, 50.01 to 30.02 x; {needed}\n"
    [row] = rows("gate", *one, "--metric", "speed", "--db", labs["op"])
    assert row == {
        "what": "metric", "name": "speed", "verdict": "too few", "change_percent": pytest.approx(100 * (30.02 / 50.01 - 1)),
        "base": 50.01, "new": 30.02, "unit": "x", "note": needed,
    }  # fmt: skip
    gated = run_etq("gate", *SIDES, "--db", labs["op"], "--format", "json")
    judged = json.loads(gated.stdout)
    assert gated.exit_code == 3
    assert [judged[0][name] for name in ("what", "name", "verdict")] == ["total", "forward", "slower"]
    assert [row["name"] for row in judged if row["what"] == "op" and row["verdict"] == "slower"] == [OP]
    total = run_etq("gate", *SIDES, "--total", "--db", labs["op"], "--format", "json")
    assert total.exit_code == 3 and json.loads(total.stdout) == judged[:1]
    assert run_etq("gate", *SIDES, "--db", labs["some"], "--bisect").exit_code == 125


# For CI


def annotated(text: str) -> list[tuple[str, str, str]]:
    """Level, properties and message of the annotations in an output."""
    return re.findall(r"^::(error|warning|notice) (.*?)::(.*)$", text, re.MULTILINE)


@pytest.mark.long
def test_annotations(labs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The op at instruction 3 is a weight's permute of `LinReLU`, whose forward is line 21 of the file that exported
    it: there, if the checkout has the file in one of its folders. The first annotation is of the total.
    """
    command = ("gate", *SIDES, "--db", labs["op"], "--format", "github")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    result = run_etq(*command)
    assert (result.exit_code, result.stderr) == (3, "")
    total, op = annotated(result.stdout)
    assert total[:2] == ("error", "title=etq gate") and total[2].startswith("total: slower, +")
    assert op[:2] == ("error", "file=models/export_models.py,line=21,title=etq gate")
    assert re.fullmatch(rf"{OP}: slower, \+\d+\.\d %25", op[2]), op
    assert result.stdout.splitlines()[-1] == "judged: total, 24 ops, slow runs, loading"
    for folder, file in ((tmp_path, "export_models.py"), (tmp_path / "lab", "src/models/export_models.py")):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
        with etq.open(labs["op"]) as warehouse:
            warehouse.connection.execute("UPDATE signature_ops SET source_file = '/build/src/models/export_models.py'")
        try:
            assert annotated(run_etq(*command).stdout)[1][1] == f"file={file},line=21,title=etq gate"
        finally:
            with etq.open(labs["op"]) as warehouse:
                warehouse.connection.execute("UPDATE signature_ops SET source_file = 'models/export_models.py'")


@pytest.mark.long
@pytest.mark.parametrize(
    ("lab", "options", "levels"),
    [
        ("same", "", ["notice"]),  # of a total that is not decided
        ("some", "--total", ["error"]),  # unstable
        ("op", "--metric speed --metric peak", ["error", "notice"]),
        ("op", "--min-effect 30% --total", ["notice"]),
    ],
)
def test_levels_agree_with_the_status(labs: dict[str, str], lab: str, options: str, levels: list[str]) -> None:
    result = run_etq("gate", *SIDES, "--db", labs[lab], *options.split(), "--format", "github")
    assert [level for level, *_ in annotated(result.stdout)] == levels
    assert result.exit_code == (3 if "error" in levels else 0)


def junit_of(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text)
    [suite] = root.findall("testsuite")
    counts = {name: str(len(suite.findall(f"testcase/{path}"))) for name, path in COUNTED.items()}
    assert {name: suite.get(name) for name in COUNTED} == counts and suite.get("tests") == str(
        len(suite.findall("testcase"))
    )
    return suite


COUNTED = {"failures": "failure", "skipped": "skipped"}


@pytest.mark.long
def test_a_report_for_junit(labs: dict[str, str], tmp_path: Path) -> None:
    """A test case per total and op, as JSON has them; what is slower fails with its sentence."""
    target = tmp_path / "gate.xml"
    result = run_etq("gate", *SIDES, "--db", labs["op"], "--format", "junit", "-o", str(target))
    assert result.exit_code == 3 and result.stderr.endswith(f"Regression: {OP}\n")
    suite = junit_of(target.read_text())
    judged = json.loads(run_etq("gate", *SIDES, "--db", labs["op"], "--format", "json").stdout)
    cases = {(case.get("classname"), case.get("name")): case for case in suite.findall("testcase")}
    assert [*cases] == [(f"etq.{row['what']}", row["name"]) for row in judged] and len(cases) == 26
    failed = {name: case.find("failure") for (_, name), case in cases.items() if case.find("failure") is not None}
    assert [*failed] == ["forward", OP]
    assert [str(each.get("message"))[:15] for each in failed.values() if each is not None] == [
        "total: slower, ", "permute_copy in",
    ]  # fmt: skip
    few = junit_of(run_etq("gate", "mlp00", "mlp01", "--db", labs["op"], "--format", "junit").stdout)
    assert "too few captures to tell" in str(few.findall("testcase/skipped")[0].get("message"))
    unstable = junit_of(run_etq("gate", *SIDES, "--total", "--db", labs["some"], "--format", "junit").stdout)
    assert unstable.get("failures") == "1"


# Files


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three captures a side in folders, and no warehouse."""
    monkeypatch.chdir(tmp_path)
    for place, path in enumerate(FLEET[:6]):
        folder = tmp_path / ("base", "build=new")[place % 2]
        folder.mkdir(exist_ok=True)
        shutil.copy(path, folder)
    return tmp_path


@pytest.mark.parametrize(
    ("base", "new", "count"),
    [
        ("./base", "./build=new", 3),
        ("./base/00.etdp", "./build=new/01.etdp", 1),
        ("**/0[024].etdp", "**/0[135].etdp", 3),
    ],
)
def test_files(folders: Path, base: str, new: str, count: int) -> None:
    sides = rows("compare", base, new, "--what", "sides")
    assert [row["capture"] for row in sides if row["side"] == "new"] == ["01", "03", "05"][:count]
    assert sorted(row["capture"] for row in sides if row["side"] == "base") == ["00", "02", "04"][:count]
    assert sorted(path.name for path in folders.iterdir()) == ["base", "build=new"]


@pytest.mark.long
def test_folders_are_meant_beside_a_warehouse(folders: Path) -> None:
    """A warehouse named by --db has captures of the names of folders, which are then written with a slash."""
    (folders / "build=new").rename("new")
    expected = run_etq("compare", "base", "new").stdout
    for name, path in (("base", FLEET[10]), ("new", FLEET[11])):
        assert run_etq("ingest", str(path), "--name", name).exit_code == 0
    assert run_etq("compare", "base", "new").stdout == expected
    sides = rows("compare", "base", "new", "--db", "etq.duckdb", "--what", "sides")
    assert [row["capture"] for row in sides] == ["base", "new"]
    result = run_etq("compare", "base", "none", "--db", "etq.duckdb")
    assert result.stderr == "Error: no capture matches none; there are base, new\n"
    (folders / "none").mkdir()
    result = run_etq("compare", "base", "none", "--db", "etq.duckdb")
    assert result.stderr == "Error: no capture matches none; there are base, new; the folder is ./none\n"


def test_invalid_files(folders: Path) -> None:
    (folders / "none").mkdir()
    for base, new, message in (
        ("base/00.etdp", "none.etdp", "none.etdp: no such file"),
        ("none/*.etdp", "./base", "none/*.etdp: no such files"),
        ("./base", "base/*.etdp", "base/00.etdp: the same content as "),
        ("base/00.etdp", "run", "run: no such file or folder; name files on both sides, or ingest both"),
        (RECORD, "base/00.etdp", "mlp.etrecord: "),
    ):
        result = run_etq("compare", base, new)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: ") and message in result.stderr and result.stderr.count("\n") == 1


# `etq gate`


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of captures: good ones, equally fast ones, and ones with a slower op."""
    folder_of_all = tmp_path_factory.mktemp("sides")
    for folder, files in (("good", FLEET[:10:2]), ("fast", FLEET[1:10:2]), ("slow", FLEET[1:10:2])):
        (folder_of_all / folder).mkdir()
        for path in files:
            content = slower(path, "native_call_addmm.out", 4, 1.3) if folder == "slow" else path.read_bytes()
            (folder_of_all / folder / path.name).write_bytes(content)
    return folder_of_all


@pytest.mark.long
@pytest.mark.parametrize(
    ("new", "options", "status"),
    [
        ("slow", [], 3), ("slow", ["--bisect"], 1), ("slow/01.etdp", ["--bisect"], 125), ("fast", ["--startup"], 0),
        ("nowhere", ["--bisect"], 125), ("nowhere", [], 1),
    ],
)  # fmt: skip
def test_statuses(sides: Path, monkeypatch: pytest.MonkeyPatch, new: str, options: list[str], status: int) -> None:
    """The first line agrees with the status."""
    monkeypatch.chdir(sides)
    result = run_etq("gate", "good", new, *options)
    assert result.exit_code == status, result.output
    is_found = new == "slow" and options in ([], ["--bisect"])
    assert ("Regression: addmm @4" in result.stderr) == is_found
    if is_found:
        first, second, judged = result.stdout.splitlines()
        assert first.startswith("1 op is slower: addmm @4 +") and second.startswith("total: not decided, ")
        assert re.fullmatch(r"judged: total, \d+ ops, slow runs, loading", judged)


def of_once(load: int, size: int, place: int) -> bytes:
    """A load of about so many us, and five executes of 100 us that allocate so many bytes with two allocators."""
    allocated = (AllocationEvent(1, size - 1_000), AllocationEvent(2, 1_000))
    loading = run("Load", framework("Program::load_method", 0, 1_000 * load + 7_000 * (place // 2) + place))
    executes = [
        run(
            "Execute",
            *allocated,
            kernel("mm", 5, 90_000 + 97 * at, 0),
            execute(0, 100_000 + 89 * at + 31 * place),
            allocators=("a", "b"),
        )
        for at in range(5)
    ]
    return dump(loading, *executes)


@pytest.mark.long
@pytest.mark.parametrize(
    ("load", "size", "worse"),
    [(11_500, 80_000, ["loading", "allocated memory"]), (1_100, 60_000, [])],
)
def test_loading_and_memory(tmp_path: Path, load: int, size: int, worse: list[str]) -> None:
    """Loading takes 1.2 ms in base, which allocates 64,000 bytes: both fail a gate, but not one of the total alone.

    Commands, JSON, Markdown, pages and Python say the same.
    """
    db = str(tmp_path / "lab.duckdb")
    made = []
    for place in range(8):
        side, given = (("base", (1_200, 64_000)), ("new", (load, size)))[place % 2]
        made.append(Labelled(f"c{place}", of_once(*given, place), {"side": side}, datetime(2026, 1, 1, place)))
    with etq.open(db) as warehouse:
        ingest_all(warehouse, made)
        lines = [line.partition(":")[0] for line in warehouse.compare(*SIDES).verdicts]
        sections = {each.kind: each for each in difference_of(warehouse, *SIDES, {}).sections}
    assert [line for line in lines if line in ("loading", "allocated memory")] == ["loading", "allocated memory"]
    assert [each for each in sections["verdict"].facts["tails"] if each.partition(":")[0] in worse] != [] or not worse
    assert {"compared_startup", "compared_memory"} <= {*sections}
    result = run_etq("gate", *SIDES, "--db", db)
    assert result.exit_code == (3 if worse else 0), result.output
    assert [line.partition(": ")[2] for line in result.stderr.splitlines() if "Regression" in line] == worse
    assert result.stdout.splitlines()[-1] == "judged: total, 1 op, slow runs, loading, memory"
    verdicts = {
        row["name"]: row["verdict"]
        for row in json.loads(run_etq("gate", *SIDES, "--db", db, "--format", "json").stdout)
    }
    assert [name for name, verdict in verdicts.items() if verdict in ("slower", "worse")] == worse
    if not worse:
        return
    markdown = run_etq("compare", *SIDES, "--db", db, "--format", "markdown").stdout
    assert [line[2:] for line in markdown.splitlines() if line.startswith("- ") and line[2:] in verdicts] == worse
    whole = json.loads(run_etq("compare", *SIDES, "--db", db, "--format", "json").stdout)
    assert [row["verdict"] for row in whole["memory"]] == [verdicts["allocated memory"]]
    assert [row["verdict"] for row in whole["startup"] if row["what"] == "load"] == [verdicts["loading"]]
    total = run_etq("gate", *SIDES, "--db", db, "--total")
    assert (total.exit_code, total.stdout.splitlines()[-1]) == (0, "judged: total, slow runs")


@pytest.mark.long
def test_slow_runs_are_not_judged_by_two_captures_a_side() -> None:
    folder = CAPTURES / "fleet/mlp"
    result = run_etq("gate", f"{folder}/0[03].etdp", f"{folder}/0[12].etdp")
    assert result.stdout.splitlines()[-1] == "judged: nothing; not judged: total, 24 ops, loading"


def test_memory_of_single_captures(tmp_path: Path) -> None:
    """Sizes have no noise: one capture per side is enough, but not for loading."""
    for name, given in (("base", (1_200, 64_000)), ("new", (11_500, 80_000))):
        (tmp_path / f"{name}.etdp").write_bytes(of_once(*given, 0))
    result = run_etq("gate", str(tmp_path / "base.etdp"), str(tmp_path / "new.etdp"))
    assert (result.exit_code, "Regression: allocated memory\n" in result.stderr) == (3, True), result.output
    assert result.stdout.splitlines()[-1] == "judged: memory; not judged: total, 1 op, loading"


@pytest.mark.long
def test_instances_of_an_op_are_one_cause(tmp_path: Path) -> None:
    """Six of ten ops are instances of one, and take 50 % more: 13.5 us of 27. They are one row with the instances below
    it, and no common shift of all ops.
    """
    ops = [("addmm", 200), ("relu", 30), ("gelu", 50), ("conv", 90), *(("permute_copy", at) for at in range(2, 8))]
    made = []
    for place in range(8):
        random, side, runs = np.random.default_rng(place), ("base", "new")[place % 2], []
        for _ in range(5):
            at, events = 0, []
            for number, (op, length) in enumerate(ops):
                more = 1.5 if op == "permute_copy" and side == "new" else 1.0
                end = at + round(1_000 * length * more * random.normal(1, 0.004))
                events.append(kernel(op, at, end, number))
                at = end
            runs.append(run("Execute", *events, execute(0, at)))
        made.append(Labelled(f"c{place}", dump(*runs), {"side": side}, datetime(2026, 1, 1, place)))
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        ingest_all(warehouse, made)
    result = run_etq("gate", *SIDES, "--db", str(tmp_path / "lab.duckdb"))
    assert result.exit_code == 3
    found = re.match(r"6 ops are slower: (permute_copy, 6 instances, \+([\d.]+) %, \+([\d.]+) us)\n", result.stdout)
    assert found is not None, result.stdout
    text, *numbers = found.groups()
    assert [float(number) for number in numbers] == pytest.approx([50, 13.5], rel=0.02)
    regressions = [line for line in result.stderr.splitlines() if line.startswith("Regression: ")]
    assert [line for line in regressions if "total" not in line] == [f"Regression: {text}"]
    markdown = run_etq("compare", *SIDES, "--db", str(tmp_path / "lab.duckdb"), "--format", "markdown").stdout
    listed = markdown.partition(f"- {text}\n")[2].splitlines()[:7]
    assert sorted(re.sub(r"`| \+.*", "", line) for line in listed[:6]) == [
        f"  - permute_copy @{at}" for at in range(4, 10)
    ]
    assert listed[6] == ""
    # The instances are listed in one annotation, too, and in one item of a gate's comment.
    arguments = ("gate", *SIDES, "--db", str(tmp_path / "lab.duckdb"), "--format")
    [message] = [each for _, _, each in annotated(run_etq(*arguments, "github").stdout) if "permute_copy" in each]
    first, *instances = message.replace("%25", "%").split("%0A")
    assert first == f"6 ops are slower: {text}"
    assert sorted(line.partition(" +")[0] for line in instances) == [f"permute_copy @{at}" for at in range(4, 10)]
    assert f"- {text}\n  - " in run_etq(*arguments, "markdown").stdout


@pytest.mark.long
def test_few_common_ops(sides: Path) -> None:
    """Of different programs no op is judged, though a few of their ops have the same name."""
    result = run_etq("gate", str(sides / "good"), str(CAPTURES / "fleet/convnet"))
    assert (result.exit_code, result.stdout.startswith("total: slower, +")) == (3, True)
    note, *regressions = result.stderr.splitlines()
    assert note.endswith("no op is judged") and regressions == ["Regression: total of Execute"]


@pytest.mark.long
def test_slow_runs_of_an_op(tmp_path: Path) -> None:
    """An op that is slower in a third of its runs fails a gate by the ninth decile, unless only totals are compared, if
    the sides were measured in turns.
    """
    for number, path in enumerate(FLEET[:10]):
        changed = slower(path, "native_call_addmm.out", 4, 1.5, every=3) if number % 2 else path.read_bytes()
        folder = tmp_path / ("new" if number % 2 else "good")
        folder.mkdir(exist_ok=True)
        (folder / path.name).write_bytes(changed)
        (folder / f"{path.name}.json").write_text(f'{{"captured_at": "2026-01-01T00:{number:02}:00"}}')
    good, new = str(tmp_path / "good"), str(tmp_path / "new")
    result = run_etq("gate", good, new)
    assert result.exit_code == 3, result.output
    assert result.stdout.startswith("slow runs of 1 op (quantile 0.9) are slower: addmm @4 +")
    assert "\ntotal: " in result.stdout
    assert "Regression: slow runs of addmm @4" in result.stderr and "Regression: addmm" not in result.stderr
    assert "addmm" not in run_etq("gate", good, new, "--total").output


# PyTorch traces


SLOWER = Planted(host={"aten::conv2d": 1.5}, device={"conv_kernel": 1.5})


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of traces, and folders of three: equally fast, and slower."""
    place = tmp_path_factory.mktemp("traces")
    for side, planted in (("good", None), ("fast", None), ("slow", SLOWER)):
        (place / side).mkdir()
        for number in range(3):
            content = trained(10 * len(side) + 7 * number + ord(side[0]), planted, steps=4, has_steps=side != "fast")
            (place / side / f"{side}{number}.pt.trace.json").write_bytes(content)
    return place


@pytest.mark.parametrize(
    ("new", "options", "status"),
    [pytest.param("slow", [], 3, marks=pytest.mark.long), ("slow/slow1.pt.trace.json", ["--bisect"], 125)],
)
def test_statuses_of_traces(
    traces: Path, monkeypatch: pytest.MonkeyPatch, new: str, options: list[str], status: int
) -> None:
    """One trace per side never gives a regression, only an unclear result."""
    monkeypatch.chdir(traces)
    base = "good/good0.pt.trace.json" if new.endswith(".json") else "good"
    result = run_etq("gate", base, new, *options)
    assert result.exit_code == status, result.output
    assert ("Regression: op aten::conv2d" in result.stderr) == (new == "slow")
    assert ("Unclear: op aten::conv2d: possibly slower" in result.stderr) == new.endswith(".json")


@pytest.mark.long
def test_tables_of_traces(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(traces)
    result = run_etq("compare", "good", "slow", "--limit", "5")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("3 ops are slower: aten::conv2d on devices +")
    assert lines[1].startswith("ProfilerStep: slower, +") and lines[2].startswith("ProfilerStep on devices: slower, +")
    assert re.search("\nop +kind +own_change", result.stdout)
    parts = json.loads(run_etq("compare", "good", "slow", "--format", "json").stdout)
    kinds = {row["kind"] for row in parts["ops"] if row["verdict"] == "slower"}
    assert kinds >= {"op", "device_op", "device_kernel"} and parts["modules"] == []


@pytest.mark.long
def test_other_devices_differ(traces: Path, tmp_path: Path) -> None:
    """The same program, slower on another device: no word of a direction without --verdicts, and the table by op is
    first. Nothing of this for a slower one on the same device.
    """

    def text(device: str, *options: str) -> str:
        paths = []
        for side, name in (("good", "H100"), ("slow", device)):
            made = json.loads((traces / side / f"{side}0.pt.trace.json").read_text())
            paths.append(tmp_path / f"{side}.pt.trace.json")
            paths[-1].write_text(json.dumps(made | {"deviceProperties": [{"id": 0, "name": name}], "name": side}))
        return run_etq("compare", *map(str, paths), *options).stdout

    other, asked, alike = text("MI300X"), text("MI300X", "--verdicts"), text("H100")
    assert other.startswith("! different devices: base ran on H100, new on MI300X: ")
    assert other.splitlines()[2].startswith("What differs by op, per step and call")
    text_of_verdicts = other.split("\n", 1)[1]
    assert "ProfilerStep on devices: differs, +" in other
    assert "slower" not in text_of_verdicts and "faster" not in text_of_verdicts
    assert asked.startswith("! different devices") and "ProfilerStep on devices: possibly slower, +" in asked
    assert asked.endswith(alike) and "different devices" not in alike and "What differs by op" not in alike
    parts = json.loads(text("MI300X", "--format", "json"))
    assert {row["verdict"] for row in parts["ops"]} <= {"differs", "~", "not decided"}
    assert parts["efficiency"][0]["base_kernel"] == "conv_kernel"
