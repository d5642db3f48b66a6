"""Kernels of graphs get the ops that recorded them; what the recording leaves in doubt has none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from etq.errors import ArgumentError, FormatError
from etq.ingest.trace.alignment import aligned
from etq.warehouse.ephemeral import open_ephemeral
from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.graph_traces import Node, capture, in_stream, launches, layers


def opened(run: bytes, *captures: bytes) -> Warehouse:
    return open_ephemeral(run, graph_captures=captures)[0]


def ops(warehouse: Warehouse) -> list[tuple[tuple[int, int] | None, str | None, str | None]]:
    """Return for each kernel in the order of starts the node and batch of its op's input, the op and the module."""
    query = """
        SELECT a.shapes, s.label, m.label
        FROM device_events AS d
        JOIN event_ticks AS e ON e.event_index = d.event_index
        LEFT JOIN event_ticks AS o ON o.event_index = d.op_index
        LEFT JOIN signatures AS s ON s.signature_index = o.signature_index
        LEFT JOIN op_arguments AS a ON a.event_index = d.op_index
        LEFT JOIN trace_events AS t ON t.event_index = d.op_index
        LEFT JOIN event_ticks AS n ON n.event_index = t.module_index
        LEFT JOIN signatures AS m ON m.signature_index = n.signature_index
        ORDER BY e.start_ticks, d.event_index
    """
    return [
        (None if shapes is None else tuple(json.loads(shapes)[0]), op, module)
        for shapes, op, module in warehouse.rows(query)[1]
    ]


def truth(nodes: Sequence[Node], batch: int = 32) -> list[Any]:
    return [((node.number, batch), node.op, f"nn.Module: {node.module}") for node in nodes]


def findings(warehouse: Warehouse) -> dict[str, str]:
    return dict(warehouse.rows("SELECT rule, detail FROM findings WHERE starts_with(rule, 'graph')")[1])


@pytest.mark.long
def test_a_stored_trace_is_read_again_with_its_capture(warehouse: Warehouse) -> None:
    run = launches([NODES])
    assert warehouse.ingest(run, name="run").is_new
    assert not warehouse.ingest(run, graph_captures=[capture([NODES])]).is_new
    assert ops(warehouse) == truth(NODES)
    assert not warehouse.ingest(run, labels={"device": "gpu"}).is_new
    assert ops(warehouse) == truth(NODES)


NOTHING = (None, None, None)
NODES = layers(4)


@pytest.mark.long
def test_each_kernel_has_the_op_that_recorded_it_in_each_launch() -> None:
    with opened(launches([NODES, NODES, NODES]), capture([NODES])) as warehouse:
        assert ops(warehouse) == truth(NODES) * 3
        found = findings(warehouse)
        assert found == {
            "graph capture": "78 of 78 events in 3 launches of graphs are matched to launches that were recorded (score 1.00)"
        }
        calls = dict(warehouse.rows("SELECT name, calls FROM key_averages($capture)", capture="bytes")[1])
        assert calls["aten::rope"] == 12
        assert calls["cudaGraphLaunch"] == 3


def both(captured: Sequence[Node], launched: Sequence[Node]) -> bytes:
    """A trace that captures a graph, and launches one."""
    first, second = (json.loads(each) for each in (capture([captured]), launches([launched, launched])))
    return json.dumps(first | {"traceEvents": first["traceEvents"] + second["traceEvents"]}).encode()


def test_a_trace_that_captures_the_graphs_it_launches() -> None:
    with opened(both(NODES, NODES)) as warehouse:
        assert ops(warehouse) == truth(NODES) * 2
        assert "52 of 52 events in 2 launches" in findings(warehouse)["graph capture"]
    # What it captures is another graph.
    others = [replace(node, kernel=f"other_{node.kernel}") for node in NODES]
    with opened(both(others, NODES)) as warehouse:
        assert ops(warehouse) == [NOTHING] * 2 * len(NODES)
        assert findings(warehouse) == {}
    # That graph doesn't hide the one in a capture that is given.
    with opened(both(others, NODES), capture([NODES])) as warehouse:
        assert ops(warehouse) == truth(NODES) * 2


def test_kernels_of_two_streams_start_in_another_order() -> None:
    nodes = [in_stream(node, 8) if node.kernel == "rope" else node for node in NODES]
    late = sorted(nodes, key=lambda node: node.number + 1.5 * (node.stream == 8))
    assert late != nodes
    with opened(launches([late]), capture([nodes])) as warehouse:
        assert ops(warehouse) == truth(late)


def test_kernels_that_could_be_each_others_have_no_op() -> None:
    side = Node(100, "gemm", "aten::side", "Side_0", stream=8)
    nodes = [*NODES[:2], side, *NODES[2:]]
    swapped = [*NODES[:3], side, *NODES[3:]]
    with opened(launches([swapped]), capture([nodes])) as warehouse:
        expected = [
            NOTHING if node in (side, NODES[2]) else row for node, row in zip(swapped, truth(swapped), strict=True)
        ]
        assert ops(warehouse) == expected


def test_conditional_nodes_may_be_missing() -> None:
    nodes = [node for node in NODES if node.number not in (3, 11)]
    with opened(launches([nodes, NODES]), capture([NODES])) as warehouse:
        assert ops(warehouse) == truth(nodes) + truth(NODES)
        assert list(findings(warehouse)) == ["graph capture"]


def test_a_layer_less_leaves_in_doubt_which() -> None:
    with opened(launches([layers(3)]), capture([NODES])) as warehouse:
        rows = ops(warehouse)
        assert rows[0] == truth(NODES)[0]
        assert rows[-1][:2] == ((25, 32), "aten::head")
        assert rows[1:-1] == [NOTHING] * 18
        assert "2 are matched" in findings(warehouse)["graph not matched"]


def test_a_foreign_capture_gives_nothing() -> None:
    foreign = layers(4, ("a", "b", "gemm", "c", "d", "e"))
    with opened(launches([NODES]), capture([foreign])) as warehouse:
        assert ops(warehouse) == [NOTHING] * len(NODES)
        # Four products, the embedding and the head have the names.
        found = findings(warehouse)
        assert found["graph not matched"].endswith(
            "capture_32_FULL has launches for too few of their names (score 0.23)"
        )
        expected = (
            "none of 26 events in 1 launch of graphs is matched: the captures that are given are of another model"
        )
        assert found["graph capture"].startswith(expected)


def grids(batch: int) -> dict[str, Any]:
    """Blocks of kernels, of which those of products depend on the batch."""
    return {"grid": lambda node, _: [batch if node.kernel == "gemm" else 4, 1, 1], "block": lambda *_: [64, 1, 1]}


@pytest.mark.long
def test_another_batch_gives_no_inputs() -> None:
    """Products that ran with other blocks than they were recorded with have ops, but not their inputs."""
    recorded = capture([NODES], [16], **grids(16))
    with opened(launches([NODES, NODES], **grids(32)), recorded) as warehouse:
        products = sum(node.kernel == "gemm" for node in NODES)
        expected = [
            (None if node.kernel == "gemm" else (node.number, 16), node.op, f"nn.Module: {node.module}")
            for node in NODES
        ]
        assert ops(warehouse) == expected * 2
        assert findings(warehouse)["graph of other sizes"].startswith(f"{2 * products} of the events that are matched")
    # The same; and blocks that another version writes in another way.
    for run in (grids(16), {"grid": lambda *_: [1, 1], "block": lambda *_: [1, 1]}):
        with opened(launches([NODES], **run), recorded) as warehouse:
            assert ops(warehouse) == truth(NODES, 16)
            assert list(findings(warehouse)) == ["graph capture"]


def test_the_batch_decides_between_equal_recordings() -> None:
    recorded = capture([NODES, NODES, NODES], [64, 32, 16])
    labels = [
        "execute_context_0(0)_generation_20(20)",
        "step[DECODE bs=64]",
        "execute_5_context_0(sq0)_generation_5(sq5)",
    ]
    with opened(launches([NODES] * 3, labels), recorded) as warehouse:
        assert ops(warehouse) == truth(NODES, 32) + truth(NODES, 64) + truth(NODES, 16)


@pytest.mark.long
def test_launches_without_names_need_certain_order_and_number() -> None:
    unnamed = capture([NODES], is_named=False)
    with opened(launches([NODES]), unnamed) as warehouse:
        assert ops(warehouse) == truth(NODES)
    for run in (
        NODES[1:],
        [*NODES[:-1], in_stream(NODES[-1], 8)],
        layers(4, ("norm", "add", "gemm", "add", "norm", "add")),
    ):
        with opened(launches([run]), unnamed) as warehouse:
            assert ops(warehouse) == [NOTHING] * len(run)


@pytest.mark.parametrize(("names", "lost", "shift"), [(6, 4, 4), (30, 4, 4), (6, 4, 0)])
@pytest.mark.parametrize("is_apart", [False, True])
def test_what_is_aligned_is_right(names: int, lost: int, shift: int, is_apart: bool) -> None:
    """Nodes in two streams, whose kernels have names of their own or not, of which some are missing: what has a launch
    has the right one.
    """
    sure = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        launched = random.integers(0, names, 60)
        stream = (launched < 3).astype(np.int64) if is_apart else random.integers(0, 2, 60)
        kept = np.sort(random.choice(60, 60 - lost, replace=False))
        order = kept[np.argsort(kept + shift * stream[kept], kind="stable")]
        found, count = aligned(launched[order], launched, stream[order])
        is_sure = found >= 0
        assert (found[is_sure] == order[is_sure]).all()
        assert count == 60 - lost
        sure += int(is_sure.sum())
    assert sure > 30 * (60 - lost) * (0.9 if is_apart or names > 6 else 0.6)


OF_WORK = """
    SELECT e.start_ticks, o.label, o.shapes
    FROM device_events AS d
    JOIN event_ticks AS e ON e.event_index = d.event_index
    LEFT JOIN (
        SELECT e.event_index, s.label, a.shapes
        FROM event_ticks AS e
        JOIN signatures AS s ON s.signature_index = e.signature_index
        LEFT JOIN op_arguments AS a ON a.event_index = e.event_index
    ) AS o ON o.event_index = d.op_index
    WHERE d.latency_ticks IS NOT NULL
    ORDER BY ALL
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "with_kernels"),
    [
        ("b200_eager", False),
        *(("mi300_ddp_no_allocator", each) for each in (True, False)),
    ],
)
def test_what_ran_without_a_graph_is_found_in_one(name: str, with_kernels: bool) -> None:
    """The work of a real trace as that of one graph, and the trace, with its kernels or without, as the recording: each
    event has the op that launched it in truth.
    """
    content = gzip.decompress(shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz").read_bytes())
    events = json.loads(content)["traceEvents"]
    is_work = [event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") for event in events]
    calls = {
        e["args"]["correlation"]: e
        for e in events
        if str(e.get("cat")).startswith(("cuda_runtime", "cuda_driver")) and "correlation" in e["args"]
    }
    work = [
        event for event, is_one in zip(events, is_work, strict=True) if is_one and event["args"]["correlation"] in calls
    ]
    steps = [
        event for event in events if event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep")
    ]
    if steps:
        first = min(steps, key=lambda event: event["ts"])
        of_step = [
            first["ts"] <= calls[event["args"]["correlation"]]["ts"] <= first["ts"] + first["dur"] for event in work
        ]
        work = [event for event, is_one in zip(work, of_step, strict=True) if is_one]
    begin = min(event["ts"] for event in work) - 5000
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "hipGraphLaunch", "pid": 1, "tid": 1, "ts": begin, "dur": 4000}
    run = [
        launch | {"args": {"correlation": 10**9}},
        *({**event, "args": {**event["args"], "correlation": 10**9, "External id": 0}} for event in work),
    ]
    kept = [event for event, is_one in zip(events, is_work, strict=True) if with_kernels or not is_one]
    recorded = json.dumps({"traceEvents": kept}).encode()
    with opened(recorded if with_kernels else json.dumps({"traceEvents": events}).encode()) as warehouse:
        truth_of = {start: (op, shapes) for start, op, shapes in warehouse.rows(OF_WORK)[1]}
    with opened(json.dumps({"traceEvents": run}).encode(), recorded) as warehouse:
        rows = warehouse.rows(OF_WORK)[1]
    assert len(rows) == len(work) > 800
    assert [(op, shapes) for _, op, shapes in rows] == [truth_of[start] for start, _, _ in rows]


def modules(warehouse: Warehouse) -> list[tuple[str, str | None]]:
    """Return each kernel, in the order of starts, and the innermost slice of its launch that it belongs to."""
    query = """
        SELECT k.label, s.label
        FROM device_events AS d
        JOIN event_ticks AS e ON e.event_index = d.event_index
        JOIN signatures AS k USING (signature_index)
        LEFT JOIN event_ticks AS o ON o.event_index = d.owner_index
        LEFT JOIN signatures AS s ON s.signature_index = o.signature_index
        ORDER BY e.start_ticks
    """
    return [(kernel, module and module.removeprefix("nn.Module: ")) for kernel, module in warehouse.rows(query)[1]]


def noted(nodes: Sequence[Node], name: str = "name") -> bytes:
    """Return the file of annotations of all nodes but the first: the innermost of nested scopes is the last. What has
    no name, and a number that Python doesn't read, say nothing.
    """
    scopes = {str(_node_id(node, 0)): ["outer", {name: node.module, "stream": 7}, {name: None}] for node in nodes[1:]}
    return json.dumps(scopes | {"9" * 5000: ["none"]}).encode()


def _node_id(node: Node, _: int) -> int:
    return (3 << 32) + node.number


def test_modules_in_the_arguments_of_kernels() -> None:
    with opened(shared_file("captures/reports/60_annotated_graph.json").read_bytes()) as warehouse:
        assert modules(warehouse) == [
            ("gemm_a", "layers.0.attention.wq"),
            ("gemm_b", "layers.0.feed_forward.w1"),
            ("gemm_a", "layers.1.attention.wq"),
            ("rms_norm_kernel", "norm"),
        ]
        tree = warehouse.rows(
            "SELECT module, calls, device_total_time FROM module_tree($c, unit := 'us') ORDER BY 1", c="bytes"
        )
        assert tree[1] == [(name, 1, 40) for name in sorted(str(module) for _, module in modules(warehouse))]
        assert not findings(warehouse)


@pytest.mark.long
@pytest.mark.parametrize("key", ["name", "str"])
def test_modules_by_the_numbers_of_nodes(key: str) -> None:
    run = launches([NODES, NODES], graph_node_id=_node_id)
    with opened(run, noted(NODES, key)) as warehouse:
        known = [(node.kernel, node.module) for node in NODES]
        assert modules(warehouse) == [(NODES[0].kernel, "decode"), *known[1:]] * 2
        # Consecutive kernels of a module are in one call of it.
        [(calls,)] = warehouse.rows("SELECT sum(calls) FROM key_averages($c) WHERE name LIKE 'nn.Module%'", c="bytes")[
            1
        ]
        assert calls == 2 * len({node.module for node in NODES[1:]})
        assert not findings(warehouse)
    with opened(launches([NODES]), noted(NODES)) as warehouse:
        assert findings(warehouse) == {
            "graph annotations": "no event of a graph has the number of a node that is in the file"
        }


def test_both_annotations_must_agree() -> None:
    for other, found in (
        ("Layer_0", {}),
        ("Head", {"graph annotations differ": "6 events of graphs have other modules in"}),
    ):
        run = launches(
            [NODES],
            graph_node_id=_node_id,
            name=lambda node, _, other=other: other if node.module == "Layer_0" else node.module,
        )
        with opened(run, noted(NODES)) as warehouse:
            assert {rule: detail[: len(found[rule])] for rule, detail in findings(warehouse).items()} == found
            # Those of the trace count.
            assert modules(warehouse)[1] == (NODES[1].kernel, other)


def test_annotations_must_agree_with_a_capture() -> None:
    run = launches([NODES, NODES], graph_node_id=_node_id)
    with opened(run, noted(NODES), capture([NODES])) as warehouse:
        assert ops(warehouse) == truth(NODES) * 2
        assert set(findings(warehouse)) == {"graph capture"}
    wrong = [replace(node, module=NODES[1].module) if node.number == 9 else node for node in NODES]
    with opened(run, noted(wrong), capture([NODES])) as warehouse:
        assert ops(warehouse) == truth(NODES) * 2
        assert findings(warehouse)["graph annotations differ"].startswith(
            "1 event of graphs with annotations that name other"
        )


def test_a_damaged_file_of_annotations() -> None:
    with pytest.raises(FormatError, match="not a file of kernel annotations"):
        opened(launches([NODES]), noted(NODES)[:-9])


def test_new_sizes_need_the_capture_again(warehouse: Warehouse) -> None:
    """Without it, the graphs' kernels would lose their ops."""
    run, recorded = launches([NODES]), capture([NODES])
    warehouse.ingest(run, name="run", graph_captures=[recorded])
    with pytest.raises(ArgumentError, match="run was read with a capture of its graphs; give that again"):
        warehouse.ingest(run, assume="top_k=4")
    assert ops(warehouse) == truth(NODES)
    warehouse.ingest(run, assume="top_k=4", graph_captures=[recorded])
    assert ops(warehouse) == truth(NODES)
