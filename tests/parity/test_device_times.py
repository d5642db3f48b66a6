"""Device times of real traces, against plain Python over their JSON."""

from __future__ import annotations

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES, shared_file
from tests.device_times import check
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
