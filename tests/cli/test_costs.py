"""Costs of ops and their distance from the device's limits, on the command line: `flops`, `roofline`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import etq
from tests.asserts import csv_rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.records import node, record, tensor
from tests.sampling import thinned

CONVNET = str(CAPTURES / "convnet/convnet.etdp")
RECORD = str(CAPTURES / "convnet/convnet.etrecord")
TRACE = str(CAPTURES / "torch/mlp_train.pt.trace.json.gz")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse file of a linked capture, `run`, and one that has no record, `bare`; not to be written to."""
    path = str(tmp_path_factory.mktemp("lab") / "lab.duckdb")
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="bare")
        warehouse.ingest(TRACE, name="trace")
        warehouse.link(warehouse.ingest(CONVNET, name="run"), warehouse.ingest_record(RECORD, name="net"))
    return path


def rows(*arguments: str) -> list[dict[str, Any]]:
    result = run_etq(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


@pytest.mark.long
def test_flops_of_a_record_before_any_run() -> None:
    """By eye: 2 * 8*32*32 * 3*3*3 + 2 * 16*16*16 * 8*3*3 + 2 * 32*8*8 * 16*3*3 are the convolutions'."""
    result = run_etq("flops", RECORD, "--format", "csv")
    assert (result.exit_code, result.stderr) == (0, "forward: 1.709 MFLOP a call\n")
    [first, *others] = csv_rows(result.stdout)
    assert (first["op_type"], first["nodes"], first["flops"]) == ("aten.convolution.default", "3", "1622016")
    assert {row["reason"] for row in [first, *others]} == {""}
    by_node = rows("flops", RECORD, "--by", "node")
    assert sum(row["flops"] for row in by_node) == 1_709_216
    assert (by_node[0]["name"], by_node[0]["module_path"], by_node[0]["flops"]) == (
        "aten_convolution_default",
        "features.0.cbr.conv",
        442_368,
    )


@pytest.mark.long
def test_flops_of_what_a_warehouse_holds(lab: str) -> None:
    assert rows("flops", "run", "--db", lab) == rows("flops", "net", "--db", lab) == rows("flops", RECORD)
    of_traces = "flops is for ETDumps, and this is a PyTorch trace; for that there is etq roofline"
    for argument, message in (
        ("bare", "Error: bare has no ETRecord, which has the shapes; link one with: etq link bare RECORD\n"),
        ("none", "Error: no capture matches none; there are bare, run, trace\n"),
        (CONVNET, f"Error: {CONVNET}: has no shapes; give the ETRecord of its program\n"),
        ("no.etrecord", "Error: no.etrecord: no such file, and no capture of that name; there are trace, bare, run\n"),
        (TRACE, f"Error: {TRACE}: {of_traces}\n"),
        ("trace", f"Error: trace: {of_traces}\n"),
    ):
        result = run_etq("flops", argument, "--db", lab)
        assert (result.exit_code, result.stderr, result.stdout) == (1, message, "")


def test_flops_name_missing_formulas(tmp_path: Path) -> None:
    path = tmp_path / "x.etrecord"
    path.write_bytes(record(node("aten.topk.default", tensor("y", 2), self=tensor("x", 9), k=2)))
    result = run_etq("flops", str(path), "--format", "csv")
    assert result.stderr.endswith("forward: 0 FLOP a call, but 1 of 1 nodes that aren't known\n")
    [row] = csv_rows(result.stdout)
    assert (row["flops"], row["reason"]) == ("", "no formula for aten.topk")


@pytest.mark.long
def test_roofline_of_a_file_and_of_a_warehouse(lab: str, tmp_path: Path) -> None:
    peaks = ("--peak-flops", "20G", "--peak-bandwidth", "15GB/s")
    of_file = rows("roofline", CONVNET, "--etrecord", RECORD, *peaks)
    assert of_file == rows("roofline", "run", "--db", lab, *peaks)
    [first] = [row for row in of_file if row["instruction"] == 4]
    assert (first["op"], first["module"], first["flops"]) == (
        "aten.convolution.default",
        "features.1.cbr.conv",
        589_824,
    )
    # 589,824 operations: at 20 G a second 29.4912 us; 29,248 bytes would take less.
    assert first["roof_percent"] == pytest.approx(100 * 29.4912 / first["avg"])
    assert first["gflop_s"] == pytest.approx(589.824 / first["avg"])
    assert first["bound"] == "compute"
    # Without peaks there are rates, but no roof. A metric is a peak, too.
    bare = rows("roofline", "run", "--db", lab, "--by", "op_type")
    assert {row["roof_percent"] for row in bare} == {None}
    assert all(row["intensity"] is not None for row in bare)
    copy = str(shutil.copy(lab, tmp_path))
    assert run_etq("metric", "run", "peak_flops=20e9", "peak_bandwidth=15:GB/s", "--db", copy).exit_code == 0
    assert rows("roofline", "run", "--db", copy) == of_file


@pytest.mark.parametrize(
    ("written", "meant"),
    thinned(
        [("20G", 2e10), ("20e9", 2e10), ("0.02T", 2e10), ("20 GFLOP/s", 2e10), ("20GFLOPS", 2e10), (".5k", 500.0)],
        ["20 GFLOP/s"],
    ),
)
def test_rates_of_operations(lab: str, written: str, meant: float) -> None:
    _same_peaks(lab, ("--peak-flops", written), ("--peak-flops", repr(meant)))


@pytest.mark.parametrize(
    ("written", "meant"),
    thinned([("15GB/s", 1.5e10), ("15G", 1.5e10), ("1.5e4 MB/s", 1.5e10), ("2GiB/s", 2.0**31)], ["2GiB/s"]),
)
def test_rates_of_bytes(lab: str, written: str, meant: float) -> None:
    _same_peaks(lab, ("--peak-bandwidth", written), ("--peak-bandwidth", repr(meant)))


def _same_peaks(lab: str, one: tuple[str, str], other: tuple[str, str]) -> None:
    found = rows("roofline", "run", "--db", lab, *one)
    assert found == rows("roofline", "run", "--db", lab, *other)
    assert any(row["roof_percent"] is not None for row in found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--peak-flops", "fast"), "'fast' is not a rate; write it like 20G, 20e9 or 20GFLOP/s"),
        (("--peak-flops", "20m"), "'20m' is not a rate"),
        (("--peak-flops", "-1"), "'-1' is not a rate"),
        (("--peak-flops", "0"), "0 must be above 0, and finite"),
        (("--peak-flops", "1e999"), "1e999 must be above 0, and finite"),
        (("--peak-bandwidth", "15Gb/s"), "14GiB/s; bytes, not bits"),
        (("--peak-bandwidth", "15GFLOP/s"), "'15GFLOP/s' is not a rate"),
    ],
)
def test_invalid_rates(arguments: tuple[str, str], message: str) -> None:
    result = run_etq("roofline", CONVNET, "--etrecord", RECORD, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
