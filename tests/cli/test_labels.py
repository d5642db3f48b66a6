"""The commands about labels, metrics and phases from a user's view."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import etq
from tests.asserts import csv_rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.unit.test_metrics_reader import APP, GENERATION, log


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse file of three captures; not to be written to."""
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="run", labels={"device": "b", "build": "10"})
        warehouse.ingest(CAPTURES / "mlp/mlp_100runs.etdp", name="llm", labels={"device": "a", "build": "9"})
        warehouse.ingest(CAPTURES / "mlp/mlp_method_only.etdp", name="untraced", labels={"device": "a"})
    return str(path)


@pytest.fixture
def lab(stored: str, tmp_path: Path) -> str:
    """A copy of it, to be written to."""
    return str(shutil.copy(stored, tmp_path))


def rows_of(*arguments: str) -> list[dict[str, str]]:
    result = run_etq(*arguments, "--format", "csv")
    assert result.exit_code == 0, result.stderr
    return csv_rows(result.stdout)


def names(*arguments: str) -> list[str]:
    return [row["name"] for row in rows_of("captures", *arguments)]


def test_label_gives_removes_and_shows(lab: str) -> None:
    result = run_etq(
        "label", "run", "device=pixel 8", "note=a,b=ü", "captured_at=2026-05-01", "--remove", "build", "--db", lab
    )
    assert (result.exit_code, result.stderr) == (0, "run: 3 labels set, 1 removed\n")
    shown = rows_of("label", "run", "--db", lab)
    assert [(row["key"], row["value"]) for row in shown] == [
        ("captured_at", "2026-05-01T00:00:00.000000Z"), ("device", "pixel 8"), ("note", "a,b=ü"),
    ]  # fmt: skip
    assert names("note=a,b=ü", "--db", lab) == ["run"]


def test_invalid_labels(stored: str) -> None:
    for arguments, status, message in (
        (("run", "device"), 2, "'device' is not of the form KEY=VALUE"),
        (("run", "a=1", "--remove", "a"), 2, "a can't be set and removed at once"),
        (("run", "--remove", "model"), 1, "Error: run has no label 'model'; it has build, device"),
        (("nope", "a=1"), 1, "Error: no capture matches nope; there are"),
        (("run", "a=1\n2"), 1, "is not a value; it has the control character"),
        (("run", "captured_at=now"), 1, "Error: captured_at 'now' is not a time; write 2026-05-01, "),
    ):
        result = run_etq("label", *arguments, "--db", stored)
        assert (result.exit_code, message in result.stderr) == (status, True), result.stderr
        assert "Traceback" not in result.output
    assert [row["key"] for row in rows_of("label", "run", "--db", stored)] == ["build", "device"]


def test_captures_are_filtered_sorted_and_counted(stored: str) -> None:
    assert names("device=a", "--db", stored) == ["llm", "untraced"]
    assert names("run", "device=a,@latest", "--db", stored) == ["run", "untraced"]
    assert names("@previous", "--db", stored) == ["llm"]
    # Numbers are sorted as numbers; captures without the label come last in both directions.
    assert names("--sort", "build", "--db", stored) == ["llm", "run", "untraced"]
    assert names("--sort", "build", "--reverse", "--db", stored) == ["run", "llm", "untraced"]
    assert names("--sort", "device", "--db", stored) == ["llm", "untraced", "run"]
    assert names("device=a", "--sort", "runs", "--db", stored) == ["untraced", "llm"]
    groups = rows_of("captures", "--by", "device", "--db", stored)
    assert [(row["value"], row["captures"]) for row in groups] == [("a", "2"), ("b", "1")]
    assert [row["value"] for row in rows_of("captures", "device=b", "--by", "device", "--db", stored)] == ["b"]


def test_selectors_without_matches_are_reported(stored: str) -> None:
    nothing = run_etq("captures", "device=c", "--db", stored, "--format", "csv")
    assert (nothing.exit_code, nothing.stderr) == (
        0,
        "Note: no capture matches device=c: none has device=c; values are a, b\n",
    )
    for arguments, status, message in (
        (("--by", "model"), 1, "Error: no capture has a label 'model'; labels are build, device"),
        (
            ("--sort", "model"),
            1,
            "Error: no capture has a label 'model'; labels are build, device; columns name, format",
        ),
        (("--reverse",), 2, "--reverse goes with --sort"),
        (("--by", "device", "--sort", "build"), 2, "--by and --sort don't go together"),
        (("@first",), 1, "Error: @first is not a selector"),
    ):
        result = run_etq("captures", *arguments, "--db", stored)
        assert (result.exit_code, message in result.stderr) == (status, True), result.stderr


def test_ingest_finds_labels(tmp_path: Path) -> None:
    folder = tmp_path / "mlp" / "pixel8"
    folder.mkdir(parents=True)
    db = str(tmp_path / "lab.duckdb")
    file = str(folder / "b1.etdp")
    shutil.copy(CAPTURES / "mlp/mlp.etdp", file)
    Path(file + ".toml").write_text('device = "pixel 8"\n[metrics]\ntemperature = 41\n')
    user = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q", "-b", "main"], check=True)
    subprocess.run(["git", "-C", str(tmp_path), *user, "commit", "-q", "--allow-empty", "-m", "First"], check=True)
    results = tmp_path / "benchmark_results.json"
    results.write_text(json.dumps(APP))
    found = ["--label-from", "{model}/{device}/{build}.etdp", f"--label-git={tmp_path}", "--metrics", str(results)]
    result = run_etq("ingest", file, "--db", db, "--label", "build=b2", *found)
    assert result.exit_code == 0, result.stderr
    labels = {row["key"]: row["value"] for row in rows_of("label", "b1", "--db", db)}
    assert {key: labels[key] for key in ("model", "device", "build", "branch", "dirty")} == {
        "model": "mlp", "device": "pixel 8", "build": "b2", "branch": "main", "dirty": "false",
    }  # fmt: skip
    assert [row["name"] for row in rows_of("metric", "b1", "--db", db)][:2] == ["avg_inference_latency", "load_status"]
    other = str(tmp_path / "other.duckdb")
    assert run_etq("ingest", file, "--db", other, "--no-sidecar").exit_code == 0
    assert rows_of("label", "b1", "--db", other) == []


def test_ingest_reports_missing_files(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    file = str(CAPTURES / "mlp/mlp.etdp")
    for arguments, status, message in (
        ((file, "--label-from", "{model}.bin"), 1, "the path doesn't end as the pattern {model}.bin does"),
        ((file, "--label-git=/"), 1, "Error: /: git failed: not a git repository"),
        (("--label-git", file), 2, "is not a folder; write --label-git=. for the current one"),
        ((file, file, "--metrics", "x"), 2, "--metrics goes with one file"),
        ((file, "--metrics", str(tmp_path / "none")), 1, "none: no such file"),
        ((file, "--metrics", file), 1, "mlp.etdp: expected lines `PyTorchObserver {...}`"),
    ):
        result = run_etq("ingest", *arguments, "--db", db)
        assert (result.exit_code, message in result.stderr) == (status, True), result.stderr
    with etq.open(db) as warehouse:
        assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(0,)]


def test_metric_sets_reads_and_shows(lab: str, tmp_path: Path) -> None:
    reply = run_etq(
        "metric",
        "run",
        "temperature=41",
        "clock=2.8:GHz",
        "battery=80%",
        "model_load_time=1.5 s",
        "x=-.5e1",
        "--db",
        lab,
    )
    assert (reply.exit_code, reply.stdout, reply.stderr) == (0, "", "run: 5 metrics set, 0 removed\n")
    logcat = tmp_path / "logcat.txt"
    logcat.write_bytes(log(GENERATION))
    for what in ("9 metrics added", "known already"):
        assert what in run_etq("metric", "run", "--from", str(logcat), "--db", lab).stderr
    shown = {
        (row["name"], row["source"] == ""): (float(row["value"]), row["unit"])
        for row in rows_of("metric", "run", "--db", lab)
    }
    assert shown["temperature", True] == (41, "degC")
    assert shown["clock", True] == (2.8, "GHz")
    assert shown["battery", True] == (80, "%")
    assert shown["model_load_time", True] == (1500, "ms")
    assert shown["model_load_time", False] == (3926, "ms")
    assert shown["x", True] == (-5, "")
    assert run_etq("metric", "run", "score=3", "--better", "higher", "--run", "2", "--db", lab).exit_code == 0
    result = run_etq("metric", "run", "--remove", "x", "--db", lab)
    assert (result.exit_code, result.stderr) == (0, "run: 0 metrics set, 1 removed\n")
    rows = {row["name"]: (row["run_index"], row["better"]) for row in rows_of("metric", "run", "--db", lab)}
    assert rows["score"] == ("2", "higher")
    assert "x" not in rows


def test_invalid_metrics(stored: str) -> None:
    for arguments, status, message in (
        (
            ("run", "governor=schedutil"),
            2,
            "'schedutil' is not a number; attach a text as a label: etq label CAPTURE governor=",
        ),
        (("run", "x=nan"), 2, "'nan' is not a number"),
        (("run", "x=1e999"), 1, "Error: the metric x is inf, which is not a finite number"),
        (("run", "x"), 2, "'x' is not of the form NAME=VALUE or NAME=VALUE:UNIT"),
        (("run", "x=1", "--run", "6"), 1, "Error: no run 6: the capture has 6 runs, counted from 0"),
        (("run", "--better", "lower"), 2, "--better goes with NAME=VALUE"),
        (("run", "--remove", "x"), 1, "Error: run: no metric 'x' was attached by hand"),
    ):
        result = run_etq("metric", *arguments, "--db", stored)
        assert (result.exit_code, message in result.stderr) == (status, True), result.stderr
    assert rows_of("metric", "run", "--db", stored) == []


@pytest.mark.long
def test_phases_are_set_and_shown(lab: str, tmp_path: Path) -> None:
    assert run_etq("phase", "llm", "decode", "--runs", "2-", "--db", lab).stderr == "llm: 99 runs decode\n"
    assert run_etq("phase", "llm", "other", "--name", "Default", "--db", lab).stderr == "llm: 1 runs other\n"
    shown = [(row["phase"], row["runs"]) for row in rows_of("phase", "llm", "--db", lab)]
    assert shown == [("other", "1"), ("", "1"), ("decode", "99")]
    calls = {row["op"]: row["calls"] for row in rows_of("ops", "llm", "--phase", "decode", "--db", lab)}
    assert calls["addmm"] == str(99 * 7)
    steps = rows_of("tax", "llm", "--phase", "decode", "--skip-first", "98", "--db", lab)
    assert [row["run_index"] for row in steps] == ["99", "100"]
    trend = rows_of("show", "decode_trend", "llm", "--unit", "us", "--db", lab)
    assert [row["position"] for row in trend] == [str(each) for each in range(99)]
    assert run_etq("phase", "llm", "--remove", "--runs", "0-", "--db", lab).stderr == "llm: 101 runs without a phase\n"
    logcat = tmp_path / "logcat.txt"
    logcat.write_bytes(log({**GENERATION, "generated_tokens": 99}))
    run_etq("metric", "llm", "--from", str(logcat), "--db", lab)
    result = run_etq("phase", "llm", "--from-metrics", "--db", lab)
    assert (result.exit_code, result.stderr) == (0, "llm: 1 load, 1 prefill, 99 decode\n")


def test_invalid_phases(stored: str) -> None:
    mlp = str(CAPTURES / "mlp/mlp.etdp")
    cases: list[tuple[tuple[str, ...], int, str]] = [
        (("phase", "llm", "decode"), 2, "a phase or --remove goes with --runs, --name or --method"),
        (("phase", "llm", "--runs", "1"), 2, "a phase or --remove goes with --runs, --name or --method"),
        (
            ("phase", "llm", "decode", "--remove", "--runs", "1"),
            2,
            "a phase, --from-metrics and --remove don't go together",
        ),
        (("phase", "llm", "decode", "--runs", "1-999"), 1, "Error: no run 999: the capture has 101 runs"),
        (("phase", "llm", "--from-metrics"), 1, "llm has no prompt_tokens and generated_tokens; read them"),
        (
            ("show", "decode_trend", "llm"),
            1,
            "Error: no run of llm is of phase decode; set the phases: etq phase llm decode --runs",
        ),
        (
            ("ops", mlp, "--phase", "decode"),
            1,
            "Error: files have no phases, but traces of vLLM and SGLang; ingest the file and set the phases",
        ),
        (("tax", mlp, "--phase", "decode"), 1, "Error: files have no phases"),
        (
            ("tax", "llm", "--phase", "decode"),
            0,
            "Note: no run of llm is of phase decode; set phases of runs with etq phase",
        ),
    ]
    for arguments, status, message in cases:
        result = run_etq(*arguments, "--db", stored)
        assert (result.exit_code, message in result.stderr) == (status, True), (arguments, result.stderr)


def test_writing_needs_a_warehouse(tmp_path: Path) -> None:
    db = str(tmp_path / "none.duckdb")
    for arguments in (("label", "run"), ("metric", "run"), ("phase", "run")):
        result: Any = run_etq(*arguments, "--db", db)
        assert (result.exit_code, "no such file; make a warehouse" in result.stderr) == (1, True)
    assert not Path(db).exists()
