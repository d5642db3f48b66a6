"""Device times of real traces, against plain Python over their JSON."""

from __future__ import annotations

from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES, shared_file
from tests.device_times import check, rows_of
from tests.sampling import thinned
from tests.trace_reference import load, reference

OWN = sorted(path.name for path in (CAPTURES / "torch").glob("*.pt.trace.json*"))
OTHERS = [
    *(f"gpu/{name}" for name in ("alexnet", "cpu_only_rank34", "mi250_rocm", "triton")),
    *(f"gpu/{name}" for name in ("resnet50_dataloader", "resnet50_list_format")),
    *(f"pair/{name}" for name in ("convnet", "mlp", "transformer")),
]


@pytest.mark.parametrize("name", thinned([*OWN, *OTHERS], [*OWN[::8], "gpu/triton"]))
def test_against_plain_python(warehouse: Warehouse, name: str) -> None:
    is_own = name in OWN
    path = CAPTURES / "torch" / name if is_own else shared_file(f"captures/torch/{name}.pt.trace.json.gz")
    warehouse.ingest(path, name="t")
    check(warehouse, "t", reference(load(path)))


# Microseconds, added up by hand from the files: events that ops launched, and all device events.
BY_HAND: dict[str, tuple[dict[str, Any], float]] = {
    # All external ids there are the correlation ids.
    "alexnet": ({"aten::copy_": 55503, "aten::cudnn_convolution": 5375, "aten::addmm": 2664}, 66203),
    # Its first kernels were launched before the trace begins; convolutions call convolutions of their name.
    "resnet50_dataloader": ({"aten::cudnn_convolution": 135735, "(no op)": 50360}, 653527),
}


@pytest.mark.parametrize("name", thinned(BY_HAND, ["alexnet"]))
def test_by_hand(warehouse: Warehouse, name: str) -> None:
    warehouse.ingest(shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz"), name="t")
    own = rows_of(warehouse, "SELECT name, self_device_time FROM key_averages('t') WHERE NOT is_device")
    expected, total = BY_HAND[name]
    assert {op: own[op] for op in expected} == expected
    assert sum(own.values()) == total
