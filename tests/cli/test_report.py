"""`etq report` from a user's view; other tests check the page in a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import etq
import etq.report
from etq.errors import EtqError
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.slower import slower
from tests.sql.test_trends import history

FILE, RECORD = (str(CAPTURES / f"convnet/convnet.{end}") for end in ("etdp", "etrecord"))


def data_of(page: str) -> dict[str, Any]:
    [packed] = re.findall(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', page)
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return found


def section(page: dict[str, Any], kind: str) -> dict[str, Any]:
    [found] = [each for each in page["sections"] if each["kind"] == kind]
    return dict(found)


def values(table: dict[str, Any], name: str) -> list[Any]:
    column = table["columns"][table["names"].index(name)]
    return [None if at < 0 else column["texts"][at] for at in column["at"]] if isinstance(column, dict) else column


@pytest.mark.long
def test_a_capture_stored_and_a_file_read_are_alike(lab: str, tmp_path: Path) -> None:
    stored, read = str(tmp_path / "stored.html"), str(tmp_path / "read.html")
    result = run_etq("report", "net", "-o", stored, "--db", lab, "--unit", "ms")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{stored}: the report of net\n")
    assert run_etq("report", FILE, "--etrecord", RECORD, "-o", read, "--unit", "ms").exit_code == 0
    one, other = (data_of(Path(path).read_text()) for path in (stored, read))
    assert [each["kind"] for each in one["sections"]] == [each["kind"] for each in other["sections"]]
    for here, there in zip(one["sections"][1:], other["sections"][1:], strict=True):
        assert (here["tables"], here["grids"]) == (there["tables"], there["grids"]), here["kind"]
        for table in (*here["tables"].values(), *(grid["rows"] for grid in here["grids"])):
            if "unit" in table["names"] and here["kind"] in ("runs", "ops", "events"):
                assert table["columns"][table["names"].index("unit")]["texts"] == ["ms"]


def test_the_output_is_checked_before_the_capture(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, reason in (
        ("none/page.html", "its folder does not exist; create it first"),
        ("file/page.html", "can't be written: not a directory"),
        ("page.PDF", "the page is HTML; give it a name that ends with .html"),
        ("page.tsv", "the page is HTML; give it a name that ends with .html"),
    ):
        output = str(tmp_path / name)
        result = run_etq("report", str(tmp_path / "unread.etdp"), "-o", output)
        assert (result.exit_code, result.stderr) == (1, f"Error: {output}: {reason}\n")


NO_RECORD = {"modules": None, "coverage": None, "sources": None}
OF_KINDS = [
    pytest.param("mlp/mlp_0runs.etdp", {"breakdown": False, "memory": False, "events": True, **NO_RECORD}),
    pytest.param("torch/mlp_train.pt.trace.json.gz", {"module_calls": False, "peak_memory": True}, marks=pytest.mark.long),
    pytest.param("torch_gpu/rank0.pt.trace.json.gz", {"idle": True, "work": True, "collectives": True}, marks=pytest.mark.long),
]  # fmt: skip


@pytest.mark.parametrize(("path", "sections"), OF_KINDS)
def test_all_kinds_of_captures(path: str, sections: dict[str, bool | None]) -> None:
    """A section without data states the reason; those that need a record are left out (None), which is said once."""
    result = run_etq("report", str(CAPTURES / path), "-o", "-")
    assert result.exit_code == 0, result.stderr
    found = {section["kind"]: section["missing"] is None for section in data_of(result.stdout)["sections"]}
    assert {kind: found.get(kind) for kind in sections} == sections
    assert found["headline"] and found["advice"]


@pytest.mark.long
def test_the_name_of_the_output_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the file has the capture's name and is in the current folder, whatever the capture is called."""
    monkeypatch.chdir(tmp_path)
    with etq.open("lab.duckdb") as warehouse:
        warehouse.ingest(CAPTURES / "prof_result/iterations.prof_result.bin", name="x/.<b> 'c'")
    assert run_etq("report", "@latest", "--db", "lab.duckdb").exit_code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lab.duckdb", "x_._b___c_.html"]


# Two sides and series


@pytest.mark.long
def test_two_folders_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four captures per side; those of new have a slower op."""
    monkeypatch.chdir(tmp_path)
    for place in range(8):
        side = tmp_path / ("base", "new")[place % 2]
        side.mkdir(exist_ok=True)
        source = CAPTURES / f"fleet/mlp/{place:02}.etdp"
        if place % 2:
            (side / source.name).write_bytes(slower(source, "native_call_permute_copy.out", 3, 1.5))
        else:
            shutil.copy(source, side)
    record = str(CAPTURES / "mlp/mlp.etrecord")
    result = run_etq("report", "base", "new", "--etrecord", record, "-o", "d.html")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "d.html: the report of base and new\n")
    page = data_of(Path("d.html").read_text())
    assert (page["kind"], page["title"]) == ("difference", "base → new")
    [ops] = (grid["rows"] for grid in section(page, "compared_ops")["grids"])
    judged = zip(values(ops, "op"), values(ops, "module"), values(ops, "verdict"), strict=True)
    assert [each[:2] for each in judged if each[2] == "slower"] == [("permute_copy", "block1.down.linear")]
    assert "time order unknown" in values(section(page, "verdict")["tables"]["findings"], "rule")
    options = ("--min-effect", "90%", "--quantile", "0.5")
    page = data_of(run_etq("report", "base", "new", *options, "-o", "-").stdout)
    assert section(page, "verdict")["facts"]["options"] == {"min_effect": 0.9, "quantile": 0.5}
    page = data_of(run_etq("report", "base", "new", "--min-effect", "0", "-o", "-").stdout)
    assert section(page, "verdict")["facts"]["options"] == {"min_effect": 0}
    # Without records there are no modules, and a message states that.
    assert "etq link" in section(page, "parts")["note"]
    assert "compared_modules" not in [each["kind"] for each in page["sections"]]


@pytest.mark.long
def test_series_and_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with etq.open("builds.duckdb") as warehouse:
        history(warehouse, 30, 18, {"addmm": 1.2})
    db = ("--db", "builds.duckdb")
    result = run_etq("report", "--trend", "model=net", "--over", "build", *db)
    assert (result.exit_code, result.stderr) == (0, "model=net.html: the report of model=net\n")
    page = data_of(Path("model=net.html").read_text())
    assert (page["kind"], page["title"]) == ("trends", "model=net")
    changes = section(page, "regressions")["tables"]["rows"]
    assert [values(changes, name) for name in ("op", "position", "first_bad")] == [["addmm"], [18], ["18"]]
    later = data_of(run_etq("report", "--trend", "--since", "19", *db, "-o", "-").stdout)
    none = "No change of a total or an op in 30 captures"
    assert none in section(later, "regressions")["missing"]
    with etq.open("builds.duckdb", read_only=True) as warehouse:
        etq.report.write(warehouse, ["build=1", warehouse.capture("b2")], tmp_path / "d.html", min_effect=0.2)
        assert data_of((tmp_path / "d.html").read_text())["title"] == "build=1 → b2"
        left = warehouse.rows("SELECT table_name FROM duckdb_tables() WHERE temporary")
        assert left[1] == [], "what was computed for the report is dropped"
        with pytest.raises(EtqError, match="takes no over; it takes unit, quantile"):
            etq.report.report_of(warehouse, ["b1", "b2"], over="build").page()
