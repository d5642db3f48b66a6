"""`etq report` of two sides and of series from a user's view; other tests check the pages in a browser."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import etq
import etq.report
from etq.errors import EtqError, QueryError
from tests.cli.test_report import data_of
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.slower import slower
from tests.sql.test_trends import history

FLEET = CAPTURES / "fleet/mlp"
RECORD = str(CAPTURES / "mlp/mlp.etrecord")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four captures per side; those of new have a slower op."""
    folder = tmp_path_factory.mktemp("sides")
    for place in range(8):
        side = folder / ("base", "new")[place % 2]
        side.mkdir(exist_ok=True)
        source = FLEET / f"{place:02}.etdp"
        if place % 2:
            (side / source.name).write_bytes(slower(source, "native_call_permute_copy.out", 3, 1.5))
        else:
            shutil.copy(source, side)
    return folder


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("lab") / "builds.duckdb"
    with etq.open(path) as warehouse:
        history(warehouse, 30, 18, {"addmm": 1.2})
    return str(path)


def section(page: dict[str, Any], kind: str) -> dict[str, Any]:
    [found] = [each for each in page["sections"] if each["kind"] == kind]
    return dict(found)


def values(table: dict[str, Any], name: str) -> list[Any]:
    column = table["columns"][table["names"].index(name)]
    return [None if at < 0 else column["texts"][at] for at in column["at"]] if isinstance(column, dict) else column


@pytest.mark.long
def test_two_folders_of_files(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    path = tmp_path / "difference.html"
    result = run_etq("report", "base", "new", "--etrecord", RECORD, "-o", str(path), "--db", "none.duckdb")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert result.stderr == f"{path}: the report of base and new\n"
    page = data_of(path.read_text())
    assert (page["kind"], page["title"]) == ("difference", "base → new")
    ops = section(page, "compared_ops")["tables"]["rows"]
    judged = zip(values(ops, "op"), values(ops, "module_path"), values(ops, "verdict"), strict=True)
    assert [each[:2] for each in judged if each[2] == "slower"] == [("permute_copy", "block1.down.linear")]
    rules = values(section(page, "verdict")["tables"]["findings"], "rule")
    assert "time order unknown" in rules


@pytest.mark.long
def test_options_reach_the_comparison(folders: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "difference.html")
    sides = (str(folders / "base"), str(folders / "new"))
    result = run_etq("report", *sides, "--min-effect", "90%", "--quantile", "0.5", "--unit", "ns", "-o", path)
    assert result.exit_code == 0, result.stderr
    page = data_of(Path(path).read_text())
    assert section(page, "verdict")["facts"]["options"] == {"min_effect": 0.9, "quantile": 0.5}
    ops = section(page, "compared_ops")["tables"]["rows"]
    assert set(values(ops, "verdict")) == {"~"} and set(values(ops, "unit")) == {"ns"}
    # Without records there are no modules, and a message states that.
    assert "etq link" in section(page, "parts")["note"]
    assert "compared_modules" not in [each["kind"] for each in page["sections"]]


@pytest.mark.long
def test_series(builds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_etq("report", "--trend", "model=net", "--over", "build", "--db", builds)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "model=net.html: the report of model=net\n"
    page = data_of(Path("model=net.html").read_text())
    assert (page["kind"], page["title"]) == ("trends", "model=net")
    changes = section(page, "regressions")["tables"]["rows"]
    [(op, position, bad)] = zip(*(values(changes, name) for name in ("op", "position", "first_bad")), strict=True)
    assert (op, position, bad) == ("addmm", 18, "18")
    later = run_etq("report", "--trend", "--since", "19", "--db", builds, "-o", "-")
    assert (
        "No total and no op has a lasting change of its level"
        in section(data_of(later.stdout), "regressions")["missing"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a report needs one capture or two sides, none is named"),
        (["a", "b", "c"], "not 3; put a pattern of files in quotes"),
        (["--trend", "a", "b"], "--trend takes one selector"),
        (["a", "--over", "build"], "--over is not for a report of one capture"),
        (["a", "b", "--since", "3"], "--since is not for a report of two sides"),
        (["a", "b", "--time-scale", "ns"], "--time-scale is not for a report of two sides"),
        (["--trend", "--allow-mismatch"], "--allow-mismatch is not for a report of series"),
        (["--trend", "--etrecord", "x"], "--etrecord is not for a report of series"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = run_etq("report", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["b1", "b1"], "a capture cannot be compared with itself"),
        (["b1", "none"], "none"),
        (["--trend", "model=none"], "model=none"),
        (["--trend", "--over", "night"], "night"),
    ],
)
def test_errors_are_reported_in_one_line(builds: str, arguments: list[str], message: str) -> None:
    result = run_etq("report", *arguments, "--db", builds, "-o", "-")
    assert (result.exit_code, result.stdout) == (1, ""), result.stdout[:200]
    assert message in result.stderr and result.stderr.count("\n") == 1, result.stderr


@pytest.mark.long
def test_in_python(builds: str, tmp_path: Path) -> None:
    with etq.open(builds, read_only=True) as warehouse:
        etq.report.write(warehouse, ["build=1", warehouse.capture("b2")], tmp_path / "d.html", min_effect=0.2)
        assert data_of((tmp_path / "d.html").read_text())["title"] == "build=1 → b2"
        left = warehouse.rows("SELECT table_name FROM duckdb_tables() WHERE temporary")
        assert left[1] == [], "what was computed for the report is dropped"
        etq.report.write_trends(warehouse, None, tmp_path / "t.html", unit="ns", by="model")
        assert data_of((tmp_path / "t.html").read_text())["title"] == "All captures"
        with pytest.raises(EtqError, match="takes no over; it takes unit, quantile"):
            etq.report.page_of(warehouse, ["b1", "b2"], over="build")
        with pytest.raises(EtqError, match="takes no alpha; it takes method, runs"):
            etq.report.page_of(warehouse, ["b1"], alpha=0.1)
        with pytest.raises(EtqError, match="not 3"):
            etq.report.page_of(warehouse, ["b1", "b2", "b3"])
        with pytest.raises(QueryError):
            etq.report.trends_page_of(warehouse, unit="hours")
