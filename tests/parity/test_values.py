"""Logged values and numeric gaps against the Inspector. Each deliberate difference is a test with both answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from etq.warehouse.warehouse import Capture, Warehouse
from tests.conftest import CAPTURES
from tests.parity import oracle
from tests.sampling import thinned

ALONE = "without_etrecord"
EXPORTED, EDGE = "exported_program", "edge_dialect_exported_program"
# The exported program is the same for both, although it was lowered differently.
SAME_PROGRAM = {"convnet_xnn": "convnet", "demo_str": "demo_int", "mlp_xnn": "mlp"}
# The handle of a tan that a delegate runs as three ops, all with that handle.
TAN = 5
LOGGED = ["cond", "convnet", "convnet_xnn", "demo_int", "demo_str", "mlp", "mlp_xnn", "scalars", "transformer"]


def ingested(warehouse: Warehouse, name: str, *, keep: bool = True) -> Capture:
    path = oracle.capture_path(name)
    return warehouse.ingest(path, debug_buffer=path.with_suffix(".bin"), keep_values=keep)


def linked(warehouse: Warehouse, model: str) -> tuple[Capture, Any]:
    capture = ingested(warehouse, f"{model}_debug")
    record = warehouse.ingest_record(CAPTURES / model / f"{model}.etrecord")
    warehouse.link(capture, record)
    return capture, record


def reference(warehouse: Warehouse, model: str, graph: str, record: Any) -> Capture:
    values: dict[str, list[Any]] = {}
    with np.load(CAPTURES / "expected" / f"{SAME_PROGRAM.get(model, model)}.reference.npz") as arrays:
        for key in arrays:
            stage, node, _ = key.split("/")
            if stage == graph:
                values.setdefault(node, []).append(arrays[key])
    return warehouse.ingest_reference(record, values, graph=graph, name=graph)


@pytest.mark.parametrize("model", thinned(LOGGED, ["demo_int", "scalars"]))
def test_tensors(warehouse: Warehouse, model: str) -> None:
    capture = ingested(warehouse, f"{model}_debug", keep=False)
    logged = [value for row in oracle.frame(f"{model}_debug", ALONE) for value in row["debug_data"]]
    intermediate = {value["sha256"]: value for value in logged if isinstance(value, dict)}
    outputs = [value for block in oracle.answer(f"{model}_debug", ALONE)["blocks"] for value in block["run_output"]]
    query = "SELECT role, sha256, sizes, scalar_type, min, max FROM logged_values($capture) WHERE kind = 'tensor'"
    rows = warehouse.rows(query, capture=capture)[1]
    assert {sha256 for role, sha256, *_ in rows if role != "program output"} == set(intermediate)
    assert [sha256 for role, sha256, *_ in rows if role == "program output"] == [value["sha256"] for value in outputs]
    for _, sha256, sizes, scalar_type, smallest, largest in rows:
        value = intermediate.get(sha256) or next(value for value in outputs if value["sha256"] == sha256)
        assert (sizes, f"torch.{scalar_type}") == (value["shape"], value["dtype"])
        if "min" in value:
            assert (smallest, largest) == (value["min"], value["max"])


def gaps(warehouse: Warehouse, base: Capture, new: Capture, metric: str) -> dict[tuple[int, int], Any]:
    query = "SELECT debug_handle, output_index, gap, problem FROM numeric_gap($base, $new, metric := $metric)"
    rows = warehouse.rows(query, base=base, new=new, metric=metric)[1]
    return {(handle, index): (gap, problem) for handle, index, gap, problem in rows}


def expected_gaps(model: str, metric: str, graph: str) -> dict[int, float]:
    frame = oracle.answer(f"{model}_debug", "with_etrecord")["numeric_gap"][f"{metric}/{graph}"]["value"]
    handle, gap = (frame["columns"].index(name) for name in ("runtime_debug_handle", "gap"))
    return {row[handle][-1]: row[gap][0] for row in frame["rows"]}


@pytest.mark.long
@pytest.mark.parametrize(
    "model", thinned(["convnet", "convnet_xnn", "demo_int", "demo_str", "mlp", "mlp_xnn"], ["demo_int"])
)
def test_numeric_gap(warehouse: Warehouse, model: str) -> None:
    capture, record = linked(warehouse, model)
    bases = {graph: reference(warehouse, model, graph, record) for graph in (EXPORTED, EDGE)}
    for metric, graph in (("MSE", EXPORTED), ("MSE", EDGE), ("L1", EXPORTED), ("SNR", EXPORTED)):
        if graph == EDGE and model in SAME_PROGRAM:
            continue  # The values of this edge program are not kept.
        ours = gaps(warehouse, bases[graph], capture, metric)
        theirs = expected_gaps(model, metric, "None" if graph == EXPORTED else EDGE)
        assert theirs
        for handle, gap in theirs.items():
            found, problem = ours[handle, 0]
            assert problem is None, handle
            is_tan = model.startswith("demo_") and handle == TAN
            assert is_tan or math.isclose(found, gap, rel_tol=1e-9), (handle, found, gap)


@pytest.mark.long
def test_an_op_run_as_several_is_compared_by_the_last(warehouse: Warehouse) -> None:
    """The Inspector takes the output of the first of the three ops, a sine, for the tangent."""
    capture, record = linked(warehouse, "demo_str")
    ours = gaps(warehouse, reference(warehouse, "demo_str", EXPORTED, record), capture, "SNR")
    assert math.isclose(expected_gaps("demo_str", "SNR", "None")[TAN], 17.236960852, rel_tol=1e-9)
    logged = (
        "SELECT sha256 FROM logged_values($capture) WHERE role = 'output' AND instruction_id = 3 ORDER BY event_index"
    )
    *_, last, call = warehouse.rows(logged, capture=capture)[1]
    # The last op's output is the output of the delegate call.
    assert last == call
    assert ours[TAN, 0][0] > 130


@pytest.mark.long
def test_views_are_compared_with_what_they_view(warehouse: Warehouse) -> None:
    """The Inspector raises: one op logged [1, 16, 4, 8] where the exported program has [1, 16, 32]. The op is a copy and a
    view of it; only the copy is logged, and has the elements of the view.
    """
    for answer in oracle.answer("transformer_debug", "with_etrecord")["numeric_gap"].values():
        assert not answer["ok"] and "Error computing" in answer["error"]
    capture, record = linked(warehouse, "transformer")
    ours = gaps(warehouse, reference(warehouse, "transformer", EXPORTED, record), capture, "SNR")
    compared = {key: gap for key, (gap, problem) in ours.items() if problem is None}
    assert len(compared) == 45 and min(compared.values()) > 130
    assert {(16, 0), (39, 0)} < set(compared)
    assert {problem for _, problem in ours.values()} == {None, "not logged in new", "not logged in base"}


def test_dimensions_of_one_do_not_broadcast(warehouse: Warehouse) -> None:
    """The Inspector broadcasts [8, 1, 96] with [8, 96], which compares each row with all (FINDINGS 15)."""
    truth = np.arange(24, dtype=np.float32).reshape(4, 1, 6)
    record = warehouse.ingest_record(CAPTURES / "mlp" / "mlp.etrecord")
    base = warehouse.ingest_reference(record, {"linear": [truth]}, name="base")
    new = warehouse.ingest_reference(record, {"linear": [truth.reshape(4, 6) + 0.5]}, name="new")
    assert gaps(warehouse, base, new, "mse")[1, 0] == (0.25, None)
    assert float(np.mean((truth - (truth.reshape(4, 6) + 0.5)) ** 2)) > 80


@pytest.mark.long
def test_without_a_debug_buffer_values_are_unknown(warehouse: Warehouse) -> None:
    """The Inspector takes zeros for the values and compares with these: 223.6 for the first linear."""
    nobin = oracle.answer("mlp_debug_nobin", "with_etrecord")["numeric_gap"]["L1/None"]["value"]
    assert {row[nobin["columns"].index("runtime_intermediate_output")]["sum"] for row in nobin["rows"]} == {0.0}
    capture = warehouse.ingest(oracle.capture_path("mlp_debug_nobin"))
    record = warehouse.ingest_record(CAPTURES / "mlp" / "mlp.etrecord")
    warehouse.link(capture, record)
    ours = gaps(warehouse, reference(warehouse, "mlp", EXPORTED, record), capture, "l1")
    assert ours[1, 0] == (None, "unknown in new: not in a debug buffer")
    assert {gap for gap, _ in ours.values()} == {None}


def test_what_a_debug_buffer_lacks_and_what_differs_between_runs_is_reported(warehouse: Warehouse) -> None:
    """The Inspector raises for both; see `test_dropin_differences`."""
    ingested(warehouse, "mlp_debug_shortbin")
    differing = ingested(warehouse, "mlp_debug5_diff", keep=False)
    by_run = "SELECT count(DISTINCT sha256) FROM logged_values($capture) WHERE role = 'program output'"
    assert warehouse.rows(by_run, capture=differing)[1] == [(5,)]
    details = dict(warehouse.rows("SELECT rule, detail FROM findings")[1])
    missing = "27 of 27 tensors lie outside of the debug buffer (5000 bytes)"
    assert details["short debug buffer"].startswith(missing)
    # 7 of the 27 values of an inference are weights, which each run loads again.
    assert details["values differ"] == "20 values of block 1 differ between its runs, first of native_call_addmm.out"
