"""The same models run by ExecuTorch and by PyTorch, compared module by module."""

from __future__ import annotations

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import thinned


def mapped(warehouse: Warehouse, model: str) -> dict[tuple[str, str], tuple[float | None, ...]]:
    folder = CAPTURES / model
    capture = warehouse.ingest(folder / f"{model}_100runs.etdp", etrecord=folder / f"{model}.etrecord")
    trace = warehouse.ingest(CAPTURES / "torch" / f"pair_{model}.pt.trace.json.gz")
    columns = "module_path, op, etdump_calls, etdump_time, trace_calls, trace_time, ratio, excess"
    rows = warehouse.model_map(capture, trace, unit="us").project(columns).fetchall()
    return {(module, op): tuple(figures) for module, op, *figures in rows}


@pytest.mark.parametrize("model", thinned(["mlp", "convnet", "transformer"], ["mlp"]))
def test_modules_are_those_of_the_source(warehouse: Warehouse, model: str) -> None:
    """By the models' source: every Linear, in its place, once a pass on both sides."""
    linears = {
        "mlp": [*(f"block{n}.{side}.linear" for n in (1, 2, 3) for side in ("up", "down")), "head.1"],
        "convnet": ["classifier"],
        "transformer": [
            f"layers.{n}.{name}" for n in (0, 1) for name in ("attn.qkv", "attn.proj", "ffn.fc1", "ffn.fc2")
        ],
    }[model]
    rows = mapped(warehouse, model)
    assert sorted(module for module, op in rows if op == "addmm") == sorted(linears)
    for module in linears:
        etdump_calls, etdump_time, trace_calls, trace_time, ratio, excess = rows[module, "addmm"]
        assert (etdump_calls, trace_calls) == (1, 1)
        assert etdump_time and trace_time and ratio == pytest.approx(etdump_time / trace_time)
        assert excess == pytest.approx(etdump_time - trace_time)


@pytest.mark.long
def test_times_are_by_pass_and_captures_that_are_not_traces_are_refused(warehouse: Warehouse) -> None:
    """By hand: 100 runs of the dump, 3 passes of the trace."""
    rows = mapped(warehouse, "mlp")
    kernels = "SELECT sum(duration_ticks) FROM events WHERE name = 'native_call_native_layer_norm.out'"
    assert rows["head.0", "native_layer_norm"][1] == pytest.approx(warehouse.rows(kernels)[1][0][0] / 100 / 1000)
    norms = "SELECT count(*), sum(duration_ticks) FROM events WHERE label = 'aten::native_layer_norm'"
    [(count, ticks)] = warehouse.rows(norms)[1]
    assert count == 3 and rows["head.0", "native_layer_norm"][3] == pytest.approx(ticks / 3 / 1000)
    with pytest.raises(QueryError, match="no capture matches nothing"):
        warehouse.rows("FROM model_map('mlp_100runs', 'nothing')")
    with pytest.raises(QueryError, match="mlp_100runs is of format etdump; name a PyTorch trace of the same model"):
        warehouse.rows("FROM model_map('mlp_100runs', 'mlp_100runs')")
