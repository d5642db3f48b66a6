"""`etq roofline` and `etq ops --by family` of PyTorch traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.sql.test_op_efficiency import H100, attention, launched, matrices
from tests.trace_builders import trace

ON_A_CPU = str(CAPTURES / "torch/mlp_train.pt.trace.json.gz")


@pytest.fixture
def path(tmp_path: Path) -> str:
    written = tmp_path / "gpu.pt.trace.json"
    written.write_bytes(trace(*matrices(), *attention(20, 4, 100), *launched("mystery", 60, 5, 5, begin=130), **H100))
    return str(written)


def test_rows_are_those_of_the_view(path: str) -> None:
    """112 us of 118 have costs; a product of 1024 x 512 by 512 x 2048 moves 7,340,032 bytes in 11 us."""
    rows = json.loads(run_etq("roofline", path, "--format", "json").stdout)
    [product] = [row for row in rows if row["op"] == "aten::mm"]
    assert (product["inputs"], product["bytes"], product["total"]) == ("bf16[1024,512] bf16[512,2048]", 7_340_032, 11)
    assert product["bytes_per_second"] == pytest.approx(7_340_032 / 11e-6)
    families = json.loads(run_etq("ops", path, "--by", "family", "--format", "json").stdout)
    assert [(row["family"], row["total"]) for row in families] == [("attention", 100), ("GEMM", 11), (None, 7)]
    assert families == json.loads(run_etq("roofline", path, "--by", "family", "--format", "json").stdout)


def test_people_see_names_and_rates(path: str) -> None:
    text = run_etq("roofline", path, "--wide").stdout
    assert "aten::mm" in text and "(no op)" in text and "bf16[1024,512] bf16[512,2048]" in text
    assert "roof_percent" in text.splitlines()[0] and "tb_s" in text.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "op_type"], "--by of a trace is shape, op, family, not op_type"),
        (["--method", "forward"], "traces have no methods; leave out --method"),
        (["--device", "GTX 1"], "no device is called GTX 1 in device_peaks"),
        (["--peak-flops", "-3G"], "Invalid value for '--peak-flops'"),
    ],
)
def test_errors(path: str, arguments: list[str], message: str) -> None:
    result = run_etq("roofline", path, *arguments)
    assert message in result.stderr and result.exit_code != 0


def test_errors_of_dumps() -> None:
    dump = str(CAPTURES / "mlp/mlp.etdp")
    assert (
        "--by of an ETDump is op, instruction, op_type, not family"
        in run_etq("roofline", dump, "--by", "family").stderr
    )
    assert "--device is for traces of GPUs" in run_etq("roofline", dump, "--device", "H100").stderr


def test_a_trace_of_a_cpu_has_its_own_times() -> None:
    """The ops' own times on the host, as torch's table has them."""
    rows = json.loads(run_etq("roofline", ON_A_CPU, "--by", "op", "--format", "json").stdout)
    table = json.loads(run_etq("ops", ON_A_CPU, "--no-python-functions", "--format", "json").stdout)
    own = {row["name"]: row["self_cpu_time"] for row in table}
    [product] = [row for row in rows if row["op"] == "aten::addmm"]
    assert product["total"] == pytest.approx(own["aten::addmm"], rel=0.01) and product["flops"] > 0
