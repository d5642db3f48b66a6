"""The parts read from an ETRecord's graphs: nested graphs, arguments, the older layout, known content."""

from __future__ import annotations

from typing import Any

from tests.conftest import shared_file
from tests.unit.test_etrecord_reader import (
    EDGE,
    read,
    record,
)


def test_names_that_come_again_and_nested_graphs() -> None:
    """An edge comes from the last preceding node of the same graph that gave a value with the name."""
    x, y = {"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "y"}}
    inner = {"nodes": [{"target": "b", "inputs": [{"arg": x}], "outputs": [x]}], "inputs": [x]}
    nodes = [
        {"target": "a", "inputs": [{"arg": x}], "outputs": [x]},
        {
            "target": "cond",
            "inputs": [{"arg": x}, {"arg": {"as_graph": {"name": "g", "graph": inner}}}],
            "outputs": [y],
        },
        {"target": "c", "inputs": [{"arg": {"as_tensors": [{"name": "y"}, {"name": "x"}]}}], "outputs": [x]},
        {"target": "d", "inputs": [{"arg": x}]},
    ]
    tensors = {"x": {"dtype": 7, "sizes": [{"as_int": 2}, {}], "strides": []}}
    graph = {"nodes": nodes, "inputs": [x], "tensor_values": tensors}
    tables = read(record({EDGE: {"graph_module": {"graph": graph}}}))
    assert [(row["node_index"], row["subgraph"], row["op"]) for row in tables["op_nodes"]] == [
        (0, "", "a"),
        (1, "", "cond"),
        (2, "g", "b"),
        (3, "", "c"),
        (4, "", "d"),
    ]
    edges = [(row["from_node"], row["to_node"], row["position"]) for row in tables["op_edges"]]
    assert edges == [(0, 1, 0), (1, 3, 0), (0, 3, 1), (3, 4, 0)]
    # Inputs are values, too: those of the graph (0) and of the nested one (3).
    taken = [(row["node_index"], row["position"], row["value_index"]) for row in tables["node_arguments"]]
    assert taken == [(0, 0, 0), (1, 0, 1), (2, 0, 3), (3, 0, 2), (3, 0, 1), (4, 0, 5)]
    assert [row["value_index"] for row in tables["node_values"]] == [0, 1, 2, 3, 4, 5]
    columns = ("node_index", "value_name", "kind", "dtype", "sizes", "strides")
    assert [tuple(row[column] for column in columns) for row in tables["node_values"]] == [
        (None, "x", "input", "float32", [2, None], []),
        (0, "x", "result", "float32", [2, None], []),
        (1, "y", "result", None, None, None),
        (None, "x", "input", None, None, None),
        (2, "x", "result", None, None, None),
        (3, "x", "result", "float32", [2, None], []),
    ]


def test_arguments_of_nodes() -> None:
    """Values and literals are stored as written; None, dtypes, symbolic numbers and unknown values have no rows."""
    arguments: list[tuple[str, dict[str, Any]]] = [
        ("input", {"as_tensor": {"name": "x"}}),
        ("weight", {"as_tensor": {"name": "nobody's"}}),
        ("bias", {"as_none": True}),
        ("stride", {"as_ints": [1, 2]}),
        ("dim", {"as_int": -1}),
        ("transposed", {"as_bool": False}),
        ("eps", {"as_float": 1e-05}),
        ("approximate", {"as_string": "tanh \u00e9"}),
        ("dtype", {"as_scalar_type": 7}),
        ("size", {"as_sym_int": {"as_name": "s0"}}),
        (
            "tensors",
            {"as_optional_tensors": [{"as_tensor": {"name": "y"}}, {"as_none": True}, {"as_tensor": {"name": "x"}}]},
        ),
        ("", {"as_int": 3}),
    ]
    node = {"target": "a", "inputs": [{"name": name, "arg": value} for name, value in arguments]}
    graph = {"nodes": [node], "inputs": [{"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "y"}}]}
    found = read(record({EDGE: {"graph_module": {"graph": graph}}}))["node_arguments"]
    columns = ("node_index", "position", "argument", "value_index", "literal")
    assert [tuple(row[column] for column in columns) for row in found] == [
        (0, 0, "input", 0, None),
        (0, 3, "stride", None, "[1, 2]"),
        (0, 4, "dim", None, "-1"),
        (0, 5, "transposed", None, "false"),
        (0, 6, "eps", None, "1e-05"),
        (0, 7, "approximate", None, '"tanh \\u00e9"'),
        (0, 10, "tensors", 1, None),
        (0, 10, "tensors", 0, None),
        (0, 11, "", None, "3"),
    ]


def test_names_of_nodes_that_have_none() -> None:
    """As `torch.fx` makes them: of the single result's, else of the op's, in lower case, numbered where it is taken."""
    edge, torch_op = "executorch.exir.dialects.edge.ops.aten.topk.default", "torch.ops.aten.topk.default"
    one, two = [{"as_tensor": {"name": "r"}}], [{"as_tensor": {"name": "v"}}, {"as_tensor": {"name": "topk_default"}}]
    nodes = [
        {"target": edge, "outputs": one},
        {"target": edge, "outputs": two},
        {"target": edge, "outputs": [{"as_tensors": [{"name": "w"}]}]},
        {"target": torch_op, "outputs": two},
        {"target": "torch.ops.higher_order.executorchCall", "outputs": []},
        {"target": edge, "outputs": two, "name": "given"},
    ]
    graph = {"nodes": nodes, "inputs": [{"as_tensor": {"name": "aten_topk_default"}}]}
    found = read(record({EDGE: {"graph_module": {"graph": graph}}}))["op_nodes"]
    made = ["r", "aten_topk_default_1", "aten_topk_default_2", "topk_default_1", "executorch_call", "given"]
    assert [row["name"] for row in found] == made


def test_the_older_layout() -> None:
    path = shared_file("captures/upstream/example.etrecord")
    tables = read(path.read_bytes())
    assert [tuple(row.values()) for row in tables["graphs"]] == [
        (0, "aten_dialect_output", "forward", "aten_dialect_output/forward", None),
        (1, "edge_dialect_exported_program", "forward", "edge_dialect_exported_program", None),
    ]
    assert [(row["name"], row["op_type"], row["source_line"], row["module_path"]) for row in tables["op_nodes"]] == [
        ("mul", "aten.mul.Tensor", 18, None),
        ("aten_mul_tensor", "aten.mul.Tensor", 18, None),
    ]
    columns = ("graph_id", "node_index", "value_name", "kind", "dtype", "sizes", "strides")
    assert [tuple(row[column] for column in columns) for row in tables["node_values"]] == [
        (0, None, "arg0_1", "input", "float32", [3, 2], [2, 1]),
        (0, None, "arg1_1", "input", "float32", [3, 2], [2, 1]),
        (0, 0, "mul", "result", "float32", [3, 2], [2, 1]),
        (1, None, "arg0_1", "input", "float32", [3, 2], [2, 1]),
        (1, None, "arg1_1", "input", "float32", [3, 2], [2, 1]),
        (1, 0, "aten_mul_tensor", "result", "float32", [3, 2], [2, 1]),
    ]
    assert [tuple(row.values()) for row in tables["node_debug_handles"]] == [(1, 0, 2)]
    assert "debug_handles" not in tables and "record_findings" not in tables
    assert tables["records"] == [{"export_graph_id": None, "is_complete": True}]
