"""Labels, metrics and phases of captures; `etq captures`; and the commands of `etq db`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import etq
from tests.asserts import csv_rows
from tests.batches import Labelled, ingest_all
from tests.cli.asked import rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.unit.test_metrics_reader import APP, GENERATION, log

FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))
MLP = str(CAPTURES / "mlp/mlp.etdp")


def told(*arguments: object, status: int = 0) -> str:
    """What a command that changes a warehouse prints."""
    result = run_etq(*map(str, arguments))
    assert (result.exit_code, result.stdout) == (status, ""), result.stderr
    return result.stderr


def names(*arguments: str) -> list[str]:
    return [row["name"] for row in rows("captures", *arguments)]


@pytest.mark.long
def test_label_gives_removes_and_shows(copied: str) -> None:
    given = ("device=pixel 8", "note=a,b=ü", "captured_at=2026-05-01", "--remove", "build", "--remove", "model")
    assert told("label", "run", *given, "--db", copied) == "run: 3 labels set, 2 labels removed\n"
    assert [(row["key"], row["value"]) for row in rows("label", "run", "--db", copied)] == [
        ("captured_at", "2026-05-01T00:00:00.000000Z"), ("device", "pixel 8"), ("note", "a,b=ü"),
    ]  # fmt: skip
    assert names("note=a,b=ü", "--db", copied) == ["run"]


@pytest.mark.long
def test_captures_are_filtered_sorted_and_counted(lab: str) -> None:
    for selected, expected in (
        ("device=watch", ["llm", "untraced"]),
        ("run device=watch,@latest", ["run", "untraced"]),
        ("@previous", ["untraced"]),  # the trace has the time of its recording, which was earlier
        # Numbers are sorted as numbers, from the largest; captures without the label come last.
        ("device=pixel8 device=watch --sort-by build", ["run", "llm", "untraced"]),
        ("device=watch --sort-by runs", ["llm", "untraced"]),
    ):
        assert names(*selected.split(), "--db", lab) == expected, selected
    groups = rows("captures", "--by", "device", "--db", lab)
    assert [(row["value"], row["captures"]) for row in groups] == [("pixel8", 1), ("watch", 2), (None, 2)]
    assert [row["value"] for row in rows("captures", "device=watch", "--by", "device", "--db", lab)] == ["watch"]


def test_ingest_finds_labels(tmp_path: Path) -> None:
    folder = tmp_path / "mlp/pixel8"
    folder.mkdir(parents=True)
    db, file = str(tmp_path / "lab.duckdb"), folder / "b1.etdp"
    file.write_bytes(Path(MLP).read_bytes())
    Path(f"{file}.toml").write_text('device = "pixel 8"\n[metrics]\ntemperature = 41\n')
    user = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q", "-b", "main"], check=True)
    subprocess.run(["git", "-C", str(tmp_path), *user, "commit", "-q", "--allow-empty", "-m", "First"], check=True)
    results = tmp_path / "benchmark_results.json"
    results.write_text(json.dumps(APP))
    found = ["--label-from", "{model}/{device}/{build}.etdp", f"--label-git={tmp_path}", "--metrics", results]
    told("ingest", file, "--db", db, "--label", "build=b2", *found)
    labels = {row["key"]: row["value"] for row in rows("label", "b1", "--db", db)}
    assert {key: labels[key] for key in ("model", "device", "build", "branch", "dirty")} == {
        "model": "mlp", "device": "pixel 8", "build": "b2", "branch": "main", "dirty": "false",
    }  # fmt: skip
    named = [row["name"] for row in rows("show", "metric_values", "b1", "--db", db)]
    assert named[:2] == ["avg_inference_latency", "load_status"]


@pytest.mark.long
def test_metric_sets_reads_and_shows(copied: str, tmp_path: Path) -> None:
    db = ("--db", copied)
    given = ("temperature=41", "clock=2.8:GHz", "battery=80%", "model_load_time=1.5 s", "x=-.5e1")
    words = [word for pair in given for word in ("--metric", pair)]
    assert told("label", "run", *words, *db) == "run: 5 metrics set\n"
    logcat = tmp_path / "logcat.txt"
    logcat.write_bytes(log(GENERATION))
    for what in ("9 metrics added", "known already"):
        assert what in told("label", "run", "--metrics", logcat, *db)
    listed = rows("show", "metric_values", "run", *db)
    shown = {(row["name"], not row["source"]): (row["value"], row["unit"]) for row in listed}
    assert {key: value for key, value in shown.items() if key[1] or key[0] == "model_load_time"} == {
        ("temperature", True): (41, "degC"), ("clock", True): (2.8, "GHz"), ("battery", True): (80, "%"),
        ("model_load_time", True): (1500, "ms"), ("model_load_time", False): (3926, "ms"), ("x", True): (-5, None),
    }  # fmt: skip
    told("label", "run", "--metric", "score=3", "--better", "higher", "--run", "2", *db)
    assert told("label", "run", "--metric", "x=", *db) == "run: 1 metric removed\n"
    left = {row["name"]: (row["run_index"], row["better"]) for row in rows("show", "metric_values", "run", *db)}
    assert left["score"] == (2, "higher") and "x" not in left


@pytest.mark.long
def test_phases_are_set_and_shown(copied: str, tmp_path: Path) -> None:
    db = ("--db", copied)
    assert told("label", "llm", "--phase", "decode", "--runs", "2-", *db) == "llm: 99 runs decode\n"
    assert told("label", "llm", "--phase", "other", "--name", "Default", *db) == "llm: 1 run other\n"
    shown = [(row["phase"], row["runs"]) for row in rows("show", "phase_totals", "llm", *db)]
    assert shown == [("other", 1), (None, 1), ("decode", 99)]
    steps = rows("show", "framework_tax", "llm", "--phase", "decode", "--steps", "skip_first=98", *db)
    assert [row["run_index"] for row in steps] == [99, 100]
    assert told("label", "llm", "--phase", "none", "--runs", "0-", *db) == "llm: 101 runs without a phase\n"
    logcat = tmp_path / "logcat.txt"
    logcat.write_bytes(log({**GENERATION, "generated_tokens": 99}))
    told("label", "llm", "--metrics", logcat, *db)
    assert told("label", "llm", "--phase", "from-metrics", *db) == "llm: 1 load, 1 prefill, 99 decode\n"


# Merge, remove, prune, compact and check


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fleet") / "lab.duckdb"
    with etq.open(path) as warehouse:
        builds = ((number, {"build": str(number // 2)}) for number in range(4))
        ingest_all(warehouse, (Labelled(f"run{number}", FLEET[number], labels) for number, labels in builds))
    return path.read_bytes()


@pytest.fixture
def db(fleet: bytes, tmp_path: Path) -> Path:
    """A warehouse of four captures of two builds, to be written to."""
    path = tmp_path / "lab.duckdb"
    path.write_bytes(fleet)
    return path


@pytest.mark.long
def test_remove_and_prune(db: Path) -> None:
    assert "no capture matches none" in told("db", "remove", "--all", "build=0", "none", "-y", "--db", db, status=1)
    arguments = ("db", "prune", "--keep-last", "1", "--by", "build", "--db", db)
    assert run_etq(*map(str, arguments), "--dry-run").stdout == "run0\nrun2\n"
    assert told(*arguments, status=1) == "Error: 2 captures would be removed (run0, run2); confirm with -y\n"
    assert told(*arguments, "--keep-rollups", "-y") == "2 captures pruned; etq db compact frees the space in the file\n"
    assert told(*arguments, "--keep-rollups") == "0 captures to prune\n"
    assert told("ops", "run0", "--db", db, status=1).startswith("Error: the events of run0 were pruned")
    done = told("db", "remove", "--all", "build=0", "run3", "-y", "--db", db)
    assert done == "3 captures removed; etq db compact frees the space in the file\n"
    assert names("--db", str(db)) == ["run2"]


@pytest.mark.long
def test_compact_check_and_sizes(db: Path) -> None:
    listed = run_etq("captures", "--size", "--sort-by", "stored_bytes", "--db", str(db), "--format", "csv")
    sizes = [int(row["stored_bytes"]) for row in csv_rows(listed.stdout)]
    assert len(sizes) == 4 and sizes == sorted(sizes, reverse=True) and sizes[-1] > 1000
    told("db", "remove", "run0", "run1", "run2", "-y", "--db", db)
    before = db.stat().st_size
    assert told("db", "compact", db) == f"{db}: {db.stat().st_size / 1e6:.1f} MB, before {before / 1e6:.1f} MB\n"
    assert db.stat().st_size <= before and names("--db", str(db)) == ["run3"]
    for arguments in ([db], ["--db", db], [db, "--db", db]):  # a warehouse is named in either way
        assert run_etq("db", "check", *map(str, arguments)).exit_code == 0


@pytest.mark.long
def test_merge(db: Path, tmp_path: Path) -> None:
    other, output = tmp_path / "other.duckdb", tmp_path / "all.duckdb"
    with etq.open(other) as warehouse:
        warehouse.ingest(FLEET[0], labels={"build": "7"})
        warehouse.ingest(FLEET[5])
        warehouse.save_view("first", "build=7")
        warehouse.save_view("second", "build=8")
    with etq.open(db) as warehouse:
        warehouse.save_view("first", "build=1")
    assert told("db", "merge", db, other, "-o", output) == (
        f"Note: {other}: @first: build=1 stays, not build=7\n"
        f"Note: {other}: run0: label build: 0 stays, not 7\n{output}: 5 captures; 1 in several files\n"
    )
    views = rows("db", "view", "--db", str(output))
    assert [(view["name"], view["selector"]) for view in views] == [("@first", "build=1"), ("@second", "build=8")]
    assert names("--db", str(output)) == ["run0", "run1", "run2", "run3", "05"]
