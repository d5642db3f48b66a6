"""`etq report` from a user's view; other tests check the page in a browser."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import etq
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.sampling import thinned, whole

FOLDER = CAPTURES / "convnet"


def data_of(page: str) -> dict[str, Any]:
    [packed] = re.findall(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', page)
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return found


def kinds(page: str) -> dict[str, bool]:
    """The sections, and whether each has data."""
    return {section["kind"]: section["missing"] is None for section in data_of(page)["sections"]}


@pytest.mark.long
def test_a_capture_stored_and_a_file_read_are_alike(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    file, record = str(FOLDER / "convnet.etdp"), str(FOLDER / "convnet.etrecord")
    with etq.open(db) as warehouse:
        warehouse.link(warehouse.ingest(file, name="run"), warehouse.ingest_record(record))
    stored, read = str(tmp_path / "stored.html"), str(tmp_path / "read.html")
    result = run_etq("report", "run", "-o", stored, "--db", db)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{stored}: the report of run\n"
    assert run_etq("report", file, "--etrecord", record, "-o", read).exit_code == 0
    one, other = (data_of(Path(path).read_text()) for path in (stored, read))
    assert [section["kind"] for section in one["sections"]] == [section["kind"] for section in other["sections"]]
    for here, there in zip(one["sections"][1:], other["sections"][1:], strict=True):
        assert here["tables"] == there["tables"], here["kind"]


def test_an_output_is_refused_before_the_page_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import etq.report

    def compute(*_: Any, **__: Any) -> str:
        raise AssertionError("computed")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(etq.report, "page_of", compute)
    file, there = str(FOLDER / "convnet.etdp"), tmp_path / "convnet.html"
    there.write_text("other")
    empty = "the name of the output is empty; name a file, or - for stdout"
    for output, text in (
        ((), "convnet.html: exists; overwrite it with --force"),
        (("-o", str(there)), f"{there}: exists; overwrite it with --force"),
        (("-o", ""), empty),
        (("-o", "", "--force"), empty),
    ):
        result = run_etq("report", file, *output)
        assert (result.exit_code, result.stderr) == (1, f"Error: {text}\n")
    result = run_etq("report", file, file, "-o", str(there))
    assert (result.exit_code, result.stderr) == (1, f"Error: {there}: exists; overwrite it with --force\n")
    assert there.read_text() == "other"
    assert isinstance(run_etq("report", file, "--force").exception, AssertionError)


OF_KINDS = [
    ("mlp/mlp_0runs.etdp", {"breakdown": False, "memory": False, "timeline": True, "events": True}),
    ("mlp/mlp_method_only.etdp", {"modules": None, "coverage": None, "runs": True}),
    ("prof_result/iterations.prof_result.bin", {"runs": True, "ops": True, "sources": None}),
    ("torch/pair_mlp.pt.trace.json.gz", {"calls": True, "module_calls": True, "steps": True}),
    ("torch/mlp_train.pt.trace.json.gz", {"module_calls": False, "memory_timeline": True, "peak_memory": True}),
    ("torch_gpu/rank0.pt.trace.json.gz", {"idle": True, "work": True, "launches": True, "collectives": True}),
    ("convnet_xnn/convnet_xnn_debug.etdp", {"timeline": True, "ops": True}),
]


@pytest.mark.parametrize(("path", "sections"), thinned(OF_KINDS, [OF_KINDS[0][0], OF_KINDS[4][0]]))
def test_all_kinds_of_captures(path: str, sections: dict[str, bool | None]) -> None:
    """A section without data states the reason; those that need a record are left out (None), which is said once."""
    result = run_etq("report", str(CAPTURES / path), "-o", "-")
    assert result.exit_code == 0, result.stderr
    found = kinds(result.stdout)
    assert {kind: found.get(kind) for kind in sections} == sections
    assert found["headline"] and found["advice"]


@pytest.mark.long
@whole
def test_names_of_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the file has the capture's name and is in the current folder, whatever the capture is called."""
    monkeypatch.chdir(tmp_path)
    db = str(tmp_path / "lab.duckdb")
    with etq.open(db) as warehouse:
        warehouse.ingest(FOLDER / "convnet.etdp", name="../x/\x1b[31m<b>")
    assert run_etq("report", "@latest", "--db", db).exit_code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["_x___31m_b_.html", "lab.duckdb"]
    assert run_etq("report", "@latest", "--db", db).exit_code == 0, "its own page"


@pytest.mark.long
def test_times_are_in_the_unit_asked_for() -> None:
    page = run_etq("report", str(FOLDER / "convnet.etdp"), "-o", "-", "--unit", "ms").stdout
    for section in data_of(page)["sections"]:
        for table in section["tables"].values():
            if "unit" in table["names"] and section["kind"] in ("runs", "ops", "events"):
                assert table["columns"][table["names"].index("unit")]["texts"] == ["ms"]


@pytest.mark.long
def test_errors_are_reported_in_one_line(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    with etq.open(db) as warehouse:
        warehouse.ingest(FOLDER / "convnet.etdp", name="run")
    for arguments, message in (
        (["rum"], "no capture matches rum; the nearest are run"),
        (["run", "run"], "run is on both sides"),
        (["nowhere.etdp"], "nowhere.etdp"),
        (["run", "-o", str(tmp_path / "no/folder.html")], "folder.html: can't be written: no such file or directory"),
        (
            ["run", "--etrecord", str(FOLDER / "convnet.etrecord")],
            "run is not a file; --etrecord only applies to files",
        ),
    ):
        result = run_etq("report", *arguments, "--db", db)
        assert (result.exit_code, result.stdout) == (1, ""), arguments
        assert message in result.stderr and result.stderr.count("\n") == 1, result.stderr
    assert run_etq("report", "--db", db).exit_code == 2


def test_a_page_that_is_not_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("kept")
    assert run_etq("report", "nowhere.etdp", "-o", str(path), "--force").exit_code == 1
    assert path.read_text() == "kept" and os.listdir(tmp_path) == ["report.html"]


@pytest.mark.long
def test_the_graph_alone(tmp_path: Path) -> None:
    """The page has the same section as the report of the capture."""
    file, record = str(FOLDER / "convnet.etdp"), ("--etrecord", str(FOLDER / "convnet.etrecord"))
    path = tmp_path / "graph.html"
    result = run_etq("graph", file, *record, "--html", str(path), "--unit", "ms")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{path}: the graph of convnet\n")
    [graph] = data_of(path.read_text())["sections"]
    nodes = dict(zip(graph["tables"]["nodes"]["names"], graph["tables"]["nodes"]["columns"], strict=True))
    assert (graph["kind"], nodes["unit"]["texts"]) == ("graph", ["ms"])
    svg = tmp_path / "graph.svg"
    svg.write_text("<svg/>")
    for arguments, text in (
        ((file, *record, "--html", str(svg)), f"{svg}: exists; overwrite it with --force"),
        ((file, *record, "--html", "-", "--phase", "load"), "--phase does not apply to --html"),
        ((file, *record, "--open", "--html", "-"), "--open needs a file"),
        ((file, *record, "--open", "--dot"), "--open only applies to a page"),
        ((file, *record, "--dot", "--html", "-"), "give either --html FILE or --dot"),
        ((file, *record, "--dot", "--force"), "--force only applies to a page"),
        ((file, *record, "--dot", "--format", "json"), "the graph has one form"),
        ((file, *record, "--html", "-", "-o", str(path)), "-o only applies to --format"),
        ((file, *record, "--format", "json", "--phase", "load"), "--phase does not apply to --format json"),
        ((file, "--html", "-"), "convnet: Without its ETRecord the capture doesn't show the graph of its program"),
    ):
        result = run_etq("graph", *arguments)
        assert result.exit_code in (1, 2) and text in result.stderr, arguments
    result = run_etq("graph", file, *record, "--format", "json", "--unit", "ms")
    assert (result.exit_code, json.loads(result.stdout)["unit"], result.stderr) == (0, "ms", "")
    both = [run_etq("graph", file, *record, *form) for form in (("--dot",), ("--format", "dot"))]
    assert both[0].stdout == both[1].stdout and both[0].stdout.startswith("digraph")
