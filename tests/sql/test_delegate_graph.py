"""The ops of delegates' own graphs: their nodes by debug handle, their events by kind and order."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from etq import EtqError
from etq.errors import QueryError
from etq.storage import aligning
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import thinned
from tests.warehouses import empty_warehouse

NAMES = (
    *("convnet_xnn", "mlp_xnn", "attention", "causal", "conv_quantized", "conv_two_backends", "decomposed", "lstm"),
    *("mlp_dynamic", "mlp_four_bits", "two_methods", "weights", "activations"),
    *("mobile", "mobile_quantized", "mobile_squeezed"),
)


def linked(warehouse: Warehouse, name: str, *, with_record: bool = True) -> None:
    [program] = CAPTURES.glob(f"**/{name}.pte")
    record = program.with_suffix(".etrecord") if with_record else None
    warehouse.ingest(program.with_suffix(".etdp"), name="run", etrecord=record, pte=program)


def found(warehouse: Warehouse, columns: str) -> list[tuple[Any, ...]]:
    return warehouse.rows(f"SELECT {columns} FROM delegate_graph('run', unit := 'ns', runs := 'all')")[1]


@pytest.mark.long
def test_what_xnnpack_made_of_a_convnet(warehouse: Warehouse) -> None:
    """Read by eye: conv, batch norm and relu are one op; a transpose before and one after."""
    linked(warehouse, "convnet_xnn")
    assert found(warehouse, "op, node_name, event_name, score") == [
        ("StaticTranspose", None, "Transpose (ND, X32) #1", 1),
        ("Conv2d", "aten_convolution_default", "Convolution (NHWC, F32) IGEMM #1", 1),
        ("MaxPooling2d", "aten_max_pool2d_default", "Max Pooling (NHWC, F32) #1", 1),
        ("Conv2d", "aten_convolution_default_1", "Convolution (NHWC, F32) IGEMM #2", 1),
        ("MaxPooling2d", "aten_max_pool2d_default_1", "Max Pooling (NHWC, F32) #2", 1),
        ("Conv2d", "aten_convolution_default_2", "Convolution (NHWC, F32) IGEMM #3", 1),
        ("MaxPooling2d", "aten_max_pool2d_default_2", "Max Pooling (NHWC, F32) #3", 1),
        ("GlobalAvgPooling2d", "aten_mean_dim", "Mean (ND) Reduce2 #1", 1),
        ("StaticTranspose", None, "Transpose (ND, X32) #2", 1),
        ("StaticReshape", "aten_view_copy_default", "Static Reshape (NC) #1", 1),
        ("FullyConnected", "aten_linear_default", "Fully Connected (NC, F32) GEMM #1", 1),
    ]
    assert found(warehouse, "inputs, outputs")[1] == (
        "fp32[1, 32, 32, 3], *fp32[8, 3, 3, 3], *fp32[8]",
        "fp32[1, 32, 32, 8]",
    )


@pytest.mark.long
@pytest.mark.parametrize("name", thinned(NAMES, ["lstm"]))
def test_handles_and_times(warehouse: Warehouse, name: str) -> None:
    """A node has the op's handle. An event runs one op, and its time is counted once."""
    linked(warehouse, name)
    handles = set(warehouse.rows("SELECT graph_id, node_index, debug_handle FROM node_debug_handles")[1])
    rows = found(warehouse, "method, instruction_id, graph_id, node_index, debug_handle, event_name, calls, self_time")
    assert all(row[2:5] in handles for row in rows if row[3] is not None)
    assert any(row[3] is not None for row in rows)
    events = [(*row[:2], row[5]) for row in rows if row[5] is not None]
    assert len(events) == len(set(events))
    query = """
        SELECT b.method, e.instruction_id, e.label, count(*), sum(t.self_ticks)
        FROM captures AS c
        JOIN events AS t ON true
        JOIN events AS e ON e.capture_id = c.capture_id AND e.run_index = t.run_index AND e.event_index = t.event_index
        JOIN runs AS b ON b.capture_id = c.capture_id AND b.run_index = e.run_index
        WHERE e.kind = 'delegate'
        GROUP BY ALL
    """
    logged = {row[:3]: row[3] for row in warehouse.rows(query)[1]}
    assert {event: row[6] for event, row in zip(events, (row for row in rows if row[5] is not None), strict=True)} == {
        event: logged[event] for event in events
    }


# Whether the record alone shows the nodes of all events that have one by the blobs.
SHOWN = {
    **{"convnet_xnn": True, "mlp_xnn": True, "weights": True, "activations": True, "mobile": True},
    **{"decomposed": False, "conv_two_backends": True, "lstm": False, "mobile_squeezed": False},
}


@pytest.mark.long
@pytest.mark.parametrize("name", thinned(SHOWN, ["conv_two_backends", "lstm"]))
def test_nodes_by_the_record_alone_are_those_of_the_blobs(warehouse: Warehouse, name: str) -> None:
    """Operators of XNNPACK that the record's nodes are matched with have the debug handles of these nodes."""
    linked(warehouse, name)
    query = """
        SELECT s.block_index, s.slot, n.node_name FROM signatures AS s
        LEFT JOIN event_nodes('run') AS n ON n.block_index = s.block_index AND n.slot = s.slot
        WHERE s.kind = 'delegate' AND NOT regexp_matches(s.label, '^(Transpose|Copy|Convert) ')
    """
    by_blob = {row[:2]: row[2] for row in warehouse.rows(query)[1]}
    [record] = CAPTURES.glob(f"**/{name}.etrecord")
    with empty_warehouse() as other:
        other.ingest(record.with_suffix(".etdp"), name="run", etrecord=record)
        by_record = {row[:2]: row[2] for row in other.rows(query)[1]}
    both = [(by_record[key], node) for key, node in by_blob.items() if node is not None]
    assert all(ours in (None, blobs) for ours, blobs in both)
    assert all(ours == blobs for ours, blobs in both) == SHOWN[name]
    assert not any(node for key, node in by_record.items() if by_blob[key] is None)


@pytest.mark.long
def test_large_calls_are_not_aligned(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """11 events times 11 ops, and what nodes take: more than is allowed here."""
    monkeypatch.setattr(aligning, "MOST_PAIRS", 100)
    linked(warehouse, "convnet_xnn")
    assert {*found(warehouse, "event_name")} == {(None,)}


@pytest.mark.long
def test_without_a_record_or_a_program(warehouse: Warehouse) -> None:
    """Without a record, ops have events but no nodes; without a program there are no ops, nor of other backends."""
    linked(warehouse, "convnet_xnn", with_record=False)
    rows = found(warehouse, "node_name, event_name, calls")
    assert len(rows) == 11
    assert all(node is None and event is not None and calls == 5 for node, event, calls in rows)
    warehouse.ingest(CAPTURES / "mlp_xnn/mlp_xnn.etdp", name="alone", etrecord=CAPTURES / "mlp_xnn/mlp_xnn.etrecord")
    warehouse.ingest(CAPTURES / "torch/conv_infer.pt.trace.json.gz", name="trace")
    link = r"alone: link its program \(.pte\), which has the delegates' graphs: etq link alone PROGRAM, or for a file --pte"
    with pytest.raises(EtqError, match=link):
        warehouse.rows("FROM delegate_graph('alone')")
    assert warehouse.rows("FROM delegate_graph('trace')")[1] == []
    warehouse.ingest(CAPTURES / "demo_int/demo_int.etdp", name="other", pte=CAPTURES / "demo_int/demo_int.pte")
    assert warehouse.rows("FROM delegate_graph('other')")[1] == []


@pytest.mark.long
def test_whether_the_program_ran(warehouse: Warehouse) -> None:
    """It is in question if there are events of delegates with graphs, and none belongs to an op."""
    cases = {
        ("convnet_xnn", "convnet_xnn"): False,
        ("convnet_xnn", "mlp_xnn"): True,
        # No method of the program fits, which is a finding already; no graphs; no events of delegates.
        ("mlp_xnn", "convnet_xnn"): False,
        ("convnet_xnn", "demo_int"): False,
        ("demo_int", "demo_int"): False,
        ("mlp", "convnet_xnn"): False,
    }
    for (name, program), expected in cases.items():
        warehouse.ingest(CAPTURES / f"{name}/{name}.etdp", name="run", pte=CAPTURES / f"{program}/{program}.pte")
        assert warehouse.rows("SELECT _has_unaligned_delegates(_capture_id('run'))")[1] == [(expected,)]
        warehouse.remove("run")


def test_vulkan(warehouse: Warehouse, tmp_path: Path) -> None:
    """Ops of Vulkan have shapes, and neither nodes nor events. By eye, from the model in `make_vulkan_graphs`."""
    path = tmp_path / "net.pte"
    expected = json.loads(gzip.decompress((CAPTURES / "expected" / "vulkan_graphs.json.gz").read_bytes()))
    path.write_bytes(base64.b64decode(expected["convolutions"]["program"]))
    warehouse.ingest(CAPTURES / "convnet_xnn" / "convnet_xnn.etdp", name="run", pte=path)
    assert found(warehouse, "backend, op, inputs, outputs, node_name, event_name, calls") == [
        ("VulkanBackend", op, inputs, outputs, None, None, None)
        for op, inputs, outputs in (
            ("et_vk.conv_with_clamp.default", "float32[1, 3, 8, 8], *float32[8, 3, 3, 3], *float32[8]", "float32[1, 8, 8, 8]"),
            ("et_vk.prepack.default", "*float32[]", "float32[]"),
            ("aten.linear.default", "float32[1, 8], *float32[4, 8], *float32[4]", "float32[1, 4]"),
            ("aten.mul.Tensor", "float32[1, 4], float32[]", "float32[1, 4]"),
            ("aten._softmax.default", "float32[1, 4]", "float32[1, 4]"),
        )
    ]  # fmt: skip
    assert [json.loads(row[0]) for row in found(warehouse, "parameters")][4] == {"1": -1, "2": False}
    # XNNPACK's events are not expected to be those of Vulkan's ops.
    assert warehouse.rows("SELECT _has_unaligned_delegates(_capture_id('run'))")[1] == [(False,)]


@pytest.mark.long
def test_too_many_ops_of_calls(warehouse: Warehouse) -> None:
    """A blob that many calls share: 101 calls of 100,000 ops."""
    linked(warehouse, "convnet_xnn", with_record=False)
    warehouse.connection.execute("""
        INSERT INTO delegate_ops BY NAME
        SELECT o.* REPLACE (1000 + n.number AS op_index)
        FROM delegate_ops AS o, range(100_000) AS n(number)
        WHERE o.op_index = 0
    """)
    warehouse.connection.execute("""
        INSERT INTO instructions BY NAME
        SELECT i.* REPLACE (1000 + n.number AS instruction_id)
        FROM instructions AS i, range(100) AS n(number)
        WHERE i.delegate_index = 0
    """)
    with pytest.raises(QueryError, match="have 10101111 ops; delegate_graph is for at most 10000000: query the table"):
        found(warehouse, "op")
