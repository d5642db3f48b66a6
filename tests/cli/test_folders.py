"""Folders of files of any names: what is read, and what is said about the others."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

import etq
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace, two_steps

MLP = CAPTURES / "mlp"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two traces and a dump of unusual names, and what else lies around them."""
    made = tmp_path / "job"
    (made / "rank1").mkdir(parents=True)
    (made / ".git").mkdir()
    (made / "rank0.json.gz").write_bytes(gzip.compress(trace(*two_steps())))
    (made / "rank1" / "trace.json").write_bytes(trace(event("cpu_op", "aten::add", 0, 10)))
    shutil.copy(MLP / "mlp.etdp", made / "profile.bin")
    for name in ("mlp.etrecord", "mlp.pte"):
        shutil.copy(MLP / name, made)
    for name in ("a.csv", "b.csv", "c.csv", "d.csv"):
        (made / name).write_text("op,calls\n")
    (made / ".git" / "index").write_bytes(b"DIRC")
    return made


def test_every_profiling_file_is_read_and_the_others_are_counted(folder: Path, tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    result = run_etq("ingest", str(folder), "--db", db)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == (
        "Note: not read as profiling files: 1 ETRecord, for --etrecord (mlp.etrecord); "
        "4 other files (a.csv, b.csv, c.csv, …); 1 program, for --pte (mlp.pte)"
    )
    with etq.open(db, read_only=True) as warehouse:
        assert warehouse.rows("SELECT c.name, c.format FROM captures AS c ORDER BY c.name")[1] == [
            ("profile", "etdump"), ("rank0", "torch_trace"), ("trace", "torch_trace"),
        ]  # fmt: skip
    assert "(a.csv, b.csv, c.csv, d.csv)" in run_etq("ingest", str(folder), "-v", "--db", db).stderr
    assert run_etq("ingest", str(folder), "--quiet", "--db", db).stderr == ""


def test_the_latest_of_a_folder_is_that_of_the_highest_number(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    content = (MLP / "mlp.etdp").read_bytes()
    # After the dump, bytes that belong to none: files of equal content would be one capture.
    for number in (30, 9, 10, 1):
        (runs / f"b{number}.etdp").write_bytes(content + bytes(number * 8 + 1))
    db = str(tmp_path / "lab.duckdb")
    assert run_etq("ingest", str(runs), "--db", db).exit_code == 0
    with etq.open(db, read_only=True) as warehouse:
        assert [warehouse.capture(which).name for which in ("@latest", "@previous")] == ["b30", "b10"]


def test_a_damaged_profiling_file_is_an_error(folder: Path, tmp_path: Path) -> None:
    (folder / "cut_off.json").write_bytes(trace(*two_steps())[:-40])
    (folder / "other.etdp").write_bytes(b"nothing of the kind")
    result = run_etq("ingest", str(folder), "--db", str(tmp_path / "lab.duckdb"))
    assert result.exit_code == 1 and "2 of 5 files could not be ingested" in result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert [Path(line.split(": ")[1]).name for line in errors] == ["cut_off.json", "other.etdp"]


def test_a_folder_without_any_says_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "mlp").mkdir()
    shutil.copy(MLP / "mlp.pte", tmp_path / "mlp")
    result = run_etq("ingest", str(tmp_path / "mlp"), "--db", str(tmp_path / "lab.duckdb"))
    assert result.exit_code == 1
    assert "mlp: a folder without profiling files; it has 1 program, for --pte (mlp.pte)" in result.stderr


def test_folders_are_compared(tmp_path: Path) -> None:
    """Whatever the names are, and beside other files."""
    for side in ("base", "new"):
        (tmp_path / side).mkdir()
        for at in range(2):
            steps = [event("cpu_op", "aten::add", 10 * at + place, 10 * at + place + 1) for place in range(3)]
            content = trace(*steps, event("cpu_op", side, 100, 101 + at))
            (tmp_path / side / f"run{at}.json").write_bytes(content)
        (tmp_path / side / "readme.txt").write_text("runs")
    result = run_etq("compare", str(tmp_path / "base"), str(tmp_path / "new"), "--db", str(tmp_path / "none.duckdb"))
    assert result.stderr.count("Note: not read as profiling files: 1 other file (readme.txt)") == 2
    assert result.exit_code == 0 and "aten::add" in result.stdout
