"""Logged values on the command line: `ingest --debug-buffer`, `values`, `gap`, `reference`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.command_line import run_etq
from tests.conftest import CAPTURES

MLP = CAPTURES / "mlp"
DUMP, BUFFER, RECORD = (str(MLP / name) for name in ("mlp_debug.etdp", "mlp_debug.bin", "mlp.etrecord"))
XNN = CAPTURES / "mlp_xnn"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse of the same model run by portable kernels and by a delegate; not to be written to."""
    db = str(tmp_path_factory.mktemp("lab") / "lab.duckdb")
    kept = ("--values", "--db", db)
    assert run_etq("ingest", DUMP, "--etrecord", RECORD, "--debug-buffer", BUFFER, *kept).exit_code == 0
    record, buffer = str(XNN / "mlp_xnn.etrecord"), str(XNN / "mlp_xnn_debug.bin")
    dump = str(XNN / "mlp_xnn_debug.etdp")
    assert run_etq("ingest", dump, "--etrecord", record, "--debug-buffer", buffer, *kept).exit_code == 0
    return db


def test_values_of_a_file_need_no_warehouse() -> None:
    result = run_etq("values", DUMP, "--debug-buffer", BUFFER, "--etrecord", RECORD, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = json.loads(result.stdout)
    [head] = [row for row in rows if row["module_path"] == "head.1" and row["op_name"] == "native_call_addmm.out"]
    [output] = [row for row in rows if row["role"] == "program output"]
    assert (head["min"], head["max"], head["mean"]) == (output["min"], output["max"], output["mean"])
    assert output["sizes"] == [4, 10]


def test_values_without_a_debug_buffer_are_unknown() -> None:
    rows = json.loads(run_etq("values", DUMP, "--format", "json").stdout)
    assert len(rows) == 27 and {row["mean"] for row in rows} == {None}


def test_a_short_debug_buffer_is_reported(tmp_path: Path) -> None:
    short = tmp_path / "short.bin"
    short.write_bytes(Path(BUFFER).read_bytes()[:40_000])
    result = run_etq("values", DUMP, "--debug-buffer", str(short), "--format", "json")
    assert result.stderr.startswith(
        "Note: short debug buffer: 24 of 27 tensors lie outside of the debug buffer (40000 "
    )
    assert [row["mean"] is None for row in json.loads(result.stdout)][:4] == [False, False, False, True]


@pytest.mark.long
def test_gap_of_two_runtimes(lab: str) -> None:
    result = run_etq(
        "gap", "mlp_debug", "mlp_xnn_debug", "--metric", "SNR", "--worst", "3", "--db", lab, "--format", "json"
    )
    assert (result.exit_code, result.stderr) == (0, "Note: 14 values can't be compared: not logged in new\n")
    rows = json.loads(result.stdout)
    assert len(rows) == 3
    assert rows[0]["gap"] == min(row["gap"] for row in rows) > 100
    assert {row["new_op"] for row in rows} == {"DELEGATE_CALL", "native_call_native_layer_norm.out"}


@pytest.mark.long
def test_gap_names_missing_values(lab: str, tmp_path: Path) -> None:
    assert "no capture matches nope" in run_etq("gap", "mlp_debug", "nope", "--db", lab).stderr
    db = str(tmp_path / "other.duckdb")
    run_etq("ingest", DUMP, "--debug-buffer", BUFFER, "--db", db)
    result = run_etq("gap", "mlp_debug", "mlp_debug", "--db", db)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: mlp_debug is not linked to an ETRecord")


def test_wrong_usage(tmp_path: Path) -> None:
    db = ("--db", str(tmp_path / "lab.duckdb"))
    assert run_etq("ingest", DUMP, DUMP, "--debug-buffer", BUFFER, *db).exit_code == 2
    assert run_etq("ingest", DUMP, "--values", *db).exit_code == 2
    result = run_etq("ingest", DUMP, "--debug-buffer", str(tmp_path / "none.bin"), *db)
    assert result.exit_code == 1
    assert "none.bin: no such file" in result.stderr
    assert "no such file; make a warehouse" in run_etq("values", "run", "--db", str(tmp_path / "none.duckdb")).stderr


def test_a_reference_needs_torch(tmp_path: Path) -> None:
    pytest.importorskip("etq.torch.reference")
    try:
        import torch  # noqa: F401
    except ImportError:
        result = run_etq("reference", RECORD, "--db", str(tmp_path / "lab.duckdb"))
        assert result.exit_code == 1
        assert result.stderr == "Error: running a reference needs torch; install it with: pip install 'etq[torch]'\n"
        assert not (tmp_path / "lab.duckdb").exists()
    else:
        pytest.skip("torch is here")


def test_a_reference_of_a_record(lab: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="running a program needs torch")
    lab = str(shutil.copy(lab, tmp_path))
    shutil.copy(RECORD, tmp_path / "model.etrecord")
    result = run_etq("reference", str(tmp_path / "model.etrecord"), "--name", "truth", "--db", lab)
    assert (result.exit_code, result.stderr) == (0, "truth: ingested, 17 ops\n")
    gap = run_etq("gap", "truth", "mlp_debug", "--db", lab, "--format", "json")
    rows = json.loads(gap.stdout)
    assert len([row for row in rows if row["gap"] is not None]) == 17
    assert max(row["gap"] for row in rows if row["gap"] is not None) < 1e-12
